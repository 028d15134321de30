"""What the benches of named entities share: train a tagger, count its entities by bucket, keep figures in a file."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import boustro
from boustro.apps.studies.report.buckets import DIMENSIONS, Training, count_buckets
from boustro.metrics.spans import score_entities
from boustro.store import write_file
from boustro.tasks.data.schemes import gold_entities
from boustro.types import Entity, Sentence

BUCKETS = {"never": "never seen", "other": "seen with another type only"}
"""Of `apps.studies.report.buckets`, by the key in the figures."""


class Figures(dict[str, Any]):
    """Cells by key, read from a file if there is one, and written to it whenever a cell is added."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(json.loads(path.read_text("utf-8")) if path is not None and path.exists() else {})
        self._path = path

    def __setitem__(self, key: str, cell: Any) -> None:
        super().__setitem__(key, cell)
        if self._path is not None:
            write_file(self._path, json.dumps(self, indent=1) + "\n")


def read_part(data: Path, folder: str, part: str, most: int | None = None) -> list[Sentence]:
    """The first `most` sentences of a part, "train" or "dev", of a set in the folder of data sets."""
    return boustro.read_data(data / "ner" / folder / f"{part}.txt")[:most]


def fit_tagger(
    encoder: str, options: Mapping[str, Any], train: list[Sentence], dev: list[Sentence], seed: int
) -> boustro.Tagger:
    """A tagger whose epoch is chosen on `dev`."""
    return boustro.Tagger(encoder, **options).fit(train, dev, seed=seed)


def found_entities(tagger: boustro.Tagger, examples: list[Sentence]) -> list[Sequence[Entity]]:
    """What a tagger finds in each sentence; features are kept on disk."""
    return [answer.entities for answer in tagger.answer(examples, cached=True)]


def by_bucket(train: list[Sentence], examples: list[Sentence], spans: Sequence[Sequence[Entity]]) -> dict[str, float]:
    """F1 of all entities ("f1"), and of those in each of `BUCKETS`, which depend on the training set."""
    gold = [gold_entities(sentence) for sentence in examples]
    known = Training.of((sentence.words, gold_entities(sentence)) for sentence in train)
    counts = count_buckets(DIMENSIONS["seen"], known, [sentence.words for sentence in examples], gold, spans)
    return {"f1": score_entities(gold, spans).f1, **{key: counts[name].f1 for key, name in BUCKETS.items()}}


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The mean, and the standard deviation of several."""
    around = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{around}"
