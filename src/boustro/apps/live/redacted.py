"""Redaction of files: from a row to the texts in it, and back.

    file = GivenFile(DataFile("tickets.csv"), named=("message",))
    file.check(in_folder=False)
    [row.slots for row in file.texts()]     a slot (`live.structured`) for each text; a checker fills them
    file.masked(row)                        what stands in the place of the row, for `text.written`

Of a row that cannot be read there is its `problem`; a file without it is written where it is left out. The labels of a
text by its characters are moved with the masks in it:

    {"text": "Ada Brandt left.", "entities": [[0, 10, "PER"]]}
    {"text": "[PER_1] left.", "entities": [[0, 7, "PER"]]}
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import chain, islice
from operator import getitem
from typing import Any

from boustro.apps.live.redactor import moved
from boustro.apps.live.structured import BodyTexts, JsonSlot, Slot, checked, filled, respelled, unescaped
from boustro.tasks import TEXT_KEYS, WORD_KEYS
from boustro.tasks.data.marks import Keys, Mark, find_marks
from boustro.tasks.data.named import no_column
from boustro.tasks.data.units import OffsetUnit, count_in, find_unit, place_span
from boustro.text.files import TABULAR, DataFile, Form
from boustro.text.rows import STRICT, file_ending, frame_cells, frame_records
from boustro.text.tables import FileRow
from boustro.text.words import plain_words
from boustro.text.written import WrittenFile
from boustro.types import Note

JOINED_WORDS = (
    "records in which one mask stands for several listed words, so that words and text do not fit; to train on them "
    "keep words with tags or text with places"
)


def form_with(file: DataFile, columns: Sequence[str]) -> Form:
    """Find what a file is; one whose name says nothing, and whose first line has these columns, is a table."""
    form = file.form()
    if form == "text" and columns and not file_ending(file.path):
        with suppress(ValueError):
            form = "separated" if {*columns} <= {*file.head("separated").keys} else form
    return form


@dataclass(eq=False, slots=True)
class SlotLabels:
    """The labels of a text: of each its characters `[start, end)`, the unit that it counts, and the slots of what says
    so, with what they say (`Mark.parts`)."""

    found: list[tuple[int, int, str, list[tuple[Slot, str]]]] = field(default_factory=list)

    def __call__(self, whole: Slot) -> None:
        """Move them with what is written in the text."""
        places = moved(whole.redactions, ((start, end) for start, end, *_ in self.found))
        for (start, end, unit, said), (first, last) in zip(self.found, places, strict=True):
            new = whole.result[first:last]
            counted = {"start": first, "end": last}
            for slot, says in said:
                if says == "text":
                    slot.result = slot.text if new == whole.text[start:end] else new
                else:
                    slot.result = count_in(whole.result[: counted[says]], unit)

    def joins(self, whole: Slot) -> bool:
        """Return whether words that are listed beside the text, or names without a place, have one mask together."""
        listed = {(start, end) for start, end, _, said in self.found if [says for _, says in said] == ["text"]}
        return len({*moved(whole.redactions, listed)}) < len(listed)


def labelled(tree: Any, reading: BodyTexts, place: str) -> Any:
    """Return JSON with slots for the texts whose parts it labels, and for these labels."""
    marks = marks_in(tree)
    return slot_labels(tree, reading, place, marks, lambda: unit_of(marks))


def marks_in(tree: Any, named: Sequence[str] = ()) -> list[Mark]:
    """Return the labels in JSON, or those of texts that stand under some of its keys."""

    def top(mark: Mark) -> str:
        return next((key for key in mark.of.keys if isinstance(key, str)), "")

    return [mark for mark in find_marks(tree, named) if not named or top(mark) in named]


def unit_of(marks: Iterable[Mark]) -> OffsetUnit:
    """Return the unit that labels count, all together."""
    return find_unit((str(mark.of.whole), [mark.span]) for mark in marks if mark.may_differ)


def slot_labels(
    tree: Any, reading: BodyTexts, place: str, marks: Iterable[Mark], unit: Callable[[], OffsetUnit]
) -> Any:
    """Return JSON with slots for the texts of these marks, and for what the marks say."""
    made: dict[Keys, Any] = {}
    for mark in marks:
        (keys, whole), span = mark.of, mark.span
        said = list[tuple[Slot, str]]()
        if isinstance(whole, list):
            part = " ".join(whole[span.start : span.end])
        else:
            found = place_span(span, whole, unit() if mark.may_differ else OffsetUnit())
            if found is None:
                continue
            name, (start, end) = found
            text = made[keys] = made.get(keys) or reading.slot(whole, place, str(keys[-1]))
            text.follow = text.follow or SlotLabels()
            text.follow.found.append((start, end, name, said))
            part = whole[start:end]
        for at, says in mark.parts.items():
            value = reduce(getitem, at, tree)
            if says != "label" or (isinstance(value, str) and not _may_be_name(value, part)):
                number = None if isinstance(value, str) else value
                made[at] = Slot(str(value), place, number=number, result=value)
                said += [(made[at], says)] if says != "label" else []
    return put_values(tree, made)


def _may_be_name(label: str, part: str) -> bool:
    """Return whether a label is no name of a type but what stands in the text."""
    one, other = {*plain_words(label)}, {*plain_words(part)}
    return bool(one and other) and (one <= other or other <= one)


def put_values(
    tree: Any, made: Mapping[Keys, Any], other: Callable[[Any], Any] = lambda one: one, keys: Keys = ()
) -> Any:
    """Return JSON with what was made for some places, and what `other` makes of the values elsewhere."""
    if keys in made:
        return made[keys]
    if isinstance(tree, dict):
        return {name: put_values(one, made, other, (*keys, name)) for name, one in tree.items()}
    if isinstance(tree, list):
        return [put_values(one, made, other, (*keys, number)) for number, one in enumerate(tree)]
    return other(tree)


@dataclass(eq=False)
class RedactedRow:
    """A row with the texts to check.

    Attributes:
        row: The row as it was read.
        file: Its file.
        slots: The texts to check.
        ends: Where the slots of each record end, where the row is a whole data frame in JSON.
        values: What stands in its place: of JSON values, else a line, or the cells of some columns; slots where there
            are texts.
        whole: All that the row has, as a text.
        is_end: Whether the file cannot be read on.
    """

    row: FileRow
    file: "GivenFile"
    slots: Sequence[Slot] = ()
    values: Any = ()
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
        self.number, self.named, self.kept, self.shown = number, named, kept, shown
        self._left, self._moved = list[str](), set[str]()

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
        self._left = [key for key in keys if key not in chosen]

    def texts(self) -> Iterator[RedactedRow]:
        """Yield all rows, also those that cannot be read; `ValueError` for a file that cannot be read on."""
        rows, path = self.rows(), str(self.file.path)
        first = [*islice(rows, 2)]
        is_frame = self.form == "json" and len(first) == 1 and len(first[0].value) == 1
        for row in chain(first, rows):
            try:
                made = self._of_json(row, is_frame) if self.form == "json" else self._of_texts(row)
            except (ValueError, RecursionError) as error:
                too_deep = f"{row.place}: JSON that is nested too deep to be read"
                problem = str(error) if isinstance(error, ValueError) else too_deep
                made = RedactedRow(row._replace(problem=problem), self)
            if made.row.problem and self.shown:
                said = {name: getattr(made.row, name).replace(path, self.shown) for name in ("place", "problem")}
                made.row = made.row._replace(**said)
            yield made
        if left := [key for key in self._left if key not in self._moved]:
            self.notes.append(Note(f"tables with columns that are not read and stay: {', '.join(left)}", path))

    def _of_texts(self, row: FileRow) -> RedactedRow:
        """Return a line, or a row of a table; what is no text in its columns is no slot."""
        if row.problem:
            return RedactedRow(row, self)
        reading = BodyTexts()
        if row.is_line:
            values: Any = reading.text(row.value, row.place) if row.value else row.value
            return RedactedRow(row, self, reading.slots, values, row.spelled)
        tree, values = self._labelled(self._cells(row), reading, row.place, self.columns), {}
        for key, cell in row.value.items():
            match tree[key]:
                case str() as text if text and key in self.columns:
                    tree[key] = reading.text(text, row.place)
                case list() | dict() | Slot() as one if key in self.columns:
                    tree[key] = checked(one, reading, row.place, key)
            if key in self.columns or key in self._moved:
                is_json = isinstance(cell, str) and isinstance(tree[key], (list, dict))
                values[key] = JsonSlot(cell, tree[key], []) if is_json else tree[key]
        text = "\n".join(str(value) for value in row.value.values() if value is not None)
        return RedactedRow(row, self, reading.slots, values, text)

    def _cells(self, row: FileRow) -> dict[str, Any]:
        """Return a row of a table with the values of cells that hold JSON, but for those of texts."""
        cells = dict(row.value)
        for key, cell in cells.items():
            if (key not in self.columns or key in WORD_KEYS) and isinstance(cell, str) and cell[:1] in ("[", "{"):
                with suppress(ValueError, RecursionError):
                    cells[key] = json.loads(cell, **STRICT)
        return cells

    def _labelled(self, tree: Any, reading: BodyTexts, place: str, named: Sequence[str] = ()) -> Any:
        """Return JSON with slots for labels, as `labelled`, by the unit of the file."""
        marks = marks_in(tree, named)
        self._moved |= {at[0] for mark in marks for at in mark.parts}
        return slot_labels(tree, reading, place, marks, lambda: self._unit)

    @cached_property
    def _unit(self) -> OffsetUnit:
        """The unit of all labels of the file together."""
        return unit_of(self._all_marks())

    def _all_marks(self) -> Iterator[Mark]:
        for row in WrittenFile(self.file, self.form, self.columns).rows():
            is_json, trees = self.form == "json", list[Any]()
            for value in row.value if is_json else ():
                trees += frame_records(value) or [value]
            trees += [] if is_json or row.problem else [self._cells(row)]
            with suppress(RecursionError):  # which is said when the row is read
                yield from (mark for tree in trees for mark in marks_in(tree, self.columns or self.named))

    def _of_json(self, row: FileRow, may_be_frame: bool) -> RedactedRow:
        reading, trees, ends = BodyTexts(halves=True, first=self._labelled), [], list[int]()
        for one in row.value:
            if may_be_frame and (cells := frame_cells(one)):
                trees.append(self._frame(one, cells, ends, reading, row.place))
            else:
                tree = self._labelled(one, reading, row.place, self.named)
                trees.append((self._chosen if self.named else checked)(tree, reading, row.place))
        return RedactedRow(row, self, reading.slots, trees, unescaped(row.spelled)[0], ends=ends)

    def _frame(
        self, value: Any, cells: Sequence[Mapping[str, Any]], ends: list[int], reading: BodyTexts, place: str
    ) -> Any:
        """Return a data frame, whose records are rows as those of a table are; `ends` gets where the slots of each
        end. Names of columns are not read, names of rows are."""
        made: dict[Keys, Any] = {(name,): value[name] for name in ("columns", "schema") if name in value}
        for record in cells:
            self._refuse_missing(record, place)
            values = {name: reduce(getitem, keys, value) for name, keys in record.items()}
            tree = self._labelled(values, reading, place, self.named)
            for name, keys in record.items():
                is_read = name in (self.named or record)
                made[keys] = checked(tree[name], reading, place, name) if is_read else tree[name]
            ends.append(len(reading.slots))
        return put_values(value, made, lambda one: one if self.named else checked(one, reading, place))

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
        if any(isinstance(slot.follow, SlotLabels) and slot.follow.joins(slot) for slot in given.slots):
            self.notes.append(Note(JOINED_WORDS, given.row.place))
        if self.form == "json":
            is_changed = any(slot.is_changed for slot in given.slots)
            return respelled(given.row.spelled, given.values) if is_changed else given.row.spelled
        return filled(given.values)
