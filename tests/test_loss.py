"""boustro.models.loss: the chunked loss is the plain cross-entropy, and LMWithLoss is transformers' own loss."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import AutoModelForCausalLM

from boustro.models.loss import LMWithLoss, lm_loss
from boustro.objectives.causal import causal

WIDTH, VOCABULARY = 6, 11


def draw_case(
    num_segments: int, length: int, seed: int, ignored: float = 0.0
) -> tuple[torch.Tensor, nn.Linear, torch.Tensor]:
    """States, a head and targets, a share of which asks for nothing."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(num_segments, length, WIDTH, generator=generator)
    head = nn.Linear(WIDTH, VOCABULARY)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(generator=generator)
    targets = torch.randint(VOCABULARY, (num_segments, length), generator=generator)
    mask = torch.rand(num_segments, length, generator=generator) < ignored
    mask[0, 0] = False
    return states, head, targets.masked_fill(mask, -100)


def plain_loss(states: torch.Tensor, head: nn.Module, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(head(states).flatten(0, 1), targets.flatten(), ignore_index=-100)


def value_and_gradients(loss_function, states, head, targets, **options) -> list[torch.Tensor]:
    states = states.clone().requires_grad_()
    head.zero_grad()
    loss = loss_function(states, head, targets, **options)
    loss.backward()
    return [loss.detach(), states.grad, *(parameter.grad.clone() for parameter in head.parameters())]


@given(st.integers(1, 3), st.integers(1, 7), st.integers(1, 30), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 1000))
def test_the_loss_and_its_gradients_are_plain_cross_entropy_for_any_chunk(num_segments, length, chunk, ignored, seed):
    case = draw_case(num_segments, length, seed, ignored)
    expected = value_and_gradients(plain_loss, *case)
    for found, wanted in zip(value_and_gradients(lm_loss, *case, chunk_rows=chunk), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_the_loss_by_hand():
    """Two rows that ask for something: logits (0, 0) cost ln 2, and (0, ln 3) for the second cost ln 4/3."""
    head = nn.Identity()
    states = torch.tensor([[[0.0, 0.0], [5.0, -5.0], [0.0, 3.0]]])
    states[0, 2, 1] = torch.tensor(3.0).log()
    loss = lm_loss(states, head, torch.tensor([[0, -100, 1]]), chunk_rows=2)
    torch.testing.assert_close(loss, (torch.tensor(2.0).log() + torch.tensor(4 / 3).log()) / 2)


def test_a_position_without_a_target_has_no_gradient():
    states, head, targets = draw_case(2, 5, seed=1, ignored=0.5)
    _, gradient, *_ = value_and_gradients(lm_loss, states, head, targets, chunk_rows=3)
    assert ((gradient.abs().sum(-1) == 0) == (targets == -100)).all()


def test_no_more_than_a_chunk_of_logits_is_made_at_once():
    states, head, targets = draw_case(3, 10, seed=1)
    rows = []
    head.register_forward_hook(lambda module, inputs, logits: rows.append(len(logits)))
    lm_loss(states, head, targets, chunk_rows=7)
    assert rows == [7, 7, 7, 7, 2]


def test_low_precision_logits_are_summed_in_float32():
    states, head, targets = draw_case(2, 200, seed=1)
    states, head = states.bfloat16(), head.bfloat16()
    loss = lm_loss(states, head, targets)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, F.cross_entropy(head(states).float().flatten(0, 1), targets.flatten()))


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_the_loss_of_a_model_and_its_gradients_are_those_of_transformers(tiny_lm, kind):
    lm = AutoModelForCausalLM.from_pretrained(tiny_lm(kind), dtype=torch.float32).eval()
    ids = torch.randint(400, (3, 20), generator=torch.Generator().manual_seed(1))
    wanted = lm(input_ids=ids, labels=ids).loss  # shifts by itself
    wanted.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in lm.named_parameters()}
    lm.zero_grad()
    found = LMWithLoss(lm, chunk_rows=8)(ids[:, :-1], ids[:, 1:])["loss"]
    found.backward()
    torch.testing.assert_close(found, wanted)
    for name, parameter in lm.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], msg=name)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_backward_model_is_scored_on_the_flipped_text_after_the_sentinel(tiny_lm, kind):
    lm = AutoModelForCausalLM.from_pretrained(tiny_lm(kind), dtype=torch.float32).eval()
    ids = torch.randint(1, 400, (2, 9), generator=torch.Generator().manual_seed(1))
    reading = torch.cat([torch.zeros(2, 1, dtype=torch.int64), ids.flip(1)], dim=1)
    with torch.no_grad():
        torch.testing.assert_close(
            LMWithLoss(lm)(*causal(ids, "backward", 0))["loss"], lm(input_ids=reading, labels=reading).loss
        )
