"""boustro.models.loss: against PyTorch's own loss, over a sample of the pieces, and in any cut of the batch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from boustro.lab.objectives.causal import causal
from boustro.models.loss import LMWithLoss, exact_loss, find_finish, inclusion, lm_loss, sampled_loss

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


def test_under_autocast_the_gradients_are_those_of_plain_cross_entropy_but_for_rounding():
    case = draw_case(2, 30, seed=1, ignored=0.2)
    with torch.autocast("cpu", torch.bfloat16):
        found = value_and_gradients(lm_loss, *case, chunk_rows=7)
        expected = value_and_gradients(plain_loss, *case)
    for own, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(own, wanted, rtol=0.02, atol=0.01 * wanted.abs().max().item())


def test_a_frozen_head_gets_no_gradient_and_the_states_get_theirs():
    states, head, targets = draw_case(1, 6, seed=1)
    _, wanted, *_ = value_and_gradients(plain_loss, states, head, targets)
    head.requires_grad_(False).zero_grad()
    states.requires_grad_()
    lm_loss(states, head, targets, chunk_rows=4).backward()
    torch.testing.assert_close(states.grad, wanted)
    assert all(parameter.grad is None for parameter in head.parameters())


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_backward_model_is_scored_on_the_flipped_text_after_the_sentinel(tiny_lm, kind):
    lm = AutoModelForCausalLM.from_pretrained(tiny_lm(kind), dtype=torch.float32).eval()
    ids = torch.randint(1, 400, (2, 9), generator=torch.Generator().manual_seed(1))
    reading = torch.cat([torch.zeros(2, 1, dtype=torch.int64), ids.flip(1)], dim=1)
    with torch.no_grad():
        torch.testing.assert_close(
            LMWithLoss(lm)(*causal(ids, "backward", 0))["loss"], lm(input_ids=reading, labels=reading).loss
        )


# Families that do something to their logits after the head

FINISHING = [
    ("gpt2", {}),
    ("llama", {}),
    ("gemma2", {"final_logit_softcapping": 3.0}),
    ("gemma3_text", {}),
    ("gemma3_text", {"final_logit_softcapping": 2.0}),
    ("granite", {"logits_scaling": 8.0}),
    ("cohere", {"logit_scale": 0.25}),
    ("cohere2", {"logit_scale": 2.0}),
]


def make_lm(kind: str, scale: float = 0.3, **options: float):
    """A random model of a family; `scale` is the spread of its matrices."""
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"num_key_value_heads": 1, "head_dim": 16, "vocab_size": 50, "max_position_embeddings": 64}
    config = AutoConfig.for_model(kind, **shape, pad_token_id=0, bos_token_id=1, eos_token_id=2, **options)
    lm = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in lm.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, scale, generator=generator)
    return lm


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("kind", "options"), FINISHING)
def test_logits_that_are_scaled_or_capped_are_so_in_the_loss_too(kind, options):
    lm = make_lm(kind, **options)
    lm.eval()
    ids = torch.randint(50, (2, 9), generator=torch.Generator().manual_seed(1))
    wanted = lm(input_ids=ids, labels=ids).loss
    wanted.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in lm.named_parameters()}
    lm.zero_grad()
    found = LMWithLoss(lm)(ids[:, :-1], ids[:, 1:])["loss"]
    found.backward()
    torch.testing.assert_close(found, wanted)
    for name, parameter in lm.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], msg=name)
    if options:
        with torch.no_grad():
            head = lm.get_output_embeddings()
            without = lm_loss(lm.base_model(ids[:, :-1]).last_hidden_state, head, ids[:, 1:])
        assert abs(without - wanted) > 0.01


def test_a_new_model_s_cap_is_seen_although_its_logits_are_far_below_it():
    finish = find_finish(make_lm("gemma2", scale=1e-3))
    assert finish is not None
    torch.testing.assert_close(finish(torch.tensor([1e6, -1e6])), torch.tensor([30.0, -30.0]))


class Doubled(LlamaForCausalLM):
    """A family that does to its logits what no option of its config tells."""

    def forward(self, *arguments, **options):
        output = super().forward(*arguments, **options)
        output.logits = 2 * output.logits
        return output


def test_what_is_not_known_is_refused():
    lm = Doubled(LlamaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2))
    with pytest.raises(ValueError, match=r"Doubled changes its logits in an unknown way"):
        LMWithLoss(lm)


def test_an_option_that_means_something_else_in_this_family_is_not_trusted():
    """Llama has no such option: it stays what it is."""
    lm = make_lm("llama")
    lm.config.logits_scaling = 3.0
    assert find_finish(lm) is None


def test_a_head_with_layers_of_its_own_is_refused():
    with pytest.raises(ValueError, match="BertLMHeadModel"):
        LMWithLoss(make_lm("bert", is_decoder=True))


@pytest.mark.parametrize("training", [True, False])
def test_wrapping_leaves_the_model_as_it_was(training):
    lm = make_lm("cohere").train(training)
    state = torch.get_rng_state()
    LMWithLoss(lm)
    assert lm.training is training and not lm.get_output_embeddings()._forward_hooks
    assert torch.equal(torch.get_rng_state(), state)


def draw_sampled_case(seed: int, num_pieces: int = 13):
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(2, 5, 6, generator=generator).requires_grad_()
    vectors = torch.randn(num_pieces, 6, generator=generator).requires_grad_()
    targets = torch.randint(num_pieces, (2, 5), generator=generator)
    targets[0, 1] = -100
    return states, vectors, targets


def finish_by_tanh(logits: torch.Tensor) -> torch.Tensor:
    return 3 * torch.tanh(logits / 3)


@given(st.integers(0, 1000), st.sampled_from([None, finish_by_tanh]))
def test_with_all_pieces_drawn_and_over_several_tiles_it_is_plain_cross_entropy(seed, finish):
    states, vectors, targets = draw_sampled_case(seed)
    logits = states.flatten(0, 1) @ vectors.T
    plain = F.cross_entropy(logits if finish is None else finish(logits), targets.flatten(), ignore_index=-100)
    wanted = torch.autograd.grad(plain, (states, vectors))
    loss = sampled_loss(states, vectors.__getitem__, targets, torch.ones(len(vectors)), finish)
    torch.testing.assert_close(loss, plain)
    for own, other in zip(torch.autograd.grad(loss, (states, vectors)), wanted, strict=True):
        torch.testing.assert_close(own, other)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("boustro.models.loss.TILE", 4)
        patch.setattr("boustro.models.loss.LOGIT_ROWS", 3)
        torch.testing.assert_close(exact_loss(states, vectors.__getitem__, targets, len(vectors), finish), plain)


def test_the_estimate_of_the_sum_over_all_pieces_has_no_bias():
    """The mean of exp(loss) over many samples is the plain softmax's sum divided by the target's term."""
    torch.manual_seed(0)
    states, vectors = torch.randn(1, 1, 4), torch.randn(60, 4)
    probabilities = torch.rand(60) * 0.5 + 0.3
    target = torch.tensor([[7]])
    plain = F.cross_entropy((states[0] @ vectors.T), target[0]).exp()
    draws = torch.stack([sampled_loss(states, vectors.__getitem__, target, probabilities) for _ in range(1000)]).exp()
    assert abs(draws.mean() - plain) < 4 * draws.std() / 1000**0.5


def test_inclusion_by_hand():
    torch.testing.assert_close(inclusion(np.array([15, 0, 0]), 2), torch.tensor([1.0, 0.5, 0.5]))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50), st.integers(1, 60))
def test_inclusion_adds_up_to_the_number_drawn_and_grows_with_the_count(counts, num_drawn):
    found = inclusion(np.array(counts), num_drawn)
    assert (found > 0).all() and (found <= 1).all()
    assert found.sum().item() == pytest.approx(min(num_drawn, len(counts)), rel=1e-4)
    order = np.argsort(counts, kind="stable")
    assert (found[order].diff() >= -1e-6).all()
