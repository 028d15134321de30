"""What a study must know of a task beyond training and prediction: the one place where tasks differ for studies.

Every example has some values from which `statistic` makes a system's score (`metrics.significance`). References and
answers that are labels or spans are entities over the example's words too, so one way of counting serves them all:

    EntityTask      entities in a sentence                                        entity F1
    WordTask        a label for every word of a sentence                          accuracy
    LabelTask       one label, of all words                                       accuracy
    LabelSetTask    any number of labels, each of all words                       micro F1 over labels
    AnswerTask      some words of a context, or none; several may be right        mean F1 of questions
    NumberTask      a number; no entities                                         Spearman's correlation
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from boustro.heads.questions import NO_ANSWER
from boustro.metrics.questions import match
from boustro.metrics.significance import Statistic, entity_counts, f1, spearman
from boustro.metrics.spans import REPAIR_RULE, extract_spans, is_span_tag
from boustro.tasks import TASKS, task_class
from boustro.tasks.answers import Answer
from boustro.tasks.base import Task
from boustro.tasks.config import TaskConfig
from boustro.tasks.data import data_name
from boustro.tasks.data.schemes import gold_entities
from boustro.tasks.labellings.questions import answer_text
from boustro.tasks.labellings.texts import label_set
from boustro.tasks.parts import distinct_parts
from boustro.types import Entity, Sentence


class StudiedTask(ABC):
    """A task by its name in `boustro.tasks.TASKS`, and how its results are counted and described."""

    metric: str
    """The score in tables."""
    examples: str
    """What is scored, in the plural, as `TASKS` says."""
    units: str = ""
    """What is counted in an example; by default the example itself."""
    label: str = "label"
    """What a unit's label is called."""
    credit: str
    """What the mean of `credits` is called."""
    has_positions: bool = False
    """Whether a unit has a position and a length in its sentence, and its own words that training may have seen."""
    has_spans: bool = False
    """Whether a unit may be several words: an entity, counted by conlleval's rules."""
    has_labels: bool = True
    """Whether a unit has one of the labels of the training set."""
    has_confusions: bool = True
    """Whether one label may be given instead of another."""
    has_scores: bool = True
    """Whether a unit has a probability."""
    statistic: Statistic = staticmethod(f1)
    rules: tuple[tuple[str, str], ...]
    """How scores are computed."""
    shot_tags: tuple[str, ...] = ()
    """What few-shot heads can predict."""
    shot_heads: tuple[tuple[int, tuple[str, str]], ...] = ()
    """(fewest shots, (head, tags)): what `auto` means at that many shots (docs/log.md)."""

    def __init__(self, name: str) -> None:
        self.name, self.examples = name, TASKS[name].examples
        self.units = self.units or self.examples

    @property
    def config(self) -> type[TaskConfig]:
        """The dataclass of the task's options."""
        return TASKS[self.name].config

    def make(self, encoder: str, head: str, **options: Any) -> Task[Any, Any]:
        """An untrained task; `ValueError` for a head or an option that it does not have."""
        return task_class(self.name)(encoder, head, **options)

    def sentences(self, examples: Sequence[Any]) -> tuple[list[Sentence], np.ndarray]:
        """What is encoded, each sentence of a task of several parts once; (examples, parts) numbers of these."""
        parts = [task_class(self.name).parts(example) for example in examples]
        if all(len(own) == 1 for own in parts):
            return [own[0] for own in parts], np.arange(len(parts))[:, None]
        return distinct_parts(parts)

    def words(self, example: Any) -> Sequence[str]:
        """The words that entities are over."""
        return example.words or ("",)

    def title(self, example: Any) -> str:
        """What is said above the words."""
        return ""

    @abstractmethod
    def gold(self, example: Any) -> list[Entity]:
        """The reference, each entity once."""

    @abstractmethod
    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        """The answer, with scores."""

    def reference(self, example: Any) -> str:
        """The reference as text."""
        return ", ".join(e.label for e in self.gold(example))

    def said(self, example: Any, answer: Answer) -> str:
        """The answer as text."""
        return ", ".join(e.label for e in self.found(example, answer))

    def values(self, examples: Sequence[Any], answers: Sequence[Answer]) -> np.ndarray:
        """(N, C): what `statistic` needs of every example."""
        found = [self.found(example, answer) for example, answer in zip(examples, answers, strict=True)]
        return entity_counts([self.gold(example) for example in examples], found)

    def credits(self, values: np.ndarray) -> np.ndarray:
        """(N,) how right the answer for each example is, from 0 to 1."""
        gold, found, both = values.T[:3]
        return np.where(gold + found > 0, 2 * both / np.maximum(gold + found, 1), 1.0)

    def right(self, answers: Any) -> list[list[bool]]:
        """Whether each of the entities of `compare.cases.Answers` is right, example by example."""
        pairs = zip(answers.gold, answers.predicted, strict=True)
        return [[entity in gold for entity in predicted] for gold, predicted in pairs]

    def check_data(self, name: str, examples: Sequence[Any]) -> None:
        """`ValueError` for data that cannot be studied; `name` is train, dev or test. By default nothing is refused."""
        return None

    def count_hidden(self, examples: Sequence[Any]) -> int:
        """Entities inside or across another one, which tags cannot represent: tags hold the outermost only."""
        return 0


class EntityTask(StudiedTask):
    """Entities in sentences."""

    metric, credit = "F1", "recall"
    units, label = "entities", "type"
    has_positions = has_spans = True
    rules = (("metric", "entity F1"), ("repair", REPAIR_RULE), ("scheme", "BIO"))
    shot_tags = ("bio", "io", "factored")
    shot_heads = ((64, ("mlp+crf", "bio")), (0, ("ridge", "factored")))

    def gold(self, example: Any) -> list[Entity]:
        return sorted({Entity(e.label, e.start, e.end) for e in gold_entities(example)})

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        return answer.entities

    def check_data(self, name: str, examples: Sequence[Any]) -> None:
        strange = next((t for s in examples for t in s.tags or () if not is_span_tag(t)), None)
        if strange:
            raise ValueError(
                f"{data_name(examples)} ({name}): the tag {strange!r} marks no entity, and entities are compared; "
                "train on labels of words with boustro fit, or give --scheme io if a run of one label is an entity"
            )

    def count_hidden(self, examples: Sequence[Any]) -> int:
        return sum(len(self.gold(s)) - len(extract_spans(s.tags)) for s in examples if s.tags is not None)


class WordTask(StudiedTask):
    """A label for every word, such as its part of speech: each is an entity of one word."""

    metric = credit = "accuracy"
    units = "words"
    has_positions = True
    rules = (("metric", "accuracy of words"),)

    def gold(self, example: Any) -> list[Entity]:
        return [Entity(label, n, n + 1) for n, label in enumerate(example.tags or ())]

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        return answer.entities


class LabelTask(StudiedTask):
    """One label per text, or per pair of texts."""

    metric = credit = "accuracy"
    rules = (("metric", "accuracy"),)
    shot_tags = ("label",)
    shot_heads = ((0, ("lda", "label")),)

    def gold(self, example: Any) -> list[Entity]:
        return [Entity(example.label, 0, max(1, len(example)))]

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        pairs = zip(answer.tags, answer.scores, strict=True)
        return [Entity(label, 0, max(1, len(example)), score=score) for label, score in pairs]


class LabelSetTask(LabelTask):
    """Any number of labels per text."""

    metric, credit, units = "micro F1", "mean F1", "labels"
    rules = (("metric", "micro F1 over labels"),)
    has_confusions = False
    shot_tags = shot_heads = ()

    def gold(self, example: Any) -> list[Entity]:
        return [Entity(label, 0, max(1, len(example))) for label in sorted(set(label_set(example)))]


class AnswerTask(StudiedTask):
    """Answers to questions: spans of a context, one of them or none."""

    metric = credit = "F1"
    has_labels = has_confusions = False
    rules = (("metric", "mean F1 of questions, with SQuAD's normalisation"),)

    def words(self, example: Any) -> Sequence[str]:
        return example.context.words

    def title(self, example: Any) -> str:
        return " ".join(example.question.words)

    def gold(self, example: Any) -> list[Entity]:
        return [Entity("answer", start, end) for start, end in sorted(set(example.spans))]

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        return answer.entities[:1] if answer_text(example, answer) else ()

    def reference(self, example: Any) -> str:
        return " / ".join(dict.fromkeys(example.answers or (NO_ANSWER,)))

    def said(self, example: Any, answer: Answer) -> str:
        return answer_text(example, answer) or NO_ANSWER

    def values(self, examples: Sequence[Any], answers: Sequence[Answer]) -> np.ndarray:
        """(N, 4): 1, 1, the F1 of the answer, and whether it matches exactly."""
        rows = []
        for example, answer in zip(examples, answers, strict=True):
            exact, overlap = match(answer_text(example, answer), example.answers or ())
            rows.append((1.0, 1.0, overlap, exact))
        return np.array(rows).reshape(-1, 4)

    def right(self, answers: Any) -> list[list[bool]]:
        pairs = zip(answers.predicted, answers.values[:, 3], strict=True)
        return [[bool(exact)] * len(predicted) for predicted, exact in pairs]


class NumberTask(StudiedTask):
    """A number per text or pair of texts."""

    metric, credit = "Spearman", "agreement of ranks"
    has_labels = has_confusions = has_scores = False
    statistic = staticmethod(spearman)
    rules = (("metric", "Spearman's correlation of ranks, times 100"),)

    def gold(self, example: Any) -> list[Entity]:
        return []

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        return ()

    def reference(self, example: Any) -> str:
        return f"{example.score:.2f}"

    def said(self, example: Any, answer: Answer) -> str:
        return f"{answer.value:.2f}"

    def values(self, examples: Sequence[Any], answers: Sequence[Answer]) -> np.ndarray:
        """(N, 2): the reference and the answer."""
        pairs = zip(examples, answers, strict=True)
        return np.array([(example.score, answer.value) for example, answer in pairs], float).reshape(-1, 2)

    def credits(self, values: np.ndarray) -> np.ndarray:
        gold, found = (np.argsort(np.argsort(side, kind="stable")) for side in values.T)
        return 1 - np.abs(gold - found) / max(1, len(values) - 1)


TAG, CLASSIFY = EntityTask("tag"), LabelTask("classify")
BY_LABELLING: dict[str, type[StudiedTask]] = {
    "tags": EntityTask,
    "class": LabelTask,
    "pair": LabelTask,
    "score": NumberTask,
    "pair-score": NumberTask,
    "answers": AnswerTask,
}
"""By what the heads of a task learn first, see `tasks.base.Task.labellings`."""


def studied_task(name: str, examples: Sequence[Any] = ()) -> StudiedTask:
    """The task of a name in `TASKS`, as studies of these examples see it; `ValueError` for an unknown name."""
    kind = BY_LABELLING[task_class(name).labellings[0]]
    if kind is LabelTask and any(getattr(example, "labels", None) is not None for example in examples):
        kind = LabelSetTask
    if kind is EntityTask and not all(is_span_tag(tag) for example in examples for tag in example.tags or ()):
        kind = WordTask
    return kind(name)
