"""`boustro compare`: encoders x heads x seeds on the same data, as one table and one report.

Every combination with a seed is a cell: a folder with its tagger, its scores and its predictions. A cell
that is there already is not computed again, so a study that was killed goes on where it stopped. Tables
and report are made from the cells alone, without a model.
"""

import dataclasses
import itertools
import json
import shlex
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from boustro.metrics.bootstrap import paired_bootstrap, sentence_counts
from boustro.metrics.spans import REPAIR_RULE
from boustro.store import fingerprint, open_folder, provenance, write_file, write_folder
from boustro.studies.report import render_html, render_markdown
from boustro.tasks.commands import HeadOptions, read_labelled
from boustro.tasks.config import make_config
from boustro.tasks.conll import data_fingerprint
from boustro.tasks.data import data_name
from boustro.tasks.reading import DEFAULT_OPTIONS, DataOptions
from boustro.tasks.tagger import Tagger
from boustro.types import Sentence

CELL = "cell"


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is compared, and on what."""

    encoders: tuple[str, ...]
    heads: tuple[str, ...]
    seeds: int
    options: dict[str, Any]
    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence] | None = None

    def data(self) -> dict[str, list[Sentence]]:
        """The data sets that are there, by name."""
        return {"train": self.train, "dev": self.dev, **({"test": self.test} if self.test else {})}

    def systems(self) -> list[tuple[str, str]]:
        """(encoder, head) pairs in the order of the table."""
        return list(itertools.product(self.encoders, self.heads))


def compare(
    encoders: tuple[str, ...],
    train: Path,
    dev: Path,
    out: Path,
    heads: tuple[str, ...] = ("mlp",),
    test: Path | None = None,
    seeds: int = 3,
    options: HeadOptions = HeadOptions(),  # noqa: B008 (frozen)
    data_options: DataOptions = DEFAULT_OPTIONS,
    cache: bool = True,
    json: Path | None = None,
) -> None:
    """Train every encoder under every head with several seeds, and set the results side by side.

    Args:
        encoders: Specs of encoders, such as starter-forward starter.
        train: Labelled sentences: CoNLL columns, CoNLL-U, JSON lines, or hf:NAME for a data set of the hub.
        dev: Labelled sentences that choose the best epoch.
        out: Where cells, tables and the report are written; a study there goes on where it stopped.
        heads: Heads.
        test: Labelled sentences that choose nothing.
        seeds: How many; 1, 2, … are used.
        cache: Keep the features on disk.
        json: Write the results there as well (- for standard output).
    """
    if seeds < 1 or not encoders or not heads:
        raise ValueError("nothing to compare: give at least one encoder, one head and one seed")
    grid = Grid(
        encoders=encoders,
        heads=heads,
        seeds=seeds,
        options=options.chosen(),
        train=read_labelled(train, data_options),
        dev=read_labelled(dev, data_options),
        test=read_labelled(test, data_options) if test else None,
    )
    study = run_grid(grid, out, cache)
    if json is not None and str(json) == "-":
        print(_dump(study["results"]))
    else:
        print_table(study["results"])
    if json is not None and str(json) != "-":
        write_file(json, _dump(study["results"]))
    print(f"report: {out / 'report.html'}", file=sys.stderr)


def run_grid(grid: Grid, out: Path, cache: bool = True, title: str = "Comparison") -> dict[str, Any]:
    """Compute the missing cells, then write results.json, report.md and report.html; returns the study."""
    cells: dict[tuple[str, str], list[Path]] = {}
    total = len(grid.systems()) * grid.seeds
    for number, ((encoder, head), seed) in enumerate(
        itertools.product(grid.systems(), range(1, grid.seeds + 1)), start=1
    ):
        cell, known = run_cell(grid, encoder, head, seed, out, cache)
        cells.setdefault((encoder, head), []).append(cell)
        score = json.loads((cell / "scores.json").read_text("utf-8"))
        note = "known already" if known else f"{score['record']['train_seconds']:.0f} s"
        print(
            f"[{number}/{total}] {encoder} + {head}, seed {seed}: dev F1 {score['dev']['f1']:.2f} ({note})",
            file=sys.stderr,
        )
    study = summarise(grid, cells, title)
    write_file(out / "results.json", _dump(study["results"]))
    write_file(out / "report.md", render_markdown(study))
    write_file(out / "report.html", render_html(study))
    return study


def run_cell(grid: Grid, encoder: str, head: str, seed: int, out: Path, cache: bool) -> tuple[Path, bool]:
    """The folder of one cell, and whether it was there already."""
    config = make_config(**grid.options, encoder=encoder, head=head)
    key = fingerprint(dataclasses.asdict(config), seed, {n: data_fingerprint(s) for n, s in grid.data().items()})
    safe = "".join(c if c.isalnum() or c in "-+." else "_" for c in encoder)[-60:]
    cell = out / "cells" / f"{safe}-{head}-{seed}-{key[:8]}"
    try:
        open_folder(cell, CELL)
        return cell, True
    except (FileNotFoundError, ValueError):
        pass
    tagger = Tagger(encoder, head, cache=cache, **grid.options)
    tagger.fit(grid.train, grid.dev, seed)
    with write_folder(cell, CELL) as folder:
        result: dict[str, Any] = {"config": dataclasses.asdict(config), "seed": seed, "record": tagger.record}
        for name, sentences in grid.data().items():
            if name == "train":
                continue
            answers = tagger.answer(sentences, cached=True)
            result[name] = tagger.score(sentences, answers).to_dict()
            rows = (
                _dump({"words": s.words, "gold": s.tags, "predicted": a.tags})
                for s, a in zip(sentences, answers, strict=True)
            )
            write_file(folder / f"{name}.jsonl", "\n".join(rows) + "\n")
        write_file(folder / "scores.json", json.dumps(result, indent=1, ensure_ascii=False))
        tagger.save_pretrained(folder / "tagger")
    return cell, False


def summarise(grid: Grid, cells: dict[tuple[str, str], list[Path]], title: str) -> dict[str, Any]:
    """All that the report shows, from the cells."""
    judged = "test" if grid.test else "dev"
    systems, counts, predictions = [], [], []
    for (encoder, head), folders in cells.items():
        scores = [json.loads((f / "scores.json").read_text("utf-8")) for f in folders]
        per_seed = [_read_predictions(f / f"{judged}.jsonl") for f in folders]
        gold = [row["gold"] for row in per_seed[0]]
        counts.append(sum(sentence_counts(gold, [r["predicted"] for r in rows]) for rows in per_seed))
        predictions.append(per_seed[0])
        record = scores[0]["record"]
        systems.append(
            {
                "name": f"{encoder} + {head}" if len(grid.heads) > 1 else encoder,
                "encoder": encoder,
                "head": head,
                "dev": _spread([s["dev"]["f1"] for s in scores]),
                **({"test": _spread([s["test"]["f1"] for s in scores])} if grid.test else {}),
                "per_type": _per_type(scores, judged),
                "encoder_parameters": record["encoder_parameters"],
                "head_parameters": record["head_parameters"],
                "train_seconds": _spread([s["record"]["train_seconds"] for s in scores]),
                "dev_curves": [s["record"]["dev_f1"] for s in scores],
                "layer_weights": record["layer_weights"],
                "notices": record["notices"],
            }
        )
    best = int(np.argmax([s[judged]["mean"] for s in systems]))
    for system, count in zip(systems, counts, strict=True):
        system["to_best"] = dataclasses.asdict(paired_bootstrap(count, counts[best]))
    results = {
        "title": title,
        "command": shlex.join(provenance()["command"]),
        "versions": provenance()["versions"],
        "signature": {"metric": "entity F1", "repair": REPAIR_RULE, "scheme": "BIO"},
        "judged_on": judged,
        "seeds": grid.seeds,
        "best": systems[best]["name"],
        "config": dataclasses.asdict(
            make_config(**grid.options, encoder=systems[0]["encoder"], head=systems[0]["head"])
        ),
        "data": {
            name: {"sentences": len(s), "name": data_name(s), "fingerprint": data_fingerprint(s)}
            for name, s in grid.data().items()
        },
        "systems": systems,
    }
    return {"results": results, "predictions": predictions}


def print_table(results: dict[str, Any]) -> None:
    """The table of a study, on standard output."""
    judged = [name for name in ("dev", "test") if name in results["systems"][0]]
    labels = list(results["systems"][0]["per_type"])[:6]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("encoder", "head", *(f"{n} F1" for n in judged), *labels, "LMs", "trained", "time"):
        table.add_column(name, justify="left" if name in ("encoder", "head") else "right", no_wrap=True)
    for s in results["systems"]:
        table.add_row(
            s["encoder"],
            s["head"],
            *(f"{s[name]['mean']:.2f} ± {s[name]['sd']:.2f}" for name in judged),
            *(f"{s['per_type'].get(label, {'f1': 0})['f1']:.1f}" for label in labels),
            f"{s['encoder_parameters'] / 1e6:.1f}M",
            f"{s['head_parameters'] / 1e6:.2f}M",
            f"{s['train_seconds']['mean']:.0f} s",
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _read_predictions(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _spread(values: Sequence[float]) -> dict[str, Any]:
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
        "values": list(values),
    }


def _per_type(scores: Sequence[dict[str, Any]], judged: str) -> dict[str, dict[str, float]]:
    labels = sorted({label for s in scores for label in s[judged]["per_type"]})
    empty = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "num_entities": 0}
    found = {label: [s[judged]["per_type"].get(label, empty) for s in scores] for label in labels}
    return {label: {key: statistics.fmean(row[key] for row in rows) for key in empty} for label, rows in found.items()}


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
