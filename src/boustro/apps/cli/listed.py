"""The options of a command as a flat list, which help shows and `usage` checks.

fit   →   [Listed("train", Path, …), …, Listed("epochs", Annotated[int, Range(1)], default=20, section="training"), …]
"""

import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tyro.conf import Positional

from boustro.options import describe_fields, option_name
from boustro.text.places import Place

METAVARS = {"out": "OUT", "action": "ACTION"}
"""What values are called in help by the names of their options, before what their places say."""
KINDS = {int: "N", float: "X", str: "TEXT"}


@dataclass(frozen=True, slots=True)
class Listed:
    """One option, or one positional value."""

    name: str
    hint: Any
    """Its type, without what says that it is positional."""
    positional: bool
    default: Any = MISSING
    help: str = ""
    section: str = ""
    """The group of options it belongs to; empty for the function's own."""

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def flag(self) -> str:
        return f"--{option_name(self.name)}"

    @property
    def is_boolean(self) -> bool:
        return bare_types(self.hint) == [bool]

    @property
    def takes_several(self) -> bool:
        return any(get_origin(one) is tuple for one in bare_types(self.hint))

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values that it takes, in their order, where they are listed."""
        return next((get_args(one) for one in bare_types(_item(self.hint)) if get_origin(one) is Literal), ())

    @property
    def value(self) -> str:
        """What stands for its value: `N`, `{text,jsonl}`, `MODEL`."""
        place = next((note.name for note in notes_of(self.hint) if isinstance(note, Place)), None)
        if place or self.name in METAVARS or self.positional:
            shown = METAVARS.get(self.name) or place or "DATA"
        elif self.choices:
            shown = f"{{{','.join(map(str, self.choices))}}}"
        else:
            kinds = bare_types(_item(self.hint))
            shown = "|".join(dict.fromkeys(KINDS.get(kind, "PATH") for kind in kinds))
        return f"{shown} ..." if self.takes_several else shown


def list_options(form: type) -> list[Listed]:
    """All options of a form (`arguments.form`), the function's own first."""
    own, sections = [], []
    told = describe_parameters(form.__doc__ or "")
    for each in _each(form, told, ""):
        (sections if each.section else own).append(each)
    return own + sections


def values_of(form: Any) -> Iterator[tuple[Listed, Any]]:
    """The options of a form that was filled, each with its value."""
    nested = [getattr(form, own.name) for own in fields(form)]
    owners = [form, *(own for own in nested if is_dataclass(own))]
    owners += [getattr(own, field.name) for own in owners[1:] for field in fields(own)]
    for option in list_options(type(form)):
        owner = next((own for own in owners if is_dataclass(own) and hasattr(own, option.name)), None)
        yield option, getattr(owner, option.name, None)


def describe_parameters(docstring: str) -> dict[str, str]:
    """What the Args of a docstring say of each parameter."""
    _, _, told = docstring.partition("Args:")
    indent = min((len(line) - len(line.lstrip()) for line in told.splitlines() if line.strip()), default=0)
    parts = re.split(rf"^ {{{indent}}}(\w+): ", told, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def bare_types(hint: Any) -> list[Any]:
    """The types that a value may have, without `None` and without what annotates them."""
    if get_origin(hint) is Annotated:
        return bare_types(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [bare for one in get_args(hint) if one is not type(None) for bare in bare_types(one)]
    return [hint]


def notes_of(hint: Any) -> list[Any]:
    """What annotates a type, or the type of the items of a list."""
    if get_origin(hint) is Annotated:
        return [*get_args(hint)[1:], *notes_of(get_args(hint)[0])]
    if get_origin(hint) in (Union, UnionType, tuple):
        return [note for one in get_args(hint) for note in notes_of(one)]
    return []


def _item(hint: Any) -> Any:
    """The type of the items of a list, or the type itself."""
    found = next((one for one in bare_types(hint) if get_origin(one) is tuple), None)
    return hint if found is None else get_args(found)[0]


def _described(options: type) -> dict[str, str]:
    """What is said of the fields; nothing of a class without a source, whose types have it."""
    return {} if options.__module__ == "types" else describe_fields(options)


def _each(owner: type, told: dict[str, str], section: str) -> Iterator[Listed]:
    hints = get_type_hints(owner, include_extras=True)
    for own in fields(owner):
        hint = hints[own.name]
        notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        bare = get_args(hint)[0] if notes else hint
        if isinstance(bare, type) and is_dataclass(bare):
            title = next((note.name for note in notes if getattr(note, "name", None) is not None), own.name)
            for each in _each(bare, _described(bare), title):
                value = getattr(own.default, each.name, each.default) if own.default is not MISSING else each.default
                yield Listed(each.name, each.hint, each.positional, value, each.help, each.section or title)
            continue
        help = next((note.help for note in notes if getattr(note, "help", None)), None) or told.get(own.name, "")
        default = own.default
        if default is MISSING and own.default_factory is not MISSING:
            default = own.default_factory()
        yield Listed(own.name, hint, Positional in notes, default, help, section)
