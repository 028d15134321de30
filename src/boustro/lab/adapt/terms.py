"""Adapters of an LM whose states know what things are: NuNER's step, from raw text and a list of things, no label.

    aspirin<tab>drug        "Two aspirins help."        aspirins: inside, near the vector of "drug"; the others: outside

A thing is found where the text has its words, the longest first (`text.gazetteer`); one in small letters also in the
plural. A name is none where it is part of a longer one ("United" in "Manchester United"), or begins a sentence and
stands elsewhere in small letters ("Reading", a town). Marks, digits and the most frequent words in small letters are
outside things; of other words nobody knows. A sentence all of whose things were met often is left out.

    near      cross-entropy of what a mention is, among what those of the batch are, by the cosine of its projected
              states, the mean of its words', with the vector of the text that says it; what is nearly as right is no
              wrong answer ("a Norwegian chemist" beside "a Swedish chemist")
    inside    binary cross-entropy of each word that is known to be in a mention or not

The vectors are those of the package's sentence encoder. Words are read at their exit, behind the LM's start piece and
run-up, as an encoder reads them, and with its mask; a masked LM (`masked:PATH`) learns too. The adapter is of the upper
half of the blocks; the projection is used for training only. Source: Bogdanov et al. 2024 (NuNER), with a list in place
of the labels that an LLM gave.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from boustro.encoders.adapted import adaptation_facts
from boustro.encoders.lm import LMEncoder, MaskedEncoder
from boustro.encoders.options import ReadingOptions
from boustro.encoders.reading import BATCH_PIECES, InputRow
from boustro.encoders.spec import Spec, load_encoder
from boustro.errors import count_of
from boustro.lab.adapt.adapters import open_unmasked, train_adapter
from boustro.lab.adapt.memory import read_sentences
from boustro.lab.adapt.options import AdaptConfig, ThingAdaptOptions
from boustro.lab.adapt.training import WordReader, make_batches, row_tensors
from boustro.lab.objectives.examples import IGNORED
from boustro.lab.pretrain.batches import Batches
from boustro.lab.pretrain.distributed import say
from boustro.models.lora import Adaptation
from boustro.names import SHIPPED_SENTENCES
from boustro.options import OptionError
from boustro.output import print_notices
from boustro.store import fingerprint
from boustro.tasks.label_types import read_words
from boustro.text.gazetteer import FoundName, Gazetteer, read_listed
from boustro.types import Sentence

OFTEN = 20
"""Mentions of a thing, from which on it is no reason to take a sentence."""
LESSON_WORDS = range(3, 61)  # shorter ones say nothing of their things, longer ones are lists and tables
FREQUENT = 500  # words that are no things where the list does not have them
READINGS, MOST_PASSES = 12_000, 4  # sentences read in training: few of them are read again
HEAT, SAME_THING, INSIDE_WEIGHT = 0.07, 0.8, 0.5  # bench/terms.py: what the words of a mention gain
UPPER_SHARE = 2
"""Half of the blocks learn."""


def read_things(options: ThingAdaptOptions) -> Gazetteer:
    """Return things by how texts write them, and what each is; raises as `read_listed`. Of a name that comes twice the
    first counts."""
    assert options.things is not None
    names = read_listed(options.things)
    known = {name for name, _ in names}
    plurals = ((plural_of(name), what) for name, what in names)
    found = Gazetteer([*names, *((plural, what) for plural, what in plurals if plural and plural not in known)])
    print_notices({"things given again as something else, left out": found.repeated})
    return found


def plural_of(name: str) -> str | None:
    """`"drug"` → `"drugs"`, `"remedy"` → `"remedies"`; `None` for a name with capitals, and for no word."""
    if not name[-1:].isalpha() or name != name.lower():
        return None
    if name[-1] == "y" and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return name + ("es" if name.endswith(("s", "x", "z", "ch", "sh")) else "s")


@dataclass(frozen=True)
class Lessons:
    """Sentences, their mentions, and of each word whether it is inside one: 1, 0, or `IGNORED`."""

    sentences: list[Sentence]
    mentions: list[list[FoundName]]
    inside: list[np.ndarray]


def find_lessons(options: ThingAdaptOptions, things: Gazetteer) -> Lessons:
    """Read the text up to its last sentence that is wanted; `ValueError` where it mentions nothing."""
    taken, met, counts = list[tuple[Sentence, list[FoundName]]](), Counter[tuple[str, ...]](), Counter[str]()
    for sentence in _sentences(options):
        counts.update(word for word in sentence.words if word.islower())
        found = [name for name in things.find(sentence.words) if not name.crosses]
        written = [sentence.words[name.start : name.end] for name in found]
        if any(met[words] < OFTEN for words in written):
            met.update(written)
            taken.append((sentence, found))
        if len(taken) == options.sentences:
            break
    frequent = {word for word, _ in counts.most_common(FREQUENT)}
    lessons = Lessons([], [], [])
    for sentence, found in taken:
        kept = [name for name in found if _is_whole(sentence.words, name, counts)]
        if kept:
            lessons.sentences.append(sentence)
            lessons.mentions.append(kept)
            lessons.inside.append(_inside(sentence.words, found, kept, frequent))
    if not lessons.sentences:
        raise ValueError(
            f"{', '.join(options.corpus)}: the text mentions none of the things in {options.things}; give text of "
            "their field, or write them as the text does"
        )
    return lessons


def _sentences(options: ThingAdaptOptions) -> Iterator[Sentence]:
    for document in read_sentences(options, options.corpus, options.max_documents):
        yield from (sentence for sentence in document if len(sentence) in LESSON_WORDS)


def _is_whole(words: Sequence[str], name: FoundName, small: Counter[str]) -> bool:
    """Return whether a mention is no part of a longer name, and not one word that texts write in small letters where it
    begins no sentence."""
    begin, end = name.start, name.end
    capital = [word[:1].isupper() and (n > 0 or not small[word.lower()]) for n, word in enumerate(words)]
    if not words[begin][:1].isupper():
        return True
    return (capital[begin] or end > begin + 1) and not any(capital[begin - 1 : begin] + capital[end : end + 1])


def _inside(words: Sequence[str], found: list[FoundName], kept: list[FoundName], outside: set[str]) -> np.ndarray:
    """Return (W,) 1 of words of the mentions that are kept, 0 of what is outside, and else `IGNORED`."""
    inside = np.array([0 if w in outside or not any(map(str.isalpha, w)) else IGNORED for w in words], np.int64)
    for names, value in ((found, IGNORED), (kept, 1)):
        for name in names:
            inside[name.start : name.end] = value
    return inside


def vectors_of(texts: Sequence[str]) -> Tensor:
    """Return (N, D): the vectors of texts by the package's sentence encoder, of length 1."""
    encoder = load_encoder(SHIPPED_SENTENCES, reads="text", cache=False)
    return torch.from_numpy(read_words(encoder, [text.split() for text in texts]))


def near_loss(vectors: Tensor, what: Tensor, wanted: Tensor) -> Tensor:
    """Return the contrast of mentions (M, D), of which each is `what` (M,), over what (N, D) those of the batch are."""
    among, at = what.unique(return_inverse=True)
    scores = F.normalize(vectors, dim=1) @ wanted[among].T / HEAT  # (M, A)
    alike = (wanted[what] @ wanted[among].T > SAME_THING) & (what[:, None] != among)
    return F.cross_entropy(scores.masked_fill(alike, -1e4), at)


def adapt_to_things(config: AdaptConfig) -> dict[str, Any]:
    """Train an adapter on what things are; returns `training.json`. `ValueError` for text and things that do not
    fit."""
    options = config.terms
    if not options.corpus:
        raise ValueError("no text given; name at least one file, folder or dataset that mentions the things")
    things = read_things(options)
    encoder, base = _open(config)
    rows, lessons = _rows(encoder, find_lessons(options, things))
    used = sorted({name.label for found in lessons.mentions for name in found})
    number_of = {text: number for number, text in enumerate(used)}
    num_mentions = sum(map(len, lessons.mentions))
    say(f"{count_of(len(rows), 'sentences')}, {num_mentions:,} mentions of {len(used):,} kinds of things")
    wanted = vectors_of(used)
    passes = min(MOST_PASSES, max(1, round(READINGS / len(rows))))
    lengths = [len(row.ids) for row in rows]
    seeds = range(config.seed, config.seed + passes)
    batches = [batch for seed in seeds for batch in make_batches(lengths, BATCH_PIECES, seed)]

    def make(step: int) -> dict[str, Tensor]:
        mentions, first = [], 0
        for number in batches[step]:
            found = lessons.mentions[number]
            mentions += [(first + name.start, first + name.end, number_of[name.label]) for name in found]
            first += len(lessons.inside[number])
        inside = torch.from_numpy(np.concatenate([lessons.inside[number] for number in batches[step]]))
        chosen = row_tensors([rows[number] for number in batches[step]])
        return {**chosen, "inside": inside, "mentions": torch.tensor(mentions)}

    torch.manual_seed(config.seed)
    reader = WordReader(encoder.model, wanted.shape[1] + 1)

    def loss_of(inside: Tensor, mentions: Tensor, **read: Tensor) -> Tensor:
        outputs = reader(**read)  # (W, D + 1)
        begin, end, what = mentions.T
        sums = F.pad(outputs[:, :-1].cumsum(0), (0, 0, 1, 0))
        near = near_loss((sums[end] - sums[begin]) / (end - begin)[:, None], what, wanted.to(sums.device))
        known = inside != IGNORED
        return near + INSIDE_WEIGHT * F.binary_cross_entropy_with_logits(outputs[known, -1], inside[known].float())

    facts = {"lessons": fingerprint([[s.words, m] for s, m in zip(lessons.sentences, lessons.mentions, strict=True)])}
    facts["things"] = fingerprint(used)
    record = {"objective": "things", "mentions": num_mentions, "kinds_of_things": len(used), "lessons": len(rows)}
    how: dict[str, Any] = {"facts": facts, "describe": lambda: record, "step_size": BATCH_PIECES, "perplexity": False}
    how["upper"] = max(1, encoder.num_blocks // UPPER_SHARE)
    batched = Batches(len(batches), make)
    return train_adapter(config, base, encoder.model, reader.head, loss_of, batched, None, **how)


def _open(config: AdaptConfig) -> tuple[LMEncoder | MaskedEncoder, Adaptation]:
    """Return the LM, and what the folder says of it; raises as `open_unmasked`."""
    (part, *others) = Spec.parse(config.lm).parts
    if others or part.prefix != "masked:":
        return open_unmasked(config)
    if config.blocks is not None:
        raise OptionError(f"{config.lm} has no causal mask; leave out --blocks")
    encoder = MaskedEncoder(
        part.place, ReadingOptions(layers="last", pooling="exit"), spec=config.lm, revision=part.revision
    )
    return encoder, adaptation_facts(encoder, part.exact(encoder.weights()).removeprefix(part.prefix))


def _rows(encoder: LMEncoder | MaskedEncoder, lessons: Lessons) -> tuple[list[InputRow], Lessons]:
    """Return the LM's input of each sentence, and the lessons without sentences that do not fit into one."""
    rows = [encoder.rows([sentence]) for sentence in lessons.sentences]
    fit = [number for number, windows in enumerate(rows) if len(windows) == 1]
    print_notices({"sentences with more pieces than the LM reads together, left out": len(rows) - len(fit)})
    if not fit:
        raise ValueError(f"{encoder.spec}: no sentence fits into the pieces that the LM reads together")
    kept = (vars(lessons)[name] for name in ("sentences", "mentions", "inside"))
    return [rows[number][0] for number in fit], Lessons(*([group[number] for number in fit] for group in kept))
