"""Do cosines of words in context follow people's judgements? Spearman's correlation under every transform.

    {"context1": "by the bank of the stream", "start1": 7, "context2": …, "start2": …, "score": 3.5}

Contexts are split at white space. The transforms are fitted to all words of the contexts, without the scores. Source of
the task: Huang et al. 2012 (SCWS).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from boustro.encoders.base import Encoder
from boustro.errors import shorten
from boustro.heads.transforms import TRANSFORMS, unit
from boustro.metrics.similarity import score_correlation
from boustro.tasks.data.named import read_named
from boustro.types import Sentence

MOST_FITTED = 50_000
"""A transform is fitted to at most so many words, evenly spaced."""


@dataclass(frozen=True, slots=True)
class WordPair:
    """Two words in their contexts, and how similar people find them."""

    contexts: tuple[Sentence, Sentence]
    words: tuple[int, int]
    score: float


def read_word_pairs(path: Path) -> list[WordPair]:
    """The pairs of a JSON lines file; `ValueError` with file:line for a record that is none."""
    return read_named(path, "pair of words", _pair)


def correlate(encoder: Encoder, pairs: list[WordPair]) -> dict[str, float]:
    """Spearman's correlation of cosines and scores, times 100, by transform; all streams and layers side by side."""
    features = encoder.encode_all([context for pair in pairs for context in pair.contexts])
    places = features.starts[:-1] + np.array([word for pair in pairs for word in pair.words])
    step = -(-int(features.starts[-1]) // MOST_FITTED)
    wide = [np.asarray(stream).reshape(len(stream), -1) for stream in features.streams]
    sample = np.concatenate([array[::step] for array in wide], axis=1).astype(np.float32)
    vectors = np.concatenate([array[places] for array in wide], axis=1).astype(np.float32)
    scores = [pair.score for pair in pairs]
    found = {}
    for name, kind in TRANSFORMS.items():
        x = unit(kind.fit(sample).apply(vectors))
        found[name] = score_correlation(scores, (x[::2] * x[1::2]).sum(1).tolist()).spearman
    return found


def _pair(record: Any, where: str) -> WordPair:
    if not isinstance(record, Mapping) or not isinstance(record.get("score"), (int, float)):
        raise ValueError(f"{where}: expected two contexts with their words and a score, got {shorten(record)}")
    (first, one), (second, two) = (_context(record, which, where) for which in "12")
    return WordPair((first, second), (one, two), float(record["score"]))


def _context(record: Mapping[str, Any], which: str, where: str) -> tuple[Sentence, int]:
    """The words of a context, and the position of the one that begins at its offset."""
    context, start = record.get(f"context{which}"), record.get(f"start{which}")
    if not isinstance(context, str) or not isinstance(start, int):
        raise ValueError(f"{where}: no text under 'context{which}' or no offset under 'start{which}'")
    before = context[:start]
    word, words = len(before.split()), context.split()
    inside = before and not before[-1].isspace()
    if not 0 <= start < len(context) or context[start].isspace():
        raise ValueError(f"{where}: no word begins at offset {start} of context{which}")
    return Sentence(tuple(words)), word - bool(inside)
