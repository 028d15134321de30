"""`boustro demo`: the whole idea in a few minutes, on what is shipped, with no download.

Three taggers are trained on the shipped sample (one that reads forward, one that reads backward, one that
reads both ways) and compared; then the best one tags a few sentences.
What is slow to import is imported when the command runs, so that its help need not wait.
"""

import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from boustro.options import Count, check_options, command_line
from boustro.output import RunOptions, console
from boustro.store import write_file
from boustro.tasks.data import read_data
from boustro.tasks.render import as_terminal, in_brackets

ENCODERS = ("starter-forward", "starter-backward", "starter")
DEMO_TEXTS = (
    "Jordan said on Tuesday that he would not appeal.",
    "Jordan closed its border with Syria on Tuesday.",
    "Lindqvist and Okafor scored twice as Everton beat Leeds.",
    "Marseille signed the Brazilian striker from Santos for a record fee.",
    "The Ministry of Health in Nairobi thanked Doctor Amina Yusuf and the Red Cross.",
)


def demo(
    out: Path = Path("boustro-demo"), seeds: Count = 3, copy_sample: Path | None = None, cache: bool = True
) -> None:
    """Train taggers on the shipped sample, compare them, tag a few sentences and write a report.

    Args:
        out: Where taggers, tables and the report are written.
        seeds: Taggers per encoder.
        copy_sample: Copy the sample data to this folder and stop: messages to label, and the same messages labelled.
        cache: Keep the features on disk.
    """
    check_options(demo, locals())
    sample = files("boustro") / "data" / "sample"
    if copy_sample is not None:
        _copy(sample, copy_sample)
        return
    from boustro.apps.studies.compare.comparison import Comparison
    from boustro.apps.studies.core.cells import compute_cells
    from boustro.apps.studies.core.run import REPORTS, check_reports, print_table, write_report
    from boustro.apps.studies.report.blocks import EntityText, Section
    from boustro.tasks.tagger import Tagger

    check_reports(out, REPORTS)
    train, dev, test = (read_data(str(sample / f"{name}.conll")) for name in ("train", "dev", "test"))
    print(
        f"{len(train)} labelled sentences to train on, {len(dev)} to choose the epoch, {len(test)} to test; "
        "the language models stay frozen",
        file=sys.stderr,
    )
    grid = Comparison(
        encoders=ENCODERS,
        heads=("mlp",),
        seeds=seeds,
        options={},
        run=RunOptions(cache=cache),
        train=train,
        dev=dev,
        test=test,
        title="One direction or both?",
    )
    results = write_report(grid, compute_cells(grid, out), out)
    print_table(grid, results)
    print(f"\n{grid.report.summary(results)}\n{grid.report.verdict(results)}\n")
    tagger = Tagger.from_pretrained(next((out / "cells").glob("starter-mlp-1-*")) / "trained")
    tagged = list(zip(DEMO_TEXTS, tagger.predict(DEMO_TEXTS), strict=True))
    terminal = console(wrap=False)
    for text, entities in tagged:
        terminal.print(as_terminal(text, entities) if terminal.is_terminal else in_brackets(text, entities))
    shown = Section("raw", "Raw text, tagged both ways", [EntityText(text, entities) for text, entities in tagged])
    report = write_file(out / "report.html", grid.report.html(results, [shown]))
    print(f"\nreport: {report}")
    print("next: boustro demo --copy-sample sample", file=sys.stderr)


def _copy(sample: Traversable, folder: Path) -> None:
    """Write the files of the sample into a folder; what is there under another content is kept."""
    if folder.is_file():
        raise ValueError(f"{folder} is a file; name a folder for the sample")
    folder.mkdir(parents=True, exist_ok=True)
    contents = {folder / each.name: each.read_bytes() for each in sample.iterdir()}
    for path, content in contents.items():
        if path.exists() and path.read_bytes() != content:
            raise FileExistsError(f"{path} exists and is not the sample's, so it is kept; choose another folder")
    for path, content in contents.items():
        write_file(path, content)
    print(f"{folder}: {', '.join(sorted(path.name for path in contents))}", file=sys.stderr)
    said = command_line("label", folder / "orders.txt", labels=("PRODUCT", "ORDER", "DELAY"), out="labelled.jsonl")
    print(f"next: {said}", file=sys.stderr)
