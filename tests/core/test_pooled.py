"""Heads that label a whole text: against a loop over texts, and independent of what else is in the batch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from boustro.heads.base import Head
from boustro.heads.inputs import HeadInputs
from boustro.heads.options import ClassOptions
from boustro.heads.pooled import pool_max, pool_mean
from boustro.heads.registry import HEADS, make_head
from boustro.heads.training import train_head
from second_device import second_device

WIDTH, CLASSES = 6, ("sport", "politics", "science")
KINDS = ["mlp-pool", "bilstm-pool"]
kinds = pytest.mark.parametrize("kind", KINDS)
batches = st.lists(st.integers(0, 5), max_size=7)


def make(kind: str, **options) -> Head:
    torch.manual_seed(1)
    return make_head(kind, ClassOptions(**{"hidden": 8, "dropout": 0.0} | options), ((1, WIDTH),), CLASSES).eval()


def words(lengths, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(sum(lengths), WIDTH, generator=torch.Generator().manual_seed(seed))
    return x, torch.tensor(lengths, dtype=torch.int64)


@given(batches, st.integers(0, 100))
def test_pooling_is_a_loop_over_texts(lengths, seed):
    x, sizes = words(lengths, seed)
    for pooled, reduce in ((pool_mean, lambda t: t.mean(0)), (pool_max, lambda t: t.amax(0))):
        wanted = [reduce(part) if len(part) else torch.zeros(WIDTH) for part in x.split(lengths)]
        torch.testing.assert_close(pooled(x, sizes), torch.stack(wanted) if wanted else torch.zeros(0, WIDTH))


@given(batches, st.integers(0, 100))
def test_scores_are_those_of_the_formula_text_by_text(lengths, seed):
    x, sizes = words(lengths, seed)
    mlp, lstm = (make(kind) for kind in KINDS)
    for head in (mlp, lstm):
        wanted = []
        for part in x.split(lengths):
            z = torch.zeros(0, 8)
            if len(part):
                z = torch.relu(mlp.body.enter[1](part)) if head is mlp else lstm.body.lstm(part)[0]
            top = z.amax(0) if len(part) else torch.zeros(8)
            mean = z.mean(0) if len(part) else torch.zeros(8)
            wanted.append(head.body.leave[1](torch.cat([mean, top]) if head is mlp else top))
        found = head.scores(x, sizes)
        torch.testing.assert_close(found, torch.stack(wanted) if wanted else torch.zeros(0, 3), rtol=1e-4, atol=1e-5)


@kinds
@given(lengths=batches, seed=st.integers(0, 100))
def test_neither_batch_nor_order_changes_a_prediction(kind, lengths, seed):
    head, (x, sizes) = make(kind), words(lengths, seed)
    with torch.inference_mode():
        together = head.predict(x, sizes)
        alone = [head.predict(part, torch.tensor([len(part)]))[0] for part in x.split(lengths)]
        order = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(seed)).tolist()
        parts = x.split(lengths)
        shuffled = head.predict(torch.cat([parts[i] for i in order] or [x]), sizes[order])
    for i, found in zip(order, shuffled, strict=True):
        np.testing.assert_allclose(found, alone[i], atol=1e-5)
        np.testing.assert_allclose(together[i], alone[i], atol=1e-5)
        assert found.shape == (3,)


@kinds
def test_gradients_reach_every_parameter_and_the_words(kind):
    head, (x, lengths) = make(kind, dropout=0.1).train(), words([3, 0, 5, 1])
    x.requires_grad_()
    loss = head.loss(x, lengths, torch.tensor([0, 1, 2, 0]))
    loss.backward()
    assert x.grad is not None and x.grad.isfinite().all() and x.grad.any()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.any(), name
    expected = torch.nn.functional.cross_entropy(head.eval().scores(x, lengths), torch.tensor([0, 1, 2, 0]))
    torch.testing.assert_close(head.loss(x, lengths, torch.tensor([0, 1, 2, 0])), expected)


@pytest.mark.parametrize(("kind", "place"), zip(KINDS, ["cuda", "mps"], strict=True))
def test_it_runs_where_the_words_are(kind, place):
    head, (x, lengths) = make(kind), words([2, 0, 3])
    with torch.inference_mode():
        here = head.predict(x, lengths)
    with second_device(place) as device:
        head.to(device)
        with torch.no_grad():
            there = head.predict(x.to(device), lengths)
        np.testing.assert_allclose(np.stack(there), np.stack(here), atol=1e-6)
        head.loss(x.to(device), lengths, torch.tensor([0, 1, 2])).backward()


@pytest.mark.parametrize("kind", [*KINDS, "score-pool"])
def test_losses_in_bf16_are_those_in_fp32_but_for_rounding(kind):
    lengths, losses = np.array([5, 7, 1, 3] * 10), []
    features = np.random.default_rng(0).normal(size=(lengths.sum(), 2, WIDTH)).astype(np.float16)
    targets = torch.arange(40) % 3 if kind != "score-pool" else torch.linspace(-1, 1, 40)
    for bf16 in (False, True):
        torch.manual_seed(1)
        head = make_head(kind, HEADS[kind].options(hidden=8, epochs=2, batch_sentences=8), ((2, WIDTH),), CLASSES)
        log = train_head(head, HeadInputs([features], lengths), lambda numbers, _: targets[numbers], 1, bf16=bf16)
        losses.append(log.losses)
        assert all(parameter.dtype == torch.float32 for parameter in head.parameters())
    assert losses[0] != losses[1]
    np.testing.assert_allclose(*losses, rtol=2e-2)
