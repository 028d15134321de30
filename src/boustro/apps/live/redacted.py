"""Redaction of files: from a row to the texts in it, and back.

    file = GivenFile(DataFile("tickets.csv"), named=("message",))
    file.check(in_folder=False)
    [row.slots for row in file.texts()]     a slot (`live.structured`) for each text; a checker fills them
    file.masked(row)                        what stands in the place of the row, for `text.written`

Of a row that cannot be read there is its `problem`; a file without it is written where it is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from itertools import chain, islice
from operator import getitem
from typing import Any

from boustro.apps.live.structured import BodyTexts, Slot, checked, respelled, unescaped
from boustro.tasks import TEXT_KEYS
from boustro.tasks.data.named import no_column
from boustro.text.files import TABULAR, DataFile, Form
from boustro.text.rows import file_ending, frame_cells
from boustro.text.tables import FileRow
from boustro.text.written import WrittenFile
from boustro.types import Note


def form_with(file: DataFile, columns: Sequence[str]) -> Form:
    """Find what a file is; one whose name says nothing, and whose first line has these columns, is a table."""
    form = file.form()
    if form == "text" and columns and not file_ending(file.path):
        with suppress(ValueError):
            form = "separated" if {*columns} <= {*file.head("separated").keys} else form
    return form


@dataclass(eq=False)
class RedactedRow:
    """A row with the texts to check.

    Attributes:
        row: The row as it was read.
        file: Its file.
        slots: The texts to check.
        ends: Where the slots of each record end, where the row is a whole data frame in JSON.
        values: What stands in its place: of JSON values, else the cells of some columns; slots where there are texts.
        whole: All that the row has, as a text.
        is_end: Whether the file cannot be read on.
    """

    row: FileRow
    file: "GivenFile"
    slots: Sequence[Slot] = ()
    values: Sequence[Any] = ()
    whole: str = ""
    is_end: bool = False
    ends: Sequence[int] = ()

    @property
    def content(self) -> bytes:
        """Bytes of what was read, by which a row is known again."""
        return (self.row.problem or self.whole).encode(errors="surrogatepass")


class GivenFile(WrittenFile):
    """A file that is redacted.

    Args:
        number: Which of the files it is.
        named: The columns of a table, or keys of JSON, in which names are masked.
        kept: The columns that the folder of the tagger keeps, which are read where they are there.
        shown: How it is called in messages, where it is the copy of a stream.
    """

    def __init__(
        self, file: DataFile, number: int = 0, named: Sequence[str] = (), kept: Sequence[str] = (), shown: str = ""
    ) -> None:
        super().__init__(file, form_with(file, named))
        self.number, self.named, self.kept, self.shown, self._left = number, named, kept, shown, ""

    def check(self, in_folder: bool) -> None:
        """`ValueError`, before the work, for a table without the columns in which names are masked; one that cannot be
        read is left out of a folder."""
        try:
            heads = self.file.head(self.form).keys if self.form in TABULAR else ()
        except (ValueError, OSError):
            if not in_folder:
                raise
            return
        keys = [key for key in heads if key]
        chosen = [*self.named] or [key for key in self.kept if key in keys]
        chosen = chosen or next(([key] for key in TEXT_KEYS if key in keys), [])
        unknown = [name for name in chosen if name not in keys]
        if heads and (unknown or not chosen):
            rows = (row for _, row in self.file.open(self.form, notes=[]))
            raise no_column(str(self.file.path), unknown[:1] or TEXT_KEYS[:1], rows, keys)
        self.columns = chosen if heads else ()
        self._left = ", ".join(key for key in keys if key not in chosen)

    def texts(self) -> Iterator[RedactedRow]:
        """Yield all rows, also those that cannot be read; `ValueError` for a file that cannot be read on."""
        rows, path = self.rows(), str(self.file.path)
        first = [*islice(rows, 2)]
        is_frame = self.form == "json" and len(first) == 1 and len(first[0].value) == 1
        if self._left:
            self.notes.append(Note(f"tables with columns that are not read and stay: {self._left}", path))
        for row in chain(first, rows):
            made = self._of_json(row, is_frame) if self.form == "json" else self._of_texts(row)
            if made.row.problem and self.shown:
                said = {name: getattr(made.row, name).replace(path, self.shown) for name in ("place", "problem")}
                made.row = made.row._replace(**said)
            yield made

    def _of_texts(self, row: FileRow) -> RedactedRow:
        """Return a line, or a row of a table; what is no text in its columns is no slot."""
        if row.problem:
            return RedactedRow(row, self)
        reading, given = BodyTexts(), [row.value] if row.is_line else [row.value[key] for key in self.columns]
        values = [reading.text(value, row.place) if isinstance(value, str) and value else value for value in given]
        whole = [row.spelled] if row.is_line else row.value.values()
        text = "\n".join(str(value) for value in whole if value is not None)
        return RedactedRow(row, self, reading.slots, values, text)

    def _of_json(self, row: FileRow, may_be_frame: bool) -> RedactedRow:
        reading, trees, ends = BodyTexts(halves=True), [], list[int]()
        try:
            for one in row.value:
                if may_be_frame and (cells := frame_cells(one)):
                    trees.append(self._frame(one, cells, ends, reading, row.place))
                else:
                    trees.append((self._chosen if self.named else checked)(one, reading, row.place))
        except RecursionError:
            row = row._replace(problem=f"{row.place}: JSON that is nested too deep to be read")
        except ValueError as error:
            row = row._replace(problem=str(error))
        slots = [] if row.problem else reading.slots
        return RedactedRow(row, self, slots, trees, unescaped(row.spelled)[0], ends=ends)

    def _frame(
        self, value: Any, cells: Sequence[Mapping[str, Any]], ends: list[int], reading: BodyTexts, place: str
    ) -> Any:
        """Return a data frame, whose records are rows as those of a table are; `ends` gets where the slots of each
        end. Names of columns are not read, names of rows are."""
        made: dict[Any, Any] = {}
        for record in cells:
            self._refuse_missing(record, place)
            for name, keys in record.items():
                if name in (self.named or record):
                    made[keys] = checked(reduce(getitem, keys, value), reading, place, name)
            ends.append(len(reading.slots))

        def put(tree: Any, keys: tuple[Any, ...]) -> Any:
            if keys in made or keys in (("columns",), ("schema",)):
                return made.get(keys, tree)
            if isinstance(tree, dict):
                return {name: put(one, (*keys, name)) for name, one in tree.items()}
            if isinstance(tree, list):
                return [put(one, (*keys, number)) for number, one in enumerate(tree)]
            return tree if self.named else checked(tree, reading, place)

        return put(value, ())

    def _chosen(self, tree: Any, reading: BodyTexts, place: str) -> Any:
        """Return a record whose keys were chosen, or a list of records."""
        if isinstance(tree, list):
            return [self._chosen(one, reading, place) for one in tree]
        self._refuse_missing(tree, place)
        return {key: checked(v, reading, place, key) if key in self.named else v for key, v in tree.items()}

    def _refuse_missing(self, record: Any, place: str) -> None:
        missing = [key for key in self.named if not isinstance(record, dict) or key not in record]
        if missing:
            found = ", ".join(record) if isinstance(record, dict) else "no object"
            raise ValueError(f"{place}: no {missing[0]!r} (found: {found or 'nothing'})")

    def masked(self, given: RedactedRow) -> Any:
        """Return what stands in the place of a row whose slots are filled, see `WrittenFile`."""
        if self.form == "json":
            is_changed = any(slot.is_changed for slot in given.slots)
            return respelled(given.row.spelled, given.values) if is_changed else given.row.spelled
        results = [value.result if isinstance(value, Slot) else value for value in given.values]
        return results[0] if given.row.is_line else dict(zip(self.columns, results, strict=True))
