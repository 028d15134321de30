"""From a function to its command line: the options of its task, presets, and recipes.

Values come from the command line, then from the recipe (`--config FILE`), then from the preset (`--preset NAME`), then
from the defaults. A recipe is YAML with the option names as keys; a folder that a command wrote serves as well,
because its manifest holds the options that it was made with:

    train: train.conll
    epochs: 5
    tag-scheme: bioes
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from boustro.choose import suggestion
from boustro.cli.help import filled
from boustro.options import OptionError
from boustro.store import MANIFEST, read_json, record_options
from boustro.tasks import DEFAULT_TASK, TASKS
from boustro.tasks.config import TaskConfig

Command = Callable[..., Any]


def prepare(command: Command, arguments: list[str], prog: str) -> tuple[Command, list[str]]:
    """The function with the defaults of the task and the preset that the arguments name, and the arguments with those
    of the recipe.

    Raises `OptionError` for an unknown preset and for a key of a recipe that is not an option.
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
    specialised = with_defaults(command, task)
    known, option = options_of(specialised), preset_option(specialised)
    for name in recipe:
        if name not in known and name != option:
            raise OptionError(f"{path}: {name!r} is not an option of {prog}{suggestion(name, known)}")
    preset = None
    if option:
        preset = recipe.pop(option, None)
        arguments, chosen = take(arguments, option, keep=option in known)
        preset = chosen or preset
    absent = [name for name, value in recipe.items() if value is None]
    command = with_defaults(command, task, preset, absent)
    return recorded(command), with_values(arguments, {n: v for n, v in recipe.items() if v is not None}, known)


def describe(command: Command) -> str:
    """The text above the options of `--help`."""
    hints = [hint for hint in get_type_hints(command).values() if hasattr(hint, "presets")]
    named = "".join(f", then from --{preset_option(command)} ({', '.join(hint.presets)})" for hint in hints)
    summary = inspect.getdoc(command) or ""
    return (
        f"{summary.partition('Args:')[0].strip()}\n\nValues come from the command line, then from --config FILE (YAML "
        f"with option names as keys, or a folder that this command wrote){named}, then from the defaults."
    )


def with_defaults(command: Command, task: str, preset: str | None = None, absent: Sequence[str] = ()) -> Command:
    """The function with the options and the default head of a task, the values of a preset as defaults, and `absent`
    options None by default.
    """
    hints = get_type_hints(command, include_extras=True)
    entry = TASKS[task]
    changed: dict[str, Any] = {}
    if "task" in hints:
        changed["task"], hints["task"] = task, Literal[tuple(TASKS)]
    for name, hint in hints.items():
        if hint is TaskConfig:
            hints[name] = hint = entry.config
            head = entry.config.default_head
            changed |= {name: hint(), "head": head, "heads": (head,)}
        if preset and hasattr(hint, "presets"):
            changed[name] = hint.make(preset)
        if is_dataclass(hint) and name in changed:
            own = [f.name for f in fields(hint) if f.name.replace("_", "-") in absent]
            changed[name] = replace(changed[name], **dict.fromkeys(own))
    if not changed:
        return command
    signature = inspect.signature(command)

    @functools.wraps(command)
    def specialised(**values: Any) -> Any:
        return command(**values)

    del specialised.__wrapped__  # whose annotations tyro would read
    specialised.__doc__ = filled(command.__doc__ or "")
    specialised.__annotations__ = hints
    specialised.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            p.replace(annotation=hints[n], default=changed.get(n, p.default)) for n, p in signature.parameters.items()
        ]
    )
    return specialised


def recorded(command: Command) -> Command:
    """The function; the manifests of the folders that it writes hold the values of its options."""
    signature = inspect.signature(command)

    @functools.wraps(command)
    def run(*given: Any, **named: Any) -> Any:
        record_options(resolved(signature.bind(*given, **named).arguments))
        return command(*given, **named)

    del run.__wrapped__
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def options_of(command: Command | type) -> dict[str, bool]:
    """Names of the options of a function, or of a dataclass of options, with dashes; whether each is positional."""
    from tyro.conf import Positional

    found = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if is_dataclass(bare):
            found |= options_of(bare)  # type: ignore[arg-type]
        elif name != "return" and get_origin(hint) is not ClassVar:
            found[name.replace("_", "-")] = Positional in getattr(hint, "__metadata__", ())
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
    given = {word[2:].partition("=")[0].removeprefix("no-").replace("_", "-") for word in arguments if word[:2] == "--"}
    before, after = [], []
    for name, value in values.items():
        if known.get(name):
            before += _words(value)
        elif name.removeprefix("no-") not in given:
            after += (
                [f"--{name}" if value else f"--no-{name}"] if isinstance(value, bool) else [f"--{name}", *_words(value)]
            )
    return [*before, *arguments, *after]


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all options of a call, as a recipe that gives them again."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if is_dataclass(value):
            flat |= resolved({field.name: getattr(value, field.name) for field in fields(value)})
        else:
            flat[name.replace("_", "-")] = _plain(value)
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
