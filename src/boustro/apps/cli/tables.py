"""The tables of docs/options.md, from the dataclasses that the command lines are made from.

`python -m boustro.apps.cli.tables > docs/options.md` writes the page anew.
"""

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from boustro.apps.cli.known import COMMANDS
from boustro.heads.options import HeadOptions
from boustro.heads.registry import HEADS
from boustro.options import describe_fields, option_name
from boustro.tasks import TASKS
from boustro.tasks.config import TaskConfig

MOST_NAMED = 6
"""The commands that a title names; a group of more is for all that have it."""
HEAD = """# Options

Every option with its values, its default and its meaning. A dash means that the option is required, or that its
default is described in words. Values come from the command line, then from a recipe, then from a preset
(`--preset paper`), then from these defaults. A recipe is a YAML file with option names as keys; unknown keys are
refused. The manifest of every folder that a command writes holds the values of all its options, so a folder is a
recipe too.

```yaml
train: train.conll
epochs: 1
```
```bash
boustro fit --config recipe.yaml --out ner
boustro fit --config ner --seed 2 --out again
```"""


def page() -> str:
    """docs/options.md."""
    tasks = {f"`fit --task {n}`, `{task.name}`: `{task.config.__name__}`": task.config for n, task in TASKS.items()}
    found: dict[type, list[str]] = {}
    for command, known in COMMANDS.items():
        for group in groups(known.function()) if known.group else ():
            found[group] = [*dict.fromkeys([*found.get(group, []), command])]
    of_tasks = (HeadOptions, TaskConfig)
    tables = tasks | {title(g, own): g for g, own in found.items() if not issubclass(g, of_tasks) and rows(g)}
    return "\n\n".join([HEAD, *(f"## {name}\n\n{table(options)}" for name, options in tables.items())]) + "\n"


def groups(owner: Any) -> Iterator[type]:
    """The dataclasses of options that a function or another group takes, each before those inside it."""
    for name, hint in get_type_hints(owner).items():
        group = next((part for part in (hint, *get_args(hint)) if isinstance(part, type) and is_dataclass(part)), None)
        if group and name != "return":
            yield group
            yield from groups(group)


def title(group: type, commands: list[str]) -> str:
    """The commands that have it, and its name."""
    named = ", ".join(f"`{command}`" for command in commands) if len(commands) <= MOST_NAMED else "Many commands"
    return f"{named}: `{group.__name__}`"


def table(options: type) -> str:
    """Markdown: what a dataclass is, a row for each field; of a task a second table, with the options of its heads."""
    about = " ".join((inspect.getdoc(options) or "").partition("\n\n")[0].split())
    lines = [about, "", "| option | values | default | meaning |", "|---|---|---|---|", *rows(options)]
    if not issubclass(options, TaskConfig):
        return "\n".join(lines)
    kinds = options.heads()
    lines += [
        "",
        f"Heads: {', '.join(kinds)}.",
        "",
        "| option | values | default | meaning | heads |",
        "|---|---|---|---|---|",
    ]
    having: dict[str, list[str]] = {}
    for kind in kinds:
        for row in rows(HEADS[kind].options):
            having.setdefault(row, []).append(kind)
    lines += [f"{row} {'all' if own == kinds else ', '.join(own)} |" for row, own in having.items()]
    return "\n".join(lines)


def rows(options: type) -> list[str]:
    """One for each field of a dataclass."""
    described, hints, found = describe_fields(options), get_type_hints(options), []
    for field in fields(options):
        if not is_dataclass(hints[field.name]):
            default = field.default if isinstance(field.default, (str, int, float)) else "–"
            name, values = option_name(field.name), _values(hints[field.name]).replace("|", "\\|")
            found.append(f"| `--{name}` | {values} | {default} | {described[field.name]} |")
    return found


def _values(hint: Any) -> str:
    """`float`, `mix, concat`, `list of int`."""
    arguments = [part for part in get_args(hint) if part is not type(None) and part is not ...]
    if arguments and all(isinstance(part, str) for part in arguments):
        return ", ".join(arguments)
    if get_origin(hint) is tuple:
        return f"list of {_values(arguments[0])}"
    return " or ".join(map(_values, arguments)) if arguments else hint.__name__


if __name__ == "__main__":
    print(page(), end="")
