"""`boustro fewshot`: how good is each encoder with a handful of labelled sentences?

    boustro fewshot --encoders starter-forward starter --train train.txt --dev dev.txt --out shots

The features of each encoder are computed once; then hundreds of heads take minutes. `fewshot.study` tells the two
protocols. What is slow to import is imported when the command runs, so that its help need not wait.
"""

import dataclasses
import shlex
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Console
from rich.table import Table

from boustro import __version__
from boustro.metrics.significance import RELIABLE, holm, sign_flip_p
from boustro.metrics.spans import REPAIR_RULE
from boustro.options import Count, Dropout, Positive, PositiveOrZero, Range, Width, check_options
from boustro.output import as_json, check_output, give
from boustro.store import check_file, provenance, write_file
from boustro.studies.fewshot.draws import short_types
from boustro.studies.fewshot.report import by_system, choosing_f1, column_head, render_html, render_markdown, verdict
from boustro.tasks.commands import read_labelled
from boustro.tasks.data import data_name
from boustro.tasks.data.conll import data_fingerprint
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions

if TYPE_CHECKING:
    from boustro.studies.fewshot.study import Study

MOST_DRAWS = 10_000


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
    hidden: Width | None = None
    """Width inside the mlp."""
    dropout: Dropout | None = None
    epochs: Count | None = None
    lr: Positive | None = None
    batch_sentences: Count | None = None
    weight_decay: PositiveOrZero | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """By default the fastest."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a value that its option does not take."""
        check_options(self)

    def over(self, protocol: str) -> dict[str, Any]:
        """The protocol's settings with what was given put over them."""
        from boustro.studies.fewshot.study import PROTOCOLS

        return PROTOCOLS[protocol] | {k: v for k, v in dataclasses.asdict(self).items() if v is not None}


def fewshot(
    encoders: tuple[str, ...],
    train: Path,
    dev: Path,
    out: Path,
    test: Path | None = None,
    shots: tuple[Count, ...] = (4, 16, 64, 256),
    draws: Annotated[int, Range(1, MOST_DRAWS)] = 10,
    heads: tuple[Literal["auto", "ridge", "logistic", "lda", "linear", "mlp", "linear+crf", "mlp+crf"], ...] = (
        "auto",
    ),
    tags: tuple[Literal["auto", "bio", "io", "factored"], ...] = ("auto",),
    protocol: Literal["sound", "paper"] = "sound",
    budget: Count = 30,
    options: ShotOptions = ShotOptions(),
    data_options: DataOptions = DEFAULT_OPTIONS,
    cache: bool = True,
    dry_run: bool = False,
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
        dry_run: Say what would be computed and what it would cost, and stop.
        json: Write the results there as well (- for standard output).
    """
    from boustro.encoders import check_spec
    from boustro.studies.fewshot.plan import make_plan
    from boustro.studies.fewshot.study import Study, compute_cells
    from boustro.studies.plan import describe_plan

    check_options(fewshot, locals())
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
    for spec in study.encoders:
        check_spec(spec)
    check_output(json)
    if dry_run:
        plan = make_plan(study, out, cache)
        give(plan, json, lambda: print(describe_plan(plan)))
        return
    check_file(out / "results.json")
    results = summarise(study, compute_cells(study, out, cache))
    write_file(out / "results.json", as_json(results))
    write_file(out / "report.md", render_markdown(results))
    write_file(out / "report.html", render_html(results))
    give(results, json, lambda: print_table(results))
    print(f"report: {out / 'report.html'}", file=sys.stderr)


def summarise(study: "Study", cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All that the report shows, from the cells."""
    from boustro.studies.fewshot.systems import System
    from boustro.studies.grid import short_specs
    from boustro.studies.results import spread

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
    compare_points(points, tested=study.protocol == "sound")
    notices = [
        *study.notices(),
        *(f"{c['encoder']}: {count:,} {what}" for c in cells for what, count in c["notices"].items()),
    ]
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


def compare_points(points: list[dict[str, Any]], tested: bool) -> None:
    """Set every encoder against the best of its K and system, draw by draw; p-values are corrected for all together.

    Where runs were searched for on dev, the best is chosen there, else by the table itself: nothing else was judged.
    """
    tests = []
    for point in points:
        rivals = [p for p in points if (p["shots"], p["system"]) == (point["shots"], point["system"])]
        best = max(rivals, key=choosing_f1)
        gaps = [b - own for b, own in zip(best["f1"]["values"], point["f1"]["values"], strict=True)]
        tests.append(sign_flip_p(gaps) if tested and best is not point else None)
        point["to_best"] = {"name": best["name"], "points": statistics.fmean(gaps), "p": tests[-1]}
    for point, p in zip(points, holm(tests), strict=True):
        point["to_best"] |= {"p_holm": p, "reliable": p is not None and p < RELIABLE}


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
