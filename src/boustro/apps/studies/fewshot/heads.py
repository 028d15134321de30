"""A head over tags, trained on every draw of a study at once, and its predictions.

    tags      what the head learns                                 what it predicts
    bio       O, B-PER, I-PER, …                                   the best valid sequence
    io        O, I-PER, …                                          the best tag of each word
    factored  entities without types; and the type of an entity    entities, each typed as a whole (heads.factored)

Heads: ridge, logistic and lda in closed form (heads.closed_form); linear and mlp by gradient descent, with or without
a CRF (heads.solve). Factored heads find entities by inside and outside, with a CRF by B, I and O. The heads of all
draws predict in one pass (heads.tag_all).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from boustro.apps.studies.fewshot.options import AUTO, ShotOptions
from boustro.apps.studies.fewshot.text_vectors import TextVectors, solve_best
from boustro.features.vectors import Vectors
from boustro.heads.base import Head
from boustro.heads.closed_form import CLOSED_FORMS, LabelledWords, LinearSolution
from boustro.heads.factored import Runs, compose_tags, factored_tags, mean_vectors
from boustro.heads.inputs import Inputs
from boustro.heads.options import HeadOptions, HiddenOptions
from boustro.heads.registry import HEADS, HeadShape
from boustro.heads.rows import sentence_rows
from boustro.heads.solve import Run, solve
from boustro.heads.tag_all import linear_head, tag_all
from boustro.metrics.arrays import find_spans
from boustro.metrics.spans import parse_tag
from boustro.tasks.labellings import Labelling

WITH_CRF = "+crf"
ENTITY = "entity"


class Relabelling(NamedTuple):
    """What a head learns instead of B-PER or I-PER, and whether its tags are valid as a sequence only."""

    rename: Callable[[str, str], str]
    in_sequence: bool = False


RELABEL = {
    "bio": Relabelling(lambda prefix, label: f"{prefix}-{label}", in_sequence=True),
    "io": Relabelling(lambda prefix, label: f"I-{label}"),
    "boundaries": Relabelling(lambda prefix, label: f"{prefix}-{ENTITY}"),
    "inside": Relabelling(lambda prefix, label: f"I-{ENTITY}"),
}
FIXED_STRENGTHS = {"logistic": 0.03, "lda": 0.6}
"""Fixed strengths of regularisation: logistic's in units of the mean squared length of the vectors. Ridge selects its
own by leaving out sentences."""


def resolve_head(labelling: type[Labelling], head: str, tags: str, shots: int) -> tuple[str, str]:
    """Head and tags, where `auto` is what measurement favoured at this many shots."""
    best_head, best_tags = next(best for fewest, best in labelling.shot_heads if shots >= fewest)
    return best_head if head == AUTO else head, best_tags if tags == AUTO else tags


def unread_by(labelling: type[Labelling], heads: Sequence[str], shots: Sequence[int]) -> set[str]:
    """The options that none of these heads reads: those of training by steps, and the width inside the head."""
    kinds = {resolve_head(labelling, head, AUTO, count)[0].partition(WITH_CRF)[0] for head in heads for count in shots}
    read = {name for kind in kinds & HEADS.keys() - CLOSED_FORMS.keys() for name in HEADS[kind].option_names()}
    own = {option.name for option in fields(HiddenOptions)} - {option.name for option in fields(HeadOptions)}
    return own & {option.name for option in fields(ShotOptions)} - read


@dataclass(frozen=True, slots=True)
class LabelledVectors:
    """Training words of all draws: vectors, BIO tags as ids of `factored_tags(types)`, and the types."""

    vectors: Vectors
    tags: np.ndarray
    types: list[str]


@dataclass(frozen=True, slots=True)
class DrawTags:
    """(draws, words) ids of the predicted tags; of closed forms the strengths and, for texts, the blocks, per draw."""

    ids: np.ndarray
    tags: list[str]
    strengths: list[list[float]]
    blocks: Sequence[str] = ()


def tag_words(
    head: str, tags: str, train: LabelledVectors, draws: Sequence[np.ndarray], options: ShotOptions, asked: Vectors
) -> DrawTags:
    """The tags of the words `asked`, from one head per draw (numbers of sentences of `train`)."""
    return TAGGERS[tags](head, train, draws, options, asked)


def _tag_as(
    tags: str, head: str, train: LabelledVectors, draws: Sequence[np.ndarray], options: ShotOptions, asked: Vectors
) -> DrawTags:
    """By the tags of `RELABEL`."""
    labels, wanted = _relabel(train, RELABEL[tags].rename)
    heads, strengths = _train(head, train.vectors.words, train.vectors.starts, wanted, labels, draws, options)
    whole = head.endswith(WITH_CRF) or RELABEL[tags].in_sequence
    found = tag_all(heads, asked.words, asked.starts if whole else None)
    return DrawTags(found, labels, [[s] for s in strengths])


def _tag_factored(
    head: str, train: LabelledVectors, draws: Sequence[np.ndarray], options: ShotOptions, asked: Vectors
) -> DrawTags:
    """Entities first, then the type of each."""
    starts, words, crf = train.vectors.starts, train.vectors.words, head.endswith(WITH_CRF)
    labels, wanted = _relabel(train, RELABEL["boundaries" if crf else "inside"].rename)
    where, where_strengths = _train(head, words, starts, wanted, labels, draws, options)
    found = tag_all(where, asked.words, asked.starts if crf else None)
    gold = find_spans(train.tags, factored_tags(train.types), starts, train.types)
    entities = Runs(gold.first, gold.stop)
    what, what_strengths = _train(
        head.removesuffix(WITH_CRF),
        mean_vectors(words, entities),
        entities.per_sentence(starts),
        gold.label,
        train.types,
        draws,
        options,
    )
    for draw, row in enumerate(found):
        spans = find_spans(row, labels, asked.starts, [ENTITY])
        runs = Runs(spans.first, spans.stop)
        (types,) = tag_all([what[draw]], mean_vectors(asked.words, runs))
        found[draw] = compose_tags(runs, types, len(row), len(train.types))
    strengths = [list(pair) for pair in zip(where_strengths, what_strengths, strict=True)]
    return DrawTags(found, factored_tags(train.types), strengths)


def _label_texts(
    head: str, train: LabelledVectors, draws: Sequence[np.ndarray], options: ShotOptions, asked: Vectors
) -> DrawTags:
    """The labels of texts or pairs. Closed forms choose what they read; others read the mean."""
    assert isinstance(asked, TextVectors)
    views, labels, vectors = asked.views, text_tags(train.types), train.vectors.words
    if head not in CLOSED_FORMS:
        mean = views.blocks["mean"]
        heads, _ = _train(head, vectors[:, mean], train.vectors.starts, train.tags, labels, draws, options)
        return DrawTags(tag_all(heads, asked.words[:, mean]), labels, [])
    solve = partial(_solve_closed, head)
    solved = [solve_best(views, vectors[draw], train.tags[draw], len(labels), solve) for draw in draws]
    heads = [linear_head(solution.weight, solution.bias, labels) for solution, _ in solved]
    strengths = [[solution.strength] for solution, _ in solved]
    return DrawTags(tag_all(heads, asked.words), labels, strengths, [blocks for _, blocks in solved])


TAGGERS: dict[str, Callable[..., DrawTags]] = {
    **{tags: partial(_tag_as, tags) for tags in ("bio", "io")},
    "factored": _tag_factored,
    "label": _label_texts,
}
"""By what the heads predict, a value of `Labelling.shot_tags`."""


def text_tags(types: Sequence[str]) -> list[str]:
    """The labels of texts as tags of the one unit that each text is."""
    return [f"B-{label}" for label in types]


def train_by_steps(
    kind: str,
    vectors: np.ndarray,
    starts: np.ndarray,
    tags: np.ndarray,
    labels: Sequence[str],
    runs: Sequence[tuple[ShotOptions, np.ndarray, int]],
    crf: bool = False,
) -> list[Head]:
    """A head for each run: its options, the numbers of its sentences, its seed."""
    fixed = {"crf": crf, "standardise": False, "mix_epochs": 0}
    given = [(HEADS[kind].options.of_saved({**vars(how), **fixed}), seed, draw) for how, draw, seed in runs]
    ids, inputs = torch.from_numpy(tags), Inputs([vectors[:, None]], np.diff(starts))
    shape = HeadShape(kind, ((1, vectors.shape[1]),), tuple(labels))
    solved = solve(shape, inputs, lambda _, rows: ids[rows], [Run(*own) for own in given], bf16=False)
    return [own.head for own in solved]


def _relabel(train: LabelledVectors, rename: Callable[[str, str], str]) -> tuple[list[str], np.ndarray]:
    """The tags that a head learns, and those of the training words as their ids."""
    renamed = [rename(*parse_tag(tag)) if tag != "O" else tag for tag in factored_tags(train.types)]
    labels = list(dict.fromkeys(renamed))
    return labels, np.array([labels.index(tag) for tag in renamed])[train.tags]


def _train(
    head: str,
    vectors: np.ndarray,
    starts: np.ndarray,
    tags: np.ndarray,
    labels: Sequence[str],
    draws: Sequence[np.ndarray],
    options: ShotOptions,
) -> tuple[list[Head], list[float]]:
    """One head per draw, and the strengths of closed forms."""
    kind, crf, _ = head.partition(WITH_CRF)
    if kind not in CLOSED_FORMS:
        runs = [(options, draw, seed) for seed, draw in enumerate(draws, start=1)]
        return train_by_steps(kind, vectors, starts, tags, labels, runs, bool(crf)), []
    solved = []
    for draw in draws:
        rows, own = sentence_rows(starts, draw)
        words = LabelledWords(vectors[rows].astype(np.float32), tags[rows], len(labels), own)
        solved.append(_solve_closed(head, words))
    return [linear_head(s.weight, s.bias, labels) for s in solved], [s.strength for s in solved]


def _solve_closed(head: str, words: LabelledWords) -> LinearSolution:
    fixed = FIXED_STRENGTHS.get(head)
    unit = words.squared_length if head == "logistic" else 1.0
    return CLOSED_FORMS[head](words, None if fixed is None else fixed * unit)
