"""Command lines that are no use: what is said of a missing, unknown or wrong option, before anything is read.

boustro fit --train train.conll --output ner
boustro: there is no option --output; did you mean --out? `boustro fit --help` lists the options
"""

from collections.abc import Iterator, Sequence
from typing import Any

from boustro.apps.cli.listed import Listed, bare_types, list_options, notes_of, values_of
from boustro.choose import nearest, suggestion
from boustro.errors import shorten
from boustro.options import OptionError, Range, option_name
from boustro.text.places import Place, check_model, refuse_swapped

MEANT = {
    "output": ("out",),
    "output-dir": ("out",),
    "save": ("out",),
    "seeds": ("draws", "seed"),
    "seed": ("seeds",),
    "num-seeds": ("seeds", "draws"),
    "learning-rate": ("lr",),
    "num-epochs": ("epochs",),
    "model": ("encoder",),
    "data": ("train",),
    "train-file": ("train",),
    "valid": ("dev",),
    "validation": ("dev",),
    "eval": ("dev",),
    "force": ("overwrite",),
    "yes": ("overwrite",),
    "batch-size": ("batch-words", "batch-segments", "batch-pairs"),
    "verbose": (),
}
"""Names that options have in other programs, and those that they have here, the first that a command knows."""


def check_words(form: type, words: Sequence[str], command: str, example: str) -> None:
    """`OptionError` for the first thing in a command line that `form` does not take; `example` is one that it takes."""
    options = list_options(form)
    named = {option_name(option.name): option for option in options if not option.positional}
    values = [option for option in options if option.positional]
    given, bare = set(), []
    for name, own in _split(words):
        if name is None:
            bare += own
            continue
        option = named.get(name) or named.get(name.removeprefix("no-"))
        if option is None or (name not in named and not option.is_boolean):
            raise OptionError(_unknown(name, named))
        given.add(option.name)
        bare += _check_values(option, own, spare=bool(values))
    needed = [option for option in named.values() if option.required and option.name not in given]
    _check_bare(values, bare, command, example)
    if needed:
        shown = " and ".join(f"{option.flag} {option.value}" for option in needed)
        raise OptionError(f"{shown} {'are' if needed[1:] else 'is'} missing, as in: boustro {example}")


def _split(words: Sequence[str]) -> Iterator[tuple[str | None, list[str]]]:
    """(name, words after it) of each option; the words before the first under `None`."""
    name, own = None, []
    for word in words:
        if word.startswith("--") and len(word) > 2:
            yield name, own
            name, equals, value = word[2:].partition("=")
            name, own = name.replace("_", "-"), [value] if equals else []
        else:
            own.append(word)
    yield name, own


def _check_values(option: Listed, own: list[str], spare: bool) -> list[str]:
    """Check the values of an option; returns the words after them, which stand for themselves."""
    most = 0 if option.is_boolean else len(own) if option.takes_several else 1
    values, rest = own[:most], own[most:]
    may_be_none = option.is_boolean or (option.takes_several and not option.required)  # recipes have empty lists
    if not values and not may_be_none:
        raise OptionError(f"{option.flag} needs a value: {_first_sentence(option.help)}")
    if rest and not spare:
        what = "takes no value" if option.is_boolean else "takes one value"
        raise OptionError(f"{option.flag} {what}, and {shorten(rest[0])} stands after {'it' if not most else 'that'}")
    for value in values:
        if problem := _problem(option, value):
            near = suggestion(value, map(str, option.choices))
            raise OptionError(f"{option.flag} must be {problem}, not {shorten(value)}{near}")
    return rest


def _check_bare(values: list[Listed], bare: list[str], command: str, example: str) -> None:
    least = sum(option.required for option in values)
    if len(bare) < least:
        missing = values[len(bare)]
        raise OptionError(f"{missing.value} is missing ({_first_sentence(missing.help)}), as in: boustro {example}")
    if len(bare) > len(values) and not any(option.takes_several for option in values):
        if not values:
            raise OptionError(f"{shorten(bare[0])} has no option before it; write for example: boustro {example}")
        order = " ".join(option.value for option in values)
        raise OptionError(f"{shorten(bare[len(values)])} is one value too many: {command} takes {order}")
    for option, value in zip(values, bare, strict=False):
        if option.choices and (problem := _problem(option, value)):
            raise OptionError(f"{option.value} must be {problem}, not {shorten(value)}")


def _problem(option: Listed, value: str) -> str:
    """What a value should be and is not; empty where it fits."""
    if option.choices:
        known = [*map(str, option.choices)]
        return "" if value in known else f"one of {', '.join(known)}"
    kinds = [kind for one in bare_types(option.hint) for kind in _kinds(one)]
    if str in kinds or not {int, float} & {*kinds}:
        return ""
    number = _number(value, int in kinds and float not in kinds)
    if number is None:
        return "a whole number" if float not in kinds else "a number"
    ranges = [note for note in notes_of(option.hint) if isinstance(note, Range)]
    return next((str(own) for own in ranges if number not in own), "")


def _kinds(hint: Any) -> list[Any]:
    inner = getattr(hint, "__args__", None)
    return [kind for one in inner if one is not ... for kind in bare_types(one)] if inner else [hint]


def _number(value: str, whole: bool) -> float | None:
    try:
        return int(value) if whole else float(value)
    except ValueError:
        return None


def _unknown(name: str, named: dict[str, Listed]) -> str:
    meant = next((other for other in MEANT.get(name, ()) if other in named), None) or nearest(name, named)
    return f"there is no option --{name}{f'; did you mean --{meant}?' if meant else ''}"


def _first_sentence(text: str) -> str:
    first = text.partition(". ")[0].rstrip(".")
    return first if first[1:2].isupper() else first[:1].lower() + first[1:]


def check_places(form: Any, example: str) -> None:
    """`ValueError` or `OSError` for the first value that names what is not there, before anything is loaded."""
    placed = list(_placed(form))
    in_order = [value for option, value, _ in placed if option.positional]
    if in_order and any(place.check is check_model for option, _, place in placed if option.positional):
        refuse_swapped(in_order, example)
    for _, value, place in placed:
        place.check(value)


def _placed(form: Any) -> Iterator[tuple[Listed, str, Place]]:
    """Every value that names a place, with what the place should be; of defaults none."""
    for option, value in values_of(form):
        for place in (note for note in notes_of(option.hint) if isinstance(note, Place)):
            given = value if isinstance(value, tuple) else () if value is None else (value,)
            yield from ((option, str(one), place) for one in given if value != option.default)
