"""How studies judge each units: scores are those of the units itself, and examples are shown where systems differ."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import spearmanr

from boustro.apps.cli.main import main
from boustro.apps.studies.compare.cases import OTHERS, WORD_GROUPS, Answers
from boustro.apps.studies.compare.examples import MOST_WORDS, confident_mistakes, cut, differing
from boustro.metrics.labels import score_text_labels
from boustro.metrics.questions import score_answers
from boustro.metrics.significance import bootstrap
from boustro.tasks.answers import Answer
from boustro.tasks.data.questions import read_questions
from boustro.tasks.labellings import labelling_class
from boustro.tasks.units import AnswerUnits, EntityUnits, LabelSetUnits, LabelUnits, NumberUnits, WordUnits
from boustro.types import Entity, Sentence


class Labelled(SimpleNamespace):
    """A text with any number of labels."""

    def __len__(self):
        return len(self.words)


TEXTS = [Sentence(("boat", str(n)), label="up" if n % 3 else "down", where=f"d/t.jsonl:{n}") for n in range(9)]
CONTEXT = "Ada Brandt sold the old harbour in May."
RECORDS = [
    {"context": CONTEXT, "question": "Who sold it?", "answers": [{"text": "Ada Brandt", "start": 0}]},
    {
        "context": CONTEXT,
        "question": "When?",
        "answers": [{"text": "May", "start": 35}, {"text": "in May", "start": 32}],
    },
    {"context": CONTEXT, "question": "Why?", "answers": []},
]
QUESTIONS, _ = read_questions(RECORDS)


def score(units, examples, answers):
    (drawn,) = bootstrap(units.statistic, [units.values(examples, answers)[None]], draws=1)
    return drawn.scores[0]


def label(name, p=0.8):
    return Answer((name,), (p,))


def word_labels(*names):
    return Answer(names, (0.8,) * len(names), tuple(Entity(name, n, n + 1, score=0.8) for n, name in enumerate(names)))


def span(start, end, p=0.6):
    return Answer(("answer",), (p,), (Entity("answer", start, end, score=p),), value=0.0)


def judged(units, examples, answers):
    """The answers as a report reads them from a cell."""
    found = [units.found(e, a) for e, a in zip(examples, answers, strict=True)]
    return Answers(
        [units.words(e) for e in examples],
        [units.gold(e) for e in examples],
        [[Entity(e.label, e.start, e.end) for e in own] for own in found],
        [[e.score for e in own] for own in found],
        units.values(examples, answers),
        [units.said(e, a) for e, a in zip(examples, answers, strict=True)],
    )


def test_one_label_per_text_is_judged_by_accuracy():
    units, answers = LabelUnits(), [label("up")] * 9
    wanted = score_text_labels([t.label for t in TEXTS], ["up"] * 9).accuracy
    assert score(units, TEXTS, answers) == pytest.approx(wanted) == pytest.approx(200 / 3)
    assert [own.facts("texts")["units"] for own in (units, LabelSetUnits())] == ["texts", "labels"]
    assert units.credits(units.values(TEXTS, answers)).tolist() == [0, 1, 1] * 3
    empty = Sentence((), label="up")
    assert score(units, [empty], [label("up")]) == 100 and units.words(empty) == ("",)


WORDS = [Sentence(("Boats", "rot", "."), ("NOUN", "VERB", "PUNCT")), Sentence(("Rot", "!"), ("NOUN", "PUNCT"))]


def test_labels_of_words_are_judged_by_accuracy():
    units = labelling_class("tags", WORDS).units
    answers = [word_labels("NOUN", "VERB", "PUNCT"), word_labels("VERB", "PUNCT")]
    assert isinstance(units, WordUnits)
    assert isinstance(labelling_class("tags", [Sentence(("a",), ("B-X",))]).units, EntityUnits)
    assert score(units, WORDS, answers) == pytest.approx(80)
    assert units.credits(units.values(WORDS, answers)).tolist() == [1, 0.5]
    assert units.gold(WORDS[1]) == [Entity("NOUN", 0, 1), Entity("PUNCT", 1, 2)]


def test_labels_of_words_are_compared(tiny_pair, tmp_path):
    rows = "".join("".join(f"{w}\t{t}\n" for w, t in zip(s.words, s.tags, strict=True)) + "\n" for s in WORDS * 6)
    (tmp_path / "a.tsv").write_text(rows, "utf-8")
    (tmp_path / "b.tsv").write_text(rows + "Oh\tINTJ\n", "utf-8")
    words = ["--encoders", tiny_pair.split("+")[0], tiny_pair, "--train", str(tmp_path / "a.tsv")]
    words += ["--dev", str(tmp_path / "b.tsv"), "--scheme", "labels", "--out", str(tmp_path / "out")]
    assert main(["compare", *words, "--seeds", "2", "--epochs", "4"]) == 0
    results = json.loads((tmp_path / "out/results.json").read_text("utf-8"))
    assert results["signature"]["metric"] == "accuracy of words" and results["data"]["dev"]["entities"] == 31
    for system in results["systems"]:
        right = {label: found["num_entities"] for label, found in system["per_type"].items()}
        assert right["PUNCT"] == 12 and all(value <= 100 for value in system["dev"]["values"])
    assert [group["title"] for group in results["cases"]] == [*WORD_GROUPS, OTHERS]
    report = (tmp_path / "out/report.md").read_text("utf-8")
    assert "Words before the word" in report and "conlleval" not in report and "Kinds of mistakes" not in report
    assert "1 dev words with a label that the training data never show" in report


def test_label_sets_are_judged_by_micro_f1():
    texts = [Labelled(words=("a",), labels=names, where="") for names in (("x", "y"), (), ("y",))]
    units = labelling_class("class", texts).units
    answers = [Answer(("x",), (0.9,)), Answer((), ()), Answer(("x", "y"), (0.7, 0.6))]
    assert isinstance(units, LabelSetUnits) and not units.has_confusions
    assert score(units, texts, answers) == pytest.approx(200 * 2 / 6)
    assert units.credits(units.values(texts, answers)) == pytest.approx([2 / 3, 1, 2 / 3])
    assert [units.reference(t) for t in texts] == ["x, y", "", "y"]


def test_answers_to_questions_are_judged_by_their_mean_f1():
    units = AnswerUnits()
    nothing = Answer(("no answer",), (0.5,), (Entity("answer", 0, 1, score=0.1),), value=1.0)
    answers = [span(0, 1), span(7, 8), nothing]
    wanted = score_answers([q.answers for q in QUESTIONS], ["Ada", "May", ""])
    assert score(units, QUESTIONS, answers) == pytest.approx(wanted.f1)
    assert units.values(QUESTIONS, answers)[:, 3].mean() * 100 == pytest.approx(wanted.exact_match)
    assert [units.said(q, a) for q, a in zip(QUESTIONS, answers, strict=True)] == ["Ada", "May", "no answer"]
    found = judged(units, QUESTIONS, answers)
    assert units.reference(QUESTIONS[1]) == "May / in May" and units.reference(QUESTIONS[2]) == "no answer"
    assert units.right(found.gold, found.predicted, found.values) == [[False], [True], []]
    assert units.title(QUESTIONS[0]) == "Who sold it ?"


def test_numbers_are_judged_by_the_correlation_of_their_ranks():
    units, rng = NumberUnits(), np.random.default_rng(0)
    gold, found = rng.normal(size=(2, 12))
    pairs = [SimpleNamespace(words=("a", "|", "b"), score=g, where="") for g in gold]
    answers = [Answer(value=float(x)) for x in found]
    assert score(units, pairs, answers) == pytest.approx(100 * spearmanr(gold, found).statistic)
    exact = [Answer(value=2 * g) for g in gold]
    assert units.credits(units.values(pairs, exact)).tolist() == [1] * 12
    reversed_ranks = units.credits(units.values(pairs, [Answer(value=-g) for g in gold]))
    assert reversed_ranks.min() == 0 and units.reference(pairs[0]) == f"{gold[0]:.2f}"


def test_examples_that_two_systems_answer_differently_are_fixed_or_broken():
    units = LabelUnits()
    always, never = [label("up", p) for p in np.linspace(0.5, 0.9, 9)], [label("down", 0.7)] * 9
    first, second = judged(units, TEXTS, never), judged(units, TEXTS, always)
    (group,) = differing(units, TEXTS, [first, first], [second, second], {}, ("a", "b"), "all texts")
    assert (group["entities"], group["fixed"], group["broken"], group["num_seeds"]) == (9, 12, 6, 2)
    assert group["recall"] == pytest.approx([100 / 3, 200 / 3])
    shown = group["sentences"]
    assert [s["kind"] for s in shown] == ["fixed"] * 5 + ["broken"] * 3
    assert shown[0]["number"] == 9 and shown[0]["where"] == "t.jsonl:8"  # the surest first
    assert shown[0]["answers"]["b"] == {"said": "up", "score": pytest.approx(0.9), "credit": 1}
    (same,) = differing(units, TEXTS, [first], [first], {}, ("a", "b"), "all texts")
    assert (same["fixed"], same["broken"], same["sentences"]) == (0, 0, [])
    mistakes = confident_mistakes(units, TEXTS, "b", second)
    assert [m["number"] for m in mistakes] == [7, 4, 1] and mistakes[0]["reference"] == "down"


def test_a_long_context_is_cut_around_the_answer():
    words = [f"w{i}" for i in range(200)]
    shown, spans = cut(words, [(150, 152), (3, 4)], MOST_WORDS)
    assert shown[0] == shown[-1] == "…" and len(shown) == MOST_WORDS + 2
    assert spans == [[spans[0][0], spans[0][0] + 2]] and shown[spans[0][0]] == "w150"
    assert cut(words[:5], [(0, 5)], MOST_WORDS) == (words[:5], [[0, 5]])
    assert cut(words, [(199, 200)], 10)[0] == ["…", *words[190:]] and cut(words, [], 3)[0] == [*words[:3], "…"]
