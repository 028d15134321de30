"""Inputs: what `predict` is given, checked, read from lines and from JSON, and split into examples.

TextInputs      a text                                            tag, classify, regress, embed
ObjectInputs    an object, or a tuple of its values               qa, sense
RecordInputs    the same, kept as it was given, with an example   pair, relation
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

from boustro.errors import say_found
from boustro.given import as_text, iterate
from boustro.tasks import TEXT_KEYS
from boustro.tasks.answers import InputPart
from boustro.tasks.data.reading import Note, warn_of
from boustro.tasks.data.units import Offsets
from boustro.text.rows import parse_record
from boustro.text.words import word_rule

SPLITTING = ("as_input", "parse_line", "parse_value", "split")
"""What splits texts into words."""


@dataclass(frozen=True, kw_only=True)
class TextInputs:
    """Texts.

    Attributes:
        split: Gives the examples of an input, which has a name, each with the places of its words.
        given: What an input is, for messages.
        example: An input as JSON has it.
        texts: The keys of its texts, which columns of a table may be named for.
        text_keys: All keys that they may have, each time together.
        as_examples: Checks examples that are answered; `ValueError`, with the place, for what is none.
        offsets: Where inputs have places in characters, which may be given in another unit.
    """

    split: Callable[[Any, str], Iterable[InputPart]]
    given: str = "a text"
    example: Any = "Ada Brandt flew to Port Lisse."
    texts: tuple[str, ...] = TEXT_KEYS[:1]
    text_keys: tuple[tuple[str, ...], ...] = tuple((key,) for key in TEXT_KEYS)
    as_examples: Callable[[Iterable[Any]], list[Any]] = list
    offsets: Offsets | None = None

    def as_input(self, given: Any, place: str) -> Any:
        """Return an input as the task needs it; `ValueError`, with the place, for anything else."""
        return as_text(given, place)

    def is_input(self, given: Any) -> bool:
        """Return whether this is a single input, and not several."""
        return isinstance(given, str)

    def labelled(self, given: Any, label: Any, place: str) -> Any:
        """Return an input and its label, given from Python, as `read` takes them; `ValueError` with the place.

        By default a tuple of both; a pair of texts becomes the first two of three.
        """
        return (*given, label) if isinstance(given, tuple) else (given, label)

    def parse_line(self, line: str, place: str) -> Any:
        """Return the input on a line of a file; `ValueError`, with the place, where there is none."""
        return line

    def parse_value(self, value: Any, place: str) -> Any:
        """Return the input that a JSON value stands for: a text, or an object with a `text`; `ValueError` for
        others."""
        if isinstance(value, Mapping):
            key = next((key for key in TEXT_KEYS if key in value), None)
            if key is None:
                raise ValueError(f"{place}: no text under 'text' ({say_found(value)})")
            value = value[key]
        return self.as_input(value, place)

    def check(self, inputs: Iterable[Any], first: int = 1) -> list[Any]:
        """Return inputs as `as_input` gives them; `ValueError` for what is none, with its number.

        `first` is the number of the first.
        """
        what, several = self.given.partition(" ")[2], f"{self.given} or several"
        named = [(f"{what} {n}", item) for n, item in enumerate(iterate(inputs, several), first)]
        if self.offsets is not None:
            notes: list[Note] = []
            named = self.offsets.convert_all(named, notes)
            warn_of(notes, "the given inputs")
        return [self.as_input(item, place) for place, item in named]

    def parts(self, inputs: Iterable[Any]) -> list[list[InputPart]]:
        """Return the examples of each of some inputs that were checked."""
        what = self.given.partition(" ")[2]
        return [list(self.split(item, f"{what} {number}")) for number, item in enumerate(inputs)]

    def by_rule(self, rule: int) -> Self:
        """Inputs whose texts are split into words by another rule."""
        made = copy.copy(self)
        vars(made).update({name: partial(by_rule, rule, getattr(self, name)) for name in SPLITTING})
        return made


@dataclass(frozen=True, kw_only=True)
class ObjectInputs(TextInputs):
    """Objects of JSON, and what `make` makes of them, which is an input too.

    Attributes:
        make: An input, from an object and its place; `ValueError` for what is none.
        kind: The class of what it makes.
        keys: Those of a tuple's values; none where no tuple is taken.
    """

    make: Callable[[Any, str], Any]
    kind: type
    keys: tuple[str, ...] = ()

    def as_input(self, given: Any, place: str) -> Any:
        return self.make(given, place)

    def is_input(self, given: Any) -> bool:
        is_tuple = isinstance(given, tuple) and len(given) == len(self.keys) > 0 and isinstance(given[0], str)
        return is_tuple or isinstance(given, (Mapping, self.kind))

    def parse_value(self, value: Any, place: str) -> Any:
        return self.as_input(value, place)

    def parse_line(self, line: str, place: str) -> Any:
        """Return a JSON object."""
        return self.parse_value(parse_record(line, place), place)


class GivenRecord(NamedTuple):
    """An input that is an object: as it was given, with all its keys, and as an example."""

    record: Mapping[str, Any]
    example: Any


def whole_record(given: GivenRecord, name: str) -> list[InputPart]:
    """Return the whole input as one example."""
    return [InputPart(given.example, getattr(given.example, "places", ()))]


@dataclass(frozen=True, kw_only=True)
class RecordInputs(ObjectInputs):
    """Objects that stay as they were given beside the examples that `make` makes of them."""

    split: Callable[[Any, str], Iterable[InputPart]] = whole_record
    kind: type = GivenRecord

    def as_input(self, given: Any, place: str) -> GivenRecord:
        if isinstance(given, GivenRecord):
            return given
        known = given if self.offsets is None else self.offsets.convert(given, self.offsets.unit([given]), place, [])
        example = self.make(known, place)
        return GivenRecord(given if isinstance(given, Mapping) else dict(zip(self.keys, given, strict=False)), example)


def by_rule(rule: int, read: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Call what reads texts, which are split into words by a rule."""
    with word_rule(rule):
        return read(*given, **options)
