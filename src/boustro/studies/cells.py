"""One cell of a study: a system trained with one seed, as a folder.

    scores.json       settings, what training recorded, scores on dev and test, and what it cost
    dev.jsonl …       a line a sentence: words, gold, predicted, and a score for each predicted entity
    tagger/           the trained head

A cell that is complete is never computed again. Tables and reports are made from these files, without a model.
"""

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from boustro.locks import lock
from boustro.models.memory import PeakMemory
from boustro.store import read_folder, read_json, refuse_foreign, remove_folder, write_file, write_folder
from boustro.studies.grid import Grid, System
from boustro.tasks.labelling import Answer
from boustro.tasks.tagger import Tagger
from boustro.text.documents import read_lines
from boustro.types import Entity, Sentence

KIND = "cell"
TAGGER = ("manifest.json", "config.json", "head.safetensors", "README.md")
FILES = ("scores.json", "dev.jsonl", "test.jsonl", *(f"tagger/{name}" for name in TAGGER))
"""What a cell is made of."""
SPEED_WORDS = 1000


@dataclass(frozen=True, slots=True)
class Answers:
    """What a cell says about every sentence: entities and, in the same order, their scores."""

    words: Sequence[Sequence[str]]
    gold: Sequence[Sequence[Entity]]
    predicted: Sequence[Sequence[Entity]]
    scores: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Cell:
    """A complete cell."""

    folder: Path
    seed: int

    @cached_property
    def scores(self) -> dict[str, Any]:
        """What scores.json holds."""
        return read_json(self.folder / "scores.json")

    def answers(self, name: str, sentences: Sequence[Sentence], gold: Sequence[Sequence[Entity]]) -> Answers:
        """The predictions on `dev` or `test`, beside the sentences and entities that all cells share."""
        with read_folder(self.folder, KIND):
            rows = [json.loads(line) for _, line in read_lines(self.folder / f"{name}.jsonl")]
            if len(rows) != len(sentences):
                raise ValueError(f"{len(rows)} answers for {len(sentences)} sentences")
            entities = [[Entity(*entity) for entity in row["entities"]] for row in rows]
            scores = [row["scores"] for row in rows]
        return Answers([s.words for s in sentences], gold, entities, scores)


def find_cell(grid: Grid, system: System, seed: int, out: Path) -> Cell | None:
    """The cell, if it is there and complete."""
    folder = out / "cells" / grid.cell_name(system, seed)
    with contextlib.suppress(FileNotFoundError, ValueError):
        cell = Cell(folder, seed)
        with read_folder(folder, KIND, verify=True):
            float(cell.scores["dev"]["f1"])  # what is not there is damaged
            return cell
    return None


def compute_cell(grid: Grid, system: System, seed: int, out: Path, cache: bool | Path = True) -> Cell:
    """Train, predict and write one cell; what is left there of a damaged one is replaced.

    Of several programs that run one study, one computes a cell, and the others wait for it.
    """
    folder = out / "cells" / grid.cell_name(system, seed)
    with lock(folder):
        return find_cell(grid, system, seed, out) or _compute_cell(grid, system, seed, folder, cache)


def _compute_cell(grid: Grid, system: System, seed: int, folder: Path, cache: bool | Path) -> Cell:
    remove_folder(folder, FILES)  # damaged, or absent
    refuse_foreign(folder, KIND)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    with PeakMemory() as peak:
        tagger = Tagger(system.encoder, system.head, cache=cache, **system.options)
        tagger.fit(grid.train, grid.dev, seed)
        answered = {name: tagger.answer(s, cached=True) for name, s in grid.data().items() if name != "train"}
    with write_folder(folder, KIND) as staging:
        result: dict[str, Any] = {"config": system.config(), "seed": seed, "record": tagger.record}
        for name, answers in answered.items():
            sentences = grid.data()[name]
            result[name] = tagger.score(sentences, answers).to_dict()
            rows = (
                json.dumps({"words": s.words, "gold": s.tags, **_row(a)}, ensure_ascii=False)
                for s, a in zip(sentences, answers, strict=True)
            )
            write_file(staging / f"{name}.jsonl", "".join(row + "\n" for row in rows))
        tagger.save_pretrained(staging / "tagger")
        result["cost"] = _cost(tagger, grid, staging / "tagger") | {
            "words_per_second": measure_speed(tagger, grid.dev),
            "peak_bytes": peak.bytes,
            "gpu_peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None,
        }
        write_file(staging / "scores.json", json.dumps(result, indent=1, ensure_ascii=False))
    return Cell(folder, seed)


def _row(answer: Answer) -> dict[str, Any]:
    return {
        "predicted": answer.tags,
        "entities": [(e.label, e.start, e.end) for e in answer.entities],
        "scores": [round(e.score or 0.0, 4) for e in answer.entities],
    }


def measure_speed(tagger: Tagger, sentences: Sequence[Sentence]) -> float | None:
    """Words a second from text to tags, without the cache, over about a thousand words; the first ones warm up."""
    sample, words = [], 0
    for sentence in sentences:
        if words >= SPEED_WORDS:
            break
        sample.append(sentence)
        words += len(sentence)
    tagger.tag(sample[:1])
    started = time.perf_counter()
    tagger.tag(sample)
    return round(words / (time.perf_counter() - started), 1)


def _cost(tagger: Tagger, grid: Grid, folder: Path) -> dict[str, int]:
    """Bytes that follow from the sizes alone: of the features as they lie on disk, and of the trained head."""
    encoder = tagger.encoder(cached=True)
    values = sum(s.num_layers * s.width for s in encoder.streams)
    words = sum(len(s) for sentences in grid.data().values() for s in sentences)
    return {
        "feature_bytes": words * values * encoder.dtype.itemsize,
        "head_bytes": sum(f.stat().st_size for f in folder.glob("*.safetensors")),
    }
