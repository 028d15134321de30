"""The page of options, from the dataclasses that command lines are made from; `make docs` builds it into the site."""

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from boustro.apps.cli.known import COMMANDS, called
from boustro.apps.cli.listed import bare_types, is_group, list_fields
from boustro.heads.options import HeadOptions
from boustro.heads.registry import HEADS
from boustro.options import option_name
from boustro.tasks import TASKS
from boustro.tasks.config import TaskConfig

MOST_NAMED = 6
"""The commands that a title names; a group of more is for all that have it."""
TABLE = ("| option | values | default | meaning |", "|---|---|---|---|")
HEAD = """# Options

Every option of the dataclasses that commands take, with its values, its default and its meaning; `--help-all` of a
command shows all of its options. An option stands once, where it is first; what stands under "Also" has it
too, with another default where its own table says so. A dash means that the option is required, or that its default is
described in words. A list stands between commas (`--labels PERSON,PLACE`), a value with a comma in quotes as in CSV; or
the option is given again for each value, which is then whole. Values come from the command line, then from a recipe,
then from a preset (`--preset paper`), then from these defaults. A recipe is a YAML file with option names as keys;
unknown keys are refused. The manifest of every folder that a command writes holds the values of all its options, so a
folder is a recipe too.

```yaml
train: train.conll
epochs: 1
```
```bash
boustro fit --config recipe.yaml --out ner
boustro fit --config ner --seed 2 --out again
```"""


def options_page() -> str:
    """Return the page: each option once, in the table of the dataclass that has it, with those that inherit from it."""
    users: dict[type, list[str]] = {}
    for name, task in TASKS.items():
        users[task.config] = [f"Task {name}", f"`{task.name}`"]
    for command, known in COMMANDS.items():
        for group in groups(known.function()):
            users[group] = [*dict.fromkeys([*users.get(group, []), f"`{called(command)}`"])]
    kinds: dict[type, list[str]] = {}
    for kind, made in HEADS.items():
        kinds.setdefault(made.options, []).append(f"`{kind}`")
    tables = [options for options in users if not issubclass(options, HeadOptions)]
    parts = [*_sections(tables, users, "Many commands"), *_sections(list(kinds), kinds, "Many heads")]
    return "\n\n".join([HEAD, *parts]) + "\n"


def groups(owner: Any) -> Iterator[type]:
    """Yield the dataclasses of options that a function or another group takes, each before those inside it."""
    for name, hint in get_type_hints(owner).items():
        if is_group(hint) and name != "return":
            yield hint
            yield from groups(hint)


def _sections(shown: list[type], users: Mapping[type, list[str]], many: str) -> list[str]:
    """Return a section for each of these dataclasses, and before them for those that several of them inherit from."""
    several = Counter(base for heir in shown for base in heir.__mro__[1:] if is_dataclass(base))
    known = [*shown, *(base for base, count in several.items() if count > 1)]
    titles: dict[type, str] = {}

    def add(group: type) -> None:
        above = [base for base in group.__mro__[1:] if base in known and option_rows(base)]
        for base in reversed(above):
            if base not in titles:
                add(base)
        nearest = {name: row for base in reversed(above) for name, row in option_rows(base).items()}
        new = [row for name, row in option_rows(group).items() if row != nearest.get(name)]
        heads = f"Heads: {', '.join(group.heads())}." if issubclass(group, TaskConfig) and group.labellings else ""
        if new or heads:
            named = users.get(group, [])
            titles[group] = f"{', '.join(named) if 0 < len(named) <= MOST_NAMED else many}: `{group.__name__}`"
            also = [f"[`{base.__name__}`](#{_anchor(titles[base])})" for base in above if base in titles]
            about = " ".join((inspect.getdoc(group) or "").partition("\n\n")[0].split())
            text = " ".join(part for part in (about, f"Also: {', '.join(also)}." if also else "", heads) if part)
            sections.append("\n\n".join([f"## {titles[group]}", text, *(["\n".join([*TABLE, *new])] if new else [])]))

    sections: list[str] = []
    for options in shown:
        if options not in titles:
            add(options)
    return sections


def _anchor(title: str) -> str:
    """Where a section is, as the site and GitHub have it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def option_rows(options: type) -> dict[str, str]:
    """Return the row of each field of a dataclass, by its name."""
    table = {}
    for name, hint, default, help in list_fields(options):
        if not is_group(hint):
            shown = default if isinstance(default, (str, int, float)) else "–"
            values = _values(hint).replace("|", "\\|")
            table[name] = f"| `--{option_name(name)}` | {values} | {shown} | {help} |"
    return table


def _values(hint: Any) -> str:
    """`float`, `mix, concat`, `list of int`."""
    kinds = bare_types(hint)
    if get_origin(kinds[0]) is Literal:
        return ", ".join(map(str, get_args(kinds[0])))
    if get_origin(kinds[0]) is tuple:
        return f"list of {_values(get_args(kinds[0])[0])}"
    return " or ".join(kind.__name__ for kind in kinds)
