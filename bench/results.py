"""The tables of docs/results.md, as Markdown, from finished comparisons.

boustro compare --encoders starter --vary pooling=exit,exit+before … --out ablations --json pooling.json
python bench/results.py pooling.json layers.json
"""

import json
from pathlib import Path
from typing import Any

import tyro


def main(results: tyro.conf.Positional[tuple[Path, ...]], cases: bool = False) -> None:
    """Print a table for each study: every system, and how far it lies behind the best, with a 95% interval.

    Args:
        results: What `boustro compare --json` wrote.
        cases: Print the counts of the case study instead.
    """
    for path in results:
        study = json.loads(path.read_text("utf-8"))
        print(f"<!-- {path.name} -->")
        print("\n".join(case_table(study) if cases else score_table(study)) + "\n")


def score_table(study: dict[str, Any]) -> list[str]:
    """Rows of Markdown: mean and standard deviation over seeds, and the difference to the best system."""
    judged = study["judged_on"]
    lines = [f"| system | {judged} F1 | behind the best (95%) | head parameters |", "|---|---:|---:|---:|"]
    for s in study["systems"]:
        gap = s["to_best"]
        behind = "" if s["name"] == study["best"] else f"{gap['points']:.1f} ({gap['low']:.1f} to {gap['high']:.1f})"
        score = f"{s[judged]['mean']:.2f} ± {s[judged]['sd'] or 0:.2f}"
        lines.append(f"| {s['name']} | {score} | {behind} | {s['head_parameters'] / 1e6:.2f}M |")
    return lines


def case_table(study: dict[str, Any]) -> list[str]:
    """Rows of Markdown: recall of both systems in each group of entities, and how many change sides."""
    first, second = study["pair"]
    lines = [f"| entities | how many | {first} | {second} | fixed | broken |", "|---|" + "---:|" * 5]
    for case in study["cases"]:
        seeds, (before, after) = case["num_seeds"], case["recall"]
        counts = [f"{case[key] / seeds:.0f}" for key in ("fixed", "broken")]
        lines.append(f"| {case['title']} | {case['entities']:,} | {before:.1f} | {after:.1f} | {' | '.join(counts)} |")
    return lines


if __name__ == "__main__":
    tyro.cli(main)
