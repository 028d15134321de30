"""The table and the figure of the README and of docs/starter.md, from finished comparisons.

    boustro compare --encoders starter-forward,starter-backward,starter --train train.txt --dev dev.txt \\
        --preset paper --out paper
    boustro compare --encoders starter-forward,starter-backward,starter --train train.txt --dev dev.txt --out default
    python bench/starter_table.py paper/results.json default/results.json --figure docs/figures/conll2003.svg
"""

import json
from pathlib import Path

import tyro

from boustro.apps.drawing import standalone
from boustro.apps.studies.report.charts import colour_names, score_dots
from boustro.store import write_file

READS = {"starter-forward": "forward only", "starter-backward": "backward only", "starter": "both"}


def main(paper: tyro.conf.Positional[Path], default: tyro.conf.Positional[Path], figure: Path) -> None:
    """Print the table as Markdown and write the figure."""
    studies = {name: json.loads(path.read_text("utf-8")) for name, path in (("paper", paper), ("default", default))}
    print("| settings | " + " | ".join(READS.values()) + " | gain of the pair over forward only |")
    print("|---|" + "---:|" * 4)
    systems = []
    for name, results in studies.items():
        by_encoder = {s["encoder"]: s["dev"] for s in results["systems"]}
        cells = [f"{by_encoder[e]['mean']:.2f} ± {by_encoder[e]['sd']:.2f}" for e in READS]
        gap = by_encoder["starter"]["mean"] - by_encoder["starter-forward"]["mean"]
        print(f"| {name} | " + " | ".join(cells) + f" | {gap:.1f} |")
        systems += [{"name": f"{name}, {READS[e]}", "encoder": e, "dev": by_encoder[e]} for e in READS]
    directions = colour_names(list(READS))  # a direction keeps its colour
    write_file(figure, standalone(score_dots(systems, "dev", {s["name"]: directions[s["encoder"]] for s in systems})))


if __name__ == "__main__":
    tyro.cli(main)
