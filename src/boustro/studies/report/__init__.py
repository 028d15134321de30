"""A study as one HTML file and as Markdown, both from results.json alone; the same results give the same bytes.

A section is a function from the results to blocks (`report.blocks`), and one line in `SECTIONS`.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from boustro.studies.report.blocks import Code, Details, Prose, Section, to_markdown
from boustro.studies.report.learning import calibration, curves, layers
from boustro.studies.report.mistakes import confusions, mistakes
from boustro.studies.report.page import render_page
from boustro.studies.report.scores import compared, cost, scores, types, verdict
from boustro.studies.report.sentences import sentences
from boustro.studies.report.where import where

__all__ = ["render_html", "render_markdown", "verdict"]


def made(results: dict[str, Any]) -> Section:
    """Settings, versions, and what was noticed on the way."""
    facts = {key: results[key] for key in ("options", "data", "signature", "versions")}
    notes = [f"{s['name']}: {count:,} {what}" for s in results["systems"] for what, count in s["notices"].items()]
    settings = Details(
        "Settings that all systems share, data, versions", [Code(json.dumps(facts, indent=1, ensure_ascii=False))]
    )
    return Section("made", "How this was made", [*(Prose(f"Note: {n}.", "note") for n in notes), settings])


SECTIONS: tuple[Callable[[dict[str, Any]], Section], ...] = (
    compared,
    scores,
    types,
    mistakes,
    confusions,
    where,
    sentences,
    layers,
    curves,
    calibration,
    cost,
    made,
)


def render_html(results: dict[str, Any], more: Sequence[Section] = ()) -> str:
    """The whole report; `more` are sections of the caller's own, put before the last."""
    labels = sorted({label for s in results["systems"] for label in s["per_type"]})
    *body, last = (section(results) for section in SECTIONS)
    return render_page(results, verdict(results), [*body, *more, last], labels)


def render_markdown(results: dict[str, Any]) -> str:
    """The same without the figures, whose numbers stand in the tables; what a clock measured comes last."""
    parts = [f"# {results['title']}\n", f"{verdict(results)}\n"]
    for section in sorted((make(results) for make in SECTIONS), key=lambda s: s.key == "cost"):
        parts += [f"## {section.title}\n", *(text for block in section.blocks if (text := to_markdown(block)))]
    return "\n".join(parts)
