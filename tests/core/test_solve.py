"""Heads that are trained together are those that each run gives alone."""

import numpy as np
import pytest
import torch

from boustro.heads import solve as module
from boustro.heads.base import Head
from boustro.heads.inputs import HeadInputs
from boustro.heads.lockstep.train import CACHE_BYTES
from boustro.heads.registry import HEADS, HeadShape
from boustro.heads.solve import HeadRun, TrainingJob, train_heads, train_many
from boustro.heads.training import Dev
from labelled import options_of

LABELS = ("O", "B-A", "I-A")
WIDTH = 18  # 18 words of width 18 are no multiple of four dropout numbers
LENGTHS = np.random.default_rng(5).integers(1, 9, 14)
STARTS = np.concatenate([[0], np.cumsum(LENGTHS)])
TAGS = np.random.default_rng(6).integers(0, len(LABELS), STARTS[-1])
BEFORE = np.concatenate([[0], TAGS[:-1]])
TAGS[(TAGS == 2) & ((BEFORE == 0) | np.isin(np.arange(len(TAGS)), STARTS))] = 1  # only valid sequences
VECTORS = (np.random.default_rng(7).normal(size=(STARTS[-1], WIDTH)) + np.eye(WIDTH)[TAGS] * 2).astype(np.float16)

LR = {"lr": 0.01}
OWN = [  # sentences, seed, options
    ((0, 3, 5, 2, 9), 1, {"batch_sentences": 2, "epochs": 3}),
    ((0, 3, 5, 2, 9), 1, {"lr": 0.003, "batch_sentences": 2, "epochs": 3}),  # same group
    ((0, 3, 5, 2, 9), 2, {"batch_sentences": 2, "epochs": 3}),
    ((0, 3, 5, 2, 9), 1, {"dropout": 0.4, "batch_sentences": 2, "epochs": 3}),
    ((1, 2, 13), 1, {"dropout": 0.0, "epochs": 6, "batch_sentences": 32}),
    (tuple(range(14)), 7, {"lr": 0.02, "epochs": 2, "batch_sentences": 4}),
]
INPUTS = HeadInputs([VECTORS[:, None, :7], VECTORS[:, None, 7:]], LENGTHS)
LAYERED = HeadInputs([np.stack([VECTORS[:, :7], VECTORS[:, 7:14] * 3], 1), VECTORS[:, None, 7:]], LENGTHS)


def runs(kind: str, hidden: int | None, crf: bool) -> list[HeadRun]:
    common = {"hidden": hidden, "crf": crf, "standardise": False, "dropout": 0.1, **LR}
    return [HeadRun(options_of(kind, **common | own), seed, np.array(some)) for some, seed, own in OWN]


def targets(_, rows) -> torch.Tensor:
    return torch.from_numpy(TAGS)[rows]


def train(kind: str, own: list[HeadRun], inputs: HeadInputs = INPUTS) -> list[Head]:
    streams = tuple(stream.shape[1:] for stream in inputs.streams)
    return [found.head for found in train_heads(HeadShape(kind, streams, LABELS), inputs, targets, own, bf16=False)]


def refuse_one_by_one(monkeypatch):
    monkeypatch.setattr(module, "train_head", None)


@pytest.fixture(
    scope="module",
    params=[("linear", None, False), ("mlp", 7, False), ("mlp", None, False), ("linear", None, True), ("mlp", 7, True)],
    ids=str,
)
def trained(request) -> tuple[list[Head], list[Head]]:
    own = runs(*request.param)
    with pytest.MonkeyPatch.context() as patch:
        refuse_one_by_one(patch)
        together = train(request.param[0], own)
    return together, [head for run in own for head in train(request.param[0], [run])]


def test_every_head_is_the_one_that_its_run_gives_alone(trained):
    together, alone = trained
    for found, head in zip(together, alone, strict=True):
        assert found.state_dict().keys() == head.state_dict().keys() and found.shape == head.shape
        torch.testing.assert_close(found.state_dict(), head.state_dict(), rtol=1e-4, atol=1e-5)
    first, second, other_seed = (head.body.maps()[0].weight for head in together[:3])
    assert not torch.allclose(first, second, atol=1e-3) and not torch.allclose(first, other_seed, atol=1e-3)


def test_a_body_with_other_names_and_layers_between_is_trained_all_the_same(monkeypatch):
    """Nothing rests on where a layer stands."""
    from boustro.heads import bodies

    made = bodies.linear
    monkeypatch.setattr(bodies, "linear", lambda *given: bodies.PerWord(torch.nn.Identity(), *made(*given)))
    own = runs("linear", None, False)[:2]
    alone = [head for run in own for head in train("linear", [run])]
    refuse_one_by_one(monkeypatch)
    for found, head in zip(train("linear", own), alone, strict=True):
        torch.testing.assert_close(found.state_dict(), head.state_dict(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "change"), [("mlp", {"mix_epochs": 1}), ("block", {"hidden": 6}), ("bilstm", {"hidden": 6})]
)
def test_what_cannot_be_trained_together_is_trained_one_by_one(kind, change):
    options = HEADS[kind].options(**{"epochs": 1, "hidden": 5} | change)
    own = [HeadRun(options, seed, np.array([0, 3, 5, 2])) for seed in (1, 2)]
    alone = [head for run in own for head in train(kind, [run], LAYERED)]
    for found, head in zip(train(kind, own, LAYERED), alone, strict=True):
        torch.testing.assert_close(found.state_dict(), head.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("how", [{"mix_epochs": 0}, {"mix_epochs": 0, "standardise": False}, {"combine": "concat"}])
def test_each_run_has_inputs_of_its_own_and_mixes_their_layers(how, monkeypatch):
    """Standardised by those inputs alone; runs over the same inputs read the same words."""
    options = [HEADS["mlp"].options(**{"hidden": 5, "epochs": 2, "lr": lr} | how) for lr in (0.01, 0.003)]
    parts = [LAYERED, HeadInputs([s[: STARTS[6]] for s in LAYERED.streams], LENGTHS[:6])]
    shape = HeadShape("mlp", ((2, 7), (1, WIDTH - 7)), LABELS)
    jobs = [
        TrainingJob(shape, own, targets, HeadRun(each, seed)) for own in parts for each in options for seed in (1, 2)
    ]
    alone = [train_heads(*job[:3], [job.run], bf16=False)[0].head for job in jobs]
    refuse_one_by_one(monkeypatch)
    for found, head in zip(train_many(iter(jobs), bf16=False), alone, strict=True):
        torch.testing.assert_close(found.head.state_dict(), head.state_dict(), rtol=1e-4, atol=1e-5)


def test_the_epoch_is_chosen_for_each_head_and_a_head_goes_on():
    options = HEADS["linear"].options(epochs=2, standardise=False)
    best = iter([2.0, 1.0, 1.0, 2.0])
    own = [HeadRun(options, seed, dev=Dev(INPUTS, lambda answers: next(best))) for seed in (1, 2)]
    shape = HeadShape("linear", ((1, 7), (1, WIDTH - 7)), LABELS)
    first, second = train_heads(shape, INPUTS, targets, own)
    assert (first.log.best_epoch, second.log.best_epoch) == (1, 2)
    before = first.head.state_dict()["body.1.weight"].clone()
    (further,) = train_heads(shape, INPUTS, targets, [HeadRun(options, 1, head=first.head)])
    assert further.head is first.head and not torch.equal(before, further.head.state_dict()["body.1.weight"])


@pytest.mark.parametrize(("threads", "room"), [(1, 1), (2, CACHE_BYTES)])
def test_neither_threads_nor_the_size_of_the_cache_change_a_number(threads, room, monkeypatch):
    monkeypatch.setattr("boustro.heads.lockstep.train.CACHE_BYTES", room)
    usual, own = torch.get_num_threads(), runs("mlp", 7, False)
    alone = [head for run in own for head in train("mlp", [run])]
    refuse_one_by_one(monkeypatch)
    try:
        torch.set_num_threads(threads)
        split = train("mlp", own)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(usual)
    for found, head in zip(split, alone, strict=True):
        torch.testing.assert_close(found.state_dict(), head.state_dict(), rtol=1e-4, atol=1e-5)


def test_the_random_numbers_of_others_stay_where_they_were():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    train("linear", runs("linear", None, False)[:2])
    assert torch.equal(torch.rand(4), expected)


def test_what_cannot_be_trained_is_refused():
    with pytest.raises(ValueError, match="`runs` is empty"):
        train("linear", [])
    with pytest.raises(ValueError, match="at least one example"):
        train("linear", [HeadRun(HEADS["linear"].options(), 1, np.array([], int))])


@pytest.mark.parametrize("crf", [False, True])
def test_heads_that_do_not_stay_finite_are_refused(crf):
    options = HEADS["mlp"].options(hidden=4, crf=crf, standardise=False, lr=1e38, epochs=4, batch_sentences=1)
    with pytest.raises(ValueError, match=r"not finite after its training; try a lower --lr"):
        train("mlp", [HeadRun(options, seed, np.array([0, 3, 5])) for seed in (1, 2)])


@pytest.mark.parametrize("crf", [False, True])
def test_a_batch_without_words_teaches_nothing_alone_or_together(crf):
    options = HEADS["linear"].options(crf=crf, standardise=False, epochs=2, batch_sentences=1, dropout=0.0)
    inputs = HeadInputs([VECTORS[:4, None]], np.array([0, 4, 0]))
    own = [HeadRun(options, seed) for seed in (1, 2)]
    for found, alone in zip(train("linear", own, inputs), [train("linear", [run], inputs) for run in own], strict=True):
        torch.testing.assert_close(found.state_dict(), alone[0].state_dict(), rtol=1e-4, atol=1e-5)
        assert all(parameter.isfinite().all() for parameter in found.parameters())
