"""Effects on an answer: of words, by leaving each out, and of directions, by reading each LM alone.

    word_effects(classifier, "A dull film.")
    [WordEffect("A", 0, 1, 0.01), WordEffect("dull", 2, 6, 0.55), …]      without "dull", 0.55 less for the label

    by_stream(tagger, tagger.answer_inputs(["Jordan closed its border."]))
    [("starter-forward", [InputAnswer(…)]), ("starter-backward", [InputAnswer(…)])]

Words: an example of W words is read W + 1 times. Source: Li, Monroe and Jurafsky 2016, section 3 (erasure).
Directions: the vectors of every other LM are replaced by their mean over the training set, which says nothing of the
word. The head was trained with both LMs, so this is what it makes of one, not what a head over that LM alone can do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from boustro.choose import choose
from boustro.heads.training import mix_all, predict_mixed
from boustro.tasks.answers import Answer, InputAnswer, InputPart
from boustro.tasks.base import Task
from boustro.tasks.classifier import Classifier
from boustro.types import short_score

LONGEST_EXPLAINED = 500
"""Words of an example whose words are left out one by one."""


@dataclass(frozen=True, slots=True)
class WordEffect:
    """A word, its place in the text, and the label's probability with it minus that without it, from -1 to 1."""

    word: str
    start: int
    end: int
    effect: float


def word_effects(model: Classifier, text: str, label: str | None = None) -> list[WordEffect]:
    """Return the effect of every word on the probability of `label`, by default the most probable one, in text order.

    Raises `ValueError` for an untrained model and for an unknown label.
    """
    (part,) = model.inputs.split(text, "")
    by_word = effects(model, [part.example], label)[0]
    return [
        WordEffect(word, start, end, effect)
        for word, (start, end), effect in zip(part.example.words, part.places, by_word, strict=True)
    ]


def effects(model: Task[Any, Any], examples: Sequence[Any], label: str | None = None) -> list[list[float]]:
    """Return the effect of every word of `example.words`, in tasks with `leaves_words_out`; 0 for one that stays.

    Of a regression, the effect is on the value.
    """
    if label is not None:
        choose(label, dict.fromkeys(model.types), "label")
    shorter = [list(example.without_each()) if model.leaves_words_out else [] for example in examples]
    asked = [e for example, cuts in zip(examples, shorter, strict=True) for e in (example, *cuts) if e is not None]
    answers = iter(model.answer(asked))
    by_example = []
    for cuts in shorter:
        whole = next(answers)
        table = whole.probabilities or {}
        named = max(table, key=table.__getitem__, default=None) if label is None else label
        by_example.append([0.0 if e is None else _value(whole, named) - _value(next(answers), named) for e in cuts])
    return by_example


def by_stream(model: Task[Any, Any], answers: Sequence[InputAnswer]) -> list[tuple[str, list[InputAnswer]]]:
    """For each LM of the encoder, its name and the same inputs answered from its vectors alone.

    Empty for an encoder of one LM, and for a head whose vectors are not standardised, or beside others'.
    """
    fitted = model.fitted
    head = fitted.head
    if len(head.widths) < 2 or not head.options.standardise:
        return []
    examples = [part.example for answer in answers for part, _ in answer.parts]
    inputs = fitted.inputs(examples)
    mixed, streams = mix_all(head, inputs.streams), []
    encoder = model.encoder()
    for numbers in encoder.streams_by_lm if len(encoder.streams_by_lm) > 1 else ():
        masked = [x if i in numbers else x * 0 for i, x in enumerate(mixed.split(head.widths, dim=1))]
        own_answers = iter(fitted.answers(predict_mixed(head, torch.cat(masked, dim=1), inputs), examples))
        streams.append((encoder.streams[numbers[0]].name, [_answered_by(answer, own_answers) for answer in answers]))
    return streams


def explain(model: Task[Any, Any], answers: Sequence[InputAnswer]) -> list[dict[str, Any]]:
    """Explain each answer by what decided it, as JSON can hold it.

    `streams`: what the model answers from the vectors of each LM alone (`by_stream`), where there are several.
    `words`: the effect of every word on the label or the value, for tasks with one answer for a whole example.

    Raises `ValueError` for such an example with more than 500 words.
    """
    explanations: list[dict[str, Any]] = [{} for _ in answers]
    for name, stream_answers in by_stream(model, answers):
        for explained, answer in zip(explanations, stream_answers, strict=True):
            explained.setdefault("streams", []).append({"stream": name} | model.to_record(answer))
    parts = [part for answer in answers for part, _ in answer.parts]
    if parts and model.leaves_words_out:
        refuse_many_words(parts, model)
        own_effects = iter(effects(model, [part.example for part in parts]))
        for explained, answer in zip(explanations, answers, strict=True):
            explained["words"] = [word for part, _ in answer.parts for word in _placed(model, part, next(own_effects))]
    return explanations


def refuse_many_words(parts: Sequence[InputPart], model: Task[Any, Any], place: str = "the input") -> None:
    """`ValueError` for an example with more words than are left out one by one, where the task needs that."""
    longest = max((len(part.example) for part in parts), default=0)
    if longest > LONGEST_EXPLAINED and model.leaves_words_out:
        raise ValueError(
            f"{place} has {longest:,} words; an explanation reads it once for each of them, and takes "
            f"{LONGEST_EXPLAINED} at most"
        )


def _value(answer: Answer, label: str | None) -> float:
    """Return the probability of the label, or the value of a regression."""
    return float(answer.value or 0.0) if label is None else (answer.probabilities or {})[label]


def _answered_by(answer: InputAnswer, answers: Iterator[Answer]) -> InputAnswer:
    """Return the input's answer with the next of other answers for its examples."""
    return replace(answer, parts=tuple((part, next(answers)) for part, _ in answer.parts))


def _placed(model: Task[Any, Any], part: InputPart, by_word: Sequence[float]) -> list[dict[str, Any]]:
    """Return each word that was left out with its effect: and its place in a text, or the number of its text, 1 or
    2."""
    example, texts = part.example, part.example.parts
    pairs = zip(by_word, example.without_each(), strict=True)
    rounded = [None if shorter is None else short_score(effect) for effect, shorter in pairs]
    if len(texts) > 1:
        left_out = (effect for effect in rounded if effect is not None)
        numbered = ((number, word) for number, one in enumerate(texts, 1) for word in one.words)
        return [{"sentence": n, "text": word, "effect": e} for (n, word), e in zip(numbered, left_out, strict=True)]
    words = zip(example.words, part.places, rounded, strict=True)
    return [{"text": word, "start": start, "end": end, "effect": e} for word, (start, end), e in words if e is not None]
