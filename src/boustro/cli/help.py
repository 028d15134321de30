"""What help texts say of all tasks, taken from `boustro.tasks.TASKS`.

A docstring of a command may have {tasks}, the tasks and what each gives, {reads}, the forms of their labelled data, and
{heads}, the kinds of heads of each.
"""

from boustro.tasks import TASKS


def filled(text: str) -> str:
    """A docstring with its placeholders filled."""
    forms: dict[str, list[str]] = {}
    for name, entry in TASKS.items():
        forms.setdefault(entry.reads, []).append(name)
    reads = "; ".join(f"{', '.join(names)}: {what}" for what, names in forms.items())
    tasks = ", ".join(f"{name} ({entry.help})" for name, entry in TASKS.items())
    heads = "; ".join(f"{name}: {', '.join(entry.config.heads())}" for name, entry in TASKS.items())
    return text.replace("{tasks}", tasks).replace("{reads}", reads).replace("{heads}", heads)
