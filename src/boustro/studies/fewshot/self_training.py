"""Self-training: a head of K sentences a type tags other sentences of the training set, and a second head learns from
both.

    teacher   learns from the draw, and tags so many other sentences, whose own labels nobody looks at
    student   learns from the draw, repeated until it is a third of the words, and from those sentences in which the
              teacher found an entity; the same head and tags

So there is text of the same kind without labels, as there mostly is. Source: Scudder 1965 (learning from own
decisions); Yarowsky 1995. Letters: N words of all sentences end to end.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from boustro.features.vectors import VectorReader, Vectors
from boustro.heads.factored import Runs, compose_tags
from boustro.heads.rows import sentence_rows
from boustro.metrics.arrays import find_spans
from boustro.studies.fewshot.heads import DrawTags, LabelledVectors, tag_words

if TYPE_CHECKING:
    from boustro.studies.fewshot.study import ShotStudy


def tag_by_students(
    study: "ShotStudy",
    reader: VectorReader,
    train: LabelledVectors,
    chosen: Sequence[np.ndarray],
    draws: Sequence[np.ndarray],
    head: str,
    tags: str,
    asked: Vectors,
) -> DrawTags:
    """As `tag_words(head, tags, train, chosen, …)`, by the students of its heads.

    `chosen` are the draws as numbers of sentences of `train`, `draws` as numbers of the study's.
    """
    found = []
    for number, (own, draw) in enumerate(zip(chosen, draws, strict=True)):
        labelled = _select(train, own)
        unlabelled = reader.train_vectors(
            unlabelled_sentences(len(study.train), draw, study.options.self_train, number)
        )
        if len(unlabelled.words):
            teacher = tag_words(head, tags, labelled, [np.arange(len(own))], study.options, unlabelled)
            labelled = student_words(labelled, unlabelled, _as_bio(teacher, unlabelled, train.types))
        whole = [np.arange(len(labelled.vectors.starts) - 1)]
        found.append(tag_words(head, tags, labelled, whole, study.options, asked))
    return DrawTags(np.concatenate([f.ids for f in found]), found[0].tags, [s for f in found for s in f.strengths])


def unlabelled_sentences(size: int, draw: np.ndarray, count: int, seed: int) -> np.ndarray:
    """At most `count` numbers below `size` that are not in the draw, at random, ascending."""
    rest = np.setdiff1d(np.arange(size), draw)
    return np.sort(np.random.default_rng(seed).permutation(rest)[:count])


def student_words(gold: LabelledVectors, silver: Vectors, tags: np.ndarray) -> LabelledVectors:
    """What a student learns from: `tags` (N,) of the silver words are ids of `factored_tags`, 0 outside entities."""
    inside = np.concatenate([[0], np.cumsum(tags > 0)])[silver.starts]
    rows, starts = sentence_rows(silver.starts, np.flatnonzero(np.diff(inside)))
    times = max(1, round(len(rows) / 2 / max(1, len(gold.tags))))
    sizes = np.concatenate([*[np.diff(gold.vectors.starts)] * times, np.diff(starts)])
    words = np.concatenate([*[gold.vectors.words] * times, silver.words[rows]])
    every = np.concatenate([*[gold.tags] * times, tags[rows]])
    return LabelledVectors(Vectors(words, np.concatenate([[0], np.cumsum(sizes)])), every, gold.types)


def _select(train: LabelledVectors, sentences: np.ndarray) -> LabelledVectors:
    rows, starts = sentence_rows(train.vectors.starts, sentences)
    return LabelledVectors(Vectors(train.vectors.words[rows], starts), train.tags[rows], train.types)


def _as_bio(tagged: DrawTags, words: Vectors, types: Sequence[str]) -> np.ndarray:
    """(N,) the first head's tags, of any scheme, as ids of `factored_tags`."""
    spans = find_spans(tagged.ids[0], tagged.tags, words.starts, types)
    return compose_tags(Runs(spans.first, spans.stop), spans.label, len(words.words), len(types)).astype(np.int64)
