"""boustro.lab.pretrain.trainer: orthogonal steps, agreement with torch's own Muon, and one state for the two parts.

boustro.heads.training: agreement with torch's own.
"""

import copy
import io
from itertools import cycle

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from boustro.heads.training import AdamW
from boustro.lab.presets import make_masked_config
from boustro.lab.pretrain.recipes import RECIPES
from boustro.lab.pretrain.trainer import Muon, MuonAdamW, orthogonalise
from test_masked import VOCABULARY, make_pieces

ROUNDING = {False: 1e-2, True: 4e-2}  # by whether the steps are made in bf16
SHAPES = [(8, 8), (4, 16), (16, 4), (1, 5), (12, 11)]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def conditioned(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    """A matrix with singular values between 0.3 and 1."""
    u, s, v = torch.linalg.svd(draw(rows, columns, seed=seed), full_matrices=False)
    return u @ torch.diag(torch.linspace(1, 0.3, len(s))) @ v


# Orthogonalisation


@pytest.mark.parametrize(("shape", "bf16"), [*zip(SHAPES, cycle(ROUNDING)), (SHAPES[0], True)])
def test_a_result_is_near_the_nearest_orthogonal_matrix_at_any_scale_alone_and_beside_others(shape, bf16):
    matrices = torch.stack([conditioned(*shape, seed=seed) for seed in range(3)])
    near = {"rtol": 0, "atol": ROUNDING[bf16]}
    alone = torch.cat([orthogonalise(matrix[None], bf16) for matrix in matrices])
    for matrix, found in zip(matrices, alone, strict=True):
        values = torch.linalg.svdvals(found)
        assert values.min() > 0.6 and values.max() < 1.3
        u, _, v = torch.linalg.svd(matrix, full_matrices=False)
        assert torch.cosine_similarity(found.flatten(), (u @ v).flatten(), dim=0) > 0.97
    scales = torch.tensor([1.0, 10, 1000])[:, None, None]
    torch.testing.assert_close(orthogonalise(matrices * scales, bf16), alone, **near)


def test_the_steps_are_made_in_the_dtype_that_is_asked_for(monkeypatch):
    matrix = conditioned(6, 9)[None]
    steps = {bf16: orthogonalise(matrix, bf16) for bf16 in ROUNDING}
    assert not torch.equal(steps[True], steps[False])
    for forced, bf16 in (("1", True), ("0", False)):
        monkeypatch.setenv("BOUSTRO_BF16", forced)
        assert torch.equal(orthogonalise(matrix), steps[bf16])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_shape_and_precision_are_kept(dtype):
    matrices = draw(2, 3, 5).to(dtype)
    assert orthogonalise(matrices).shape == matrices.shape and orthogonalise(matrices).dtype == dtype
    assert torch.equal(orthogonalise(0 * matrices), 0 * matrices)


# Muon


def parameters_of(shapes) -> list[nn.Parameter]:
    return [nn.Parameter(conditioned(*shape, seed=i)) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("bf16", ROUNDING)
def test_muon_makes_the_steps_of_torch(bf16):
    """Which are made in bf16, so that ours are rounded otherwise in either dtype."""
    shapes = [(16, 8), (16, 8), (8, 16), (12, 12)]
    ours, theirs = parameters_of(shapes), parameters_of(shapes)
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.2}
    optimizers = (
        Muon(ours, **options, bf16=bf16),
        torch.optim.Muon(theirs, **options, nesterov=True, adjust_lr_fn="match_rms_adamw"),
    )
    for step in range(4):
        before = [parameter.detach().clone() for parameter in ours]
        for parameters, optimizer in zip((ours, theirs), optimizers, strict=True):
            for i, parameter in enumerate(parameters):
                parameter.grad = conditioned(*parameter.shape, seed=100 * step + i)
            optimizer.step()
        for mine, other, old in zip(ours, theirs, before, strict=True):
            difference = ((mine - other).norm() / (other - old).norm()).item()
            assert difference < (0.08 if bf16 else 0.03), f"step {step}: off by {difference:.3f} of the step's own size"
            other.data.copy_(mine.data)  # or the differences of bf16 add up


def test_a_parameter_without_a_gradient_is_left_alone():
    still, moved = parameters_of([(4, 4), (4, 4)])
    before = still.detach().clone()
    optimizer = Muon([still, moved], lr=0.1)
    moved.grad = draw(4, 4)
    optimizer.step()
    assert torch.equal(still, before)


# The two together


def names_of(lm: nn.Module, optimizer: torch.optim.Optimizer) -> set[str]:
    mine = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    return {name for name, parameter in lm.named_parameters() if id(parameter) in mine}


@pytest.mark.parametrize("kind", ["gpt2", "llama", "gpt_neox"])
def test_embeddings_the_head_and_vectors_are_left_to_adamw(tiny_lm, kind):
    lm = AutoModelForCausalLM.from_pretrained(tiny_lm(kind))
    muon, adamw = MuonAdamW(lm, lr=0.1).optimizers
    matrices, others = names_of(lm, muon), names_of(lm, adamw)
    assert matrices | others == {name for name, _ in lm.named_parameters()} and not matrices & others
    assert not [name for name in matrices if any(part in name for part in ("wte", "wpe", "embed", "lm_head"))]
    assert not [name for name in others if "mlp" in name and name.endswith("weight")]
    assert all(parameter.ndim == 2 for group in muon.param_groups for parameter in group["params"])
    head = lm.get_output_embeddings().weight
    assert any(parameter is head for group in adamw.param_groups for parameter in group["params"])


@pytest.mark.parametrize(("objective", "preset"), [("replaced", "electra-tiny"), ("sentence-pair", "bert-tiny")])
def test_of_a_module_of_several_models_every_head_is_left_to_adamw(objective, preset):
    """One whose matrix has one row or two, for a decision, too."""
    recipe, lm_config = RECIPES[objective], make_masked_config(preset, make_pieces(), VOCABULARY, 16)
    lm_config.tie_word_embeddings = False  # a head by itself is no embedding
    module = recipe.with_loss(recipe.model.from_config(lm_config))
    muon, adamw = MuonAdamW(module, lr=0.1).optimizers
    matrices, others = names_of(module, muon), names_of(module, adamw)
    assert matrices | others == {name for name, _ in module.named_parameters()} and not matrices & others
    heads = {name for name, p in module.named_parameters() if (p.ndim == 2 and min(p.shape) < 3) or len(p) == 60}
    assert {name.split(".")[-2] for name in heads} & {"dense_prediction", "seq_relationship"} and heads <= others
    assert [name for name in matrices if "generator.electra.encoder" in name or "bert.encoder" in name]


def test_frozen_parameters_are_in_neither_part(tiny_lm):
    lm = AutoModelForCausalLM.from_pretrained(tiny_lm("llama"))
    lm.model.layers[0].requires_grad_(False)
    assert not [name for own in MuonAdamW(lm, lr=0.1).optimizers for name in names_of(lm, own) if "layers.0" in name]


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.hidden, self.norm = nn.Embedding(7, 4), nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.norm(self.hidden(self.embedding(ids))) @ self.embedding.weight.mT


def make_small() -> Small:
    torch.manual_seed(0)
    return Small()


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range, scheduler=None) -> None:
    for step in steps:
        ids = torch.randint(7, (3, 5), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flip(1).flatten()).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def halving(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)


def test_a_state_that_was_saved_and_loaded_goes_on_identically():
    straight = make_small()
    optimizer = MuonAdamW(straight, lr=0.05)
    scheduler = halving(optimizer)
    train(straight, optimizer, range(3), scheduler)
    file = io.BytesIO()
    torch.save([straight.state_dict(), optimizer.state_dict(), scheduler.state_dict()], file)
    train(straight, optimizer, range(3, 6), scheduler)

    file.seek(0)
    of_model, of_optimizer, of_scheduler = torch.load(file, weights_only=True)
    resumed = make_small()
    resumed.load_state_dict(of_model)
    optimizer = MuonAdamW(resumed, lr=0.05)
    scheduler = halving(optimizer)
    optimizer.load_state_dict(of_optimizer)
    scheduler.load_state_dict(of_scheduler)
    train(resumed, optimizer, range(3, 6), scheduler)
    assert torch.equal(weights(resumed), weights(straight))


@pytest.mark.parametrize("reloaded", [False, True])
def test_a_scheduler_and_zero_grad_reach_both_parts(reloaded):
    model = make_small()
    optimizer = MuonAdamW(model, lr=0.1)
    if reloaded:
        optimizer.load_state_dict(optimizer.state_dict())
    train(model, optimizer, range(2), halving(optimizer))
    assert [group["lr"] for own in optimizer.optimizers for group in own.param_groups] == [0.025, 0.025]
    assert all(parameter.grad is not None for parameter in model.parameters())
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())


# Heads


def test_heads_take_the_steps_of_torchs_adamw():
    ours = [nn.Parameter(draw(3, 4)), nn.Parameter(draw(5)), nn.Parameter(draw(2))]
    theirs, frozen = copy.deepcopy(ours), ours[2].detach().clone()
    optimizer = AdamW(ours, 0.1, steps=4)
    reference = torch.optim.AdamW(theirs, 0.1, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(reference, lambda step: 1 - step / 4)
    for seed in range(4):
        for p, q in zip(ours[:2], theirs[:2], strict=True):
            p.grad = draw(*p.shape, seed=seed)
            q.grad = p.grad.clone()
        optimizer.step()
        reference.step()
        schedule.step()
        assert all(p.grad is None for p in ours)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=0)
    assert torch.equal(ours[2], frozen)  # what has no gradient stays as it is
