"""A study as one HTML file and as Markdown, both from results.json alone; the same results give the same bytes.

A section is a function from the results to blocks (`report.blocks`). A kind of study is a `StudyReport`: its verdict
and its sections. What the sections of several studies share is here too.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boustro.apps.studies.report.blocks import Code, Details, Prose, ReportBlock, Section, Table, to_markdown
from boustro.apps.studies.report.page import render_page
from boustro.errors import count_of

StudyResults = Mapping[str, Any]


@dataclass(frozen=True)
class StudyReport:
    """The report of one kind of study."""

    summary: Callable[[StudyResults], str]
    """The result in plain words (`plain`)."""
    verdict: Callable[[StudyResults], str]
    """Its statistics, in one sentence."""
    sections: tuple[Callable[[StudyResults], Section | None], ...]
    """None where a section does not fit the task."""

    def html(self, results: StudyResults, more: Sequence[Section] = ()) -> str:
        """Return the whole report; `more` are the caller's sections, inserted before the last one."""
        labels = sorted({"answer", *(label for s in results.get("systems", ()) for label in s["per_type"])})
        *body, last = filter(None, (section(results) for section in self.sections))
        return render_page(results, (self.summary(results), self.verdict(results)), [*body, *more, last], labels)

    def markdown(self, results: StudyResults) -> str:
        """Return the report without figures, whose numbers are in the tables; measured times come last."""
        parts = [f"# {results['title']}\n", f"{self.summary(results)}\n", f"{self.verdict(results)}\n"]
        made = filter(None, (make(results) for make in self.sections))
        for section in sorted(made, key=lambda s: s.key == "cost"):
            parts += [f"## {section.title}\n", *(text for block in section.blocks if (text := to_markdown(block)))]
        return "\n".join(parts)


def data_blocks(results: StudyResults) -> list[ReportBlock]:
    """Return the data, the command, and the cells that are missing."""
    task = results["task"]
    counted = {"examples": task["examples"], "words": "words", "entities": task["units"]}
    counted = {key: what for key, what in counted.items() if key != "entities" or task["units"] != task["examples"]}
    data = results["data"]
    files = {n: d["name"] if d["name"].startswith("hf:") else d["name"].rpartition("/")[2] for n, d in data.items()}
    rows = [[name, files[name], *(f"{d[key]:,}" for key in counted)] for name, d in data.items()]
    table = Table("The data", ["", "file", *counted.values()], rows)
    blocks: list[ReportBlock] = [table, Code(results["command"])]
    if results["missing"]:
        blocks.append(
            Details(count_of(len(results["missing"]), "cells are missing"), [Prose("; ".join(results["missing"]))])
        )
    return blocks


def made(results: StudyResults, *more: ReportBlock) -> Section:
    """Notices, settings and versions; `more` is inserted between notices and settings."""
    facts = {key: results[key] for key in ("options", "data", "signature", "versions")}
    notes = [Prose(f"Note: {notice}.", "note") for notice in results["notices"]]
    settings = Details("Settings, data and versions", [Code(json.dumps(facts, indent=1, ensure_ascii=False))])
    return Section("made", "How this report was made", [*notes, *more, settings])
