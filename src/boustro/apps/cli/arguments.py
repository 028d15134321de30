"""From a function to its command line: the options of its task, presets, and recipes.

Values come from the command line, then from the recipe (`--config FILE`), then from the preset (`--preset NAME`), then
from the defaults. A recipe is YAML with the option names as keys; a folder that a command wrote serves as well,
because its manifest holds the options that it was made with:

    train: train.conll
    epochs: 5
    tag-scheme: bioes
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, is_dataclass, make_dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from boustro.apps.cli.help import WORDS
from boustro.choose import suggestion
from boustro.heads.options import HeadOptions
from boustro.heads.registry import HEADS, owners
from boustro.options import OptionError, check_options, describe_fields, option_name, unread
from boustro.store import MANIFEST, read_json, record_options
from boustro.tasks import DEFAULT_TASK, TASKS
from boustro.tasks.config import TaskConfig

Command = Callable[..., Any]


def prepare(command: Command, arguments: list[str], prog: str) -> tuple[type, list[str]]:
    """The options of a function as a dataclass, with the defaults of the task, the heads and the preset that the
    arguments name, and the arguments with those of the recipe.

    Raises `OptionError` for an unknown preset, for a key of a recipe that is not an option, and for an option of other
    heads than those that are trained.
    """
    arguments, path = take(arguments, "config")
    recipe = read_recipe(Path(path)) if path else {}
    task = peek(arguments, "task") or recipe.get("task")
    if "task" not in options_of(command):
        task = DEFAULT_TASK
    elif task not in TASKS:  # the command line refuses an unknown one
        from boustro.tasks.data.guess import guess_task

        train = peek(arguments, "train") or recipe.get("train") or _first_file(arguments)
        label = peek(arguments, "label-column") or recipe.get("label-column")
        texts = _all_after(arguments, "text-column") or _words(recipe.get("text-column") or ())
        task = guess_task(Path(str(train)) if train else None, texts, label)
    whole = form(command, task)
    known, option = options_of(whole), preset_option(command)
    for name in recipe:
        if name not in known and name != option:
            raise OptionError(f"{path}: {name!r} is not an option of {prog}{suggestion(name, known)}")
    preset = None
    if option:
        preset = recipe.pop(option, None)
        arguments, chosen = take(arguments, option, keep=option in known)
        preset = chosen or preset
    absent = [name for name, value in recipe.items() if value is None]
    given = {name: value for name, value in recipe.items() if value is not None}
    heads = [] if {*WORDS} & {*arguments} else _heads(command, task, arguments, recipe)
    if heads:
        given = {n: v for n, v in given.items() if not _is_default_of_others(n, v, TASKS[task].config.heads(), heads)}
        refuse_other_heads(task, heads, [*_names(arguments), *given])
    words = with_values(arguments, given, known)
    return form(command, task, heads, preset, absent, words), words


def _heads(command: Command, task: str, arguments: list[str], recipe: Mapping[str, Any]) -> list[str]:
    """The kinds of heads that a command trains; none where it says nothing about a head's options."""
    if HeadOptions not in get_type_hints(command).values():
        return []
    one = peek(arguments, "head") or recipe.get("head")
    several = _all_after(arguments, "heads") or _words(recipe.get("heads") or ())
    return ([one] if one else several) or [TASKS[task].config.default_head]


def _is_default_of_others(name: str, value: Any, kinds: Sequence[str], heads: Sequence[str]) -> bool:
    """Whether this is what an option of other heads is without a recipe: a folder's has all of its head's options."""
    name = name.replace("-", "_")
    others = owners(name, kinds)
    return bool(others) and not owners(name, heads) and getattr(HEADS[others[0]].options(), name) == value


def refuse_other_heads(task: str, heads: Sequence[str], given: Iterable[str]) -> None:
    """`OptionError` for a head that is not the task's, for an option that none of the heads has, and for heads with
    other defaults of an option that they share: a command has one value for all of them."""
    config, defaults = TASKS[task].config, {}
    for head in heads:
        for own in fields(config.check_head(head).options):
            one, default = defaults.setdefault(own.name, (head, own.default))
            if default != own.default:
                option = own.name.replace("_", "-")
                raise OptionError(f"{one} and {head} heads have other defaults of --{option}; train them in two runs")
    for name in given:
        if not owners(name.replace("-", "_"), heads):
            config.check_head(heads[0], name.replace("-", "_"))


def call(command: Command, values: Mapping[str, Any]) -> None:
    """Call a function; the manifests of the folders that it writes hold the values of its options."""
    record_options(resolved(values))
    command(**values)


def form(
    command: Command,
    task: str,
    heads: Sequence[str] = (),
    preset: str | None = None,
    absent: Sequence[str] = (),
    arguments: Sequence[str] = (),
) -> type:
    """The parameters of a function as the fields of a dataclass: with the options of a task and of these kinds of heads
    (by default of all that the task may have), its default head, the values of a preset as defaults, less those that
    these arguments make of no effect, and `absent` options None by default.
    """
    from tyro.conf import arg

    hints, config = get_type_hints(command, include_extras=True), TASKS[task].config
    defaults = {name: parameter.default for name, parameter in inspect.signature(command).parameters.items()}
    of_preset: Mapping[str, Any] = {}
    if "task" in hints:
        defaults["task"], hints["task"] = task, Literal[tuple(TASKS)]
    for name, hint in hints.items():
        if hint is TaskConfig:
            hints[name], defaults[name] = config, config()
            defaults |= {"head": config.default_head, "heads": (config.default_head,)}
        elif hint is HeadOptions:
            hints[name] = options_of_heads(heads or config.heads())
            defaults[name] = hints[name]()
        if preset and hasattr(hints[name], "presets"):
            of_preset = hints[name].preset(preset)
    made = []
    for name, hint in hints.items():
        if name == "return":
            continue
        if isinstance(hint, type) and is_dataclass(hint) and is_dataclass(defaults[name]):
            own = {n: v for n, v in of_preset.items() if n in hint.__dataclass_fields__}
            chosen = {n: _value_of(option_name(n), arguments) for n in hint.__dataclass_fields__}
            without = unread(hint, own | {n: v for n, v in chosen.items() if v is not None})
            own = {n: v for n, v in own.items() if n not in without}
            own |= dict.fromkeys(n for n in hint.__dataclass_fields__ if option_name(n) in absent)
            defaults[name] = replace(defaults[name], **own)
        required = defaults[name] is inspect.Parameter.empty
        if name.startswith("of_head"):
            hint = Annotated[hint, arg(name="head")]  # a title
        made.append((name, hint) if required else (name, hint, field(default=defaults[name])))
    options = make_dataclass("Options", made, kw_only=True, frozen=True)
    options.__doc__ = command.__doc__
    return options


def options_of_heads(kinds: Sequence[str]) -> type:
    """The options that some kinds of heads have between them, as a dataclass; that of the kinds where they share one.

    Where an option is not of all of them, its help says whose it is.
    """
    from tyro.conf import arg

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
        whose = [text if len(own) == len(kinds) else f"{text} ({', '.join(own)})" for text, own in having.items()]
        hint = Annotated[hints[name], arg(help=" ".join(whose))]
        made.append((name, hint, field(default=option.default)))
    checked = {"__post_init__": check_options}
    return make_dataclass("HeadOptions", made, namespace=checked, kw_only=True, frozen=True)


def options_of(command: Command | type) -> dict[str, bool]:
    """Names of the options of a function, or of a dataclass of options, with dashes; whether each is positional."""
    from tyro.conf import Positional

    found = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if isinstance(bare, type) and is_dataclass(bare):
            found |= options_of(bare)
        elif name != "return" and get_origin(hint) is not ClassVar:
            found[option_name(name)] = Positional in getattr(hint, "__metadata__", ())
    return found


def preset_option(command: Command) -> str | None:
    """The option that names a preset, of a function whose options have presets."""
    hints = (hint for hint in get_type_hints(command).values() if hasattr(hint, "presets"))
    return next((hint.preset_option for hint in hints), None)


def read_recipe(path: Path) -> dict[str, Any]:
    """The options of a recipe, or of the command that wrote a folder; `ValueError` for anything else."""
    import yaml

    if path.is_dir():
        found = read_json(path / MANIFEST).get("made_by", {}).get("options")
        if not found:
            raise ValueError(f"{path}: its manifest does not hold the options of a command; name a YAML file")
    else:
        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{path}: expected option names and their values, such as epochs: 5")
    return _dashed(found)


def with_values(arguments: list[str], values: Mapping[str, Any], known: Mapping[str, bool]) -> list[str]:
    """The arguments with options after them that they do not give; positional ones before them."""
    given = _names(arguments)
    before, after = [], []
    for name, value in values.items():
        if known.get(name):
            before += _words(value)
        elif name.removeprefix("no-") not in given:
            after += (
                [f"--{name}" if value else f"--no-{name}"] if isinstance(value, bool) else [f"--{name}", *_words(value)]
            )
    return [*before, *arguments, *after]


def _names(arguments: Iterable[str]) -> set[str]:
    """The options that are given; `--no-x` is the option x."""
    return {word[2:].partition("=")[0].removeprefix("no-").replace("_", "-") for word in arguments if word[:2] == "--"}


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all options of a call, as a recipe that gives them again."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if is_dataclass(value):
            flat |= resolved({field.name: getattr(value, field.name) for field in fields(value)})
        else:
            flat[option_name(name)] = _plain(value)
    return flat


def take(arguments: list[str], option: str, keep: bool = False) -> tuple[list[str], str | None]:
    """The arguments without `--option VALUE` (with it where `keep`), and the value; the last one counts."""
    rest, value, words = [], None, iter(arguments)
    for word in words:
        name, equals, own = word.partition("=")
        if name != f"--{option}":
            rest.append(word)
            continue
        value = own if equals else next(words, None)
        if value is None:
            raise OptionError(f"--{option} needs a value")
        rest += [word] if keep and equals else [word, value] if keep else []
    return rest, value


def peek(arguments: list[str], option: str) -> str | None:
    """The value of `--option`, where it is given with one."""
    try:
        return take(arguments, option)[1]
    except OptionError:
        return None  # tyro says it better


def _value_of(option: str, arguments: Sequence[str]) -> Any:
    """What `--option VALUE` means, True or False for `--option` and `--no-option` alone; `None` without it."""
    import yaml

    if f"--no-{option}" in arguments:
        return False
    value = peek([*arguments, "--"], option)
    return True if value and value.startswith("--") else value and yaml.safe_load(value)


def _all_after(arguments: list[str], option: str) -> list[str]:
    """The values of an option that takes several."""
    places = [place for place, word in enumerate(arguments, start=1) if word == f"--{option}"]
    return list(takewhile(lambda word: not word.startswith("--"), arguments[places[-1] :])) if places else []


def _first_file(arguments: list[str]) -> str | None:
    """The first word that is neither an option nor, possibly, its value."""
    pairs = zip(["", *arguments], arguments, strict=False)
    given = (word for before, word in pairs if not before.startswith("--") or "=" in before)
    return next((word for word in given if not word.startswith("-")), None)


def _dashed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "-"): value for name, value in values.items()}


def _words(value: Any) -> list[str]:
    return [str(part) for part in (value if isinstance(value, (list, tuple)) else [value])]


def _plain(value: Any) -> Any:
    if isinstance(value, Iterable) and not isinstance(value, (str, Mapping)):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)
