"""What a person gives on the page of `boustro label`, by what the heads of a task learn:

    tags, spans    entities in sentences             `SPANS`
    class          a label of a whole text, or several    `TOPIC`, `TOPICS`

A task whose heads learn something else has no page. A manner names the form of answers, what learns from them at once,
and how they are read and kept; the session, the page and what runs beside them are the same for all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boustro.apps.label.answers import Answer
from boustro.apps.label.incremental import LiveTagger
from boustro.apps.label.topics import LiveTopics, LiveTopicSets, TopicAnswer, TopicSetAnswer, pool_texts
from boustro.choose import choose
from boustro.features.vectors import Vectors
from boustro.heads.registry import head_kind
from boustro.options import OptionError
from boustro.tasks import TASKS
from boustro.text.documents import read_lines
from boustro.text.rows import parse_record


def _as_read(vectors: Vectors) -> Vectors:
    return vectors


@dataclass(frozen=True, kw_only=True)
class Manner:
    """See the module."""

    answer: type[Answer] = Answer
    """The form of answers in the file."""
    live: type[LiveTagger] = LiveTagger
    """What learns from every answer at once."""
    vectors: Callable[[Vectors], Vectors] = _as_read
    """From vectors of words to those of what has a score of its own."""
    whole: bool = False
    """Whether a text has labels, and not its words."""
    several: bool = True
    """Whether there may be any number of labels; else there is one."""
    metric: str = "F1"
    """What the curve shows."""
    saved_head: str | None = None
    """The head of the folder that is saved before training is finished; `None` for that of the live tagger."""


SPANS = Manner()
TOPIC = Manner(
    answer=TopicAnswer,
    live=LiveTopics,
    vectors=pool_texts,
    whole=True,
    several=False,
    metric="accuracy",
    saved_head="ridge-pool",
)
TOPICS = Manner(answer=TopicSetAnswer, live=LiveTopicSets, vectors=pool_texts, whole=True, saved_head="mlp-pool")
MANNERS: dict[str, tuple[Manner, Manner]] = {"tags": (SPANS, SPANS), "spans": (SPANS, SPANS), "class": (TOPIC, TOPICS)}
"""By what heads learn: with one label, and with several."""


def _learned(task: str) -> str:
    return head_kind(TASKS[task].config.default_head).labelling


def manner_of(task: str, several: bool, out: Path) -> Manner:
    """The manner of a task, and of the answers that are in the file already.

    Raises `ValueError` for an unknown task, and `OptionError` for one that has no page.
    """
    choose(task, TASKS, "task")
    if _learned(task) not in MANNERS:
        known = [name for name in TASKS if _learned(name) in MANNERS]
        raise OptionError(f"boustro label has no page for the task {task}; it has one for {', '.join(known)}")
    one, many = MANNERS[_learned(task)]
    if several and one is many:
        raise OptionError("--several is for labels of whole texts; leave it out")
    return many if several or _has_several(out) else one


def _has_several(out: Path) -> bool:
    """Whether the first answer in a file has a list of labels."""
    if not out.is_file():
        return False
    number, line = next(((n, line) for n, line in read_lines(out) if line.strip()), (1, "{}"))
    record: Any = parse_record(line, f"{out}:{number}")
    return isinstance(record, dict) and "labels" in record
