"""Labelled examples whose values have names: texts, pairs, sentences with senses.

PAIRS = RecordReader(what="pair", make=make, fields=TASKS["pair"].suits)

PAIRS.read("train.jsonl")      JSON lines, or a .json file with one list of records
PAIRS.read("train.csv")        CSV and TSV files with a head line; hf:NAME
PAIRS.read(frame)              data frames, data sets, any iterable of records

The keys or columns of texts and gold values are those of the task's fields, or those that the options choose. Which
task labelled data are for is guessed from their first records.
"""

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from statistics import fmean
from typing import Any, Generic, Literal, TypeVar

from boustro.choose import suggestion
from boustro.errors import say_found
from boustro.given import as_list, as_text, plain_value
from boustro.options import OptionError, option_words
from boustro.tasks import DEFAULT_TASK, LABEL_KEY, LABELS_KEY, PAIR_KEYS, TASKS, TEXT_KEYS, Fields
from boustro.tasks.data.reading import (
    ABOUT,
    ACCEPT,
    DEFAULT_OPTIONS,
    DataOptions,
    GoldFault,
    Note,
    accepted,
    as_dict,
    missing_file,
    name_of,
    note_unread,
    refuse_delimiter,
    refuse_tag_options,
    refuse_text_options,
    unread_fields,
    with_accepted,
)
from boustro.tasks.data.units import Offsets
from boustro.text.columns import LOOKED_AT
from boustro.text.files import DataFile, Rows

T = TypeVar("T")
Named = Iterable[tuple[str, Any]]
TEXT_NAMES = re.compile(
    r"(.*[_ .-])?(text|texto?|testo|tekst|message|msg|mail|body|content|comment|review|description|feedback|utterance|"
    r"nachricht|kommentar|inhalt|beschreibung|anfrage|mensaje|comentario|mensagem|coment[aá]rio|commentaire|messaggio|"
    r"commento|bericht)(e?s|e?n|i|e)?",
    re.IGNORECASE,
)
"""Names that columns of texts have, in the languages of spreadsheets."""
LABEL_NAMES = re.compile(
    r"(.*[_ .-])?(label|topic|class|categor(y|ie)|tag|intent|sentiment|stance|type|thema|kategorie|klasse|etikett|"
    r"etiqueta|categor[ií]a|tema|clase|classe|cat[eé]gorie|sujet|[eé]tiquette|etichetta|onderwerp|categorie)(e?s|n)?",
    re.IGNORECASE,
)
NO_TEXT = re.compile(r"\s*|[a-z]+://\S+|\S+@\S+|[\da-f-]{16,}|[\d.,:/ T+Z-]+|[\[{].*[\]}]", re.IGNORECASE | re.DOTALL)
"""Cells that may be long and are no text: addresses, hashes, numbers, dates, JSON."""


def rows_of(data: Any, what: str, options: DataOptions, notes: list[Note]) -> list[tuple[str, Any]]:
    """Return (place, record) pairs of labelled data in any form."""
    from boustro.tasks.data.tables import named_rows

    named = named_rows(data)
    if named is None and isinstance(data, (str, PathLike)):
        return _file_rows(DataFile.of(data), what, options, notes)
    if named is None:
        items = as_list(data, f"a file of labelled {what}s, or a list of them")
        return [(f"{what} {number} of the given data", item) for number, item in enumerate(items, start=1)]
    return named


def _file_rows(file: DataFile, what: str, options: DataOptions, notes: list[Note]) -> list[tuple[str, Any]]:
    path = file.path
    if not path.is_file() and not file.is_stream:
        raise missing_file(path, f"labelled {what}s are expected, as JSON lines or a table")
    rows = file.open(delimiter=options.delimiter, notes=notes, keys=options.text_column or None, otherwise="json")
    if rows.is_table:
        return _with_empty_texts([*rows.rows()])
    refuse_delimiter(options, path)
    return [(f"{path}:{number}", record) for number, record in rows.numbered()]


def _with_empty_texts(rows: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Rows of a table with an empty text for an empty cell of a column of texts, as a cell of CSV is read."""
    texts = {key for _, row in rows for key, value in row.items() if isinstance(value, str)}
    return [(where, row | {key: "" for key in texts if row[key] is None}) for where, row in rows]


@dataclass(frozen=True, kw_only=True)
class RecordReader(Generic[T]):
    """How the labelled records of a task become examples, see the module.

    Attributes:
        what: What an example is called in messages: "text", "pair", …
        make: An example of a record, its place and the notes; raises for a record that is none.
        fields: The keys of a record; where there are none, nothing is renamed or noted as not read.
        kind: The class of examples that were read before, which stay as they are.
        offsets: Where records have places in characters.
        annotated: What the exports of labelling tools are read for.
        survey: Looks at all records, with the first of them under the names that it had.
        rows: (place, record) pairs of data; by default in any form.
        has_columns: Whether options may name the columns of texts and labels, and the separator of a table, and tuples
            from Python are read.
        nothing: The message of data without an example.
        leaves_out: Whether a record whose label or score is missing is noted, and no example.
    """

    what: str
    make: Callable[[Any, str, list[Note]], T]
    fields: Fields
    kind: type | tuple[()] = ()
    offsets: Offsets | None = None
    annotated: Literal["entities", "label"] | None = None
    survey: Callable[[list[tuple[str, Any]], Any, list[Note]], None] = lambda named, first, notes: None
    rows: Callable[[Any, str, DataOptions, list[Note]], Named] = rows_of
    has_columns: bool = True
    nothing: str = ""
    leaves_out: bool = False

    def read(self, data: Any, options: DataOptions = DEFAULT_OPTIONS, notes: list[Note] | None = None) -> list[T]:
        """Read labelled examples; what is noticed, and the fields that are left, go to `notes`.

        Raises `FileNotFoundError`, `OptionError` for options that these data do not have, and `ValueError` with the
        place for a record that is none, and where there is no example.
        """
        notes = [] if notes is None else notes
        self.check(data, options)
        chosen = (*options.text_column, options.label_column)
        named = accepted(self.rows(data, self.what, options, notes), notes, chosen)
        if self.annotated == "label" and ACCEPT not in chosen:
            named = with_accepted(named)
        named = self._plain(named, notes, options)
        if self.fields.keys:
            known = {*self.fields.keys, *chosen}
            note_unread(((place, unread_fields(r, known)) for place, r in named if isinstance(r, Mapping)), notes)
        missing: list[GoldFault] = []
        made = [
            record if isinstance(record, self.kind) else self._made(record, where, notes, options, missing)
            for where, record in named
        ]
        examples = [example for example in made if example is not None]
        if missing and not examples:
            raise ValueError(str(missing[0]))
        if not examples:
            raise ValueError(f"{name_of(data)}: {self.nothing or f'no labelled {self.what}'}")
        return examples

    def _made(
        self, record: Any, where: str, notes: list[Note], options: DataOptions, missing: list[GoldFault]
    ) -> T | None:
        """Return an example, or `None` for one of the `missing`; its faults are said under the name that its column
        has."""
        try:
            return self.make(record, where, notes)
        except GoldFault as fault:
            said = fault if options.label_column is None else fault.under(options.label_column)
            if not self.leaves_out or not said.is_missing:
                raise ValueError(str(said)) from None
            notes.append(Note(f"{self.what}s without a {said.parts[1]}, left out", where, f"no {said.parts[1]}"))
            missing.append(said)
            return None

    def check(self, data: Any, options: DataOptions) -> None:
        """`OptionError` for options that these data do not have."""
        refuse_tag_options(options)
        if not self.has_columns:
            refuse_text_options(options)
            refuse_delimiter(options, data)

    def _plain(self, named: list[tuple[str, Any]], notes: list[Note], options: DataOptions) -> list[tuple[str, Any]]:
        """Return (place, record) pairs without a foreign form, under the names that the task reads, in code points."""
        from boustro.tasks.data.annotations import plain_records, tool_of

        if self.annotated and named and tool_of(named[0][1]):
            columns = DataOptions(word_column=next(iter(options.text_column), None), tag_column=options.label_column)
            return [*plain_records(named, self.annotated, notes, columns)]
        if not self.fields.keys:
            return named
        ask_for_columns(named, options, self.fields)
        *texts, gold = self.fields.parts
        renamed = under_names(named, options, texts if self.fields.texts else texts[:1], gold)
        if self.has_columns:
            renamed = [(where, as_dict(record, self.fields.parts)) for where, record in renamed]
        self.survey(renamed, named[0][1] if named else None, notes)
        return self.offsets.convert_all(renamed, notes) if self.offsets else renamed


def texts_under(
    record: Mapping[str, Any], texts: Sequence[tuple[str, ...]], where: str, has_option: bool = True
) -> dict[str, str]:
    """Return the texts of a record by their keys, the first of these rows of keys that it has.

    Raises `ValueError`, with the place, where a record has none of them, and for what is no text; `has_option` says
    whether the keys may be named.
    """
    if (keys := next((keys for keys in texts if all(key in record for key in keys)), None)) is None:
        advice = f"; name {'it' if len(texts[0]) == 1 else 'them'} with --text-column" * has_option
        raise ValueError(f"{where}: no {_say_keys(texts)} ({say_found(record)}){advice}")
    return {key: as_text(record[key], f"{where}: {key if len(keys) > 1 else 'the text'}") for key in keys}


def _say_keys(texts: Sequence[Sequence[str]]) -> str:
    return f"text{'s' * (len(texts[0]) > 1)} under {' or '.join(' and '.join(keys) for keys in texts)}"


def under_names(named: Named, options: DataOptions, texts: Sequence[str], gold: str) -> list[tuple[str, Any]]:
    """Return (place, record) pairs with the columns that the options choose under the names that a task reads.

    Raises `OptionError` for another number of columns than of `texts`, and `ValueError` where a record lacks one.
    """
    if options.text_column and len(options.text_column) != len(texts):
        raise OptionError(f"--text-column names {len(options.text_column)} columns; this task reads {len(texts)}")
    chosen = dict(zip(texts, options.text_column, strict=False))
    chosen |= {} if options.label_column is None else {gold: options.label_column}
    return [
        (where, _renamed(record, chosen, where) if isinstance(record, Mapping) else record) for where, record in named
    ]


def ask_for_columns(named: Sequence[tuple[str, Any]], options: DataOptions, fields: Fields) -> None:
    """`ValueError`, which asks for all columns at once with a proposal, where the first of (place, record) pairs has no
    text or no gold value, before the chosen columns have the names that a task reads."""
    where, first = named[0] if named else ("", None)
    chosen = [*options.text_column, *([] if options.label_column is None else [options.label_column])]
    texts, gold = fields.texts, [*fields.gold]
    if not texts or not gold or not isinstance(first, Mapping) or not {*chosen} <= first.keys():
        return
    no_text = not options.text_column and not any({*keys} <= first.keys() for keys in texts)
    no_gold = options.label_column is None and not any(key in first for key in gold)
    if not no_text and not no_gold:
        return
    wanted = [_say_keys(texts)] if no_text else []
    wanted += [f"{gold[0]} under {' or '.join(gold)}"] if no_gold else []
    records = (record for _, record in named[:LOOKED_AT] if isinstance(record, Mapping))
    rows = [{name: value for name, value in record.items() if name not in gold} for record in records]
    flags = [
        name for name in first if all(str(plain_value(row.get(name))) in ("0", "1", "True", "False") for row in rows)
    ]
    if len(flags) > 1 and not no_text:  # the reader of texts says what to do with a column for each label
        return
    proposed, label = propose_columns(rows, len(texts[0]), options.text_column)
    said = say_columns(
        where,
        options.text_column or proposed if chosen or no_text else (),
        (label or "LABEL") if no_gold else options.label_column,
    )
    raise ValueError(f"{where}: no {' and no '.join(wanted)} ({say_found(first)}){said}")


def propose_columns(
    rows: Iterable[Mapping[Any, Any]], num_texts: int = 1, known: Sequence[str] = ()
) -> tuple[list[str], str | None]:
    """Return the columns that are most likely the texts, where these are not known, and their label, by the first rows;
    none where none is likely.

    A text has long cells, and often a name such as message; a label has short ones that come again.
    """
    some = list(islice(rows, LOOKED_AT))
    cells = {name: [str(row[name]) for row in some if row.get(name) not in (None, "")] for name in (some or [{}])[0]}
    lengths = {n: fmean([0 if NO_TEXT.fullmatch(c) else len(c) for c in own] or [0]) for n, own in cells.items()}
    likely = {n: size * (4 if TEXT_NAMES.fullmatch(str(n)) else 1) for n, size in lengths.items() if size}
    texts = list(known) or sorted(sorted(likely, key=lambda n: -likely[n])[:num_texts], key=list(cells).index)
    labels = {}
    for name, own in cells.items():
        again = 1 - len({*own}) / len(own) if own else 0
        if name not in texts and own and max(map(len, own)) <= 40 and (again or LABEL_NAMES.fullmatch(str(name))):
            about, number = ABOUT.fullmatch(str(name)), all(cell.strip("+-").isdigit() for cell in own)
            labels[name] = bool(LABEL_NAMES.fullmatch(str(name))), not about, not number, again
    texts = texts if len(texts) == num_texts else []
    return [str(name) for name in texts], str(max(labels, key=lambda n: labels[n])) if labels else None


def no_column(
    where: str, wanted: Sequence[str], rows: Iterable[Mapping[Any, Any]], found: Iterable[Any] = ()
) -> ValueError:
    """Return the error for texts that are under other names, with the nearest name, or a proposal by the first rows;
    `found` are the names of a table without rows."""
    some = list(islice(rows, LOOKED_AT))
    names = [str(name) for name in (found or (some or [{}])[0])]
    near = next(filter(None, (suggestion(name, names) for name in wanted)), "")
    said = say_columns(where, propose_columns(some, len(wanted))[0])
    return ValueError(f"{where}: no column {' and '.join(map(repr, wanted))}{near} ({say_found(names)}){said}")


def say_columns(where: str, texts: Sequence[str], label: str | None = None) -> str:
    """Return how columns are named: as options of a command, or as arguments in Python for data that are given
    there."""
    if not texts and label is None:
        return ""
    if " of the given " in where or " of the data set" in where:
        text = repr(texts[0]) if len(texts) == 1 else repr(tuple(texts))
        said = ", ".join([*([f"text_column={text}"] if texts else []), *([f"label_column={label!r}"] if label else [])])
    else:
        said = shlex.join(option_words({"text_column": tuple(texts), "label_column": label}))
    return f"; name the column{'s' if len(texts) + bool(label) > 1 else ''}, such as {said}"


def _renamed(record: Mapping[str, Any], chosen: Mapping[str, str], where: str) -> Mapping[str, Any]:
    for column in chosen.values():
        if column not in record:
            near = suggestion(column, map(str, record))
            raise ValueError(f"{where}: no column {column!r}{near} ({say_found(record)})")
    return {**record, **{name: record[column] for name, column in chosen.items()}}


def guess_task(
    data: str | PathLike[str] | None, text_column: Sequence[str] = (), label_column: str | None = None
) -> str:
    """Return the first task that a file of JSON, CSV or TSV suits, as `TASKS` says; the default task for any other
    file, and where no record says more.

    A file whose columns of texts or labels are named is for texts or pairs.
    """
    texts = min(len(text_column) or 1, 2) if text_column or label_column else None
    named = next((name for name, entry in TASKS.items() if entry.num_texts == texts), DEFAULT_TASK)
    others = [name for name, entry in TASKS.items() if not entry.is_known_first]
    file = None if data is None else DataFile.of(data)
    if file is None or not file.path.is_file():
        if file is not None and file.is_stream:
            said = f"note: {file} is read only once, so its task is not found in it, and is {named}"
            print(f"{said}; --task names another", file=sys.stderr)
        return named
    try:
        rows = file.open()
        if rows.form != "json" and not rows.is_table:
            return named
        found = _looked_at(rows) if rows.is_table else file.first()
        if rows.form == "json":
            from boustro.tasks.data.annotations import guess_wanted, tool_of

            found = [record for _, record in with_accepted([("", record) for record in found])]
            if known := [name for name in TASKS if name not in others and TASKS[name].suits(_first_of(found))]:
                return known[0]
            if tool_of(found[0] if found else None) and (wanted := guess_wanted(rows.numbered())):
                return next(name for name, entry in TASKS.items() if entry.annotated == wanted)
        if rows.is_table and not texts:
            from boustro.tasks.data.tables import find_words, rows_of_words

            one_a_row = rows_of_words(file, DEFAULT_OPTIONS, [])
            if one_a_row and (words := find_words(one_a_row, tagged=False)) and words.tag:
                return DEFAULT_TASK
        keys = PAIR_KEYS[0] if len(text_column) > 1 else TEXT_KEYS[:1]
        chosen = DataOptions(text_column=tuple(text_column), label_column=label_column)
        records = [record for _, record in under_names([(str(file), one) for one in found], chosen, keys, LABEL_KEY)]
    except (OSError, ValueError):
        return named
    records = [record for record in records if isinstance(record, Mapping)]
    return next((name for name in others if any(map(TASKS[name].suits, records))), named)


def _looked_at(rows: Rows) -> list[dict[str, Any]]:
    """Return the columns of a table with a value in each, and, of its first rows, the lists that stand under `labels`
    alone: what it is for is seen by its names."""
    from boustro.tasks.data.texts import label_list

    named: dict[str, Any] = dict.fromkeys(filter(None, rows.keys), "1")
    if LABELS_KEY not in named:
        return [named]
    return [named | {LABELS_KEY: label_list(row[LABELS_KEY])} for _, row in islice(rows.rows(), LOOKED_AT)]


def _first_of(records: Sequence[Any]) -> Mapping[str, Any]:
    """Return the first record, or the first question of the only one, which is SQuAD's; an empty one where there is
    none."""
    with suppress(ValueError, StopIteration):
        if len(records) == 1 and isinstance(records[0], Mapping) and isinstance(records[0].get("data"), list):
            from boustro.tasks.questions.data import unfold

            records = [next(iter(unfold([("", records[0])], "")))[1]]
    return records[0] if records and isinstance(records[0], Mapping) else {}
