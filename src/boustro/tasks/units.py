"""Units that are counted in the examples of a labelling, the score that is made of them, and how they are shown.

Every example has some values from which `statistic` makes a system's score (`metrics.significance`). References and
answers that are labels or spans are entities over the example's words too, so one way of counting serves them all:

    EntityUnits      entities in a sentence                                        entity F1
    WordUnits        a label for every word of a sentence                          accuracy
    LabelUnits       one label, of all words                                       accuracy
    LabelSetUnits    any number of labels, each of all words                       micro F1 over labels
    AnswerUnits      some words of a context, or none; several may be right        mean F1 of questions
    NumberUnits      a number; no entities                                         Spearman's correlation

A labelling names its units (`tasks.labellings`). They know nothing of heads and need no torch: saved predictions are
counted and compared without a model. N examples, C values of each.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from boustro.metrics.significance import Statistic, entity_counts, f1, spearman
from boustro.metrics.spans import REPAIR_RULE, extract_spans, is_span_tag
from boustro.tasks.answers import Answer
from boustro.tasks.data import data_name
from boustro.tasks.data.schemes import gold_entities
from boustro.text.words import apart, join_words
from boustro.types import NO_ANSWER, NO_LABEL, Entity, label_set

REPORTED_FACTS = ("label", "credit", "has_positions", "has_spans", "has_labels", "has_confusions", "has_scores")


class Units(ABC):
    """Units of a labelling, which have no state but what it names."""

    metric: str
    """The score in tables."""
    plural: str = ""
    """What is counted in an example, in the plural; empty where that is the example itself."""
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
    has_values: bool = False
    """Whether `values` say more than the counts of entities, so that they are saved with the answers."""
    statistic: Statistic = staticmethod(f1)
    rules: tuple[tuple[str, str], ...]
    """How scores are computed."""

    @property
    def is_one_label(self) -> bool:
        """Whether a unit is the one label of a whole example."""
        return self.has_confusions and not self.has_positions

    def facts(self, examples: str) -> dict[str, Any]:
        """Return the facts that reports know of them; `examples` is what the task calls its examples."""
        named = {"metric": self.metric, "examples": examples, "units": self.plural or examples}
        return named | {name: getattr(self, name) for name in REPORTED_FACTS}

    def words(self, example: Any) -> Sequence[str]:
        """The words that entities are over."""
        return example.words or ("",)

    def spaces(self, example: Any) -> list[bool]:
        """Whether a space stands before each of the words, as the text was given where that is known."""
        words = example.words or ("",)
        given = [part.spaces for part in example.parts]
        known = [spaces for spaces in given if spaces is not None]
        if len(known) < len(given):
            return apart(words)
        joined = [space for n, spaces in enumerate(known) for space in (*[True] * (n > 0), *spaces)]  # a bar between
        return joined if len(joined) == len(words) else apart(words)

    def title(self, example: Any) -> str:
        """Return the line above the words."""
        return ""

    @abstractmethod
    def gold(self, example: Any) -> list[Entity]:
        """The reference, each entity once."""

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        """The answer, with scores."""
        return answer.entities

    def reference(self, example: Any) -> str:
        """The reference as text."""
        return ", ".join(e.label for e in self.gold(example))

    def describe_answer(self, example: Any, answer: Answer) -> str:
        """The answer as text."""
        return ", ".join(e.label for e in self.found(example, answer))

    def values(self, examples: Sequence[Any], answers: Sequence[Answer]) -> np.ndarray:
        """(N, C): what `statistic` needs of every example."""
        predicted = [self.found(example, answer) for example, answer in zip(examples, answers, strict=True)]
        return entity_counts([self.gold(example) for example in examples], predicted)

    def score(self, examples: Sequence[Any], answers: Sequence[Answer]) -> float:
        """The score in tables, in percent."""
        values = self.values(examples, answers)
        return float(self.statistic(values[None], np.ones((1, len(values))))[0, 0])

    def credits(self, values: np.ndarray) -> np.ndarray:
        """(N,) how right the answer for each example is, from 0 to 1."""
        gold, predicted, both = values.T[:3]
        return np.where(gold + predicted > 0, 2 * both / np.maximum(gold + predicted, 1), 1.0)

    def right(
        self, gold: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]], values: np.ndarray
    ) -> list[list[bool]]:
        """Whether each of the entities that were found is right, example by example."""
        return [[entity in wanted for entity in got] for wanted, got in zip(gold, predicted, strict=True)]

    def check_data(self, name: str, examples: Sequence[Any]) -> None:
        """`ValueError` for data that cannot be studied; `name` is train, dev or test. By default nothing is refused."""
        return None

    def count_hidden(self, examples: Sequence[Any]) -> int:
        """Entities inside or across another one, which tags cannot represent: tags hold the outermost only."""
        return 0


class EntityUnits(Units):
    """Entities in sentences."""

    metric, credit = "F1", "recall"
    plural, label = "entities", "type"
    has_positions = has_spans = True
    rules = (("metric", "entity F1"), ("repair", REPAIR_RULE), ("scheme", "BIO"))

    def gold(self, example: Any) -> list[Entity]:
        return sorted({Entity(e.label, e.start, e.end) for e in gold_entities(example)})

    def check_data(self, name: str, examples: Sequence[Any]) -> None:
        strange = next((t for s in examples for t in s.tags or () if not is_span_tag(t)), None)
        if strange:
            raise ValueError(
                f"{data_name(examples)} ({name}): the tag {strange!r} marks no entity, and entities are compared; "
                "train on labels of words with boustro fit, or give --scheme io if a run of one label is an entity"
            )

    def count_hidden(self, examples: Sequence[Any]) -> int:
        return sum(len(self.gold(s)) - len(extract_spans(s.tags)) for s in examples if s.tags is not None)


class WordUnits(Units):
    """A label for every word, such as its part of speech: each is an entity of one word."""

    metric = credit = "accuracy"
    plural = "words"
    has_positions = True
    rules = (("metric", "accuracy of words"),)

    def gold(self, example: Any) -> list[Entity]:
        return [Entity(label, n, n + 1) for n, label in enumerate(example.tags or ())]


class LabelUnits(Units):
    """One label per text, or per pair of texts."""

    metric = credit = "accuracy"
    rules = (("metric", "accuracy"),)

    def gold(self, example: Any) -> list[Entity]:
        return [Entity(example.label or NO_LABEL, 0, max(1, len(example)))]

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        pairs = zip(answer.tags, answer.scores, strict=True)
        return [Entity(label or NO_LABEL, 0, max(1, len(example)), score=score) for label, score in pairs]


class LabelSetUnits(LabelUnits):
    """Any number of labels per text."""

    metric, credit, plural = "micro F1", "mean F1", "labels"
    rules = (("metric", "micro F1 over labels"),)
    has_confusions = False

    def gold(self, example: Any) -> list[Entity]:
        return [Entity(label, 0, max(1, len(example))) for label in sorted(set(label_set(example)))]


class AnswerUnits(Units):
    """Answers to questions: spans of a context, one of them or none."""

    metric = credit = "F1"
    has_labels = has_confusions = False
    has_values = True
    rules = (("metric", "mean F1 of questions, with SQuAD's normalisation"),)

    def words(self, example: Any) -> Sequence[str]:
        return example.context.words

    def spaces(self, example: Any) -> list[bool]:
        return super().spaces(example.context)

    def title(self, example: Any) -> str:
        return join_words(example.question.words, example.question.spaces)

    def gold(self, example: Any) -> list[Entity]:
        return [Entity("answer", start, end) for start, end in sorted(set(example.spans))]

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        return answer.entities[:1] if answer_text(example, answer) else ()

    def reference(self, example: Any) -> str:
        return " / ".join(dict.fromkeys(example.answers or (NO_ANSWER,)))

    def describe_answer(self, example: Any, answer: Answer) -> str:
        return answer_text(example, answer) or NO_ANSWER

    def values(self, examples: Sequence[Any], answers: Sequence[Answer]) -> np.ndarray:
        """(N, 4): 1, 1, the F1 of the answer, and whether it matches exactly."""
        from boustro.metrics.questions import match

        rows = []
        for example, answer in zip(examples, answers, strict=True):
            exact, overlap = match(answer_text(example, answer), example.answers or ())
            rows.append((1.0, 1.0, overlap, exact))
        return np.array(rows).reshape(-1, 4)

    def right(
        self, gold: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]], values: np.ndarray
    ) -> list[list[bool]]:
        return [[bool(exact)] * len(got) for got, exact in zip(predicted, values[:, 3], strict=True)]


class NumberUnits(Units):
    """A number per text or pair of texts."""

    metric, credit = "Spearman", "agreement of ranks"
    has_labels = has_confusions = has_scores = False
    has_values = True
    statistic = staticmethod(spearman)
    rules = (("metric", "Spearman's correlation of ranks, times 100"),)

    def gold(self, example: Any) -> list[Entity]:
        return []

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        return ()

    def reference(self, example: Any) -> str:
        return f"{example.score:.2f}"

    def describe_answer(self, example: Any, answer: Answer) -> str:
        return f"{answer.value:.2f}"

    def values(self, examples: Sequence[Any], answers: Sequence[Answer]) -> np.ndarray:
        """(N, 2): the reference and the answer."""
        pairs = zip(examples, answers, strict=True)
        return np.array([(example.score, answer.value) for example, answer in pairs], float).reshape(-1, 2)

    def credits(self, values: np.ndarray) -> np.ndarray:
        gold, predicted = (np.argsort(np.argsort(side, kind="stable")) for side in values.T)
        return 1 - np.abs(gold - predicted) / max(1, len(values) - 1)


def answer_text(question: Any, answer: Answer) -> str:
    """The text of the best span of a `Question`'s context, "" where there is no answer."""
    best = answer.entities[0]
    return "" if answer.tags == (NO_ANSWER,) else question.passage(best.start, best.end)
