"""Scores of answers to questions: exact match and F1, with SQuAD's normalisation.

    normalise("The  Eiffel Tower!")                    "eiffel tower"
    predicted "Eiffel Tower", gold "the tower"         exact match 0, F1 2 · 1 · ½ / (1 + ½) = 66.7

Both are the maximum over the gold answers. A question without a gold answer is answered rightly by "". With no-answer
scores, `best_threshold` finds the one above which no answer is best. Sources: the official scripts of SQuAD 1.1
(Rajpurkar et al. 2016) and 2.0 (Rajpurkar, Jia and Liang 2018).
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar

from boustro.metrics.score import ShownScore

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation and articles, one space between words."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def match_f1(predicted: str, gold: str) -> float:
    """F1 of the bags of normalised words, from 0 to 1; where one of them is empty, whether both are."""
    got, wanted = normalise(predicted).split(), normalise(gold).split()
    if not got or not wanted:
        return float(got == wanted)
    common = sum((Counter(got) & Counter(wanted)).values())
    return 2 * common / (len(got) + len(wanted))


def match(predicted: str, gold: Sequence[str]) -> tuple[float, float]:
    """Exact match (0 or 1) and F1 (0 to 1), each the best over the gold answers; [] is a question without an answer."""
    golds = [answer for answer in gold if normalise(answer)] or [""]
    exact = any(normalise(predicted) == normalise(answer) for answer in golds)
    return float(exact), max(match_f1(predicted, answer) for answer in golds)


@dataclass(frozen=True, slots=True, repr=False)
class AnswerScore(ShownScore):
    """Exact match and F1 of every question, 0 to 1; the properties are percent."""

    exact: tuple[float, ...]
    f1s: tuple[float, ...]
    answerable: tuple[bool, ...]
    """Which questions have a gold answer."""
    signature: dict[str, str] = field(default_factory=dict)
    measure: ClassVar[str] = "F1"

    @property
    def exact_match(self) -> float:
        """Share of questions whose normalised answer is a gold one, percent; 0 where there is none."""
        return _percent(self.exact)

    @property
    def f1(self) -> float:
        """Mean F1 of the questions, percent; 0 where there is none."""
        return _percent(self.f1s)

    value = f1  # the score by which models are compared

    def to_dict(self) -> dict:
        """Return the output of `--json`; questions with and without an answer apart, where there are both."""
        result = {"exact_match": self.exact_match, "f1": self.f1, "num_questions": len(self.exact)}
        if not all(self.answerable):
            for name, wanted in (("answerable", True), ("unanswerable", False)):
                chosen = [k for k, has in enumerate(self.answerable) if has == wanted]
                exact, f1s = ([scores[k] for k in chosen] for scores in (self.exact, self.f1s))
                result[name] = {"exact_match": _percent(exact), "f1": _percent(f1s), "num_questions": len(chosen)}
        return {**result, "signature": self.signature}


def score_answers(
    gold: Sequence[Sequence[str]], predicted: Sequence[str], signature: dict[str, str] | None = None
) -> AnswerScore:
    """Compare answers with the gold answers of each question; `ValueError` where their numbers differ."""
    if len(gold) != len(predicted):
        raise ValueError(f"gold answers of {len(gold)} questions and {len(predicted)} predicted ones")
    scores = [match(answer, golds) for answer, golds in zip(predicted, gold, strict=True)]
    answerable = tuple(any(map(normalise, golds)) for golds in gold)
    exact, f1s = (tuple(column) for column in zip(*scores, strict=True)) if scores else ((), ())
    return AnswerScore(exact, f1s, answerable, {"metric": "SQuAD exact match and F1", **(signature or {})})


def best_threshold(
    gold: Sequence[Sequence[str]], predicted: Sequence[str], no_answer: Sequence[float]
) -> tuple[float, float]:
    """Return the F1 (percent) and the no-answer score up to which an answer is given that make the best F1.

    `predicted` are the answers as if every question had one. Where nothing should be answered, the threshold is
    below the lowest score. Questions of equal score are answered together.
    """
    if not gold:
        return 0.0, 0.0
    lengths = [len(gold), len(predicted), len(no_answer)]
    if len(set(lengths)) > 1:
        raise ValueError(f"gold answers of {lengths[0]} questions, {lengths[1]} predicted ones, {lengths[2]} scores")
    gain = [match(a, golds)[1] - match("", golds)[1] for a, golds in zip(predicted, gold, strict=True)]
    total = best = sum(match("", golds)[1] for golds in gold)
    order = sorted(range(len(gold)), key=no_answer.__getitem__)
    threshold = no_answer[order[0]] - 1.0
    for score, group in groupby(order, key=no_answer.__getitem__):
        total += sum(gain[k] for k in group)
        if total > best + 1e-9:
            best, threshold = total, score
    return 100 * best / len(gold), threshold


def _percent(values: Sequence[float]) -> float:
    return 100 * sum(values) / len(values) if values else 0.0
