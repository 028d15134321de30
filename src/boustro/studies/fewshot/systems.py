"""One system (a head over tags) taught by every draw of a study at once, and asked about all words.

    tags      what the head learns                                        what it says of a word or an entity
    bio       O, B-PER, I-PER, …                                          the best tag
    io        O, I-PER, …                                                 the best tag
    factored  inside or outside; and the type of an entity (heads.factored)   the runs of inside words, typed

Heads: ridge, logistic and lda in closed form (heads.closed_form), linear and mlp by gradient descent
(heads.stacked). Whatever its kind, the heads of all draws are one stack, which judges words in one pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from boustro.heads.closed_form import CLOSED_FORMS, Linear, Words
from boustro.heads.factored import Runs, compose_tags, factored_tags, find_runs, mean_vectors
from boustro.heads.stacked import STEPS, Run, StackedHeads, sentence_rows, train_stacked
from boustro.metrics.arrays import find_spans
from boustro.studies.fewshot.features import Vectors

HEADS = (*CLOSED_FORMS, *STEPS)
TAGS = ("bio", "io", "factored")
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


AUTO_SYSTEMS = ((64, System("mlp", "factored")), (0, System("ridge", "factored")))
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
    """How heads are trained by gradient descent; the fields are `stacked.Run`'s, and `hidden`."""

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
    system: System, taught: Taught, draws: Sequence[np.ndarray], settings: Settings, asked: Sequence[Vectors]
) -> list[Tagged]:
    """For each of `asked`, what heads say that were taught by each draw (numbers of sentences of `taught`)."""
    num_types, starts, words = len(taught.types), taught.vectors.starts, taught.vectors.words
    if system.tags != "factored":
        io = np.concatenate([[0], np.tile(np.arange(1, num_types + 1), 2)])
        wanted = taught.tags if system.tags == "bio" else io[taught.tags]
        names = factored_tags(taught.types)
        names = names if system.tags == "bio" else [names[0], *names[1 + num_types :]]
        heads, strengths = _teach(system.head, words, starts, wanted, len(names), draws, settings)
        return [Tagged(heads.best_tags(a.words), names, [[s] for s in strengths]) for a in asked]
    inside, inside_strengths = _teach(system.head, words, starts, (taught.tags > 0).astype(int), 2, draws, settings)
    spans = find_spans(taught.tags, factored_tags(taught.types), starts, taught.types)
    runs = Runs(spans.first, spans.stop)
    typing, type_strengths = _teach(
        system.head, mean_vectors(words, runs), runs.per_sentence(starts), spans.label, num_types, draws, settings
    )
    strengths = [list(pair) for pair in zip(inside_strengths, type_strengths, strict=True)]
    return [Tagged(_compose(inside, typing, a, num_types), factored_tags(taught.types), strengths) for a in asked]


def _compose(inside: StackedHeads, typing: StackedHeads, asked: Vectors, num_types: int) -> np.ndarray:
    """(draws, words) ids of `factored_tags`."""
    found = inside.best_tags(asked.words)
    for draw, row in enumerate(found):
        runs = find_runs(row > 0, asked.starts)
        types = typing[draw].best_tags(mean_vectors(asked.words, runs))[0]
        found[draw] = compose_tags(runs, types, len(row), num_types)
    return found


def _teach(
    head: str,
    vectors: np.ndarray,
    starts: np.ndarray,
    tags: np.ndarray,
    num_tags: int,
    draws: Sequence[np.ndarray],
    settings: Settings,
) -> tuple[StackedHeads, list[float]]:
    """A head for each draw, and the strengths of closed forms."""
    if head in STEPS:
        runs = [
            Run(
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
        return train_stacked(head, vectors, starts, tags, num_tags, runs, settings.hidden), []
    solved = [_solve(head, vectors, starts, tags, num_tags, draw) for draw in draws]
    stack = {
        "1.weight": torch.from_numpy(np.stack([s.weight for s in solved])),
        "1.bias": torch.from_numpy(np.stack([s.bias for s in solved])),
    }
    return StackedHeads("linear", stack), [s.strength for s in solved]


def _solve(
    head: str, vectors: np.ndarray, starts: np.ndarray, tags: np.ndarray, num_tags: int, draw: np.ndarray
) -> Linear:
    rows, own = sentence_rows(starts, draw)
    words = Words(vectors[rows].astype(np.float32), tags[rows], num_tags, own)
    fixed = FIXED_STRENGTHS.get(head)
    unit = words.squared_length if head == "logistic" else 1.0
    return CLOSED_FORMS[head](words, None if fixed is None else fixed * unit)
