"""Which words moved a decision: each word is left out, and the probability of the label compared.

    word_effects(classifier, "A dull film.")
    [WordEffect("A", 0, 1, 0.01), WordEffect("dull", 2, 6, 0.55), …]      without "dull", 0.55 less for the label

An example of W words is read W + 1 times. Source: Li, Monroe and Jurafsky 2016, section 3 (erasure).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from boustro.choose import choose
from boustro.tasks.base import Task
from boustro.tasks.classifier import Classifier
from boustro.tasks.data.pairs import Pair
from boustro.tasks.data.texts import whole_text
from boustro.types import Sentence


@dataclass(frozen=True, slots=True)
class WordEffect:
    """A word, its place in the text, and the label's probability with it minus that without it, from -1 to 1."""

    word: str
    start: int
    end: int
    effect: float


def word_effects(model: Classifier, text: str, label: str | None = None) -> list[WordEffect]:
    """The effect of every word on the probability of `label`, by default the most probable one, in text order.

    Raises `ValueError` for an untrained model and for an unknown label.
    """
    placed = whole_text(text)
    found = effects(model, [placed.sentence], label)[0]
    return [
        WordEffect(word, start, end, effect)
        for word, (start, end), effect in zip(placed.sentence.words, placed.places, found, strict=True)
    ]


def effects(model: Task[Any, Any], examples: Sequence[Sentence | Pair], label: str | None = None) -> list[list[float]]:
    """The same for every word of `example.words`, of texts or pairs; 0 for the bar between the texts of a pair."""
    if label is not None:
        choose(label, dict.fromkeys(model.types), "label")
    shorter = [_without_each(example) for example in examples]
    asked = [e for example, own in zip(examples, shorter, strict=True) for e in (example, *own) if e is not None]
    tables = iter([answer.probabilities or {} for answer in model.answer(asked)])
    found = []
    for own in shorter:
        whole = next(tables)
        named = max(whole, key=lambda name: whole[name]) if label is None else label
        found.append([0.0 if e is None else whole[named] - next(tables)[named] for e in own])
    return found


def _without_each(example: Sentence | Pair) -> list[Any]:
    """The example without each of its words; None for the bar of a pair."""
    if isinstance(example, Sentence):
        return [_without(example, i) for i in range(len(example.words))]
    one, other = example.parts
    first = [replace(_unmarked(example, 0, i), first=_without(one, i)) for i in range(len(one.words))]
    second = [replace(_unmarked(example, 1, i), second=_without(other, i)) for i in range(len(other.words))]
    return [*first, None, *second]


def _unmarked(pair: Pair, part: int, word: int) -> Pair:
    """The pair whose marks are those after this word of this part is left out."""
    if pair.marks is None:
        return pair
    moved = frozenset(m - (m > word) for m in pair.marks[part] if m != word)
    return replace(pair, marks=(moved, pair.marks[1]) if part == 0 else (pair.marks[0], moved))


def _without(sentence: Sentence, word: int) -> Sentence:
    spaces = sentence.spaces
    rest = None if spaces is None else spaces[:word] + spaces[word + 1 :]
    return replace(sentence, words=sentence.words[:word] + sentence.words[word + 1 :], spaces=rest)
