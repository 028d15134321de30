"""Redaction of structures, such as JSON and the bodies of requests: from a body to the texts in it, and back.

    reading = BodyTexts()
    tree = record({"model": plain, "prompt": text})({"model": "m", "prompt": "Ada left."}, reading, "")
    Checker(tagger).fill(reading.slots, masks)     # a slot for every text; the checker gives each its `result`
    filled(tree)                                   # {"model": "m", "prompt": "[PER_1] left."}
    Checker(tagger).json('{"to": "Ada"}', masks)   # '{"to": "[PER_1]"}'

A rule takes a value, a `BodyTexts` and the value's place. It returns the value as it may pass, with a `Slot` in place
of every text, or raises `Unchecked`. Nothing of the given body is passed on but what the rules return.

JSON hides letters: `{"to": "\\u0418"}` has none that a tagger knows. So JSON is read value by value, and a value that
is JSON again is read the same way, to any depth. Elsewhere escapes like `\\u0418` are read as the letters they mean.
"""

import hashlib
import json
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any
from urllib.parse import unquote

from boustro.apps.live.masks import Masks, Region, merged, name_parts, restore
from boustro.apps.live.redactor import (
    Redaction,
    Redactor,
    WordCount,
    Written,
    check_masked,
    moved,
    open_tagger,
    rewrite,
    whole_characters,
)
from boustro.choose import lazy
from boustro.names import SHIPPED_TAGGER
from boustro.tasks import WORD_KEYS
from boustro.text.rows import STRICT

PLAIN_NAME = re.compile(r"(?:[A-Za-z0-9_.:/+=$-]|@(?=[0-9])){0,4096}", re.ASCII)
"""What ids and names of models, roles and functions look like: no white space, and no address of a person."""
FIELD_NAME = re.compile(r"[a-z_$][A-Za-z0-9_-]{0,79}", re.ASCII)
"""What fields are called; a key of another form may be a name."""
SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[-+.\deE]*', re.ASCII)
"""A text or a number of JSON."""
URL_FIELD = r"[A-Za-z_$][\w.$\[\]-]{0,79}=[^\s&#\"'<>`\\]*"
ESCAPED_RUN = re.compile(
    rf"(?P<units>(?:\\+u[0-9a-fA-F]{{4}})+)|(?:\?|(?<![\w%&=+.$-])){URL_FIELD}(?:&(?:amp;)?{URL_FIELD})*", re.ASCII
)
"""Letters as codes, and URL-encoded fields, of which there are several, or a question mark before one."""
ENCODED = re.compile(r"(?:%[0-9A-Fa-f]{2})+|&(?:amp;)?|[?+]")
HALF = re.compile("[\ud800-\udfff]")
REMEMBERED_TEXTS = 20_000
"""Texts whose entities a checker remembers: a program sends its conversation again with every request."""

Rule = Callable[[Any, "BodyTexts", str], Any]


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
    """The number that the text stands for; it stays one unless something is removed from it."""
    result: Any = None
    redactions: tuple[Redaction, ...] = ()
    follow: Callable[["Slot"], None] | None = None
    """Gives results to the slots whose values depend on that of this one."""
    words: Sequence["Slot"] = ()
    """Those of a sentence of which this slot is the text; it stands nowhere itself."""

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
class BodyTexts:
    """Texts that were found in a body, and fields that were left out.

    Args:
        passed: Names of fields that pass although no rule is theirs.
        keep: Whether fields that are not known are an error where they hold text, as in a request, or are left out.
        wants_json: Whether the content of messages must be JSON.
        halves: Whether half a character, which JSON can escape, stays as it is; else it becomes `\ufffd`.
        first: A rule that makes slots of some values of JSON, before the others are read.
    """

    passed: Collection[str] = ()
    keep: bool = True
    wants_json: bool = False
    halves: bool = False
    first: "Rule | None" = None
    slots: list[Slot] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    """Names of fields that were left out."""

    def text(self, given: str, place: str, key: str = "", number: float | None = None) -> Slot:
        """Return a slot for a text."""
        self.slots.append(slot := self.slot(given, place, key, number))
        return slot

    def slot(self, given: str, place: str, key: str = "", number: float | None = None) -> Slot:
        """Return a slot for a text that is checked where it is met."""
        given = given if self.halves else whole_characters(given, last=True)[0]
        return Slot(given, place, key if PLAIN_NAME.fullmatch(key) else "", number)

    def sentence(self, given: Iterable[str], place: str) -> list[Slot]:
        """Return slots for words that are read as one text, without their key: with it a tagger masks more other words.

        `["Ms", "Ada", "Brandt's", "dog"]` → `["[PER_1]", "[PER_1]", "[PER_1]'s", "dog"]`
        """
        words = [self.slot(word, place) for word in given]
        self.text(" ".join(word.text for word in words), place).words = words
        return words

    def json(self, given: str, place: str, must: bool = True, key: str = "") -> Slot | JsonSlot:
        """Return a slot for a text that is JSON, or without `must` may be. What cannot be parsed is a text.

        Raises `Unchecked` where it must be JSON, is not, and has escapes, which hide letters.
        """
        try:
            tree = json.loads(given, **STRICT)
        except (ValueError, RecursionError):
            if must and "\\" in given:
                raise Unchecked(place, "is not complete JSON, so its escaped letters cannot be read") from None
            return self.text(given, place, key)
        if not must and not isinstance(tree, (dict, list)) and not (isinstance(tree, str) and "\\" in given):
            return self.text(given, place, key)
        before = len(self.slots)
        try:
            tree = checked(self.first(tree, self, place) if self.first else tree, self, place, key)
        except RecursionError:
            raise Unchecked(place, "is JSON that is nested too deep to be read") from None
        return JsonSlot(given, tree, self.slots[before:])


def filled(tree: Any) -> Any:
    """Return the tree with every slot's result in its place. Of two keys that came out the same the second gets a
    number."""
    match tree:
        case Slot():
            return tree.result
        case JsonSlot():
            return respelled(tree.text, tree.tree)
        case dict():
            return {name: filled(value) for (name, _), value in zip(_keys(tree), tree.values(), strict=True)}
        case list():
            return [filled(value) for value in tree]
    return tree


def _keys(tree: Mapping[Any, Any]) -> list[tuple[Any, bool]]:
    """Return the keys of an object, and whether each is another than was given."""
    made: dict[Any, bool] = {}
    for key in tree:
        name, number = filled(key), 1
        while (unused := name if number == 1 else f"{name}_{number}") in made:
            number += 1
        made[unused] = number > 1 or (isinstance(key, Slot) and key.is_changed)
    return [*made.items()]


def respelled(given: str, tree: Any) -> str:
    """JSON with the results of the slots of its tree, or of the list of its values; all else as it is spelled.

    `{ "to":"Ada", "n": 1.10 }` → `{ "to":"[PER_1]", "n": 1.10 }`
    """
    tokens, parts, at = SCALAR.finditer(given), [], 0

    def put(new: Any, is_changed: bool) -> None:
        nonlocal at
        token = next(tokens)
        if is_changed:
            parts.extend((given[at : token.start()], json.dumps(new, ensure_ascii="\\u" in token[0])))
            at = token.end()

    def walk(one: Any) -> None:
        match one:
            case dict():
                for (name, is_new), value in zip(_keys(one), one.values(), strict=True):
                    put(name, is_new)
                    walk(value)
            case list():
                for value in one:
                    walk(value)
            case Slot():
                put(one.result, one.is_changed)
            case JsonSlot():
                put(filled(one), any(slot.is_changed for slot in one.slots))
            case str() | int() | float() if not isinstance(one, bool):
                put(one, False)

    walk(tree)
    return "".join((*parts, given[at:]))


def plain(value: Any, reading: BodyTexts, place: str) -> Any:
    """Numbers, and words that look like ids or names of models; also in lists and objects."""
    match value:
        case None | bool() | int() | float():
            return value
        case str() if PLAIN_NAME.fullmatch(value):
            return value
        case list():
            return [plain(one, reading, f"{place}[{number}]") for number, one in enumerate(value)]
        case dict() if all(map(PLAIN_NAME.fullmatch, value)):
            return {key: plain(one, reading, place) for key, one in value.items()}
    raise Unchecked(place, "has text where a number or a short name is expected")


def numbers(value: Any, reading: BodyTexts, place: str) -> Any:
    """Return the numbers in objects, such as counts of tokens; all else is left out."""
    if isinstance(value, dict):
        return {key: numbers(one, reading, place) for key, one in value.items() if isinstance(one, (dict, int, float))}
    return value if isinstance(value, (int, float)) else None


def text_or_null(value: Any, reading: BodyTexts, place: str) -> Any:
    """Return a text, or null."""
    if value is not None and not isinstance(value, str):
        raise Unchecked(place, "is not a text")
    return reading.text(value, place) if value else value


def json_text(value: Any, reading: BodyTexts, place: str) -> Any:
    """Return a text that is JSON, as the arguments of a function."""
    if value is not None and not isinstance(value, str):
        raise Unchecked(place, "is not a text")
    return reading.json(value, place) if value else value


def texts(value: Any, reading: BodyTexts, place: str) -> Any:
    """Return a text or a list of texts."""
    rule = listed(text_or_null) if isinstance(value, list) else text_or_null
    return rule(value, reading, place)


def checked(value: Any, reading: BodyTexts, place: str, key: str = "") -> Any:
    """Anything: every text and number in it is a text to check, and so is a key that may be a name."""
    match value:
        case str():
            return reading.json(value, place, must=False, key=key) if value else value
        case int() | float() if not isinstance(value, bool):
            return reading.text(getattr(value, "digits", str(value)), place, key, value)
        case list() if key in WORD_KEYS and all(isinstance(one, str) and " " not in one.strip() for one in value):
            return reading.sentence(value, place)
        case list():
            return [checked(one, reading, place, key) for one in value]
        case dict():
            names = {name: name if FIELD_NAME.fullmatch(name) else reading.text(name, place) for name in value}
            return {names[name]: checked(one, reading, place, name) for name, one in value.items()}
        case Slot() if value.follow:
            reading.slots.append(value)
    return value


def nothing(value: Any, reading: BodyTexts, place: str) -> Any:
    """Null, or empty: what would hold the tokens of a text, or sound."""
    if value:
        raise Unchecked(place, "cannot be checked")
    return value


def listed(rule: Rule) -> Rule:
    """Return a list of what a rule takes, or null."""

    def read(value: Any, reading: BodyTexts, place: str) -> Any:
        if value is not None and not isinstance(value, list):
            raise Unchecked(place, "is not a list")
        return value and [rule(one, reading, f"{place}[{number}]") for number, one in enumerate(value)]

    return read


def record(fields: Mapping[str, Rule]) -> Rule:
    """Return an object with some of these fields, or null; see `BodyTexts` for others."""

    def read(value: Any, reading: BodyTexts, place: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Unchecked(place, "is not an object")
        copy = {}
        for name, one in value.items():
            if name in fields:
                copy[name] = fields[name](one, reading, f"{place}.{name}" if place else name)
            elif not reading.keep:
                reading.left_out |= {name} if one else set()
            elif name in reading.passed or not one or isinstance(one, (bool, int, float)):
                copy[name] = one
            else:
                shown = f"the field {name}" if FIELD_NAME.fullmatch(name) else "a field"
                raise Unchecked(place, f"has {shown}, which is not known here, so it cannot be checked")
        return copy

    return read


def by_type(rules: Mapping[str, Rule], what: str) -> Rule:
    """Return an object whose field `type` says what else it has."""

    def read(value: Any, reading: BodyTexts, place: str) -> Any:
        kind = value.get("type") if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in rules:
            shown = f" of the type {kind}" if isinstance(kind, str) and FIELD_NAME.fullmatch(kind) else ""
            raise Unchecked(place, f"is {what}{shown}, which cannot be checked")
        return rules[kind](value, reading, place)

    return read


class Checker:
    """Finds the entities of whole texts, and remembers them by a keyed hash, not the texts.

    Args:
        tagger: A `Tagger`, or anything with `types` and `predict`; or a folder, see `Redactor`.
        labels: Labels that count, see `Redactor`.
        write: See `Redactor`.
        delay: See `Redactor`.
        live: See `Redactor`.
        threshold: See `Redactor`.

    Attributes:
        counted: The words of all texts that were filled, and those that were removed.

    Raises `OptionError` for a label that the tagger does not have.
    """

    def __init__(
        self,
        tagger: Any = SHIPPED_TAGGER,
        labels: Collection[str] | None = None,
        write: Written = "mask",
        delay: int | None = 8,
        live: Callable[[Any, int | None], Any] | None = None,
        threshold: float | None = None,
    ) -> None:
        self.tagger, self.delay, self.live = open_tagger(tagger, labels, threshold), delay, live
        self._sure = self.tagger if getattr(self.tagger, "threshold", None) is None else self.tagger.with_threshold(1)
        """What reads numbers: many that are nobody's may be in a name, and one that is masked is no number any more."""
        self.counted = WordCount()
        self.write: Written = write
        self.labels = check_masked(labels, self.tagger)
        self._secret = os.urandom(32)
        self._known: OrderedDict[bytes, list[Region]] = OrderedDict()

    def redactor(self, masks: Masks) -> Redactor:
        """Return a redactor for one text that arrives in chunks."""
        options: Any = {"labels": self.labels, "write": self.write, "live": self.live}
        return Redactor(self.tagger, self.delay, masks=masks, **options)

    def json(self, given: str, masks: Masks) -> str:
        """JSON with its entities replaced, in the same text where there are none; `Unchecked` for what is no JSON."""
        reading = BodyTexts(first=lazy("boustro.apps.live.redacted:labelled"))
        tree = reading.json(given, "the text")
        self.fill(reading.slots, masks)
        return filled(tree)

    def regions(self, slots: Sequence[Slot]) -> list[list[Region]]:
        """Entities of each slot, over the characters of its text; many slots at once are faster than one by one.

        Raises what the tagger raises.
        """
        read, found = self._said(slots), []
        said = [(one, slot.number is not None) for slot, (one, _) in zip(slots, read, strict=True)]
        keys = [hashlib.blake2b(f"{sure:d}{one}".encode(), key=self._secret).digest() for one, sure in said]
        new = {key: one for key, one in zip(keys, said, strict=True) if key not in self._known and one[0].strip()}
        answers: dict[bytes, list[Region]] = {}
        for tagger, is_sure in ((self.tagger, False), (self._sure, True)):
            if some := {key: one for key, (one, sure) in new.items() if sure == is_sure}:
                answers |= zip(some, map(self._own, tagger.predict(list(some.values()))), strict=True)
        of_slots = [answers.get(key) or self._known.get(key) or [] for key in keys]
        for key in keys:
            self._known[key] = self._known.pop(key, None) or answers.get(key) or []
        while len(self._known) > REMEMBERED_TEXTS:
            self._known.popitem(last=False)
        for slot, regions, (said_of, places) in zip(slots, of_slots, read, strict=True):
            before = places[-1] - len(slot.text)  # characters before the text, which have no escapes
            inside = [Region(max(r.start, before), r.end, r.label, r.score) for r in regions if r.end > before]
            parts = name_parts(said_of, inside)
            found.append([Region(places[r.start] - before, places[r.end] - before, r.label, r.score) for r in parts])
        return found

    def fill(
        self,
        slots: Sequence[Slot],
        masks: Masks,
        names: Mapping[str, str] | None = None,
        regions: Sequence[Sequence[Region]] | None = None,
    ) -> None:
        """Give slots their results, in order; `names` are put back. No name gets a mask that any of their texts has.

        Raises what the tagger raises, which is not asked where the `regions` are known.
        """
        for said, _ in self._said(slots):
            masks.reserve(said)
        for slot, given in zip(slots, self.regions(slots) if regions is None else regions, strict=True):
            released = rewrite(slot.text, given, masks, self.write)
            slot.redactions = released.redactions
            self.counted += released.counted
            ends = accumulate((len(word.text) + 1 for word in slot.words), initial=0)
            places = moved(slot.redactions, ((start, end - 1) for start, end in pairwise(ends)))
            for word, (start, end) in zip(slot.words, places, strict=True):
                word.result = restore(released.text[start:end], names or {})
            slot.result = restore(released.text, names or {})
            if slot.number is not None and slot.result == slot.text:
                slot.result = slot.number
            if slot.follow:
                slot.follow(slot)

    @staticmethod
    def _said(slots: Sequence[Slot]) -> list[tuple[str, list[int]]]:
        """Return the text that the tagger is shown of each slot, and the places of its letters."""
        texts = (HALF.sub("\ufffd", slot.text) for slot in slots)
        named = zip(slots, texts, strict=True)
        return [unescaped(f"{slot.key.replace('_', ' ')}: {shown}" if slot.key else shown) for slot, shown in named]

    def _own(self, entities: Iterable[Any]) -> list[Region]:
        return merged(Region(e.start, e.end, e.label, e.score) for e in entities if e.label in self.labels)


def unescaped(given: str) -> tuple[str, list[int]]:
    """Return a text with the letters that its escapes mean, and where each of them, and its end, stands in the given
    one. URL-encoded fields are lines.

    `"to \\u0418!"` → `"to И!"`, `[0, 1, 2, 3, 9, 10]`
    `"?by=Ada+Li&n=1"` → `"\nby=Ada Li\nn=1"`
    """
    text, places, at = list[str](), list[int](), 0

    def put(letters: str, starts: Iterable[int], end: int) -> None:
        nonlocal at
        starts = list(starts)
        text.extend((given[at : starts[0]], letters))
        places.extend((*range(at, starts[0]), *starts))
        at = end

    for run in ESCAPED_RUN.finditer(given):
        if run["units"]:
            units = [(run.start() + m.start(), m[1]) for m in re.finditer(r"\\+u(.{4})", run[0])]
            spelled = b"".join(int(code, 16).to_bytes(2, "big") for _, code in units).decode("utf-16-be", "replace")
            starts = iter(start for start, _ in units)
            put(spelled, [(next(starts), ord(letter) > 0xFFFF and next(starts))[0] for letter in spelled], run.end())
        elif "&" in run[0] or run[0][0] == "?":
            for part in ENCODED.finditer(run[0]):
                start, end = run.start() + part.start(), run.start() + part.end()
                if (sign := part[0])[0] != "%":
                    put(" " if sign == "+" else "\n", [start], end)
                elif "\ufffd" not in (letters := unquote(sign)):
                    sizes = (3 * len(letter.encode()) for letter in letters[:-1])
                    shown = "".join(letter if letter.isprintable() else " " for letter in letters)
                    put(shown, accumulate(sizes, initial=start), end)
    return "".join([*text, given[at:]]), [*places, *range(at, len(given) + 1)]
