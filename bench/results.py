"""The tables of docs/results.md, as Markdown, from finished comparisons.

boustro compare --encoders starter --vary pooling=exit,exit+before … --out ablations --json pooling.json
python bench/results.py pooling.json layers.json

The results of a few-shot study (`boustro fewshot --json`) make a table with one column per K; those of a comparison
with `--grid` one with one column per head.
"""

import json
from pathlib import Path
from typing import Any

import tyro


def main(results: tyro.conf.Positional[tuple[Path, ...]], cases: bool = False, grid: bool = False) -> None:
    """Print a table for each study: every system, and its difference to the best, with a 95% interval.

    Args:
        results: Files written by `boustro compare --json` or `boustro fewshot --json`.
        cases: Print the counts of the case study instead.
        grid: Print encoders by heads instead.
    """
    for path in results:
        study = json.loads(path.read_text("utf-8"))
        print(f"<!-- {path.name} -->")
        make = shot_table if "draws" in study else case_table if cases else grid_table if grid else score_table
        print("\n".join(make(study)) + "\n")


def score_table(study: dict[str, Any]) -> list[str]:
    """Rows of Markdown: mean and standard deviation over seeds, and the difference to the best system."""
    judged = study["judged_on"]
    lines = [f"| system | {judged} F1 | behind the best (95%) | head parameters |", "|---|---:|---:|---:|"]
    for s in study["systems"]:
        gap = s["to_best"]
        behind = "" if gap is None else f"{gap['points']:.1f} ({gap['low']:.1f} to {gap['high']:.1f})"
        lines.append(f"| {s['name']} | {_mean(s[judged])} | {behind} | {s['head_parameters'] / 1e6:.2f}M |")
    return lines


def grid_table(study: dict[str, Any]) -> list[str]:
    """Rows of Markdown: encoders by heads, mean and standard deviation over seeds."""
    cells = {(s["encoder"], s["head"]): s[study["judged_on"]] for s in study["systems"]}
    encoders, heads = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for encoder in encoders:
        scores = " | ".join(_mean(cells[encoder, head]) for head in heads)
        lines.append(f"| {encoder} | {scores} |")
    return lines


def shot_table(study: dict[str, Any]) -> list[str]:
    """Rows of Markdown: mean and standard deviation over draws, one column per K, and the test against the best."""
    shots = sorted({s["shots"] for s in study["systems"]})
    lines = [f"| | {' | '.join(f'K = {k}' for k in shots)} |", "|---|" + "---:|" * len(shots)]
    rows: dict[str, dict[int, str]] = {}
    for s in study["systems"]:
        gap = s["to_best"]
        chance = "" if gap is None or gap["p"] is None else f" (p = {gap['p']:.3f})"
        rows.setdefault(s["line"], {})[s["shots"]] = _mean(s[study["judged_on"]]) + chance
    return [*lines, *(f"| {name} | {' | '.join(row.get(k, '') for k in shots)} |" for name, row in rows.items())]


def case_table(study: dict[str, Any]) -> list[str]:
    """Rows of Markdown: recall of both systems in each group of entities, and the numbers of fixed and broken ones."""
    first, second = study["pair"]
    lines = [f"| entities | how many | {first} | {second} | fixed | broken |", "|---|" + "---:|" * 5]
    for case in study["cases"]:
        seeds, (before, after) = case["num_seeds"], case["recall"]
        counts = [f"{case[key] / seeds:.0f}" for key in ("fixed", "broken")]
        lines.append(f"| {case['title']} | {case['entities']:,} | {before:.1f} | {after:.1f} | {' | '.join(counts)} |")
    return lines


def _mean(spread: dict[str, Any]) -> str:
    return f"{spread['mean']:.2f} ± {spread['sd'] or 0:.2f}"


if __name__ == "__main__":
    tyro.cli(main)
