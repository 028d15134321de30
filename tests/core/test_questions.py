"""QuestionAnswerer: joint decoding against brute force, exact offsets, no answer, saving and opening, bad input."""

import itertools
import math

import numpy as np
import pytest
import torch

import boustro
from boustro.heads.options import AnswerOptions
from boustro.heads.registry import make_head
from boustro.tasks.questions.labelling import OTHER, match_features, question_kind, stem, stem_weights
from boustro.types import NO_ANSWER

MAX_SPAN = 3


def some_head(labels=("answer", NO_ANSWER), width=6, side=2):
    torch.manual_seed(3)
    options = AnswerOptions(hidden=8, dropout=0.0, max_span=MAX_SPAN)
    return make_head("answer", options, streams=((1, width - side),), labels=labels, side=side).eval()


LENGTHS = torch.tensor([3, 5, 1, 1, 4, 9])  # question, context, question, context, …


def brute_force(head, vectors, lengths):
    """Per question {(start, end): score} and the no-answer score, span by span."""
    body, seen = head.body, []
    body._spans, real = lambda g, own: seen.append(g) or real(g, own), body._spans
    _, null = body(vectors, lengths)
    (g,) = seen
    scores, first = [], 0
    for size in lengths[1::2].tolist():
        own = g[first : first + size]
        found = {}
        for start, end in itertools.combinations(range(size + 1), 2):
            if end - start <= MAX_SPAN:
                joint = torch.relu(body.first(own[start]) + body.last(own[end - 1]) + body.lengths[end - start - 1])
                ends = body.ends.weight[0] @ own[start] + body.ends.weight[1] @ own[end - 1] + body.ends.bias.sum()
                found[start, end] = float(ends + body.out.weight[0] @ joint)
        scores.append(found)
        first += size
    return scores, null.tolist()


def test_the_best_spans_and_their_probabilities_are_those_of_brute_force():
    head, vectors = some_head(), torch.randn(int(LENGTHS.sum()), 6)
    with torch.no_grad():
        found = head.predict(vectors, LENGTHS)
        scores, null = brute_force(head, vectors, LENGTHS)
    for answer, spans, none in zip(found, scores, null, strict=True):
        total = sum(map(math.exp, spans.values())) + math.exp(none)
        best = sorted(spans, key=spans.__getitem__, reverse=True)[:5]
        assert [(start, end) for start, end, _ in answer.spans] == best
        assert [p for *_, p in answer.spans] == pytest.approx([math.exp(spans[s]) / total for s in best], rel=1e-4)
        assert answer.null == pytest.approx(none - spans[best[0]], abs=1e-4) and answer.refused == (answer.null > 0)


def test_the_loss_is_the_log_of_the_probability_of_all_gold_spans():
    head, vectors = some_head(), torch.randn(int(LENGTHS.sum()), 6)
    with torch.no_grad():
        scores, null = brute_force(head, vectors, LENGTHS)
        gold = [[(0, 2), (4, 5)], [], [(0, 9)]]  # the last is longer than any span, so nothing is learned from it
        wanted = 0.0
        for spans, none, right in zip(scores, null, gold, strict=True):
            probabilities = {s: math.exp(v) for s, v in spans.items()} | {None: math.exp(none)}
            own = [s for s in right or [None] if s in probabilities]
            if own:
                wanted -= math.log(sum(probabilities[s] for s in own) / sum(probabilities.values()))
        assert head.loss(vectors, LENGTHS, gold).item() == pytest.approx(wanted / 3, rel=1e-4)
        assert head.loss(vectors, LENGTHS, [None, None, None]).item() == 0
    with pytest.raises(ValueError, match="lengths of the sentences"):
        head.loss(vectors[1:], LENGTHS, gold)


def test_an_answer_depends_on_its_own_question_and_context_only():
    head, vectors = some_head(("answer",)), torch.randn(int(LENGTHS.sum()), 6)
    together = head.predict(vectors, LENGTHS)
    bounds = [0, *LENGTHS.view(-1, 2).sum(1).cumsum(0).tolist()]
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        (alone,) = head.predict(vectors[start:stop], LENGTHS[2 * number : 2 * number + 2])
        assert [s[:2] for s in alone.spans] == [s[:2] for s in together[number].spans]
        assert [s[2] for s in alone.spans] == pytest.approx([s[2] for s in together[number].spans], rel=1e-4)
        assert alone.null == -math.inf and not alone.refused


QUESTION, TOLD = (
    tuple("Who painted the harbour ?".split()),
    tuple("In May the Harbour was painting . Ada left .".split()),
)


def test_match_features_of_a_worked_case():
    weights = stem_weights([TOLD] * 60 + [("Ada",)] * 40)
    assert stem("Painted") == stem("painting") == "paint" and weights["harbour"] < 0.2 and "nobody" not in weights
    rows = match_features(QUESTION, TOLD, {})
    assert rows.dtype == np.float32 and len(rows) == len(QUESTION) + len(TOLD)
    told = rows[len(QUESTION) :]
    assert told[:, 0].tolist() == [w in QUESTION for w in TOLD]
    assert told[:, 1].tolist() == [w.lower() in ("who", "painted", "the", "harbour", "?") for w in TOLD]
    assert told[:, 2].tolist() == [w in ("the", "Harbour", "painting") for w in TOLD]
    inside = {"the", "Harbour", "painting"}
    near = [len(inside & set(TOLD[max(0, i - 2) : i + 3])) / 4 for i in range(len(TOLD))]  # of four stems
    assert told[:, 4] == pytest.approx(near)
    assert (rows[:, -OTHER - 1] == 1).all() and question_kind(["in", "which", "year"]) == 6
    assert match_features(QUESTION, ("Ada",), weights).shape == (6, rows.shape[1])


NAMES = ["Ada", "Brandt", "Lisse", "Okonkwo", "Mira", "Tobias", "Ünal", "Zoë"]
ICON = "🏖️"


def asked(name, other, kind):
    text = f"“{ICON}” {name} painted the harbour. {other} sold the boat in 1907."
    question, answer = {
        "who": ("Who painted the harbour?", name),
        "sold": ("Who sold the boat?", other),
        "none": ("Who ate the cake?", None),
    }[kind]
    answers = [{"text": answer, "start": text.index(answer)}] if answer else []
    return {"context": text, "question": question, "answers": answers}


QUESTIONS = [asked(a, b, kind) for a, b in itertools.pairwise(NAMES + NAMES[:1]) for kind in ("who", "sold")]
UNANSWERED = [asked(a, b, "none") for a, b in itertools.pairwise(NAMES)]
SMALL = {"epochs": 15, "lr": 1e-2, "dropout": 0.0, "hidden": 16, "layers": "last"}


@pytest.fixture(scope="module")
def answerer(tiny_pair):
    data = QUESTIONS + UNANSWERED
    return boustro.QuestionAnswerer(tiny_pair, **SMALL).fit(data, dev=data, seed=1)


def test_it_learns_answers_and_their_absence(answerer):
    losses = answerer.record["losses"]
    assert losses[-1] < 0.2 * losses[0]
    score = answerer.evaluate(QUESTIONS + UNANSWERED)
    assert score.exact_match > 90 and score.f1 > 90 and answerer.types == ["answer", NO_ANSWER]
    assert score.to_dict()["unanswerable"]["f1"] > 90


def test_offsets_are_exact_on_unicode(answerer):
    told = QUESTIONS[-1]["context"]
    answer = answerer.predict("Who sold the boat?", told)
    assert told[answer.start : answer.end] == answer.text == str(answer) == answer.best[0].text == "Ada"
    assert all(told[a.start : a.end] == a.text for a in answer.best) and 0 < answer.score <= 1
    assert sum(a.score for a in answer.best) <= 1.001
    none = answerer.predict({"question": "Who ate the cake?", "context": told})
    assert (none.text, none.start, none.end) == ("", 0, 0) and none.best
    one, other = answerer.predict([("Who sold the boat?", told)] * 2)
    assert one == other and (one.text, one.start) == (answer.text, answer.start)
    assert one.score == pytest.approx(answer.score)


def test_a_folder_opens_and_agrees(answerer, tmp_path):
    answerer.save_pretrained(tmp_path / "qa")
    opened = boustro.QuestionAnswerer.from_pretrained(tmp_path / "qa")
    items = [(q["question"], q["context"]) for q in QUESTIONS + UNANSWERED]
    assert opened.predict(items) == answerer.predict(items)
    states = [task.fitted.head.state_dict() for task in (opened, answerer)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[1])


def test_a_long_context_is_read_whole(answerer):
    filler = "The rain fell on the old roof and nobody came . " * 500
    told = filler + QUESTIONS[0]["context"]
    answer = answerer.predict(QUESTIONS[0]["question"], told)
    assert len(answer.best) == 5 and all(told[a.start : a.end] == a.text for a in answer.best)
    assert answer.text == QUESTIONS[0]["answers"][0]["text"] and answer.start > len(filler)


def test_bad_input(answerer, tiny_pair):
    with pytest.raises(ValueError, match="question and its context 1: the question is empty"):
        answerer.predict("", "Ada left.")
    with pytest.raises(ValueError, match="question and its context 2: no text under 'context'"):
        answerer.predict([("Who?", "Ada left."), {"question": "Who?"}])
    with pytest.raises(ValueError, match="no question of the training data has an answer"):
        boustro.QuestionAnswerer(tiny_pair).fit(UNANSWERED)
    with pytest.raises(ValueError, match="a mlp head is not for this task, whose heads are answer"):
        boustro.QuestionAnswerer(tiny_pair, "mlp")
    moved = QUESTIONS * 2 + [QUESTIONS[0] | {"answers": [{"text": "Ada", "start": 0}]}]
    with pytest.warns(UserWarning, match="1 answer that does not stand at its offset"):
        answerer.evaluate(moved)
