"""Which words moved a decision: each word of a text is left out, and the probability of the label compared.

    word_effects(classifier, "A dull film.")
    [WordEffect("A", 0, 1, 0.01), WordEffect("dull", 2, 6, 0.55), …]      without "dull", 0.55 less for the label

A text of W words is read W + 1 times. Source: Li, Monroe and Jurafsky 2016, section 3 (erasure), with probabilities.
"""

from dataclasses import dataclass, replace

from boustro.choose import choose
from boustro.tasks.classifier import Classifier
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
    words = placed.sentence.words
    whole, *others = model.answer([placed.sentence, *(_without(placed.sentence, i) for i in range(len(words)))])
    tables = [answer.probabilities or {} for answer in (whole, *others)]
    label = max(tables[0], key=lambda name: tables[0][name]) if label is None else label
    choose(label, dict.fromkeys(model.types), "label")
    return [
        WordEffect(word, start, end, tables[0][label] - own[label])
        for word, (start, end), own in zip(words, placed.places, tables[1:], strict=True)
    ]


def _without(sentence: Sentence, word: int) -> Sentence:
    spaces = sentence.spaces
    rest = None if spaces is None else spaces[:word] + spaces[word + 1 :]
    return replace(sentence, words=sentence.words[:word] + sentence.words[word + 1 :], spaces=rest)
