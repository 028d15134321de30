"""Distillation: exact against all sequences, and a student that does what its teacher does."""

import numpy as np
import pytest
import torch

import boustro
from boustro.heads.crf.layer import CRF
from boustro.tasks.data import read_data
from boustro.tasks.data.texts import read_texts
from boustro.tasks.distill.command import DistillOptions
from boustro.tasks.distill.training import _soft_targets, train_student

TAGS = ["O", "B-X", "I-X"]


def crf_of(seed):
    torch.manual_seed(seed)
    crf = CRF(TAGS)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf, torch.randn(5, 3, requires_grad=True)


def test_the_loss_is_the_cross_entropy_over_all_sequences():
    (teacher, given), (student, scores), lengths = crf_of(1), crf_of(2), torch.tensor([3, 2])
    expected = 0.0
    for rows in (slice(0, 3), slice(3, 5)):
        size = rows.stop - rows.start
        own, total = torch.tensor([size]), 0.0
        for path in torch.cartesian_prod(*[torch.arange(3)] * size):
            try:
                p = np.exp(-size * teacher.loss(given[rows], path, own).item())
            except ValueError:
                continue
            total += p
            expected += p * size * student.loss(scores[rows], path, own).item()
        assert total == pytest.approx(1, abs=1e-4)
    loss = student.loss_to(scores, teacher.expect(given, lengths), lengths)
    assert 5 * loss.item() == pytest.approx(expected, rel=1e-4)
    loss.backward()
    assert scores.grad.isfinite().all() and student.transitions.grad.isfinite().all()
    itself = teacher.loss_to(given, teacher.expect(given, lengths), lengths)
    itself.backward()
    assert given.grad.abs().max() < 1e-6  # nothing is better than the teacher's own scores


NAMES = ["Ada", "Brandt", "Lisse", "Vellmar", "Okonkwo", "Calloway", "Mira", "Ines"]
ROWS = [
    {"text": text, "entities": [[start, start + len(name), label]]}
    for name in NAMES
    for text, start, label in ((f"{name} said no.", 0, "PER"), (f"In {name} it rained.", 3, "LOC"))
]
TEXTS = [row["text"] for row in ROWS] * 4
HOW = {"hidden": 32, "lr": 1e-2, "cache": False}


@pytest.fixture(scope="module", params=[None, False])
def teacher(request, tiny_pair):
    return boustro.Tagger(tiny_pair, epochs=15, dropout=0.0, crf=request.param, **HOW).fit(read_data(ROWS), seed=1)


def test_a_student_does_what_its_teacher_does(teacher, tiny_lm, tmp_path):
    half = str(tiny_lm("llama", "backward", seed=1, sentinel=True))
    options = DistillOptions(epochs=15, hidden=32, lr=1e-2)
    made = train_student(teacher, half, TEXTS, dev=read_data(ROWS), options=options, cache=False)
    figures = made.figures
    assert figures["agreement"] > 0.9 and figures["compared"] == len(TEXTS) // 10
    assert figures["student"]["parameters"] < figures["teacher"]["parameters"]
    assert figures["student"]["dev"]["f1"] > 80 and made.student.types == teacher.types
    made.student.save_pretrained(tmp_path / "s")
    opened = boustro.Tagger.from_pretrained(tmp_path / "s", cache=False)
    assert opened.predict(TEXTS[0]) == made.student.predict(TEXTS[0])
    untrained = train_student(teacher, half, TEXTS, options=DistillOptions(epochs=1, hidden=32, lr=1e-9), cache=False)
    assert untrained.figures["agreement"] < figures["agreement"]


def test_a_student_reads_the_mentions_that_its_teacher_read(tiny_pair, tiny_lm):
    pooled = boustro.Tagger(tiny_pair, epochs=2, pool_mentions=True, **HOW).fit(ROWS, seed=1)
    student = train_student(
        pooled, str(tiny_lm("llama", sentinel=True)), TEXTS, seed=1, options=DistillOptions(epochs=1)
    ).student
    assert student.config.pool_mentions and student.config.context == "document"
    assert len(student.encoder().streams) == 2  # the LM's own, and the pooled one


def test_a_student_of_a_tagger_learns_its_probabilities_at_its_temperature(teacher):
    """The mean expected tag of a CRF, and the tags of single words."""
    examples = [part.example for text in TEXTS[:6] for part in teacher.inputs.split(text, "text")]
    try:
        teacher.fitted.head.temperature = 4.0
        found = _soft_targets(teacher, examples)(np.arange(len(examples)), torch.arange(0))
        rows = found.tags if teacher.fitted.head.crf else found
        wanted = np.concatenate([answer.scores for answer in teacher.answer(examples)])
    finally:
        teacher.fitted.head.temperature = 1.0
    np.testing.assert_allclose(rows.amax(-1), wanted, atol=1e-4)


@pytest.mark.parametrize(("several", "words"), [(False, True), (True, False)])
def test_a_student_of_a_classifier_learns_what_it_answers(tiny_pair, several, words):
    """Its temperature, its labels each by itself where a text may have several, and its words beside the head."""
    texts = [("Ada left.", "name"), ("It rained.", "place"), ("Lisse won it.", "name"), ("Nobody reads.", "none")] * 3
    data = [{"text": text, "labels": ["all", label]} for text, label in texts] if several else texts
    made = boustro.Classifier(tiny_pair, "mlp-pool", epochs=3, dropout=0.0, words=words, **HOW).fit(data, seed=1)
    made.fitted.head.temperature = 2.5
    examples = read_texts(data)[:4]
    found = _soft_targets(made, examples)(np.arange(4), torch.arange(0))
    wanted = [list(answer.probabilities.values()) for answer in made.answer(examples)]
    np.testing.assert_allclose(found if several else found.probabilities, wanted, atol=1e-4)


def test_labelled_examples_are_learned_beside_the_texts(teacher, tiny_lm):
    half = str(tiny_lm("llama", "backward", seed=1, sentinel=True))
    other = {"PER": "LOC", "LOC": "PER"}
    swapped = [r | {"entities": [[a, b, other[label]] for a, b, label in r["entities"]]} for r in ROWS]
    options = DistillOptions(epochs=10, hidden=32, lr=1e-2)
    alone = train_student(teacher, half, TEXTS[:24], options=options, cache=False)
    beside = train_student(teacher, half, TEXTS[:24], read_data(swapped * 8), options=options, cache=False)
    assert beside.student.evaluate(read_data(swapped)).f1 > alone.student.evaluate(read_data(swapped)).f1 + 20
    with pytest.raises(ValueError, match="the teacher cannot teach ORG"):
        train_student(teacher, half, TEXTS, read_data([{"text": "Ada", "entities": [[0, 3, "ORG"]]}]), cache=False)


def test_classifiers_with_one_label_and_with_several(tiny_pair, tiny_lm):
    half = str(tiny_lm("llama", sentinel=True))
    one = [(text, "name" if text[0] != "I" else "place") for text in TEXTS[:16]]
    several = [{"text": text, "labels": [label]} for text, label in one]
    for data in (one, several):
        made = boustro.Classifier(tiny_pair, "mlp-pool", epochs=15, dropout=0.0, **HOW).fit(data, seed=1)
        options = DistillOptions(epochs=15, hidden=32, lr=1e-2)
        found = train_student(made, half, TEXTS, read_texts(data), read_texts(data), options=options, cache=False)
        assert found.figures["agreement"] > 0.9 and found.figures["student"]["dev"]


def test_what_cannot_be_distilled_is_refused(tiny_pair, teacher):
    span = boustro.Tagger(tiny_pair, "span", epochs=1, **HOW).fit(read_data(ROWS), seed=1)
    with pytest.raises(ValueError, match="a span head gives no distribution"):
        train_student(span, tiny_pair, TEXTS, cache=False)
    with pytest.raises(ValueError, match="a span head answers spans, and the teacher tags"):
        train_student(teacher, tiny_pair, TEXTS, options=DistillOptions(head="span"), cache=False)
    with pytest.raises(ValueError, match="a ridge head is trained at once"):
        train_student(teacher, tiny_pair, TEXTS, options=DistillOptions(head="ridge"), cache=False)
    ridge = boustro.Tagger(tiny_pair, "ridge", cache=False).fit(read_data(ROWS), seed=1)
    with pytest.raises(ValueError, match="a ridge head gives no distribution"):
        train_student(ridge, tiny_pair, TEXTS, options=DistillOptions(head="mlp"), cache=False)
    with pytest.raises(ValueError, match="1 example in the texts: too few"):
        train_student(teacher, tiny_pair, ["Ada"], cache=False)
