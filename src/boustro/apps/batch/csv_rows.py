"""Answers as CSV for a spreadsheet: one row an entity, or one a text; the first line names the columns.

    place,label,entity,start,end,score,text
    a.txt:1,PER,Ada,0,3,0.98,Ada left Vellmar.
    a.txt:2,,,,,,It rained.                          a text without an entity has a row, too

A file is UTF-8 with a byte order mark, without which Excel takes it for another encoding; pandas, Boustro and most
programs leave the mark out. A cell of text that a spreadsheet would run as a formula, because it begins with = + - @, a
tab or a line end, gets an apostrophe before it. Cells and line ends are those of RFC 4180.

Source: OWASP, *CSV Injection*.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from boustro.text.documents import BYTE_ORDER_MARK

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
PLACE = "place"


def csv_head(columns: Sequence[str]) -> str:
    """The byte order mark and the line of names."""
    return BYTE_ORDER_MARK + csv_rows(PLACE, [columns])


def csv_rows(place: str, rows: Iterable[Sequence[Any]]) -> str:
    """The lines of an answer, each with the place of its text before it."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\r\n").writerows([_cell(place), *map(_cell, row)] for row in rows)
    return file.getvalue()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value
