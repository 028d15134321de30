"""Trains an ELMo on sentences of words: at every position the next word and the previous one are predicted.

A batch has sentences of similar length, about `batch_words` words. Targets are the most frequent words of the corpus;
all others are the unknown word (number 0). All sentences are kept in memory.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from boustro.hardware import best_device, uses_bf16
from boustro.lab.adapt.memory import read_sentences
from boustro.lab.adapt.options import CorpusOptions, ElmoConfig
from boustro.lab.adapt.training import make_batches, steps_for, train, write_run
from boustro.lab.pretrain.batches import Batches
from boustro.lab.pretrain.checkpoints import finished_run
from boustro.lab.pretrain.config import run_facts
from boustro.lab.pretrain.distributed import say
from boustro.models.elmo import ELMO, PAPER_FILTERS, Elmo, ElmoLM, ElmoShape, save_elmo, spell_texts
from boustro.store import fingerprint
from boustro.types import Sentence

NUM_TARGETS = 10_000
"""Words that can be predicted; all others count as unknown."""
PART_WORDS = 100
"""Longer sentences are cut into parts of so many words."""
ELMO_FACTS = ("width", "cells", "letter_window", "words", "batch_words")
"""Options that decide the weights, besides those of every run."""
UNKNOWN_WORD = "<unknown>"


def train_elmo(
    sentences: Sequence[Sequence[str]], held_out: Sequence[Sequence[str]], config: ElmoConfig
) -> dict[str, Any]:
    """Train on sentences, measure on `held_out` (may be empty); returns `training.json`. `ValueError` without words."""
    parts, measured = (
        [s[i : i + PART_WORDS] for s in given for i in range(0, len(s), PART_WORDS)] for given in (sentences, held_out)
    )
    counts = Counter(word for part in parts for word in part)
    if not counts:
        raise ValueError("the corpus has no words to train on")
    facts = run_facts(config, ELMO_FACTS, corpus=fingerprint([list(part) for part in parts]))
    if finished := finished_run(config, ELMO, facts):
        return finished
    targets = [UNKNOWN_WORD, *(word for word, _ in counts.most_common(NUM_TARGETS - 1))]
    numbers = {word: number for number, word in enumerate(targets)}
    batches = make_batches([len(part) for part in parts], config.batch_words, config.seed)
    total = sum(counts.values())
    steps = steps_for(len(batches), total, config.words)

    device = best_device()
    torch.manual_seed(config.seed)
    shape = ElmoShape(width=config.width, cells=config.cells, filters=PAPER_FILTERS[: config.letter_window])
    module = ElmoLM(Elmo(shape), len(targets)).to(device)
    num_parameters = sum(p.numel() for p in module.elmo.parameters())
    say(f"ELMo: {num_parameters / 1e6:.1f}M parameters, {steps:,} steps, {total:,} words available, on {device}")

    measured_batches = make_batches([len(part) for part in measured], config.batch_words, config.seed)

    def batch(step: int) -> dict[str, Tensor]:
        return make_tensors([parts[i] for i in batches[step % len(batches)]], numbers, shape.max_letters)

    def measured_batch(number: int) -> tuple[dict[str, Tensor], int]:
        texts = [measured[i] for i in measured_batches[number]]
        return make_tensors(texts, numbers, shape.max_letters), sum(map(len, texts))

    data, validation = Batches(steps, batch), Batches(len(measured_batches), measured_batch) if measured else None
    how = {"step_size": config.batch_words, "unit": "words", "bf16": uses_bf16(device)}
    result = train(config, facts, module, module.forward, data, validation, **how)
    unknown = 1 - sum(counts[word] for word in targets) / total
    result |= {"num_parameters": num_parameters, "share_of_unknown_targets": unknown}
    return write_run(config, ELMO, result, lambda folder: save_elmo(folder, module.elmo))


def make_tensors(texts: Sequence[Sequence[str]], numbers: dict[str, int], max_letters: int) -> dict[str, Tensor]:
    """Return the arguments of `ElmoLM`: the distinct words as letters, the texts as rows of them, lengths, targets."""
    spelt, rows, lengths, _ = spell_texts(texts, max_letters)
    targets = [[numbers.get(word, 0) for word in text] + [-100] * (rows.shape[1] - len(text)) for text in texts]
    return {"spelt": spelt, "texts": rows, "lengths": lengths, "targets": torch.tensor(targets)}


def train_and_held_out(options: CorpusOptions) -> tuple[Iterator[list[Sentence]], Iterator[list[Sentence]]]:
    """Return the documents to train on and those to measure on, as sentences; `ValueError` where no corpus is named."""
    if not options.corpus:
        raise ValueError("no corpus given; name at least one file, folder or dataset")
    held_out = read_sentences(options, [str(options.validation)], None) if options.validation else iter(())
    return read_sentences(options, options.corpus, options.max_documents), held_out
