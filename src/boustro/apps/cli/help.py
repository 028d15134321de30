"""Help of a command: two examples, how it is called, what it does, and its options, the ones that people use first.

A docstring of a command may have {tasks}, the tasks and what each gives, {reads}, the forms of their labelled data, and
{heads}, the kinds of heads of each; all are taken from `boustro.tasks.TASKS`.
"""

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace

from boustro.apps.cli.arguments import ALL
from boustro.apps.cli.known import Known, called
from boustro.apps.cli.listed import Option, OptionTable
from boustro.tasks import TASKS

COLUMN = 26
"""Where the meaning of an option begins."""
MOST_COLUMNS = 100  # longer lines are hard to follow on a wide terminal


def filled_docstring(text: str, task: str | None = None) -> str:
    """Return a docstring with its placeholders filled: for all tasks, or for one."""
    forms: dict[str, list[str]] = {}
    for name, entry in TASKS.items():
        forms.setdefault(entry.reads, []).append(name)
    reads = "; ".join(f"{', '.join(names)}: {what}" for what, names in forms.items())
    tasks = ", ".join(f"{name} ({entry.help})" for name, entry in TASKS.items())
    heads = "; ".join(f"{name}: {', '.join(entry.config.heads())}" for name, entry in TASKS.items())
    if task is not None:
        chosen = TASKS[task]
        reads = f"For {task}: {chosen.reads} (--task TASK --help: for another task)"
        heads = f"For {task}: {', '.join(chosen.config.heads())}"
    return text.replace("{tasks}", tasks).replace("{reads}", reads).replace("{heads}", heads)


def help_of(name: str, command: Known, table: OptionTable, everything: bool) -> str:
    """Return the text of `boustro NAME --help`; `everything`: with the options that few people use, and all tasks'
    data."""
    name = called(name)
    task = None if everything else table.task
    options = [replace(option, help=filled_docstring(option.help, task)) for option in table.options]
    values = [option for option in options if option.positional]
    named = [option for option in options if not option.positional]
    needed = [option for option in named if option.required]
    used = [each for word in command.first.split() for each in named if each.place[-1] == word and each not in needed]
    others = [option for option in named if option not in (*needed, *used)]
    usage = " ".join(["usage: boustro", name, *map(_call, needed), *map(_call, values), "[OPTIONS]"])
    parts = [
        "\n".join(f"  boustro {example}" for example in command.examples),
        usage,
        _told(filled_docstring(inspect.getdoc(table.command) or "", task)),
    ]
    parts += ["\n".join(_entries([*values, *needed, *used]))]
    for section in dict.fromkeys(option.section for option in others) if everything else ():
        title = f"{section.replace('_', ' ')} options:" if section else "more options:"
        parts.append("\n".join([title, *_entries(option for option in others if option.section == section)]))
    if everything:
        parts.append(_wrapped(_sources(table)))
    elif others:
        parts.append(f"{len(others)} more options: boustro {name} {ALL}")
    return "\n\n".join(part for part in parts if part)


def _told(docstring: str) -> str:
    """Return what a docstring says of its command, wrapped, without the Args."""
    told = docstring.partition("Args:")[0].strip()
    return "\n\n".join(_wrapped(" ".join(part.split())) for part in told.split("\n\n"))


def _sources(table: OptionTable) -> str:
    """Where the values of options come from."""
    grouped = [group for group in table.groups.values() if hasattr(group, "presets")]
    named = "".join(f", then from --{group.preset_option} ({', '.join(group.presets)})" for group in grouped)
    return (
        "Values come from the command line, then from --config FILE (YAML with option names as keys, or a folder that "
        f"this command wrote){named}, then from the defaults."
    )


def _call(option: Option) -> str:
    if option.positional:
        return option.value if option.required else f"[{option.value}]"
    return f"{option.flag} {option.value}"


def _entries(options: Iterable[Option]) -> list[str]:
    return [line for option in options for line in _entry(option)]


def _entry(option: Option) -> list[str]:
    """`  --epochs N   Passes over the training data. (default: 20)`, wrapped."""
    if option.positional:
        shown = option.value
    elif option.is_boolean:
        shown = option.flag if option.default is False else f"{option.flag}, --no-{option.flag[2:]}"
    else:
        shown = f"{option.flag} {option.value}"
    told = option.help + default_of(option)
    lines = textwrap.wrap(told, _columns() - COLUMN, break_long_words=False, break_on_hyphens=False) or [""]
    head = f"  {shown}"
    first = [head] if len(head) >= COLUMN - 1 else [head.ljust(COLUMN) + lines.pop(0)]
    return [*first, *(" " * COLUMN + line for line in lines)]


def default_of(option: Option) -> str:
    """` (default: 20)`; nothing where there is none, and where the help says it in words."""
    value = option.default
    if option.required or value in (None, "", ()) or value is False or re.search(r"\b[Bb]y default", option.help):
        return ""
    if value is True:
        return f" (default: {option.flag})"
    shown = ",".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
    return f" (default: {shown})"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _columns(), break_long_words=False, break_on_hyphens=False)


def _columns() -> int:
    return min(shutil.get_terminal_size().columns, MOST_COLUMNS)
