"""From JSON to the texts in it, and back: what may pass is listed, and all else is refused.

    reading = Reading()
    tree = record({"model": plain, "prompt": text})({"model": "m", "prompt": "Ada left."}, reading, "")
    reading.slots          # [Slot("Ada left.", "prompt")]; a checker gives each its `result`
    filled(tree)           # {"model": "m", "prompt": "[PER_1] left."}

A rule takes a value, a `Reading` and the value's place. It returns the value as it may pass, with a `Slot` in place of
every text, or raises `Unchecked`. Nothing of the given body is passed on but what the rules return: of two fields with
one name, say, only the one that was read.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from boustro.apps.live.redactor import Redaction, whole_characters

PLAIN = re.compile(r"(?:[A-Za-z0-9_.:/+=$-]|@(?=[0-9])){0,256}", re.ASCII)
"""What ids and names of models, roles and functions look like: no white space, and no address of a person."""
FIELD = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
STRUCTURE = frozenset(["type", "required", "format", "$ref", "$schema", "additionalProperties"])
"""What a JSON schema says of its form; the rest of it is text."""

Rule = Callable[[Any, "Reading", str], Any]


class Unchecked(ValueError):
    """Something that cannot be checked, and where it stands."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place or 'the body'} {problem}")
        self.place = place


@dataclass(eq=False, slots=True)
class Slot:
    """A text to check; `key` is the name that it has in an object, which helps a tagger to read it."""

    text: str
    place: str
    key: str = ""
    number: int | float | None = None
    """The number that the text stands for; it stays one unless something of it is left out."""
    result: Any = None
    redactions: tuple[Redaction, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether something else stands in its place."""
        return self.result != (self.text if self.number is None else self.number)


@dataclass(eq=False, slots=True)
class JsonSlot:
    """A text that is itself JSON, whose own texts are slots."""

    text: str
    tree: Any
    slots: list[Slot]


@dataclass
class Reading:
    """What was found in a body.

    Args:
        extra: Names of fields that may be there although no rule is theirs.
        keep: Whether these and other fields without text stay, as in a request, or are left out, as in an answer.
        wants_json: Whether the content of messages must be JSON.
    """

    extra: Collection[str] = ()
    keep: bool = True
    wants_json: bool = False
    slots: list[Slot] = field(default_factory=list)

    def text(self, given: str, place: str, key: str = "", number: float | None = None) -> Slot:
        """A slot for a text."""
        slot = Slot(whole_characters(given, last=True)[0], place, key if PLAIN.fullmatch(key) else "", number)
        self.slots.append(slot)
        return slot

    def json(self, given: str, place: str, must: bool = True) -> Slot | JsonSlot:
        """A slot for a text that is JSON, or without `must` may be. What cannot be parsed is a text.

        Raises `Unchecked` where it must be JSON, is not, and has escapes, which hide letters.
        """
        try:
            tree = read_json(given, _unique)
        except Unchecked:
            if must and "\\" in given:
                raise Unchecked(place, "is not complete JSON, so its escaped letters cannot be read") from None
            return self.text(given, place)
        if not must and not isinstance(tree, (dict, list)):
            return self.text(given, place)
        first = len(self.slots)
        tree = checked(tree, self, place)
        return JsonSlot(given, tree, self.slots[first:])


class Spelled(float):
    """A number that remembers how it was written: `2270661551.0`."""

    def __new__(cls, digits: str) -> "Spelled":
        made = super().__new__(cls, digits)
        if not math.isfinite(made):
            raise ValueError
        made.digits = digits
        return made

    digits: str


def read_json(given: str | bytes, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Strict JSON (no NaN, no endless nesting or digits); raises `Unchecked`."""

    def refuse(_: str) -> Any:
        raise ValueError

    try:
        return json.loads(given, parse_constant=refuse, parse_float=Spelled, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        raise Unchecked("", "is not JSON") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; `ValueError` for two fields of one name, of which only the last would be read."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def as_json(tree: Any) -> str:
    """The JSON of what passes."""
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


def as_bytes(tree: Any) -> bytes:
    """The same as UTF-8; of a character that was cut in half, a question mark is left."""
    return as_json(tree).encode("utf-8", "replace")


def filled(tree: Any) -> Any:
    """What passes, once every slot has its result."""
    match tree:
        case Slot():
            return tree.result
        case JsonSlot():
            return as_json(filled(tree.tree)) if any(slot.is_changed for slot in tree.slots) else tree.text
        case dict():
            return {filled(key): filled(value) for key, value in tree.items()}
        case list():
            return [filled(value) for value in tree]
    return tree


def plain(value: Any, reading: Reading, place: str) -> Any:
    """Numbers, and words that look like ids or names of models; also in lists and objects."""
    match value:
        case None | bool() | int() | float():
            return value
        case str() if PLAIN.fullmatch(value):
            return value
        case list():
            return [plain(one, reading, f"{place}[{number}]") for number, one in enumerate(value)]
        case dict() if all(map(PLAIN.fullmatch, value)):
            return {key: plain(one, reading, place) for key, one in value.items()}
    raise Unchecked(place, "has text where a number or a short name is expected")


def text(value: Any, reading: Reading, place: str) -> Any:
    """A text, or null."""
    if value is not None and not isinstance(value, str):
        raise Unchecked(place, "is not a text")
    return reading.text(value, place) if value else value


def json_text(value: Any, reading: Reading, place: str) -> Any:
    """A text that is JSON, as the arguments of a function."""
    if value is not None and not isinstance(value, str):
        raise Unchecked(place, "is not a text")
    return reading.json(value, place) if value else value


def texts(value: Any, reading: Reading, place: str) -> Any:
    """A text or a list of texts."""
    return listed(text)(value, reading, place) if isinstance(value, list) else text(value, reading, place)


def checked(value: Any, reading: Reading, place: str, key: str = "") -> Any:
    """Anything: every text and number in it is a text to check, and so is the name of a field that is no plain name."""
    match value:
        case str():
            return reading.text(value, place, key) if value else value
        case int() | float() if not isinstance(value, bool):
            return reading.text(getattr(value, "digits", str(value)), place, key, value)
        case list():
            return [checked(one, reading, place, key) for one in value]
        case dict():
            names = {name: name if PLAIN.fullmatch(name) else reading.text(name, place) for name in value}
            return {names[name]: checked(one, reading, place, name) for name, one in value.items()}
    return value


def schema(value: Any, reading: Reading, place: str) -> Any:
    """A JSON schema: its form passes, its descriptions, defaults and choices are texts to check."""
    match value:
        case dict():
            own = {}
            for name, one in value.items():
                is_form = name in STRUCTURE and not isinstance(one, dict)
                key = name if PLAIN.fullmatch(name) else reading.text(name, place)
                own[key] = (form if is_form else schema)(one, reading, place)
            return own
        case list():
            return [schema(one, reading, place) for one in value]
        case str() if value:
            return reading.text(value, place)
    return value


def form(value: Any, reading: Reading, place: str) -> Any:
    """What a schema says of its form; a word that is no plain name is a text to check."""
    if isinstance(value, list):
        return [form(one, reading, place) for one in value]
    return value if not isinstance(value, str) or PLAIN.fullmatch(value) else reading.text(value, place)


def nothing(value: Any, reading: Reading, place: str) -> Any:
    """Null, or empty: what would hold the tokens of a text, or sound."""
    if value:
        raise Unchecked(place, "cannot be checked")
    return value


def listed(rule: Rule) -> Rule:
    """A list of what a rule takes, or null."""

    def read(value: Any, reading: Reading, place: str) -> Any:
        if value is not None and not isinstance(value, list):
            raise Unchecked(place, "is not a list")
        return value and [rule(one, reading, f"{place}[{number}]") for number, one in enumerate(value)]

    return read


def record(fields: Mapping[str, Rule]) -> Rule:
    """An object with some of these fields, or null; see `Reading` for others."""

    def read(value: Any, reading: Reading, place: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Unchecked(place, "is not an object")
        own = {}
        for name, one in value.items():
            where = f"{place}.{name}" if place else name
            if name in fields:
                own[name] = fields[name](one, reading, where)
            elif name in reading.extra:
                own |= {name: one} if reading.keep else {}
            elif reading.keep and (not one or isinstance(one, (bool, int, float))):
                own[name] = one
            elif reading.keep or has_text(one):
                shown = f"the field {name}" if FIELD.fullmatch(name) else "a field"
                raise Unchecked(place, f"has {shown}, which is not known here, so it cannot be checked")
        return own

    return read


def by_type(rules: Mapping[str, Rule], what: str) -> Rule:
    """An object whose field `type` says what else it has."""

    def read(value: Any, reading: Reading, place: str) -> Any:
        kind = value.get("type") if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in rules:
            shown = f" of the type {kind}" if isinstance(kind, str) and FIELD.fullmatch(kind) else ""
            raise Unchecked(place, f"is {what}{shown}, which cannot be checked")
        return rules[kind](value, reading, place)

    return read


def has_text(value: Any) -> bool:
    """Whether a value holds a text that is not empty."""
    match value:
        case str():
            return bool(value)
        case list():
            return any(map(has_text, value))
        case dict():
            return any(map(has_text, value.values()))
    return False
