"""The numbers of one few-shot cell: an encoder at one K under one head, one row per draw or per run.

{"draw": 1, "sentences": 47, "words": 698, "score": 65.3, "precision": …, "recall": …, "per_type": {"PER": [120, …

With self-training, a head of the draw tags other sentences of the training set, and a second head learns from both:

    teacher   learns from the draw, and tags so many other sentences, whose own labels nobody looks at
    student   learns from the draw, repeated until it is a third of the words, and from those sentences in which the
              teacher found an entity; the same head and tags

So there is text of the same kind without labels, as there mostly is. Source: Scudder 1965 (learning from own
decisions); Yarowsky 1995. Letters: N words of all sentences end to end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from boustro.apps.studies.fewshot.heads import DrawTags, LabelledVectors, tag_words, text_tags
from boustro.features.vectors import VectorReader, Vectors
from boustro.heads.factored import Runs, compose_tags, factored_tags
from boustro.heads.rows import sentence_rows
from boustro.metrics.arrays import SpanArrays, compare_spans, find_spans
from boustro.metrics.spans import SpanCounts, total_counts
from boustro.types import Sentence

if TYPE_CHECKING:
    from boustro.apps.studies.fewshot.study import ShotStudy


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Vectors of a data set that is scored, and its entities."""

    vectors: Vectors
    gold: SpanArrays


def read_judged(study: "ShotStudy", reader: VectorReader) -> dict[str, JudgedSet]:
    """Every data set that is scored, read once for all cells of an encoder."""
    found, types = {}, study.judged_types
    for name, sentences in study.judged().items():
        vectors = reader.vectors(sentences)
        gold = find_spans(tag_ids(sentences, types), tag_names(sentences, types), vectors.starts, types)
        found[name] = JudgedSet(vectors, gold)
    return found


def tag_ids(sentences: Sequence[Sentence], types: Sequence[str]) -> np.ndarray:
    """The tag of every word, or of every labelled text, as ids of `tag_names`."""
    number = {tag: i for i, tag in enumerate(tag_names(sentences, types))}
    tags = (s.tags or () if s.label is None else (f"B-{s.label}",) for s in sentences)
    return np.array([number[tag] for own in tags for tag in own], np.int64)


def tag_names(sentences: Sequence[Sentence], types: Sequence[str]) -> list[str]:
    """All tags: `factored_tags` of words, `text_tags` of labelled texts."""
    texts = bool(sentences) and sentences[0].label is not None
    return text_tags(types) if texts else factored_tags(list(types))


def sound_rows(
    study: "ShotStudy", reader: VectorReader, judged: JudgedSet, draws: Sequence[np.ndarray], head: str, tags: str
) -> list[dict[str, Any]]:
    """One row per draw. Nothing is selected on the scored data: strengths and settings are set before."""
    train, chosen = training_words(study, reader, draws)
    if study.options.self_train:
        tagged = tag_by_students(study, reader, train, chosen, draws, head, tags, judged.vectors)
    else:
        tagged = tag_words(head, tags, train, chosen, study.options, judged.vectors)
    rows = []
    for number, (draw, ids) in enumerate(zip(draws, tagged.ids, strict=True)):
        found = find_spans(ids, tagged.tags, judged.vectors.starts, judged.gold.labels)
        row = {
            "draw": number + 1,
            **study.sizes(draw),
            **span_scores(compare_spans(judged.gold, found), tags == "label"),
        }
        row |= {"strengths": tagged.strengths[number]} if tagged.strengths else {}
        rows.append(row | ({"blocks": tagged.blocks[number]} if tagged.blocks else {}))
    return rows


def training_words(
    study: "ShotStudy", reader: VectorReader, draws: Sequence[np.ndarray]
) -> tuple[LabelledVectors, list[np.ndarray]]:
    """The words of all draws, each sentence once, and the draws as numbers of these sentences."""
    every = np.unique(np.concatenate(draws))
    tags = tag_ids([study.train[s] for s in every], study.types)
    train = LabelledVectors(reader.train_vectors(every), tags, study.types)
    return train, [np.searchsorted(every, draw) for draw in draws]


def span_scores(per_type: dict[str, SpanCounts], texts: bool = False) -> dict[str, Any]:
    """The score of a row, and the counts of each type: gold, predicted, correct."""
    total = total_counts(per_type)
    own = {} if texts else {"precision": total.precision, "recall": total.recall}  # of texts the accuracy once more
    return {
        "score": total.f1,
        **own,
        "per_type": {label: [c.gold, c.predicted, c.correct] for label, c in per_type.items()},
    }


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
