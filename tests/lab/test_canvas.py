"""boustro.lab.generation.canvas: a batch reads as each row alone; the prefix cache changes nothing; what refuses it."""

import pytest
import torch
from torch import Tensor

from boustro.lab.generation.canvas import Canvas
from boustro.lab.generation.models import MaskedLM, open_lm
from generators import write_masked_lm

PROMPTS = [[5, 9, 200, 31, 77], [7, 8], [90, 3, 3]]
PLACES = 4


@pytest.fixture(scope="module")
def make(tmp_path_factory, tiny_tokenizer):
    """make(attention, kind) → an opened masked LM."""
    made: dict[tuple, MaskedLM] = {}

    def open_one(attention: str | None = "prefix", kind: str = "eurobert") -> MaskedLM:
        if (attention, kind) not in made:
            folder = tmp_path_factory.mktemp("lm") / "lm"
            model = open_lm(str(write_masked_lm(folder, tiny_tokenizer, attention, kind)))
            assert isinstance(model, MaskedLM)
            made[attention, kind] = model
        return made[attention, kind]

    return open_one


def suffixes(model: MaskedLM) -> list[Tensor]:
    """Three readings: all hidden, some known, all known."""
    generator = torch.Generator().manual_seed(1)
    pieces = torch.randint(1, 390, (len(PROMPTS), PLACES), generator=generator)
    hidden = torch.rand(pieces.shape, generator=generator) < 0.5
    mask = torch.full_like(pieces, model.mask_id)
    return [mask, torch.where(hidden, mask, pieces), pieces]


@pytest.mark.parametrize("kind", ["eurobert"])
def test_the_cached_run_is_the_uncached_one(make, kind):
    model = make("prefix", kind)
    canvas = Canvas.of(model, PROMPTS, PLACES)
    cached, whole = canvas.reader(True), canvas.reader(False)
    for suffix in [*suffixes(model), *suffixes(model)]:
        found, wanted = cached(suffix), whole(suffix)
        writable = wanted > -torch.inf
        assert (found > -torch.inf).equal(writable)
        assert (found[writable] - wanted[writable]).abs().max() < 1e-4
        places = torch.tensor([[3, 0], [1, 1], [2, 3]])
        torch.testing.assert_close(cached(suffix, places), torch.take_along_dim(found, places[..., None], 1))


def test_the_cache_is_the_default_where_it_is_exact(make, monkeypatch):
    used = []
    monkeypatch.setattr(Canvas, "_cached", lambda self, real=Canvas._cached: used.append(self) or real(self))
    for attention, kind, caches in (
        ("prefix", "eurobert", True),
        ("full", "eurobert", False),
        ("prefix", "bert", False),
    ):
        used.clear()
        model = make(attention, kind)
        Canvas.of(model, PROMPTS, PLACES).reader()
        assert bool(used) == caches == model.has_prefix_cache


@pytest.mark.parametrize(("attention", "kind"), [("prefix", "eurobert"), ("full", "eurobert"), ("prefix", "bert")])
def test_a_batch_reads_as_each_row_alone(make, attention, kind):
    model = make(attention, kind)
    together = Canvas.of(model, PROMPTS, PLACES).reader()
    for suffix in suffixes(model):
        found = together(suffix)
        for row, prompt in enumerate(PROMPTS):
            alone = Canvas.of(model, [prompt], PLACES).reader()(suffix[row : row + 1])
            torch.testing.assert_close(found[row], alone[0], rtol=1e-4, atol=1e-4)


def test_a_frame_stands_around_prompt_and_text(make):
    """A BERT reads [CLS] prompt text [SEP], as its tokenizer writes it."""
    model = make(None, "bert")
    assert len(model.before) == len(model.after) == 1
    suffix = suffixes(model)[1][1:2]
    found = Canvas.of(model, [PROMPTS[1]], PLACES).reader()(suffix)
    ids = torch.tensor([[*model.before, *PROMPTS[1], *suffix[0].tolist(), *model.after]])
    with torch.no_grad():
        logits = model.lm(input_ids=ids).logits[:, 3:7]
    wanted = logits.masked_fill(~model.writable, -torch.inf).log_softmax(-1)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("attention", "kind", "message"),
    [
        ("full", "eurobert", "would change the results, because this model's prompt sees what follows it"),
        (None, "eurobert", "train with boustro lab pretrain --objective prefix-suffix"),
        ("prefix", "bert", "a bert cannot reuse the states of a prompt"),
    ],
)
def test_a_cache_that_would_be_wrong_is_refused(make, attention, kind, message):
    with pytest.raises(ValueError, match=message):
        Canvas.of(make(attention, kind), PROMPTS, PLACES).reader(True)


def test_a_prompt_that_does_not_fit_is_refused(make):
    with pytest.raises(ValueError, match=r"have 65 pieces together, and the window of .* has 64"):
        Canvas.of(make(), [[5] * 61], PLACES)
    assert Canvas.of(make(), [[5] * 60], PLACES).reader()(torch.full((1, PLACES), 9)).shape == (1, PLACES, 401)


@pytest.mark.parametrize("cached", [True, False])
def test_the_numbers_are_those_of_eager_attention_and_one_that_takes_no_mask_is_refused(make, cached, monkeypatch):
    model = make()
    canvas, suffix = Canvas.of(model, PROMPTS, PLACES), suffixes(model)[1]
    wanted = canvas.reader()(suffix)
    with monkeypatch.context() as patch:
        patch.setattr(model.lm.config, "_attn_implementation", "flash_attention_2")
        with pytest.raises(ValueError, match="packed documents would leak under attention 'flash_attention_2'"):
            canvas.reader(cached)(canvas.blank())
    model.lm.set_attn_implementation("eager")
    try:
        torch.testing.assert_close(canvas.reader(cached)(suffix), wanted, rtol=1e-4, atol=1e-4)
    finally:
        model.lm.set_attn_implementation("sdpa")
