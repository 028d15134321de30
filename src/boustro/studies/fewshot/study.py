"""`boustro fewshot`: how good is each encoder with a handful of labelled sentences?

Two protocols. *sound*: ten published draws of K sentences a type (`fewshot.draws`), the same for every encoder; a head
whose settings were fixed beforehand, or are chosen by leaving out training sentences; no development set;
mean and deviation over draws, and a paired test. *paper*: section 3.4 of the backward-LM paper, to place points on
its Figure 1: its filter, its head, a random search judged on the development set, the three best runs.

    boustro fewshot --encoders starter-forward starter --train train.txt --dev dev.txt --out shots

The features of each encoder are computed once; then hundreds of heads take minutes.
"""

import dataclasses
import json as json_module
import shlex
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from boustro import __version__
from boustro.metrics.paired import sign_flip_p
from boustro.metrics.spans import REPAIR_RULE, is_span_tag
from boustro.store import fingerprint, provenance, write_file
from boustro.studies.fewshot.cells import Task, cell_path, judge, paper_rows, read_cell, sound_rows, write_cell
from boustro.studies.fewshot.draws import DRAWS, entity_types, short_types
from boustro.studies.fewshot.features import UPPER, FeatureReader
from boustro.studies.fewshot.report import by_system, column_head, render_html, render_markdown, verdict
from boustro.studies.fewshot.systems import Settings, System, resolve_system
from boustro.studies.grid import encoder_fingerprint, short_specs
from boustro.tasks.commands import read_labelled
from boustro.tasks.data import data_name
from boustro.tasks.formats.conll import data_fingerprint
from boustro.tasks.formats.reading import DEFAULT_OPTIONS, DataOptions
from boustro.types import Sentence

PROTOCOLS: dict[str, dict[str, Any]] = {
    "sound": {
        "layers": UPPER,
        "pooling": None,
        "spacing": "natural",
        "context": "document",
        "standardise": True,
        "hidden": 512,
        "dropout": 0.3,
        "epochs": 20,
        "lr": 1e-3,
        "batch_sentences": 4,
        "weight_decay": 0.01,
        "dtype": None,
    },
    "paper": {  # sections 3.2 to 3.4
        "layers": "last",
        "pooling": "first",
        "spacing": "always",
        "context": "sentence",
        "standardise": False,
        "hidden": None,
        "dropout": 0.0,  # searched for, as the learning rate is
        "epochs": 20,
        "lr": 0.0,
        "batch_sentences": 4,
        "weight_decay": 0.01,
        "dtype": None,
    },
}
READING = ("layers", "pooling", "spacing", "context", "standardise", "dtype")


@dataclass(frozen=True, kw_only=True)
class ShotOptions:
    """What may be chosen about features and heads; what is not given is the protocol's."""

    layers: str | None = None
    """upper (the upper half, averaged), all, last, or numbers such as 2,3,4."""
    pooling: str | None = None
    """Where a word is read: exit, before, entry, first, last, mean, or several joined by +."""
    spacing: Literal["natural", "always"] | None = None
    """The space before a word: as in running text, or always."""
    context: Literal["sentence", "document"] | None = None
    """What an LM reads: the sentence alone, or the document around it, up to its window."""
    standardise: bool | None = None
    """Bring every layer and dimension to mean 0 and standard deviation 1."""
    hidden: int | None = None
    """Width inside the mlp."""
    dropout: float | None = None
    epochs: int | None = None
    lr: float | None = None
    batch_sentences: int | None = None
    weight_decay: float | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """By default the fastest."""

    def over(self, protocol: str) -> dict[str, Any]:
        """The protocol's settings with what was given put over them."""
        return PROTOCOLS[protocol] | {k: v for k, v in dataclasses.asdict(self).items() if v is not None}


def fewshot(
    encoders: tuple[str, ...],
    train: Path,
    dev: Path,
    out: Path,
    test: Path | None = None,
    shots: tuple[int, ...] = (4, 16, 64, 256),
    draws: int = 10,
    heads: tuple[Literal["auto", "ridge", "logistic", "lda", "linear", "mlp", "linear+crf", "mlp+crf"], ...] = (
        "auto",
    ),
    tags: tuple[Literal["auto", "bio", "io", "factored"], ...] = ("auto",),
    protocol: Literal["sound", "paper"] = "sound",
    budget: int = 30,
    options: ShotOptions = ShotOptions(),
    data_options: DataOptions = DEFAULT_OPTIONS,
    cache: bool = True,
    json: Path | None = None,
) -> None:
    """Train on K labelled sentences a type, for several K and draws, and compare encoders.

    Args:
        encoders: Specs of encoders, such as starter-forward starter.
        train: Labelled sentences to draw from; all of them, without labels, standardise the features.
        dev: Labelled sentences to judge by where there is no test set; they choose nothing but in the paper's protocol.
        out: Where cells, tables and the report are written; a study there goes on where it stopped.
        test: Labelled sentences to judge by.
        shots: Sentences a type, the K of K-shot.
        draws: How many; 1, 2, … are drawn (the paper's protocol has one).
        heads: Heads; auto is what measurement favours at each K.
        tags: What heads learn: bio, io (types alone), or factored (where an entity is, and what it is, apart).
        protocol: sound, or the paper's.
        budget: Runs of the paper's random search.
        cache: Keep the features on disk.
        json: Write the results there as well (- for standard output).
    """
    study = Study(
        encoders=tuple(dict.fromkeys(encoders)),
        shots=tuple(sorted(set(shots))),
        num_draws=1 if protocol == "paper" else draws,
        systems=(("mlp", "bio"),) if protocol == "paper" else tuple(dict.fromkeys((h, t) for h in heads for t in tags)),
        protocol=protocol,
        budget=budget,
        options=options.over(protocol),
        train=read_labelled(train, data_options),
        dev=read_labelled(dev, data_options),
        test=read_labelled(test, data_options) if test else None,
    )
    results = summarise(study, compute_cells(study, out, cache))
    text = json_module.dumps(results, ensure_ascii=False)
    write_file(out / "results.json", text)
    write_file(out / "report.md", render_markdown(results))
    write_file(out / "report.html", render_html(results))
    if json is not None and str(json) == "-":
        print(text)
    else:
        if json is not None:
            write_file(json, text)
        print_table(results)
    print(f"report: {out / 'report.html'}", file=sys.stderr)


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is compared, and on what. `ValueError` where there is nothing to learn or to compare."""

    encoders: tuple[str, ...]
    shots: tuple[int, ...]
    num_draws: int
    systems: tuple[tuple[str, str], ...]
    protocol: str
    budget: int
    options: dict[str, Any]
    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence] | None = None

    def __post_init__(self) -> None:
        if not (self.encoders and self.shots and self.num_draws > 0 and self.systems and self.budget > 0):
            raise ValueError("nothing to compare: give at least one encoder, one K, one draw and one head")
        if not entity_types(self.train):
            raise ValueError(
                f"{data_name(self.train)}: no word is labelled with an entity, so there is nothing to learn"
            )
        for sentences in self.data().values():
            strange = next((t for s in sentences for t in s.tags or () if not is_span_tag(t, "BIO")), None)
            if strange:
                raise ValueError(f"{data_name(sentences)}: the tag {strange!r} marks no entity, and entities are drawn")

    @property
    def judged_on(self) -> str:
        """test where there is one, else dev."""
        return "test" if self.test else "dev"

    def data(self) -> dict[str, list[Sentence]]:
        """The data sets by name; the sound protocol leaves dev alone where there is a test set."""
        uses_dev = self.protocol == "paper" or not self.test
        return {
            "train": self.train,
            **({"dev": self.dev} if uses_dev else {}),
            **({"test": self.test} if self.test else {}),
        }

    @cached_property
    def draws(self) -> dict[int, list[np.ndarray]]:
        """For every K the sentences of every draw."""
        return DRAWS[self.protocol](self.train, self.shots, self.num_draws)

    def task(self) -> Task:
        """What the cells need."""
        judged: dict[str, Sequence[Sentence]] = {n: s for n, s in self.data().items() if n != "train"}
        types = sorted({t for sentences in self.data().values() for t in entity_types(sentences)})
        return Task(self.train, types, judged)


def compute_cells(study: Study, out: Path, cache: bool | Path = True) -> list[dict[str, Any]]:
    """All cells, encoder by encoder, the missing ones computed; an encoder is loaded only where one is missing."""
    data = {name: data_fingerprint(sentences) for name, sentences in study.data().items()}
    task, draws = study.task(), study.draws
    cells = []
    for encoder in study.encoders:
        reader = judged = None
        for shots in study.shots:
            for system in dict.fromkeys(resolve_system(*s, shots) for s in study.systems):
                path = cell_path(
                    out,
                    encoder,
                    shots,
                    system,
                    weights=encoder_fingerprint(encoder),
                    options=study.options,
                    protocol=[study.protocol, study.budget if study.protocol == "paper" else None],
                    draws=fingerprint([d.tolist() for d in draws[shots]]),
                    data=data,
                )
                cell = read_cell(path)
                note = "known already"
                if cell is None:
                    if reader is None:
                        reading = {name: study.options[name] for name in READING}
                        reader = FeatureReader(encoder, study.train, cache=cache, **reading)
                        judged = judge(task, reader)
                    assert judged is not None
                    settings = Settings(**{f.name: study.options[f.name] for f in dataclasses.fields(Settings)})
                    on = judged[study.judged_on]
                    rows = (
                        paper_rows(task, reader, judged["dev"], on, draws[shots][0], settings, study.budget)
                        if study.protocol == "paper"
                        else sound_rows(task, reader, on, draws[shots], system, settings)
                    )
                    cell = {
                        "encoder": encoder,
                        "shots": shots,
                        "head": system.head,
                        "tags": system.tags,
                        "parameters": reader.encoder.num_parameters,
                        "notices": dict(+reader.encoder.counts),
                        "rows": rows,
                    }
                    write_cell(path, cell)
                    note = "computed"
                mean = statistics.fmean(row["f1"] for row in cell["rows"])
                print(f"K={shots} {encoder}, {system.name}: {study.judged_on} F1 {mean:.2f} ({note})", file=sys.stderr)
                cells.append(cell)
    return cells


def summarise(study: Study, cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All that the report shows, from the cells."""
    short = dict(zip(study.encoders, short_specs(study.encoders), strict=True))
    points = []
    for cell in cells:
        rows = cell["rows"]
        per_type = {
            label: [sum(row["per_type"][label][i] for row in rows) for i in range(3)] for label in rows[0]["per_type"]
        }
        points.append(
            {
                "name": short[cell["encoder"]],
                "encoder": cell["encoder"],
                "parameters": cell["parameters"],
                "shots": cell["shots"],
                "system": System(cell["head"], cell["tags"]).name,
                **{name: spread([row[name] for row in rows]) for name in ("f1", "precision", "recall")},
                "sentences": [row["sentences"] for row in rows],
                "words": [row["words"] for row in rows],
                "strengths": [row["strengths"] for row in rows if "strengths" in row],
                "runs": [row["run"] for row in rows if "run" in row],
                "per_type": per_type,
            }
        )
    for point in points:
        rivals = [p for p in points if (p["shots"], p["system"]) == (point["shots"], point["system"])]
        best = max(rivals, key=lambda p: p["f1"]["mean"])
        gaps = [b - own for b, own in zip(best["f1"]["values"], point["f1"]["values"], strict=True)]
        point["to_best"] = {
            "name": best["name"],
            "points": statistics.fmean(gaps),
            "p": sign_flip_p(gaps) if study.protocol == "sound" and best is not point else None,
        }
    notices = [f"{c['encoder']}: {count:,} {what}" for c in cells for what, count in c["notices"].items()]
    for shots, found in study.draws.items():
        for label, count in short_types(study.train, found[0], shots).items():
            notices.append(f"K = {shots}: only {count} sentences hold {label} and are fit to be drawn")
    return {
        "title": "Few labelled sentences",
        "stamp": "",
        "command": shlex.join(provenance()["command"]),
        "versions": provenance()["versions"],
        "signature": {
            "metric": "entity F1",
            "repair": REPAIR_RULE,
            "scheme": "BIO",
            "protocol": study.protocol,
            "version": f"boustro {__version__}",
        },
        "judged_on": study.judged_on,
        "protocol": study.protocol,
        "budget": study.budget if study.protocol == "paper" else None,
        "options": study.options,
        "data": {
            name: {"name": data_name(s), "sentences": len(s), "fingerprint": data_fingerprint(s)}
            for name, s in study.data().items()
        },
        "notices": list(dict.fromkeys(notices)),
        "points": points,
        "draws": {str(shots): [draw.tolist() for draw in found] for shots, found in study.draws.items()},
    }


def print_table(results: dict[str, Any]) -> None:
    """A row a system and encoder, a column a K, on standard output."""
    shots = sorted({p["shots"] for p in results["points"]})
    table = Table(box=None, header_style="bold", pad_edge=False)
    points = results["points"]
    table.add_column("encoder", no_wrap=True)
    for k in shots:
        table.add_column(column_head(points, k).replace(": ", "\n"), justify="right", no_wrap=True)
    for label, own in by_system(points).items():
        scores = {k: p["f1"] for k, p in own.items()}
        table.add_row(
            label, *(f"{scores[k]['mean']:.2f} ± {scores[k]['sd']:.2f}" if k in scores else "" for k in shots)
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    print(f"\n{verdict(results)}")


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation and the values."""
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "sd": sd, "values": list(values)}
