"""boustro.models.loss: the loss over a sample of the pieces is the plain one where all are drawn."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from boustro.models.loss import exact_loss, inclusion, sampled_loss


def draw_case(seed: int, num_pieces: int = 13):
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(2, 5, 6, generator=generator).requires_grad_()
    vectors = torch.randn(num_pieces, 6, generator=generator).requires_grad_()
    targets = torch.randint(num_pieces, (2, 5), generator=generator)
    targets[0, 1] = -100
    return states, vectors, targets


def finish_by_tanh(logits: torch.Tensor) -> torch.Tensor:
    return 3 * torch.tanh(logits / 3)


@given(st.integers(0, 1000), st.sampled_from([None, finish_by_tanh]))
def test_with_all_pieces_drawn_loss_and_gradients_are_plain_cross_entropy(seed, finish):
    states, vectors, targets = draw_case(seed)
    logits = states.flatten(0, 1) @ vectors.T
    plain = F.cross_entropy(logits if finish is None else finish(logits), targets.flatten(), ignore_index=-100)
    wanted = torch.autograd.grad(plain, (states, vectors))
    loss = sampled_loss(states, vectors.__getitem__, targets, torch.ones(len(vectors)), finish)
    found = torch.autograd.grad(loss, (states, vectors))
    torch.testing.assert_close(loss, plain)
    for own, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(own, other)


@given(st.integers(0, 1000), st.sampled_from([None, finish_by_tanh]))
def test_the_exact_loss_is_plain_cross_entropy_over_several_tiles(seed, finish):
    states, vectors, targets = draw_case(seed)
    logits = states.flatten(0, 1) @ vectors.T
    plain = F.cross_entropy(logits if finish is None else finish(logits), targets.flatten(), ignore_index=-100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("boustro.models.loss.TILE", 4)
        patch.setattr("boustro.models.loss.ROWS", 3)
        torch.testing.assert_close(exact_loss(states, vectors.__getitem__, targets, len(vectors), finish), plain)


def test_the_estimate_of_the_sum_over_all_pieces_has_no_bias():
    """The mean of exp(loss) over many samples is the plain softmax's sum divided by the target's term."""
    torch.manual_seed(0)
    states, vectors = torch.randn(1, 1, 4), torch.randn(60, 4)
    probabilities = torch.rand(60) * 0.5 + 0.3
    target = torch.tensor([[7]])
    plain = F.cross_entropy((states[0] @ vectors.T), target[0]).exp()
    draws = torch.stack([sampled_loss(states, vectors.__getitem__, target, probabilities) for _ in range(4000)]).exp()
    assert abs(draws.mean() - plain) < 4 * draws.std() / 4000**0.5


def test_inclusion_by_hand():
    torch.testing.assert_close(inclusion(np.array([15, 0, 0]), 2), torch.tensor([1.0, 0.5, 0.5]))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50), st.integers(1, 60))
def test_inclusion_adds_up_to_the_number_drawn_and_grows_with_the_count(counts, num_drawn):
    found = inclusion(np.array(counts), num_drawn)
    assert (found > 0).all() and (found <= 1).all()
    assert found.sum().item() == pytest.approx(min(num_drawn, len(counts)), rel=1e-4)
    order = np.argsort(counts, kind="stable")
    assert (found[order].diff() >= -1e-6).all()
