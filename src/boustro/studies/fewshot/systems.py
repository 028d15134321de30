"""One system (a head over tags) taught by every draw of a study at once, and asked about all words.

    tags      what the head learns                                     what it says
    bio       O, B-PER, I-PER, …                                       the best valid sequence
    io        O, I-PER, …                                              the best tag of each word
    factored  where entities are; and the type of one (heads.factored)     entities, each typed as a whole

Heads: ridge, logistic and lda in closed form (heads.closed_form), linear and mlp by gradient descent, with a CRF
or without (heads.many). Where entities are is a matter of inside and outside; under a CRF, of B, I and O.
Whatever its kind, the heads of all draws are one stack, which judges words in one pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from boustro.heads.closed_form import CLOSED_FORMS, LabelledWords, LinearSolution
from boustro.heads.factored import Runs, compose_tags, factored_tags, mean_vectors
from boustro.heads.layout import sentence_rows
from boustro.heads.many.groups import HeadRun
from boustro.heads.many.passes import PASSES
from boustro.heads.many.stack import StackedHeads
from boustro.heads.many.training import train_stacked
from boustro.metrics.arrays import find_spans
from boustro.metrics.spans import parse_tag
from boustro.studies.fewshot.features import Vectors

WITH_CRF = "+crf"
HEADS = (*CLOSED_FORMS, *PASSES, *(kind + WITH_CRF for kind in PASSES))
TAGS = ("bio", "io", "factored")
ENTITY = "entity"
RELABEL: dict[str, Callable[[str, str], str]] = {
    "bio": lambda prefix, label: f"{prefix}-{label}",
    "io": lambda prefix, label: f"I-{label}",
    "boundaries": lambda prefix, label: f"{prefix}-{ENTITY}",
    "inside": lambda prefix, label: f"I-{ENTITY}",
}
"""What a head learns in the place of B-PER or I-PER."""
AUTO = "auto"
FIXED_STRENGTHS = {"logistic": 0.03, "lda": 0.6}
"""Set beforehand: for logistic in units of the mean squared length of the vectors. Ridge chooses its own by
leaving out sentences."""


@dataclass(frozen=True, slots=True)
class System:
    """A head over tags."""

    head: str
    tags: str

    @property
    def name(self) -> str:
        """As tables have it."""
        return f"{self.head}, {self.tags}"


AUTO_SYSTEMS = ((64, System("mlp+crf", "bio")), (0, System("ridge", "factored")))
"""What measurement favoured from so many shots on (docs/log.md)."""


def resolve_system(head: str, tags: str, shots: int) -> System:
    """`auto` is what measurement favours at so many shots."""
    best = next(system for least, system in AUTO_SYSTEMS if shots >= least)
    return System(best.head if head == AUTO else head, best.tags if tags == AUTO else tags)


@dataclass(frozen=True, slots=True)
class Taught:
    """Training words of all draws: vectors, BIO tags as ids of `factored_tags(types)`, and the types."""

    vectors: Vectors
    tags: np.ndarray
    types: list[str]


@dataclass(frozen=True, slots=True)
class Settings:
    """How heads are trained by gradient descent; the fields are `HeadRun`'s, and `hidden`."""

    lr: float
    dropout: float
    epochs: int
    batch_sentences: int
    weight_decay: float
    hidden: int | None


@dataclass(frozen=True, slots=True)
class Tagged:
    """(draws, words) ids of the tags, by each draw's head, and the strengths of closed forms."""

    ids: np.ndarray
    tags: list[str]
    strengths: list[list[float]]


def tag_words(
    system: System, taught: Taught, draws: Sequence[np.ndarray], settings: Settings, asked: Vectors
) -> Tagged:
    """What heads say of `asked` that were taught by each draw (numbers of sentences of `taught`)."""
    starts, words, crf = taught.vectors.starts, taught.vectors.words, system.head.endswith(WITH_CRF)
    if system.tags != "factored":
        labels, wanted = _relabel(taught, RELABEL[system.tags])
        heads, strengths = _teach(system.head, words, starts, wanted, labels, draws, settings)
        whole = crf or system.tags == "bio"
        found = heads.best_tags(asked.words, asked.starts if whole else None)
        return Tagged(found, labels, [[s] for s in strengths])
    labels, wanted = _relabel(taught, RELABEL["boundaries" if crf else "inside"])
    where, where_strengths = _teach(system.head, words, starts, wanted, labels, draws, settings)
    found = where.best_tags(asked.words, asked.starts if crf else None)
    gold = find_spans(taught.tags, factored_tags(taught.types), starts, taught.types)
    entities = Runs(gold.first, gold.stop)
    what, what_strengths = _teach(
        system.head.removesuffix(WITH_CRF),
        mean_vectors(words, entities),
        entities.per_sentence(starts),
        gold.label,
        taught.types,
        draws,
        settings,
    )
    for draw, row in enumerate(found):
        spans = find_spans(row, labels, asked.starts, [ENTITY])
        runs = Runs(spans.first, spans.stop)
        types = what[draw].best_tags(mean_vectors(asked.words, runs))[0]
        found[draw] = compose_tags(runs, types, len(row), len(taught.types))
    strengths = [list(pair) for pair in zip(where_strengths, what_strengths, strict=True)]
    return Tagged(found, factored_tags(taught.types), strengths)


def _relabel(taught: Taught, rename: Callable[[str, str], str]) -> tuple[list[str], np.ndarray]:
    """The tags that a head learns, and the training words' as numbers of them."""
    renamed = [rename(*parse_tag(tag)) if tag != "O" else tag for tag in factored_tags(taught.types)]
    labels = list(dict.fromkeys(renamed))
    return labels, np.array([labels.index(tag) for tag in renamed])[taught.tags]


def _teach(
    head: str,
    vectors: np.ndarray,
    starts: np.ndarray,
    tags: np.ndarray,
    labels: Sequence[str],
    draws: Sequence[np.ndarray],
    settings: Settings,
) -> tuple[StackedHeads, list[float]]:
    """A head for each draw, and the strengths of closed forms."""
    kind, crf, _ = head.partition(WITH_CRF)
    if kind in PASSES:
        runs = [
            HeadRun(
                sentences=tuple(int(s) for s in draw),
                seed=number,
                lr=settings.lr,
                weight_decay=settings.weight_decay,
                dropout=settings.dropout,
                epochs=settings.epochs,
                batch_sentences=settings.batch_sentences,
            )
            for number, draw in enumerate(draws, start=1)
        ]
        return train_stacked(kind, vectors, starts, tags, labels, runs, settings.hidden, bool(crf)), []
    solved = [_solve(head, vectors, starts, tags, len(labels), draw) for draw in draws]
    stack = {
        "body.1.weight": torch.from_numpy(np.stack([s.weight for s in solved])),
        "body.1.bias": torch.from_numpy(np.stack([s.bias for s in solved])),
    }
    return StackedHeads("linear", tuple(labels), stack), [s.strength for s in solved]


def _solve(
    head: str, vectors: np.ndarray, starts: np.ndarray, tags: np.ndarray, num_tags: int, draw: np.ndarray
) -> LinearSolution:
    rows, own = sentence_rows(starts, draw)
    words = LabelledWords(vectors[rows].astype(np.float32), tags[rows], num_tags, own)
    fixed = FIXED_STRENGTHS.get(head)
    unit = words.squared_length if head == "logistic" else 1.0
    return CLOSED_FORMS[head](words, None if fixed is None else fixed * unit)
