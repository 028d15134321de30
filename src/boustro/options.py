"""Ranges of options, beside their types, checked at once, whoever gives the values.

    epochs: Annotated[int, Range(1)] = 20        1, 2, …
    lr: Annotated[float, above(0)] = 1e-3        no inf, no nan
    combine: Literal["mix", "concat"] = "mix"

    check_options(config)                        OptionError: epochs must be at least 1, not -1

Python and the command line have the same rules, because both go through the same classes and functions.
"""

import ast
import inspect
import math
import numbers
import os
import re
import shlex
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from boustro.choose import choose, suggestion
from boustro.errors import shorten

Value = TypeVar("Value")
POSITIONAL = "positional"
Positional = Annotated[Value, POSITIONAL]
"""Beside the type of an option: its value stands on the command line without its name."""
AS_GIVEN = "as given"
"""Beside the type of an option of several values: whoever reads them parts them at commas, not the command line."""
VALUE_AND_COMMA = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*|([^,]*))(,|\Z)')
"""A value and the comma behind it."""
TO_QUOTE = re.compile(r'[,"\t\r\n]|\A\s|\s\Z')


class OptionError(ValueError):
    """An option has a value that it does not take: a mistake in a call, known before anything is read."""


@dataclass(frozen=True, slots=True)
class Range:
    """Finite numbers from `low` to `high`; `without_low` and `without_high` leave out the ends."""

    low: float = -math.inf
    high: float = math.inf
    without_low: bool = False
    without_high: bool = False

    def __contains__(self, value: float) -> bool:
        low = value > self.low if self.without_low else value >= self.low
        high = value < self.high if self.without_high else value <= self.high
        return math.isfinite(value) and low and high

    def __str__(self) -> str:
        low = "" if self.low == -math.inf else f"{'above' if self.without_low else 'at least'} {_plain(self.low)}"
        high = "" if self.high == math.inf else f"{'below' if self.without_high else 'at most'} {_plain(self.high)}"
        return " and ".join(end for end in (low, high) if end) or "finite"

    __repr__ = __str__  # signatures show it


def _plain(bound: float) -> str:
    """0 for 0.0: equal ranges are one in hints, whichever came first."""
    return f"{int(bound) if bound == int(bound) else bound:,}"


def above(low: float) -> Range:
    """Numbers greater than `low`."""
    return Range(low, without_low=True)


@dataclass(frozen=True, slots=True)
class Where:
    """Beside the type of a field: only where another field of its dataclass has one of `values` is it read.

    Another value than its default is refused elsewhere, because it would do nothing.
    """

    option: str
    values: "Range | Given | tuple[Any, ...]"


@dataclass(frozen=True, slots=True)
class Instead:
    """Beside the type of an option: where it is given, the command line has no value for `option`, which is `None`."""

    option: str


class Given:
    """All values but `None`."""

    def __contains__(self, value: Any) -> bool:
        return value is not None


MOST_WIDTH = 65_536  # a mistyped width would ask for terabytes before anything is said
Count = Annotated[int, Range(1)]
Workers = Annotated[int, Range(1, 1024)]
CountOrZero = Annotated[int, Range(0)]
Width = Annotated[int, Range(1, MOST_WIDTH)]
Seed = Annotated[int, Range(0, 2**32 - 1)]
Share = Annotated[float, Range(0, 1)]
ShareAboveZero = Annotated[float, Range(0, 1, without_low=True)]
Recall = Annotated[float, Range(0.5, 0.999)]
DropoutRate = Annotated[float, Range(0, 1, without_high=True)]
Positive = Annotated[float, above(0)]
PositiveOrZero = Annotated[float, Range(0)]


@dataclass(frozen=True, kw_only=True)
class PresetOptions:
    """Options that have presets: named sets of values."""

    preset_option: ClassVar[str] = "preset"
    """The option of the command line that names one."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}
    """The first one has the defaults. A preset may have values for other options too, which go with these."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)

    @classmethod
    def preset(cls, name: str | None = None) -> Mapping[str, Any]:
        """Return the values of a preset, by default of the first; `ValueError` for an unknown one."""
        return choose(next(iter(cls.presets)) if name is None else name, cls.presets, cls.preset_option)

    @classmethod
    def make(cls, preset: str | None = None, **chosen: Any) -> Self:
        """Return a preset with the chosen options over it; `ValueError` for an unknown preset or option."""
        for name in chosen:
            if name not in cls.__dataclass_fields__:
                raise ValueError(f"unknown option {name!r}{suggestion(name, cls.__dataclass_fields__)}")
        preset_values = {name: value for name, value in cls.preset(preset).items() if name in cls.__dataclass_fields__}
        return cls(**{**preset_values, **chosen})


def check_options(given: Any, values: Mapping[str, Any] | None = None) -> None:
    """Check the fields of a dataclass, or of a function the `values` of its parameters, by their types.

    What is checked: ranges, `Literal`s, and that numbers, booleans, texts and paths are such; then of a dataclass, that
    what is not the default is read (`Where`). Raises `OptionError`, a `ValueError`, for the first that does not fit.
    """
    owner = given if values is not None else type(given)
    values = vars(given) if values is None else values
    for name, hint in get_type_hints(owner, include_extras=True).items():
        if name in values and (problem := problem_of(hint, values[name])):
            raise OptionError(f"{name} must be {problem}, not {shorten(values[name])}")
    if isinstance(owner, type):
        for name, other in unread(owner, values).items():
            raise OptionError(f"{name} is not read where {other} is {values[other]}; remove one of them")


def unread(options: type, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a dataclass that have other `values` than their defaults and are not read (`Where`), each
    with the field that is why."""
    hints, reasons = get_type_hints(options, include_extras=True), {}
    defaults: dict[str, Any] = {field.name: field.default for field in fields(options)}
    values = {**defaults, **values}
    for name in (name for name, default in defaults.items() if values[name] != default):
        for extra in getattr(hints[name], "__metadata__", ()):
            if isinstance(extra, Where) and values[extra.option] not in extra.values:
                reasons[name] = extra.option
    return reasons


def option_fields(options: Any) -> list[Field[Any]]:
    """Return the fields of a dataclass that are options, and not set by callers alone (`option` in their metadata)."""
    return [field for field in fields(options) if field.metadata.get("option", True)]


def option_name(field: str) -> str:
    """Return the option of a field or parameter: `max_pieces` → `max-pieces`; `with_` → `with`, for Python has that
    word."""
    return field.rstrip("_").replace("_", "-")


def part_values(text: str) -> list[str]:
    """Part values at the commas between them, as in a line of CSV: a value with a comma stands in quotes.

    PERSON, PLACE  →  ["PERSON", "PLACE"]      "Food, drink",News  →  ["Food, drink", "News"]
    """
    values, end, comma = list[str](), 0, ","
    while comma and (match := VALUE_AND_COMMA.match(text, end)):
        quoted, plain, comma = match.groups()
        values.append(plain.strip() if quoted is None else quoted.replace('""', '"'))
        end = match.end()
    return values


def quote_value(value: str) -> str:
    """Return a value as `part_values` reads it: in quotes if it has a comma, a quote, a tab or a line end."""
    return '"{}"'.format(value.replace('"', '""')) if TO_QUOTE.search(value) else value


def option_words(values: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line that give these options; what is None or empty is left out.

    {"text_column": ("my text", "b"), "crf": False, "task": None}  →  ["--text-column", "my text,b", "--no-crf"]

    Of several values with commas or colons each is given by itself: a comma would part them, or belong to a meaning.
    """
    words: list[str] = []
    for name, value in values.items():
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{option_name(name)}")
        elif value not in (None, ()):
            several = [*map(str, value)] if isinstance(value, tuple) else []
            if len(several) == 1:
                several = [quote_value(several[0])]
            elif not any(":" in one or TO_QUOTE.search(one) for one in several):
                several = [",".join(several)] if several else [str(value)]
            words += [word for one in several for word in (f"--{option_name(name)}", one)]
    return words


def command_line(*words: object, **options: Any) -> str:
    """Return a command of ours with its options, as a shell reads it: the one way to print one.

    command_line("predict", "my model", format="csv")  →  boustro predict 'my model' --format csv
    """
    return shlex.join(["boustro", *map(str, words), *option_words(options)])


def describe_fields(options: type) -> dict[str, str]:
    """Return the docstrings of a dataclass's fields, those of its bases too; empty where there is none."""
    descriptions = dict.fromkeys((field.name for field in fields(options)), "")
    for cls in reversed(options.__mro__[:-1]):
        descriptions |= _described_in(cls.__module__)[cls.__name__]
    return descriptions


@cache  # a module is read once: help and every command line with the options of many heads ask for the same few
def _described_in(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of the fields of all classes of a module, by class."""
    by_class: dict[str, dict[str, str]] = {}
    for made in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if isinstance(made, ast.ClassDef):
            by_field = by_class[made.name] = {}
            for node, after in pairwise(made.body):
                match (node, after):
                    case (ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text)))):
                        by_field[ast.unparse(node.target)] = " ".join(text.split())
    return by_class


def problem_of(hint: Any, value: Any) -> str:
    """Say what a value should be and is not; empty where it fits."""
    kind, arguments = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        problems = [problem_of(one, value) for one in arguments if one is not type(None)]
        return "" if value is None and type(None) in arguments else min(problems, key=len)
    if kind is Annotated:
        ranges = [extra for extra in arguments[1:] if isinstance(extra, Range)]
        return problem_of(arguments[0], value) or next((str(r) for r in ranges if value not in r), "")
    if kind is Literal:
        return "" if value in arguments else f"one of {', '.join(map(str, arguments))}"
    if kind is tuple:
        if not isinstance(value, (tuple, list)):
            return "a list"
        inner = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        if len(inner) != len(value):
            return f"{len(inner)} values"
        return next(filter(None, map(problem_of, inner, value)), "")
    plain = Path if isinstance(hint, type) and hasattr(hint, "__fspath__") else hint
    return "" if plain not in PLAIN or PLAIN[plain](value) else NAMED[plain]


PLAIN: dict[Any, Callable[[Any], bool]] = {
    bool: lambda value: isinstance(value, bool),
    int: lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool),
    float: lambda value: isinstance(value, numbers.Real) and not isinstance(value, bool),
    str: lambda value: isinstance(value, str),
    Path: lambda value: isinstance(value, (str, os.PathLike)),
}
NAMED = {bool: "True or False", int: "a whole number", float: "a number", str: "a text", Path: "a path"}
