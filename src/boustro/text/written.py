"""Files that are written again as they were, with other values in some of their rows.

    written = WrittenFile(DataFile("tickets.csv"), "separated", columns=["message"])
    rows = [*written.rows()]                                    # their values are records of the table
    written.write([(row, {"message": "…"}) for row in rows], place)

A CSV file keeps its separator, line ends and byte order mark, a workbook all but the cells that change, a parquet or
Arrow file its types and other columns, JSON all that stands between its values. A row that is left out is not written;
of a workbook its cells are empty.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from boustro.text.documents import BYTE_ORDER_MARK, read_ended
from boustro.text.files import IN_COLUMNS, DataFile, Form, Rows
from boustro.text.rows import JSON, JsonFault, file_ending, is_whole, parse_json, spelled_items
from boustro.text.tables import FileRow, TableRow
from boustro.types import Note

Pair = tuple[FileRow, Any]
"""A row, and what stands in its place: a line, JSON, or the values of some columns by their names."""


class WrittenFile:
    """A file, its rows, and the file with other rows.

    Args:
        columns: Those of a table in which other values may stand.

    Attributes:
        notes: What there is to say of how it was read last.
    """

    def __init__(self, file: DataFile, form: Form, columns: Sequence[str] = ()) -> None:
        self.file, self.columns = file, columns
        self.form: Form = form
        self.notes: list[Note] = []
        self._opening, self._closing, self._begun = "", "", False
        self._table: Rows | None = None
        self._left_out: list[int] = []

    def rows(self) -> Iterator[FileRow]:
        """Return all rows, also those that cannot be read, from the beginning; `ValueError` for a file that cannot be
        read on."""
        self.notes, self._begun = [], False
        return READERS["values" if self._is_whole else self.form](self)

    @property
    def head(self) -> str:
        """Text before the rows of a CSV or TSV file."""
        if self.form != "separated":
            return ""
        table = self.file.open(self.form, notes=[])
        head, dialect = table.columns, table.output_dialect
        start = BYTE_ORDER_MARK * dialect.has_mark + head.before
        return start + (dialect.as_given(head.row) if head.row else "")

    def line(self, row: FileRow, new: Any) -> str:
        """Return a row of a file that is text, as it was but for what is new."""
        if isinstance(row.value, TableRow):
            table, given, cells = self._table, row.value.given, [new.get(key, v) for key, v in row.value.items()]
            assert table is not None and table.dialect is not None and given is not None
            return f"{row.value.before}{table.dialect.respelled(given, cells)}{given.end}"
        before = row.before if self._begun or not self._is_whole else self._opening
        self._begun = True
        return f"{before}{new}{row.after}"

    @property
    def rest(self) -> str:
        """Text behind the last row, once all were read; all of it where no row is written."""
        if self._table is not None:
            return self._table.after
        return self._opening * (not self._begun) + self._closing

    def write(self, pairs: Iterable[Pair], place: Path) -> None:
        """Write these rows to a new file."""
        if self.form == "sheet":
            from boustro.text.workbooks import MORE_SHEETS, change_cells

            table, changed = self.file.open(self.form, notes=[]), {}
            for row, new in pairs:
                cells = ((number, row.value.get(key), new.get(key)) for number, key in enumerate(table.keys, start=1))
                changed[_number(row)] = {n: (old, text) for n, old, text in cells if text is not None and text != old}
            self.notes += change_cells(table.path, changed, self._left_out, place)
            stays = {MORE_SHEETS: f"{MORE_SHEETS} and stay"}
            self.notes = [replace(note, what=stays.get(note.what, note.what)) for note in self.notes]
        elif self.form == "columns":
            from boustro.text.columnar import columns_format, write_columns

            table = self.file.open(self.form, notes=[])
            write_columns(table.schema, self._batches(table, iter(pairs)), place, columns_format(table.path))
        else:
            with place.open("wb") as stream:
                stream.write(self.head.encode())
                stream.writelines(self.line(row, new).encode() for row, new in pairs)
                stream.write(self.rest.encode())

    def _batches(self, table: Rows, pairs: Iterator[Pair]) -> Iterator[Any]:
        import pyarrow

        for batch in table.batches():
            found, arrays = [new for _, new in islice(pairs, len(batch))], list(batch.columns)
            for key in dict.fromkeys(key for new in found for key in new):
                number = batch.schema.get_field_index(key)
                values = [new.get(key, old) for new, old in zip(found, arrays[number].to_pylist(), strict=True)]
                kind = batch.schema.field(number).type
                is_nested = pyarrow.types.is_nested(kind)
                arrays[number] = pyarrow.array(values, kind if is_nested else pyarrow.string()).cast(kind)
            yield pyarrow.Table.from_arrays(arrays, schema=batch.schema)
        next(pairs, None)  # which lets their reader end

    @property
    def _is_whole(self) -> bool:
        """Whether it is JSON that is not read by lines."""
        if self.form != "json" or file_ending(self.file.path) == JSON:
            return self.form == "json"
        lines = read_ended(self.file.path, None, source=self.file.source)
        return is_whole(self.file.path, next((said for line in lines if (said := line.line.strip())), ""))

    def _lines(self) -> Iterator[FileRow]:
        self.file.open(self.form).refuse_words()
        for line in read_ended(self.file.path, self.notes, source=self.file.source):
            before, value = BYTE_ORDER_MARK * line.has_mark, line.line.removeprefix(BYTE_ORDER_MARK)
            place = f"{self.file.path}:{line.number}"
            yield FileRow(place, value, True, line.problem, before=before, spelled=line.line, after=line.end)

    def _json_lines(self) -> Iterator[FileRow]:
        for line in read_ended(self.file.path, None, source=self.file.source):
            place, problem, values = f"{self.file.path}:{line.number}", line.problem, []
            if line.line.strip():
                try:
                    values = [parse_json(line.line, place)]
                except ValueError as error:
                    problem = str(error)
            spelled = BYTE_ORDER_MARK * line.has_mark + line.line
            yield FileRow(place, values, problem=problem, spelled=spelled, after=line.end)

    def _values(self) -> Iterator[FileRow]:
        """JSON of an array, or of values that follow each other."""
        try:
            given = b"".join(line for _, line in filter(None, self.file.source)).decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.file.path}: no UTF-8 at byte {error.start:,} ({error.reason})") from None
        text = given.removeprefix(BYTE_ORDER_MARK)
        is_array, at = text.lstrip()[:1] == "[", 0
        try:
            items = list(spelled_items(text, self.file.path, int(is_array)))
        except ValueError as error:
            if is_array or isinstance(error, JsonFault):
                raise
            yield from self._json_lines()  # of which one is broken
            return
        begin, end = (items[0][2], items[-1][3]) if items else (len(text), len(text))
        self._opening, self._closing = given[: len(given) - len(text)] + text[:begin], text[end:]
        for place, value, start, end in items:
            yield FileRow(place, [value], before=text[at:start], spelled=text[start:end])
            at = end

    def _records(self) -> Iterator[FileRow]:
        """Rows of a CSV file or a workbook."""
        self._table, self._left_out = self.file.open(self.form, notes=self.notes), []
        for row in filter(None, self._table.items()):
            if row.problem and self.form == "sheet":
                self._left_out.append(_number(row))
            yield row

    def _typed(self) -> Iterator[FileRow]:
        """Rows of a parquet or Arrow file, of the columns that may have texts."""
        import pyarrow

        def may_have_texts(kind: Any) -> bool:
            is_bytes = pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind)
            return not is_bytes and not pyarrow.types.is_primitive(kind)

        table, number = self.file.open(self.form, notes=self.notes), 0
        for key in self.columns:
            kind = given = table.schema.field(key).type
            while hasattr(kind, "value_type"):  # of a list, or of a dictionary of values
                kind = kind.value_type
            if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
                what = f"{table.path}: the column {key!r} has no texts but the type {given}"
                raise ValueError(f"{what}; name one with texts")
        for batch in table.batches():
            rows = batch.select([field.name for field in batch.schema if may_have_texts(field.type)]).to_pylist()
            for row in rows or [{}] * len(batch):
                number += 1
                yield FileRow(f"{table.path}: row {number}", row)


def _number(row: FileRow) -> int:
    """Return which row of a workbook it is, from 1."""
    return int(row.place.rpartition(" ")[2])


READERS: dict[str, Callable[[WrittenFile], Iterator[FileRow]]] = {
    "json": WrittenFile._json_lines,
    "values": WrittenFile._values,
    "separated": WrittenFile._records,
    "sheet": WrittenFile._records,
    "columns": WrittenFile._typed,
    **dict.fromkeys(("text", *IN_COLUMNS), WrittenFile._lines),
}
"""By form; words in columns are refused."""
