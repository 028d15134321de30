"""The forms that answers are written in, and that `--reads` names: one table.

FORMS["csv"].endings           (".csv",)
form_at(Path("o.feather"))     FORMS["arrow"]
"""

from pathlib import Path
from typing import NamedTuple

from boustro.tasks import TOOL_FORMATS
from boustro.text.files import Form
from boustro.text.rows import COLUMN_FILES, CONLLU_FILES, JSON, JSON_LINES, WORKBOOKS
from boustro.text.separated import Dialect


class FileForm(NamedTuple):
    """A form of a file.

    Attributes:
        name: How options name it.
        endings: Those of files that are written in it; the first is shown.
        shown: How answers are shown there, one of the task's `formats` or a table.
        held: What `text.files` calls it, where it is read.
        repeats: Whether the rows are repeated with their answers.
        dialect: How a table of cells is written by default.
        grows: Whether a file can go on where it was; else it is made of JSON lines in the end (`table`).
        between: Whether what stands there is one value of JSON, with commas between the answers.
        of_folders: Whether the answers to a folder of files can have it.
    """

    name: str
    endings: tuple[str, ...] = ()
    shown: str = ""
    held: Form | None = None
    repeats: bool = False
    dialect: Dialect | None = None
    grows: bool = True
    between: bool = False
    of_folders: bool = False


FORMS = {
    form.name: form
    for form in (
        FileForm("csv", (".csv",), "csv", repeats=True, dialect=Dialect()),
        FileForm("tsv", (".tsv",), "tsv", repeats=True, dialect=Dialect(separator="\t")),
        FileForm("sheet", WORKBOOKS[:1], "sheet", repeats=True, dialect=Dialect(), grows=False),
        FileForm("jsonl", JSON_LINES, "jsonl", "json", repeats=True, of_folders=True),
        FileForm("json", (JSON,), "jsonl", repeats=True, between=True),
        FileForm("parquet", (".parquet",), "jsonl", "columns", repeats=True, grows=False, of_folders=True),
        FileForm("arrow", (".arrow", ".feather"), "jsonl", "columns", repeats=True, grows=False, of_folders=True),
        FileForm("conll", tuple(e for e in COLUMN_FILES if e not in CONLLU_FILES), "conll", "conll"),
        FileForm("html", (".html", ".htm"), "html"),
        FileForm("text", (".txt",), "text", "text"),
        FileForm("conllu", held="conllu"),
        FileForm("xml"),
        *(FileForm(name, shown=name, between=True) for name in TOOL_FORMATS),
    )
}
BY_ENDING = {ending: form for form in FORMS.values() for ending in form.endings}
OUT_ENDINGS = ", ".join(form.endings[0] for form in FORMS.values() if form.endings)


def form_at(path: Path | None) -> FileForm | None:
    """Return the form of a file that is written, by its name."""
    return None if path is None else BY_ENDING.get(path.suffix.lower())
