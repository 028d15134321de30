"""Exact match, F1 and the best threshold, against the official scripts' rules written again."""

import random
import re
import string
from collections import Counter

import pytest

from boustro.metrics.questions import best_threshold, match, normalise, score_answers

VOCABULARY = "the a An harbour, Harbour old (old) 1,907 1907 theatre U.S. ! an-other".split()


def official_normal(text):
    """SQuAD's normalize_answer, step by step: lower, punctuation, articles, white space."""
    text = "".join(ch for ch in text.lower() if ch not in set(string.punctuation))
    return " ".join(re.sub(re.compile(r"\b(a|an|the)\b", re.UNICODE), " ", text).split())


def official_f1(gold, predicted):
    gold, predicted = official_normal(gold).split(), official_normal(predicted).split()
    same = sum((Counter(gold) & Counter(predicted)).values())
    if not gold or not predicted:
        return float(gold == predicted)
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted), same / len(gold)
    return 2 * precision * recall / (precision + recall)


def official_scores(gold, predicted):
    golds = [g for g in gold if official_normal(g)] or [""]
    exact = max(int(official_normal(g) == official_normal(predicted)) for g in golds)
    return exact, max(official_f1(g, predicted) for g in golds)


def official_threshold(gold, predicted, null):
    """SQuAD 2.0's find_best_thresh: questions in the order of their no-answer scores, answered one after the other."""
    has = [any(map(official_normal, g)) for g in gold]
    current = best = sum(not h for h in has)
    chosen = None
    for k in sorted(range(len(gold)), key=lambda k: null[k]):
        score = official_scores(gold[k], predicted[k])[1]
        current += score if has[k] else (-1 if predicted[k] else 0)
        if current > best + 1e-9:
            best, chosen = current, null[k]
    return 100 * best / len(gold), chosen


def some_text(draw):
    return " ".join(draw.choices(VOCABULARY, k=draw.randint(0, 5)))


def test_scores_are_those_of_the_official_script_on_random_answers():
    draw = random.Random(1)
    gold = [[some_text(draw) for _ in range(draw.randint(0, 3))] for _ in range(400)]
    predicted = [some_text(draw) for _ in gold]
    wanted = [official_scores(g, p) for g, p in zip(gold, predicted, strict=True)]
    found = score_answers(gold, predicted)
    assert list(found.exact) == [exact for exact, _ in wanted]
    assert list(found.f1s) == pytest.approx([f1 for _, f1 in wanted])
    assert found.exact_match == pytest.approx(100 * sum(e for e, _ in wanted) / 400)
    assert found.value == found.f1 == pytest.approx(100 * sum(f for _, f in wanted) / 400)
    assert all(normalise(text) == official_normal(text) for answers in gold for text in answers)
    parts = found.to_dict()
    assert parts["answerable"]["num_questions"] + parts["unanswerable"]["num_questions"] == 400
    whole = sum(parts[k]["f1"] * parts[k]["num_questions"] for k in ("answerable", "unanswerable")) / 400
    assert whole == pytest.approx(found.f1)


def test_the_best_threshold_is_the_official_one():
    draw = random.Random(2)
    for _ in range(30):
        gold = [[draw.choice(["old harbour", "1907"])] if draw.random() < 0.6 else [] for _ in range(25)]
        predicted = [draw.choice(["harbour", "1907", "the old harbour"]) for _ in gold]
        null = [draw.gauss(0 if answers else 1, 1) for answers in gold]
        best, chosen = official_threshold(gold, predicted, null)
        found, threshold = best_threshold(gold, predicted, null)
        assert found == pytest.approx(best)
        assert threshold == (min(null) - 1 if chosen is None else chosen)
        answered = [p if score <= threshold else "" for p, score in zip(predicted, null, strict=True)]
        assert score_answers(gold, answered).f1 == pytest.approx(best)


def test_worked_cases():
    assert match("Eiffel Tower", ["the tower"]) == (0, pytest.approx(2 / 3))
    assert match("the  Tower!", ["tower"]) == (1, 1)
    assert match("", []) == (1, 1) and match("tower", []) == (0, 0) and match("", ["tower"]) == (0, 0)
    assert match("the", ["an"]) == (1, 1) and match("May", ["an"]) == (0, 0)  # without a word: no answer
    assert score_answers([], []).f1 == 0 and best_threshold([], [], []) == (0, 0)
    assert "unanswerable" not in score_answers([["May"]], ["May"]).to_dict()


def test_numbers_of_questions_that_differ_are_an_error():
    with pytest.raises(ValueError, match="gold answers of 2 questions and 1 predicted"):
        score_answers([["a"], ["b"]], ["a"])
    with pytest.raises(ValueError, match="1 scores"):
        best_threshold([["a"], ["b"]], ["a", "b"], [0.0])
