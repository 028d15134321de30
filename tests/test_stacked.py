"""Heads trained side by side are those that `train_head` gives one by one."""

import numpy as np
import pytest
import torch

from boustro.heads.base import Head
from boustro.heads.inputs import Inputs
from boustro.heads.many.groups import HeadRun
from boustro.heads.many.stack import StackedHeads
from boustro.heads.many.training import CACHE_BYTES, train_stacked
from boustro.heads.registry import HEADS, make_head
from boustro.heads.training import mix_all, predict_inputs, train_head

LABELS = ("O", "B-A", "I-A")
WIDTH = 18  # 18 words of width 18 are no multiple of four dropout numbers
LENGTHS = np.random.default_rng(5).integers(1, 9, 14)
STARTS = np.concatenate([[0], np.cumsum(LENGTHS)])
TAGS = np.random.default_rng(6).integers(0, len(LABELS), STARTS[-1])
BEFORE = np.concatenate([[0], TAGS[:-1]])
TAGS[(TAGS == 2) & ((BEFORE == 0) | np.isin(np.arange(len(TAGS)), STARTS))] = 1  # only valid sequences
VECTORS = (np.random.default_rng(7).normal(size=(STARTS[-1], WIDTH)) + np.eye(WIDTH)[TAGS] * 2).astype(np.float16)

RUNS = [
    HeadRun(sentences=(0, 3, 5, 2, 9), seed=1, lr=0.01, batch_sentences=2, epochs=3),
    HeadRun(sentences=(0, 3, 5, 2, 9), seed=1, lr=0.003, weight_decay=0.5, batch_sentences=2, epochs=3),  # same group
    HeadRun(sentences=(0, 3, 5, 2, 9), seed=2, lr=0.01, batch_sentences=2, epochs=3),
    HeadRun(sentences=(0, 3, 5, 2, 9), seed=1, lr=0.01, dropout=0.4, batch_sentences=2, epochs=3),
    HeadRun(sentences=(1, 2, 13), seed=1, lr=0.01, dropout=0.0, epochs=6, batch_sentences=32),
    HeadRun(sentences=tuple(range(14)), seed=7, lr=0.02, epochs=2, batch_sentences=4),
]


def state(stacked, head):
    """The state dict of one `TaggingHead`, without mixes."""
    return {name: stack[head].clone() for name, stack in stacked.parameters.items()}


def train_one(kind: str, run: HeadRun, hidden: int | None, crf: bool) -> Head:
    """The same head by `train_head`."""
    rows = np.concatenate([np.arange(STARTS[s], STARTS[s + 1]) for s in run.sentences])
    torch.manual_seed(run.seed)
    own = {"hidden": hidden, "crf": crf, "dropout": run.dropout, "standardise": False}
    own |= {"epochs": run.epochs, "lr": run.lr, "weight_decay": run.weight_decay, "mix_epochs": 0}
    own |= {"batch_sentences": run.batch_sentences}
    chosen = HEADS[kind].options.of_saved(own)
    head = make_head(kind, chosen, ((1, WIDTH),), LABELS)
    own, lengths = torch.from_numpy(TAGS[rows]), LENGTHS[list(run.sentences)]
    targets = lambda _, batch: own[batch]  # noqa: E731
    train_head(head, Inputs([VECTORS[rows][:, None]], lengths), targets, run.seed, bf16=False)
    return head


@pytest.fixture(
    scope="module",
    params=[("linear", None, False), ("mlp", 7, False), ("mlp", None, False), ("linear", None, True), ("mlp", 7, True)],
    ids=str,
)
def trained(request) -> tuple[StackedHeads, list[Head]]:
    kind, hidden, crf = request.param
    return (
        train_stacked(kind, VECTORS, STARTS, TAGS, LABELS, RUNS, hidden, crf),
        [train_one(kind, r, hidden, crf) for r in RUNS],
    )


def test_every_head_is_the_one_that_train_head_gives(trained):
    stacked, single = trained
    assert len(stacked) == len(RUNS)
    for m, head in enumerate(single):
        own = {name: p for name, p in head.state_dict().items() if not name.startswith("mixes.")}
        found = state(stacked, m)
        assert found.keys() == own.keys()
        for name in own:
            torch.testing.assert_close(found[name], own[name], rtol=1e-4, atol=1e-5)
    first, second, other_seed = (state(stacked, m)["body.1.weight"] for m in range(3))
    assert not torch.allclose(first, second, atol=1e-3) and not torch.allclose(first, other_seed, atol=1e-3)


def test_all_predict_in_one_pass_what_each_predicts_alone(trained, monkeypatch):
    stacked, single = trained
    monkeypatch.setattr("boustro.heads.many.stack.SCORED_WORDS", 13)
    monkeypatch.setattr("boustro.heads.many.stack.DECODED_WORDS", 29)
    best, valid = stacked.best_tags(VECTORS), stacked.best_tags(VECTORS, STARTS)
    for m, head in enumerate(single):
        answers = predict_inputs(head, Inputs([VECTORS[:, None]], LENGTHS))
        np.testing.assert_array_equal(valid[m], np.concatenate([ids for ids, _ in answers]))
        with torch.inference_mode():
            scores = head.body(mix_all(head, [VECTORS[:, None]]).float(), torch.from_numpy(LENGTHS))
        np.testing.assert_array_equal(best[m], scores.argmax(-1).numpy())


def test_a_state_fits_into_a_head(trained):
    stacked, single = trained
    assert single[0].load_state_dict(state(stacked, 0), strict=False).unexpected_keys == []


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("room", [1, CACHE_BYTES])
def test_neither_threads_nor_the_size_of_the_cache_change_a_number(threads, room, monkeypatch):
    monkeypatch.setattr("boustro.heads.many.training.CACHE_BYTES", room)
    usual = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        split = train_stacked("mlp", VECTORS, STARTS, TAGS, LABELS, RUNS, 7)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(usual)
    for m, run in enumerate(RUNS):
        alone = train_stacked("mlp", VECTORS, STARTS, TAGS, LABELS, [run], 7)
        for name, stack in alone.parameters.items():
            torch.testing.assert_close(split.parameters[name][m], stack[0], rtol=1e-5, atol=1e-6)


def test_the_random_numbers_of_others_stay_where_they_were():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    train_stacked("linear", VECTORS, STARTS, TAGS, LABELS, RUNS[:2])
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize(
    ("kind", "run", "message"),
    [
        ("crf", HeadRun(sentences=(1,)), "known are linear, mlp"),
        ("linear", HeadRun(sentences=()), "at least one"),
        ("linear", HeadRun(sentences=(1,), epochs=0), "at least one"),
    ],
)
def test_what_cannot_be_trained_is_refused(kind, run, message):
    with pytest.raises(ValueError, match=message):
        train_stacked(kind, VECTORS, STARTS, TAGS, LABELS, [run])


def test_no_runs_are_refused():
    with pytest.raises(ValueError, match="`runs` is empty"):
        train_stacked("linear", VECTORS, STARTS, TAGS, LABELS, [])


@pytest.mark.parametrize("crf", [False, True])
def test_heads_that_do_not_stay_finite_are_refused(crf):
    run = HeadRun(sentences=(0, 3, 5), lr=1e38, epochs=4, batch_sentences=1)
    with pytest.raises(ValueError, match=r"not finite after its training; try a lower --lr"):
        train_stacked("mlp", VECTORS, STARTS, TAGS, LABELS, [run], hidden=4, crf=crf)
