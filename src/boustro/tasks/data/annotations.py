"""Exports of labelling tools, read as plain records; each tool's JSON is in its own file.

    {"data": {"text": "Ada left."}, "annotations": [{"result": […]}]}           Label Studio
    {"fields": {"text": "Ada left."}, "responses": {"entities": [{"value": …}]}}      Argilla
    →  {"text": "Ada left.", "entities": [{"start": 0, "end": 3, "label": "PER"}]}     for a tagger
    →  {"text": "Ada left.", "label": "news"}                                          for a classifier

The question (in Label Studio the control) is the only one whose answers suit the task, or the one that `--tag-column`
names; the text is under `text`, under the only key, or under `--word-column`. Of several annotations of a text the
first is read. Whatever is left out is a note.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

from boustro.choose import lazy
from boustro.errors import say_found, shorten
from boustro.tasks import TOOL_FORMATS
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions, Note, note_unread

Wanted = Literal["entities", "label"]
Numbered = Iterable[tuple[Any, Any]]
"""Records, each with its number or its place."""
UNANNOTATED = "records that nobody has annotated, left out"
UNREAD = "annotated records with an entity whose place in the text cannot be told, left out"
LABELLESS = "annotated records without a label, left out"
SEVERAL = "records with annotations that differ, of which the first is read"
ONLY_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
ADDRESSES = "texts that are only an address (URL), which is read and not what stands there"


@dataclass(frozen=True, slots=True)
class Unread:
    """Stands among the entities of a text for one whose place in it cannot be told."""

    why: str


@dataclass(frozen=True, slots=True)
class Exported:
    """A text, and what annotators say of it.

    Attributes:
        text: The text.
        answers: By question, one answer per annotation: a label, a list of labels, or a list of entities, which are
            `Unread` or dicts with start, end and label, perhaps with their own text.
        left: What it says besides that is no answer to any task here, such as relations of regions.
        annotated: Whether somebody has annotated the text, so that no answer to a question is one with nothing.
    """

    text: str
    answers: dict[str, list[Any]] = field(default_factory=dict)
    annotated: bool = False
    left: tuple[str, ...] = ()


class Tool(NamedTuple):
    """A labelling tool: whether a record is of its export, what the record says, and suggestions for it."""

    key: str
    """What all records of its export have; without it nothing is imported."""
    holds: Callable[[Any], bool]
    read: Callable[[Mapping[str, Any], str, str | None, list[Note]], Exported]
    suggest: Callable[..., dict[str, Any]]
    """A record with suggestions, of a text and its `entities` or its `labels`."""
    carry: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]
    """The same with what came with the text."""


def _tool(module: str, key: str) -> Tool:
    return Tool(key, *(lazy(f"boustro.tasks.data.{module}:{name}") for name in ("holds", "read", "suggest", "carry")))


TOOLS = {name: _tool(name, key) for name, key in zip(TOOL_FORMATS, ("data", "responses"), strict=True)}


def plain_records(
    records: Numbered,
    wanted: Wanted,
    notes: list[Note],
    options: DataOptions = DEFAULT_OPTIONS,
    place: Callable[[Any], str] = str,
) -> Numbered:
    """Records of a tool's export as plain records, see the module; other records as they are.

    Raises `ValueError`, with the place, for a record that is damaged, where several questions suit, and where
    nothing is annotated.
    """
    rest = iter(records)
    first = next(rest, None)
    if first is None:
        return ()
    tool = tool_of(first[1])
    if tool is None:
        return chain([first], rest)
    key = None if options.word_column is None else str(options.word_column)
    read = [(n, tool.read(record, place(n), key, notes)) for n, record in chain([first], rest)]
    question = _question([entry for _, entry in read], wanted, options, place(first[0]))
    others = ((n, [*entry.left, *(name for name, values in entry.answers.items() if any(values))]) for n, entry in read)
    note_unread(((place(n), [name for name in names if name != question]) for n, names in others), notes)
    answered = list(_answers(read, question, notes, place))
    if wanted == "entities":  # under the names that the options choose
        names = key or "text", str(options.tag_column or "entities")
        plain = [
            (n, dict(zip(names, (text, values[0] if values else []), strict=True))) for n, text, values in answered
        ]
    else:
        plain = list(_labels(answered, notes, place))
    if not plain:
        why = "".join(f"; {note}" for note in notes[:1])
        raise ValueError(f"{place(first[0])}: none of the {len(read):,} records is annotated for this task{why}")
    return plain


def tool_of(record: Any) -> Tool | None:
    """Return the tool that a record was exported from, if any."""
    keys = record if isinstance(record, Mapping) else ()
    return next((tool for tool in TOOLS.values() if tool.key in keys and tool.holds(record)), None)


def guess_wanted(records: Numbered) -> Wanted | None:
    """Return which answer a tool's export holds first, entities or a label; `None` for other records."""
    for _, record in records:
        tool = tool_of(record)
        if tool is None:
            return None
        for answers in tool.read(record, "", None, []).answers.values():
            for value in answers:
                if value:
                    return "entities" if _suits(value, "entities") else "label"
    return None


def _suits(value: Any, wanted: Wanted) -> bool:
    """Return whether an answer may be what is wanted: entities are dicts, labels texts; an empty list is either."""
    if isinstance(value, str):
        return wanted == "label"
    kind = (Mapping, Unread) if wanted == "entities" else str
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _question(read: list[Exported], wanted: Wanted, options: DataOptions, where: str) -> str | None:
    asked = {name: [v for each in read for v in each.answers.get(name, ())] for e in read for name in e.answers}
    suited = [name for name, values in asked.items() if all(_suits(value, wanted) for value in values)]
    if options.tag_column is not None:
        if (chosen := str(options.tag_column)) not in suited:
            raise ValueError(f"{where}: no {wanted} under {chosen!r} ({say_found(asked)})")
        return chosen
    suited = [name for name in suited if any(asked[name])] or suited
    if asked and not suited and wanted == "entities":
        raise ValueError(f"{where}: no {wanted}, but answers of another kind under {', '.join(map(repr, asked))}")
    if len(suited) > 1:
        advice = "; choose with --tag-column" if wanted == "entities" else "; leave one of them in the file"
        raise ValueError(f"{where}: answers under {', '.join(map(repr, suited))}{advice}")
    return suited[0] if suited else None


def _answers(
    read: list[tuple[Any, Exported]], question: str | None, notes: list[Note], place: Callable[[Any], str]
) -> Iterator[tuple[Any, str, list[Any]]]:
    """Yield (number, text, answers to the question) of the records that somebody has annotated and that can be read."""
    for number, entry in read:
        values = entry.answers.get(question or "", [] if entry.annotated else None)
        if values is None:
            notes.append(Note(UNANNOTATED, place(number)))
            continue
        if unread := next((one for one in values[0] if isinstance(one, Unread)), None) if values else None:
            notes.append(Note(UNREAD, place(number), unread.why))
            continue
        if any(value != values[0] for value in values):
            notes.append(Note(SEVERAL, place(number), f"{len(values)} annotations differ; the first is read"))
        yield number, entry.text, values


def _labels(
    answered: list[tuple[Any, str, list[Any]]], notes: list[Note], place: Callable[[Any], str]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield one label each, or, where the question takes several, lists."""
    several = any(isinstance(value, list) and value for _, _, values in answered for value in values[:1])
    for number, text, values in answered:
        labels = [values[0]] if values and isinstance(values[0], str) else values[0] if values else []
        if several:
            yield number, {"text": text, "labels": labels}
        elif labels:
            yield number, {"text": text, "label": labels[0]}
        else:
            notes.append(Note(LABELLESS, place(number)))


def text_of(fields: Any, key: str | None, where: str) -> str:
    """Return the text among a record's fields: under `key`, under "text", or the only text there is.

    Raises `ValueError`, with the place, where there is none or where it is not clear which.
    """
    if not isinstance(fields, Mapping):
        raise ValueError(f"{where}: expected an object with the text, got {shorten(fields)}")
    texts = [name for name, value in fields.items() if isinstance(value, str)]
    name = key or ("text" if "text" in texts else texts[0] if len(texts) == 1 else None)
    if name not in texts:
        raise ValueError(f"{where}: no text under {name or 'text'!r} ({say_found(fields)}); choose with --word-column")
    return fields[name]


def note_address(text: str, where: str, notes: list[Note]) -> None:
    """A note where a text is only the address of one, as in exports of files."""
    if ONLY_ADDRESS.fullmatch(text.strip()):
        notes.append(Note(ADDRESSES, where, f"the text is {shorten(text.strip())}"))
