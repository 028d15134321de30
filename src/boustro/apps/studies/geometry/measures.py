"""Measures of word vectors of every layer and direction, and their table.

They are exact over all pairs, without looping over pairs: with unit vectors u, the mean cosine of all pairs of
different words is (‖Σ u‖² - n) / (n (n - 1)); dimension i adds ((Σ uᵢ)² - Σ uᵢ²) / (n (n - 1)) to it.

    anisotropy         mean cosine of two words of the sample; 0 where directions are spread evenly
    rogue share        the part of that mean, in percent, that the one dimension with the largest part makes
    self-similarity    mean cosine of two occurrences of a word, less the anisotropy: 0 if its vectors share nothing
    intra-sentence     mean cosine of a word with the mean of its sentence, less the anisotropy

`correlate` asks whether cosines of words in context follow people's judgements: Spearman's correlation under every
transform, fitted to all words of the contexts, which are split at white space, without the scores (the task of Huang et
al. 2012, SCWS):

    {"context1": "by the bank of the stream", "start1": 7, "context2": …, "start2": …, "score": 3.5}

Sources: Ethayarajh 2019, sections 3.3 and 3.4 (here with the anisotropy of the same sample); Timkey and van Schijndel
2021, section 3. Letters: n words, d width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from boustro.arrays import unit
from boustro.encoders.base import Encoder
from boustro.errors import shorten
from boustro.heads.transforms import TRANSFORMS, Standardised
from boustro.metrics.score import score_correlation
from boustro.tasks import Fields
from boustro.tasks.data.named import RecordReader
from boustro.text.documents import read_documents
from boustro.text.words import split_text
from boustro.types import Note, Sentence

LEAST_OCCURRENCES = 5  # ten pairs: with fewer a word's mean cosine says little


@dataclass(frozen=True, slots=True)
class Geometry:
    """The measures of one layer of one stream."""

    anisotropy: float
    rogue_share: float
    rogue_dimension: int
    self_similarity: float
    intra_sentence: float


def measure_vectors(vectors: np.ndarray, words: Sequence[str], lengths: Sequence[int]) -> Geometry:
    """Return the measures of `vectors` (n, d) of `words`, which are those of sentences with these lengths, end to end.

    Words with fewer than `LEAST_OCCURRENCES` are left out of the self-similarity, which is `nan` where none remains.
    Raises `ValueError` for fewer than two words.
    """
    if len(vectors) < 2 or len(vectors) != len(words) or len(words) != sum(lengths):
        raise ValueError(f"{len(vectors)} vectors of {len(words)} words in sentences of {sum(lengths)}; two are needed")
    x = np.asarray(vectors, np.float64)
    units = unit(x)
    parts = pair_parts(units)
    mean = float(parts.sum())
    rogue = int(np.abs(parts).argmax())
    rows: dict[str, list[int]] = {}
    for row, word in enumerate(words):
        rows.setdefault(word.lower(), []).append(row)
    by_word = [pair_parts(units[places]).sum() for places in rows.values() if len(places) >= LEAST_OCCURRENCES]
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    inside = [float((units[a:b] @ unit(x[a:b].mean(0))).mean()) for a, b in pairwise(bounds) if b - a > 1]
    return Geometry(
        anisotropy=mean,
        rogue_share=100 * float(parts[rogue]) / mean if mean else 0.0,
        rogue_dimension=rogue,
        self_similarity=float(np.mean(by_word)) - mean if by_word else float("nan"),
        intra_sentence=float(np.mean(inside)) - mean if inside else float("nan"),
    )


def pair_parts(units: np.ndarray) -> np.ndarray:
    """Return (d,) what each dimension adds to the mean cosine of all pairs of `units` (n, d); n is at least 2."""
    return (np.square(units.sum(0)) - np.square(units).sum(0)) / (len(units) * (len(units) - 1))


def measure_layers(encoder: Encoder, data: Path, most: int) -> list[dict[str, Any]]:
    """Return the measures of each stream and layer over the first sentences of a corpus, raw and standardised.

    Raises `ValueError` for a corpus with fewer than two words.
    """
    texts = enumerate(read_documents([str(data)], split="line", option=""))
    placed = (part for number, text in texts for part in split_text(text, f"document {number}"))
    sentences = [part.sentence for part in islice(placed, most)]
    words = [word for sentence in sentences for word in sentence.words]
    if len(words) < 2:
        raise ValueError(f"{data}: fewer than two words; expected running text")
    lengths, features = [len(s) for s in sentences], encoder.encode_all(sentences)
    rows = []
    for stream, array in zip(encoder.streams, features.streams, strict=True):
        for layer in range(stream.num_layers):
            x = np.asarray(array[:, layer], np.float32)
            figures = asdict(measure_vectors(x, words, lengths))
            standardised = measure_vectors(Standardised.fit(x).apply(x), words, lengths).anisotropy
            rows.append({"stream": stream.name, "layer": layer, **figures, "anisotropy_standardised": standardised})
    return rows


def print_figures(figures: dict[str, Any]) -> None:
    """The table that people read."""
    heads = ("cosine", "standardised", "rogue", "its share", "self", "intra")
    width = max(len(row["stream"]) for row in figures["layers"])
    print(f"{'stream':{width}} layer {' '.join(f'{head:>12}' for head in heads)}")
    for row in figures["layers"]:
        names = ("anisotropy", "anisotropy_standardised", "rogue_dimension", "rogue_share")
        cosine, standardised, rogue, share = (row[name] for name in names)
        shown = [f"{cosine:.3f}", f"{standardised:.3f}", f"{rogue}", f"{share:.0f}%"]
        shown += [f"{row[name]:.3f}" for name in ("self_similarity", "intra_sentence")]
        print(f"{row['stream']:{width}} {row['layer']:5} {' '.join(f'{value:>12}' for value in shown)}")
    for name, value in figures.get("spearman", {}).items():
        print(f"{name:{width}} Spearman {value:6.2f} over {figures['pairs']:,} pairs")


MOST_FITTED = 50_000
"""A transform is fitted to at most so many words, evenly spaced."""


@dataclass(frozen=True, slots=True)
class WordPair:
    """Two words in their contexts, and how similar people find them."""

    contexts: tuple[Sentence, Sentence]
    words: tuple[int, int]
    score: float


def read_word_pairs(path: Path) -> list[WordPair]:
    """Return the pairs of a JSON lines file; `ValueError` with file:line for a record that is none."""
    return RecordReader(what="pair of words", make=_pair, fields=Fields()).read(path)


def correlate(encoder: Encoder, pairs: list[WordPair]) -> dict[str, float]:
    """Spearman's correlation of cosines and scores, times 100, by transform; all streams and layers side by side."""
    features = encoder.encode_all([context for pair in pairs for context in pair.contexts])
    places = features.starts[:-1] + np.array([word for pair in pairs for word in pair.words])
    step = -(-int(features.starts[-1]) // MOST_FITTED)
    wide = [np.asarray(stream).reshape(len(stream), -1) for stream in features.streams]
    sample = np.concatenate([array[::step] for array in wide], axis=1).astype(np.float32)
    vectors = np.concatenate([array[places] for array in wide], axis=1).astype(np.float32)
    scores = [pair.score for pair in pairs]
    correlations = {}
    for name, kind in TRANSFORMS.items():
        x = unit(kind.fit(sample).apply(vectors))
        correlations[name] = score_correlation(scores, (x[::2] * x[1::2]).sum(1).tolist()).spearman
    return correlations


def _pair(record: Any, where: str, notes: list[Note]) -> WordPair:
    if not isinstance(record, Mapping) or not isinstance(record.get("score"), (int, float)):
        raise ValueError(f"{where}: expected two contexts with their words and a score, got {shorten(record)}")
    (first, one), (second, two) = (_context(record, which, where) for which in "12")
    return WordPair((first, second), (one, two), float(record["score"]))


def _context(record: Mapping[str, Any], which: str, where: str) -> tuple[Sentence, int]:
    """Return the words of a context, and the position of the one that begins at its offset."""
    context, start = record.get(f"context{which}"), record.get(f"start{which}")
    if not isinstance(context, str) or not isinstance(start, int):
        raise ValueError(f"{where}: no text under 'context{which}' or no offset under 'start{which}'")
    before = context[:start]
    word, words = len(before.split()), context.split()
    inside = before and not before[-1].isspace()
    if not 0 <= start < len(context) or context[start].isspace():
        raise ValueError(f"{where}: no word begins at offset {start} of context{which}")
    return Sentence(tuple(words)), word - bool(inside)
