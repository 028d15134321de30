"""A table of words made from a sentence encoder: it reads words one by one, then texts, and the table learns from both.

    1  every frequent word, and parts of the others, alone              the vectors that the table begins with
    2  a sample of the texts                                            what its means should be
    3  Adam on 1 - cos(mean of the words of a text, its vector)         a tenth of the words of a text left out in turn

    OUT                        the table (`encoders.word_table`); its config.json says what was read, and how
    OUT.checkpoints/vectors    until the run is finished: what the encoder has given so far

A text is a sentence of the corpus. Its vector is the mean of its words' in the encoder's highest layer. A run that was
stopped goes on after the last vector, and ends with the same bytes. Sources: as of `encoders.word_table`.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from boustro.arrays import unit
from boustro.encoders.base import Encoder
from boustro.encoders.extended import reading_facts
from boustro.encoders.spec import Spec, open_encoder
from boustro.encoders.word_means import WORDS_FILE, encode_vectors
from boustro.encoders.word_table import ARRAYS, CONFIG_FILE, PART, WordTable, load_table
from boustro.heads.inputs import sentence_starts
from boustro.lab.adapt.memory import is_finished, read_sentences, saver
from boustro.lab.adapt.options import TableConfig
from boustro.lab.pretrain.checkpoints import is_usable
from boustro.lab.pretrain.distributed import Signals, say
from boustro.lab.pretrain.output import START_AGAIN, run_output
from boustro.lab.pretrain.progress import DryRun
from boustro.names import TABLE
from boustro.output import duration
from boustro.progress import Progress
from boustro.store import fingerprint, read_json, reading, remove_folder, write_file, write_folder
from boustro.types import Sentence

READ_VECTORS, VECTOR_FILES, VECTOR_FILE = "vectors", ("vectors.npy",), "vectors.npy"
FEWEST_TEXT_WORDS, MOST_TEXT_WORDS = 2, 60
"""Of a text that is learned from."""
LONGEST_NEW_PART, RARE = 6, 2
"""Letters of a part of a word; how often a word without a row of its own stands in the texts, to be parted."""
CHUNK_TEXTS = 2048
BATCH_TEXTS = 256
SHARE_LEFT_OUT = 0.1  # of the words of a text in training (docs/log.md)


def write_table(config: TableConfig) -> dict[str, Any]:
    """Write the folder; returns what was read, and how near the means come to texts that were not learned from.

    Raises as `lab.adapt.memory.write_memory` does.
    """
    with run_output(config, TABLE):
        encoder = open_encoder(config.encoder, config.reading())
        width = sum(stream.width for stream in encoder.streams)
        code_bytes = min(config.code_bytes, width)
        words, counts, texts = _read_corpus(config)
        alone = [Sentence((word.removeprefix(PART),)) for word in words]
        asked = [*alone, *texts]
        facts = {
            "encoder": Spec.parse(config.encoder).exact(encoder.identity()),
            "reading": reading_facts(encoder),
            "text": fingerprint([list(sentence.words) for sentence in asked]),
            "epochs": config.epochs,
            "code_bytes": code_bytes,
            "seed": config.seed,
        }
        record: dict[str, Any] = {"words": len(words), "texts": len(texts), "counted": int(counts.sum())}
        if config.dry_run:
            _probe(encoder, asked, len(words) * (code_bytes or 2 * width))
        if not is_finished(config, facts, lambda: _config_of(config.out)):
            vectors = _read(config, encoder, asked, width, facts)
            table = WordTable({w: n for n, w in enumerate(words)}, counts, vectors[: len(words)])
            learned, record["cosines"] = learn(table, texts, vectors[len(words) :], config.epochs, config.seed)
            kept = encode_vectors(learned, code_bytes) if code_bytes else learned.astype(np.float16)
            _write(config.out, WordTable(table.rows, counts, kept), facts | {"record": record})
        remove_folder(config.checkpoints / READ_VECTORS)
        return record


def _write(out: Path, table: WordTable, told: dict[str, Any]) -> None:
    with write_folder(out, TABLE) as folder:
        table.save(folder / WORDS_FILE, folder / ARRAYS)
        write_file(folder / CONFIG_FILE, json.dumps(told, indent=1, ensure_ascii=False))


def _read_corpus(config: TableConfig) -> tuple[list[str], np.ndarray, list[Sentence]]:
    """Return the words and parts of the table, how often each stands in the corpus, and a sample of the texts."""
    frequencies, sample, seen = Counter[str](), list[Sentence](), 0
    draw = np.random.default_rng(config.seed)
    for document in read_sentences(config, config.corpus, config.max_documents):
        for sentence in document:
            frequencies.update(word.lower() for word in sentence.words)
            if not FEWEST_TEXT_WORDS <= len(sentence) <= MOST_TEXT_WORDS:
                continue
            seen += 1
            place = len(sample) if seen <= config.texts else int(draw.integers(seen))
            sample[place : place + 1] = [sentence] if place < config.texts else sample[place : place + 1]
    if not sample:
        raise ValueError(f"the corpus has no sentence of {FEWEST_TEXT_WORDS} to {MOST_TEXT_WORDS} words")
    words = [word for word, _ in frequencies.most_common(config.words)]
    parts = Counter[str]()
    for word in frequencies.keys() - {*words}:
        if frequencies[word] >= RARE and word.isalpha():
            parts.update(word[-length:] for length in range(1, min(LONGEST_NEW_PART, len(word) - 1) + 1))
            parts.update(word[place : place + 3] for place in range(1, len(word) - 2))
    order = sorted(parts, key=lambda part: (-parts[part], part))[: config.parts]
    counts = np.array([frequencies[word] for word in words] + [1] * len(order), np.float32)
    return [*words, *(PART + part for part in order)], counts, sample


def _vectors(encoder: Encoder, asked: Sequence[Sentence]) -> np.ndarray:
    """Return (n, D) float16, of length 1: the means of the words of sentences."""
    features = encoder.read_all(asked)
    words = np.concatenate([stream[:, -1].astype(np.float32) for stream in features.streams], axis=1)
    sums = np.add.reduceat(words, sentence_starts(features.lengths)[:-1], axis=0)
    return unit(sums).astype(np.float16)


def _read(
    config: TableConfig, encoder: Encoder, asked: Sequence[Sentence], width: int, facts: dict[str, Any]
) -> np.ndarray:
    """Return (n, D) float32: the vectors of words and texts, with checkpoints. `SystemExit` when a signal stopped
    it."""
    checkpoint, signals, vectors = config.checkpoints / READ_VECTORS, Signals(), np.zeros((0, width), np.float16)
    if not config.resume:
        remove_folder(checkpoint, VECTOR_FILES)
    elif checkpoint.is_dir() and is_usable(checkpoint, READ_VECTORS, facts, VECTOR_FILES):
        with reading(checkpoint, START_AGAIN):
            vectors = np.load(checkpoint / VECTOR_FILE, allow_pickle=False)
        say(f"resuming from {checkpoint} after {len(vectors):,} of {len(asked):,} words and texts")
    begun = len(vectors)
    signals.worth_saving = lambda: len(vectors) > begun

    def save(folder: Path) -> None:
        np.save(folder / VECTOR_FILE, vectors)

    def so_far() -> str:
        return f"{len(vectors):,} of {len(asked):,} words and texts"

    with signals, Progress("reading", "texts", total=len(asked), done=begun) as bar:
        save_if_due = saver(config, signals, READ_VECTORS, facts, save, so_far)
        while len(vectors) < len(asked):
            vectors = np.concatenate([vectors, _vectors(encoder, asked[len(vectors) : len(vectors) + CHUNK_TEXTS])])
            bar.update(min(CHUNK_TEXTS, len(vectors) - begun))
            save_if_due()
    return vectors.astype(np.float32)


def _config_of(folder: Path) -> Any:
    """Return the config of a whole table; raises as `load_table`."""
    load_table(str(folder))
    return read_json(folder / CONFIG_FILE)


def _probe(encoder: Encoder, asked: Sequence[Sentence], size: int) -> None:
    """Read some texts, and print what the whole run will cost; raises `DryRun`."""
    few = asked[-CHUNK_TEXTS:]
    _vectors(encoder, few[:64])  # the first is the slowest
    began = time.monotonic()
    _vectors(encoder, few)
    seconds = (time.monotonic() - began) / len(few) * len(asked)
    say(f"dry run: {len(asked):,} words and texts to read, {duration(seconds)}; disk: {size / 2**20:,.1f} MB")
    raise DryRun(None)


def learn(
    table: WordTable, texts: Sequence[Sentence], wanted: np.ndarray, epochs: int, seed: int
) -> tuple[np.ndarray, list[float]]:
    """Return the vectors (V, D) of a table whose means come near those `wanted` (S, D); the mean cosines on a fiftieth
    of the texts, which is not learned from: before, and after each epoch."""
    import torch
    import torch.nn.functional as F

    entries = [table.find_all(text.words) for text in texts]
    usable = [n for n, (rows, _) in enumerate(entries) if len(rows)]
    generator = np.random.default_rng(seed)
    torch.manual_seed(seed)
    generator.shuffle(usable)
    apart = max(1, len(usable) // 50)  # one text in fifty is kept apart, to see how near the means come
    held, learned = usable[:apart], usable[apart:]
    bag = torch.nn.EmbeddingBag(len(table.rows), table.width, mode="sum", sparse=True)
    bag.weight.data.copy_(torch.from_numpy(np.asarray(table.vectors, np.float32)))
    steps, weights, gold = max(1, epochs * -(-len(learned) // BATCH_TEXTS)), table.weights, torch.from_numpy(wanted)
    optimizer = torch.optim.SparseAdam(list(bag.parameters()), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)

    def cosines(some: Sequence[int], left_out: float = 0.0) -> Any:
        rows = np.concatenate([entries[n][0] for n in some])
        shares = np.concatenate([entries[n][1] for n in some]) * weights[rows]
        shares *= generator.random(len(shares)) >= left_out
        starts = sentence_starts(np.array([len(entries[n][0]) for n in some]))[:-1]
        shares = torch.from_numpy(shares.astype(np.float32))
        means = bag(torch.from_numpy(rows), torch.from_numpy(starts), per_sample_weights=shares)
        return F.cosine_similarity(means, gold[some])

    def measure() -> float:
        with torch.no_grad():
            return round(float(cosines(held).mean()), 4)

    near = [measure()]
    with Progress("learning", "steps", total=steps) as bar:
        for _ in range(epochs):
            generator.shuffle(learned)
            for start in range(0, len(learned), BATCH_TEXTS):
                loss = (1 - cosines(learned[start : start + BATCH_TEXTS], SHARE_LEFT_OUT)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                bar.update()
            near.append(measure())
    return bag.weight.detach().numpy(), near
