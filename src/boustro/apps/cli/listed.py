"""The options of a command as one flat table: what is parsed, shown as help, and made into a call.

fit   →   [Option("train", Path, …), …, Option("epochs", Annotated[int, Range(1)], 20, section="head"), …]

A command is a function. Its parameters are options; those of a dataclass of options are its fields, wherever they lie.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from boustro.heads.options import HeadOptions
from boustro.heads.registry import HEADS, owners
from boustro.options import (
    AS_GIVEN,
    POSITIONAL,
    check_options,
    describe_fields,
    option_fields,
    option_name,
    part_values,
    unread,
)
from boustro.tasks import DEFAULT_TASK, TASKS
from boustro.tasks.config import AUTO, TaskConfig
from boustro.text.places import Place

METAVARS = {"out": "OUT", "action": "ACTION"}
"""What values are called in help by the names of their options, before what their places say."""
VALUE_NAMES = {int: "N", float: "X", str: "TEXT"}
Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Option:
    """One option, or one positional value."""

    place: tuple[str, ...]
    """The parameter, and the fields in it, that the value goes to."""
    hint: Any
    default: Any = MISSING
    help: str = ""
    section: str = ""
    """The group of options it belongs to; empty for the function's own."""

    @property
    def name(self) -> str:
        return option_name(self.place[-1])

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def positional(self) -> bool:
        return POSITIONAL in notes_of(self.hint)

    @property
    def is_boolean(self) -> bool:
        return bare_types(self.hint) == [bool]

    @property
    def takes_several(self) -> bool:
        return any(get_origin(one) is tuple for one in bare_types(self.hint))

    @property
    def is_place(self) -> bool:
        """Whether its values are files, folders or models."""
        return Path in bare_types(self.item) or any(isinstance(note, Place) for note in notes_of(self.hint))

    @property
    def item(self) -> Any:
        """The type of its value, or of each of several."""
        several = next((one for one in bare_types(self.hint) if get_origin(one) is tuple), None)
        return self.hint if several is None else get_args(several)[0]

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values that it takes, in their order, where they are listed."""
        return next((get_args(one) for one in bare_types(self.item) if get_origin(one) is Literal), ())

    @property
    def value(self) -> str:
        """Placeholder of its value in help: `N`, `{text,jsonl}`, `MODEL`."""
        place = next((note.name for note in notes_of(self.hint) if isinstance(note, Place)), None)
        if place or self.name in METAVARS or self.positional:
            shown = METAVARS.get(self.name) or place or "DATA"
        elif self.choices:
            shown = f"{{{','.join(map(str, self.choices))}}}"
        else:
            shown = "|".join(dict.fromkeys(VALUE_NAMES.get(kind, "PATH") for kind in bare_types(self.item)))
        return f"{shown}{' ' if self.positional else ','}..." if self.takes_several else shown

    def part(self, given: Sequence[str]) -> Sequence[str]:
        """Return its values of those that are given: one is parted at commas, unless it is a path that is there; of
        several each is one, unless they are numbers."""
        if not self.takes_several or self.positional or AS_GIVEN in notes_of(self.hint):
            return given
        if {int, float}.isdisjoint(bare_types(self.item)) and given[1:]:
            return given
        is_there = self.is_place and given[:1] and Path(given[0]).exists()
        return given if is_there else [value for one in given for value in part_values(one)]


class OptionTable(NamedTuple):
    """The options of a command, and the dataclasses that its call is made of."""

    command: Command
    options: list[Option]
    """The function's own first."""
    groups: dict[tuple[str, ...], type]
    """By the place of each, outer ones first."""
    task: str

    @property
    def named(self) -> dict[str, Option]:
        """Those that are given as `--name`."""
        return {option.name: option for option in self.options if not option.positional}

    def option(self, name: str) -> Option | None:
        """Return the option that is given as `--name`, or, of a boolean one, as `--no-name`."""
        option = self.named.get(name) or self.named.get(name.removeprefix("no-"))
        return option if option and (option.name == name or option.is_boolean) else None

    @property
    def positional(self) -> list[Option]:
        return [option for option in self.options if option.positional]

    def call_with(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of the function, from the values of options and the defaults of the others.

        A default that the values given make of no effect is left out (a preset's). Raises `OptionError`, as the
        dataclasses do, for values that do not go together.
        """
        made: dict[tuple[str, ...], dict[str, Any]] = {(): {}} | {place: {} for place in self.groups}
        for option in self.options:
            made[option.place[:-1]][option.place[-1]] = given.get(option.name, option.default)
        for place, group in reversed(self.groups.items()):
            values, defaults = made[place], {member.name: member.default for member in fields(group)}
            for name in unread(group, values):
                if option_name(name) not in given:
                    values[name] = defaults[name]
            made[place[:-1]][place[-1]] = group(**values)
        return made[()]


def preset_option(command: Command) -> str | None:
    """Return the option that names a preset, of a function whose options have presets."""
    hints = (hint for hint in get_type_hints(command).values() if hasattr(hint, "presets"))
    return next((hint.preset_option for hint in hints), None)


def parameter_default(command: Command, name: str) -> Any:
    """Return the default of a parameter of a function; `None` where it has no such parameter."""
    parameter = inspect.signature(command).parameters.get(name)
    return parameter.default if parameter else None


def list_options(
    command: Command, task: str = DEFAULT_TASK, heads: Sequence[str] = (), preset: str | None = None
) -> OptionTable:
    """Return the options of a function: with those of a task and of these kinds of heads (by default of all that the
    task may have), its default head, and the values of a preset as defaults. Raises `ValueError` for an unknown
    preset."""
    config, parameters = TASKS[task].config, inspect.signature(command).parameters
    hints, told = get_type_hints(command, include_extras=True), describe_parameters(command.__doc__ or "")
    of_preset: Mapping[str, Any] = {}
    defaults = {"task": task}
    if TaskConfig in hints.values():
        defaults |= {"head": config.default_head, "heads": (config.default_head,)}
    entries: list[tuple[str, Any, Any, str]] = []
    for name, parameter in parameters.items():
        hint: Any = hints[name]
        default = parameter.default
        if hint is TaskConfig:
            hint, default = config, config()
        elif hint is HeadOptions:
            hint = options_of_heads(config.named_heads(heads) or config.heads())
            default = hint()
        elif name == "task":
            hint = Literal[tuple(TASKS)]
        if preset and hasattr(hint, "presets"):
            of_preset = hint.preset(preset)
        default = MISSING if default is inspect.Parameter.empty else default
        default = default if default in (MISSING, (AUTO,), None) else defaults.get(name, default)
        entries.append((name, hint, default, told.get(name, "")))
    groups: dict[tuple[str, ...], type] = {}
    options = [
        replace(option, default=of_preset[option.place[-1]])
        if option.place[1:] and option.place[-1] in of_preset
        else option
        for option in _walk(entries, groups, sole=len(entries) == 1)
    ]
    return OptionTable(command, sorted(options, key=lambda option: bool(option.section)), groups, task)


def _walk(
    entries: Iterable[tuple[str, Any, Any, str]],
    groups: dict[tuple[str, ...], type],
    place: tuple[str, ...] = (),
    section: str = "",
    sole: bool = False,
) -> Iterator[Option]:
    """Yield the options of (name, type, default, help) of parameters or fields; `sole`: of the one parameter of a
    function, whose options are then the function's own."""
    for name, hint, default, help in entries:
        if is_group(hint):
            groups[*place, name] = hint
            title = "" if sole else "head" if issubclass(hint, HeadOptions) else name
            yield from _walk(list_fields(hint, default), groups, (*place, name), title)
        else:
            yield Option((*place, name), hint, default, help, section)


def list_fields(group: type, values: Any = MISSING) -> Iterator[tuple[str, Any, Any, str]]:
    """Yield (name, type, default, help) of each field of a dataclass; with the defaults of an instance where one is
    given."""
    hints = get_type_hints(group, include_extras=True)
    told = {} if group.__module__ == "types" else describe_fields(group)
    for member in option_fields(group):
        default = member.default if member.default_factory is MISSING else member.default_factory()
        value = default if values is MISSING else getattr(values, member.name)
        yield member.name, hints[member.name], value, member.metadata.get("help") or told.get(member.name, "")


def options_of_heads(kinds: Sequence[str]) -> type:
    """Return the options that some kinds of heads have between them, as a dataclass; that of the kinds where they share
    one.

    Where an option is not of all of them, its help says whose it is.
    """
    types = list(dict.fromkeys(HEADS[kind].options for kind in kinds))
    if len(types) == 1:
        return types[0]
    options = {option.name: option for each in reversed(types) for option in fields(each)}
    hints = {name: hint for each in types for name, hint in get_type_hints(each, include_extras=True).items()}
    made = []
    for name, option in options.items():
        having: dict[str, list[str]] = {}
        for kind in owners(name, kinds):
            having.setdefault(describe_fields(HEADS[kind].options)[name], []).append(kind)
        whose = [text if len(heads) == len(kinds) else f"{text} ({', '.join(heads)})" for text, heads in having.items()]
        made.append((name, hints[name], field(default=option.default, metadata={"help": " ".join(whose)})))
    checked = {"__post_init__": check_options}
    return make_dataclass("HeadOptions", made, bases=(HeadOptions,), namespace=checked, kw_only=True, frozen=True)


def describe_parameters(docstring: str) -> dict[str, str]:
    """Return the description of each parameter in the Args of a docstring."""
    _, _, told = docstring.partition("Args:")
    indent = min((len(line) - len(line.lstrip()) for line in told.split("\n") if line.strip()), default=0)
    parts = re.split(rf"^ {{{indent}}}(\w+): ", told, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def is_group(hint: Any) -> bool:
    """Return whether a type is a dataclass of options."""
    return isinstance(hint, type) and is_dataclass(hint)


def bare_types(hint: Any) -> list[Any]:
    """Return the types that a value may have, without `None` and without what annotates them."""
    if get_origin(hint) is Annotated:
        return bare_types(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [bare for one in get_args(hint) if one is not type(None) for bare in bare_types(one)]
    return [hint]


def notes_of(hint: Any) -> list[Any]:
    """Return the annotations of a type, or of the type of a list's items."""
    if get_origin(hint) is Annotated:
        return [*get_args(hint)[1:], *notes_of(get_args(hint)[0])]
    if get_origin(hint) in (Union, UnionType, tuple):
        return [note for one in get_args(hint) for note in notes_of(one)]
    return []
