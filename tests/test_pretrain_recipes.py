"""boustro.pretrain.recipes: what does not fit is refused before a run, saying what would."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from transformers import BertConfig, ElectraConfig, EuroBertConfig, GPT2Config, LlamaConfig, T5Config

import boustro.objectives
from boustro.models.pretrained import architecture_kind
from boustro.objectives.masking import make_masking
from boustro.pretrain.recipes import RECIPES, check_objective, fitting_objectives
from test_masked_lm import make_pieces
from tokenizer_kinds import TINY

SHIPPED = ("causal", "masked", "span", "replaced", "sentence-pair", "prefix-suffix")
TEXT = ["The ferry to Vellmar leaves at seven, unbelievably late.", "Nobody reads the harbour bulletin!"] * 3


@pytest.mark.parametrize(
    ("config", "kind", "fitting"),
    [
        (LlamaConfig(), "causal", ["causal"]),
        (GPT2Config(), "causal", ["causal"]),
        (BertConfig(), "masked", ["masked", "span", "sentence-pair", "prefix-suffix"]),
        (BertConfig(is_decoder=True), "causal", ["causal"]),
        (EuroBertConfig(), "masked", ["masked", "span", "prefix-suffix"]),
        (ElectraConfig(), "masked", ["masked", "span", "replaced", "prefix-suffix"]),
        (T5Config(), None, []),
    ],
)
def test_what_fits_an_architecture(config, kind, fitting):
    found = fitting_objectives(config)
    assert architecture_kind(config) == kind
    assert [name for name in found if name in SHIPPED] == fitting
    tokenizer = make_pieces(cls_token_id=1, sep_token_id=2, pad_token_id=3)
    for name in RECIPES:
        if name in found:
            check_objective(name, config, tokenizer)
        else:
            with pytest.raises(ValueError, match=f"objective '{name}' (trains|needs the heads)"):
                check_objective(name, config, tokenizer)


@pytest.mark.parametrize(
    ("name", "config", "options", "message"),
    [
        ("maskd", BertConfig(), {}, "unknown objective 'maskd': known are causal, .*did you mean 'masked'"),
        ("masked", LlamaConfig(), {}, "trains masked LMs, but 'llama' is a causal one, which fits: causal"),
        ("causal", BertConfig(), {}, "trains causal LMs, but 'bert' is a masked one, which fits: masked, span"),
        ("causal", T5Config(), {}, "'t5' is neither a causal nor a masked one, which fits no objective"),
        ("replaced", BertConfig(), {}, "needs the heads of electra, not of 'bert', which fits: masked, span"),
        ("masked", BertConfig(), {"mask_token_id": None}, "a tokenizer with a mask piece.*do not need it: causal"),
        ("sentence-pair", BertConfig(), {}, "a cls and a sep and a pad piece.*'cls_token': '<|cls|>', 'sep_token'"),
    ],
)
def test_errors_say_what_would_fit(name, config, options, message):
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        check_objective(name, config, make_pieces(**options))


def test_whole_words_need_a_tokenizer_that_shows_them():
    with pytest.raises(ValueError, match="do not show where words begin"):
        check_objective("masked", BertConfig(), make_pieces(), hide="word")
    check_objective("causal", LlamaConfig(), make_pieces(), hide="word")  # hides nothing


def test_every_objective_has_its_recipe():
    """A function named as its file is an objective of a recipe, except the one that adapters are trained with."""
    files = Path(str(boustro.objectives.__file__)).parent.glob("[a-z]*.py")
    found = {
        file.stem.replace("_", "-")
        for file in files
        if callable(getattr(importlib.import_module(f"boustro.objectives.{file.stem}"), file.stem, None))
    }
    assert found == RECIPES.keys() | {"masked-next"}


def test_the_masking_of_a_tokenizer():
    tokenizer = TINY["ours"](TEXT)
    end = tokenizer.eos_token_id
    with pytest.raises(ValueError, match="no mask piece"):
        make_masking(tokenizer, end)
    tokenizer.add_special_tokens({"mask_token": "<|mask|>"})
    masking = make_masking(tokenizer, end, "word", vocab_size=500, rate=0.4)
    assert masking.mask_id == tokenizer.mask_token_id and masking.rate == 0.4
    special = np.flatnonzero(masking.special).tolist()
    assert special == [end, *range(len(tokenizer) - 1, 500)], (
        "the sentinel, the mask piece, and ids that stand for nothing"
    )
    ids = np.array(tokenizer(" harbour")["input_ids"])
    assert len(set(masking.words(ids).tolist())) == 1
    assert make_masking(tokenizer, end).word_starts is None
