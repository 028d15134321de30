"""Recipes of `boustro lab pretrain`: one entry per objective, with its model, loss, batches and requirements.

    causal          the next piece, in the run's direction                     any causal LM
    masked          hidden pieces or words, BERT's 80/10/10                    any masked LM
    span            hidden spans, each piece from the span's boundary too      any masked LM
    replaced        which pieces a small generator has replaced                electra
    sentence-pair   hidden pieces, and whether two texts are consecutive       bert
    prefix-suffix   hidden runs of a prefix, which sees itself, and a suffix   any masked LM

A new objective is a pure function in a file of `boustro.lab.objectives` and an entry in `RECIPES`. `check_objective`
finds before a run what would fail late or not at all: a masked architecture under the causal objective sees what it
must predict, and trains without any error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForPreTraining, PretrainedConfig

from boustro.choose import choose
from boustro.lab.masked import MaskedLMWithLoss, PairLMWithLoss, SpanLMWithLoss, with_generator
from boustro.lab.objectives.masked import masked
from boustro.lab.objectives.replaced import replaced
from boustro.lab.objectives.span import span
from boustro.lab.objectives.words import word_starts
from boustro.lab.presets import MASKED_PRESETS, PRESETS, config_like, make_config, make_masked_config
from boustro.lab.pretrain.batches import (
    Collator,
    causal_batch,
    masked_batch,
    pair_batch,
    prefix_suffix_batch,
    read_shard_pairs,
    read_splits,
    run_masking,
)
from boustro.lab.pretrain.config import PretrainConfig
from boustro.lab.pretrain.segments import ExampleSource, Segments
from boustro.lab.pretrain.shards import Shards
from boustro.models.loss import LMWithLoss, SampledLMWithLoss
from boustro.models.pretrained import ModelKind, architecture_kind
from boustro.text.tokenizers import num_ids

SIZES = ("tiny", "mini", "small", "base")
"""Of each family of masked presets."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How an objective is trained."""

    kind: ModelKind
    """The kind of model that it trains."""
    model_types: tuple[str, ...] = ()
    """The architectures that have the heads it needs; empty for any of the kind."""
    units: tuple[str, ...] = ("piece", "word")
    """What it can hide as a unit."""
    special: tuple[str, ...] = ()
    """Special pieces that it needs."""
    family: str = ""
    """The family of masked presets of a size alone: `mini` is `eurobert-mini`."""
    model: Any
    """The transformers auto class that makes the model from its config."""
    with_loss: Callable[[Any], nn.Module]
    """The model → a module that has it as `.lm`; called with a batch, it returns {"loss": mean}."""
    with_sampled_loss: Callable[[Any, Tensor], nn.Module] | None = None
    """The same with a loss over a sample of the pieces, given the probability of each; None where there is none."""
    make_batch: Callable[[Sequence[Any], Collator], dict[str, Any]]
    """Examples → the module's arguments, `targets` among them."""
    read: Callable[[Shards, PretrainConfig, int | None], ExampleSource] = lambda shards, config, seed: Segments(
        shards, config.segment_length, seed
    )
    """Shards, options and a seed (None: in corpus order) → examples."""
    records: Callable[[PretrainConfig], dict[str, Any]] = lambda config: {}
    """What the model's config says of its training."""

    def collator(self, config: PretrainConfig, shards: Shards) -> Collator:
        """Return the collator that makes the run's batches."""
        return Collator(config, shards.config["end_of_text_id"], self.special, self.make_batch)

    def config(self, config: PretrainConfig, shards: Shards) -> PretrainedConfig:
        """Return the model's config. Raises `ValueError` for a preset, a tokenizer or a rate that does not fit."""
        collator, given = self.collator(config, shards), config.architecture
        tokenizer = collator.tokenizer()
        preset = f"{self.family}-{given}" if self.kind == "masked" and given in SIZES else given
        if self.kind == "causal" and preset in MASKED_PRESETS:
            raise ValueError(
                f"preset {preset!r} is a masked LM, which --objective causal does not train; give --objective masked, "
                f"or a causal preset: {', '.join(PRESETS)}"
            )
        if self.kind == "masked" and preset in PRESETS:
            raise ValueError(
                f"preset {preset!r} is a causal LM, which --objective {config.objective} does not train; give "
                f"--objective causal, or one such as {self.family}-mini"
            )
        if self.kind == "causal":
            make = config_like if preset == config.init_from else make_config
            made = make(preset, shards.config["vocab_size"], config.segment_length, shards.config["end_of_text_id"])
        else:
            made = make_masked_config(preset, tokenizer, num_ids(tokenizer), config.segment_length)
            run_masking(collator)  # raises now, not at the first batch
        made.update(self.records(config))
        check_objective(config.objective, made, tokenizer, config.hide)
        return made


_hiding = partial(Recipe, kind="masked", special=("mask",))
_of_any_architecture = partial(_hiding, family="eurobert", model=AutoModelForMaskedLM)
RECIPES: dict[str, Recipe] = {
    "causal": Recipe(
        kind="causal",
        model=AutoModelForCausalLM,
        with_loss=LMWithLoss,
        with_sampled_loss=SampledLMWithLoss,
        make_batch=causal_batch,
        records=lambda config: {"direction": config.direction, "sentinel": True},
    ),
    "masked": _of_any_architecture(with_loss=MaskedLMWithLoss, make_batch=partial(masked_batch, masked)),
    "span": _of_any_architecture(with_loss=SpanLMWithLoss, make_batch=partial(masked_batch, span)),
    "replaced": _hiding(
        model_types=("electra",),
        family="electra",
        model=AutoModelForPreTraining,
        with_loss=with_generator,
        make_batch=partial(masked_batch, replaced),
    ),
    "sentence-pair": _hiding(
        model_types=("bert",),
        special=("mask", "cls", "sep", "pad"),
        family="bert",
        model=AutoModelForPreTraining,
        with_loss=PairLMWithLoss,
        make_batch=pair_batch,
        read=read_shard_pairs,
    ),
    "prefix-suffix": _hiding(
        units=("piece",),
        family="biglm",
        model=AutoModelForMaskedLM,
        with_loss=MaskedLMWithLoss,
        make_batch=prefix_suffix_batch,
        read=read_splits,
        records=lambda config: {"prefix_attention": config.split.prefix_attention},
    ),
}


def find_recipe(objective: str) -> Recipe:
    """Return the recipe of an objective; `ValueError` with the nearest known name."""
    return choose(objective, RECIPES, "objective")


def fitting_objectives(config: PretrainedConfig) -> list[str]:
    """Return the objectives that an architecture can be trained with."""
    kind, model_type = architecture_kind(config), config.model_type
    return [n for n, r in RECIPES.items() if r.kind == kind and (not r.model_types or model_type in r.model_types)]


def check_objective(
    name: str, config: PretrainedConfig, tokenizer: Any, hide: Literal["piece", "word"] = "piece"
) -> None:
    """`ValueError`, with what would fit, for an unknown objective and an architecture or tokenizer that is unfit."""
    recipe, kind, fitting = find_recipe(name), architecture_kind(config), fitting_objectives(config)
    if name not in fitting:
        fits = f"which fits: {', '.join(fitting)}" if fitting else "which fits no objective"
        if recipe.kind != kind:
            other = "neither a causal nor a masked one" if kind is None else f"a {kind} one"
            raise ValueError(
                f"objective {name!r} trains {recipe.kind} LMs, but {config.model_type!r} is {other}, {fits}"
            )
        only = " or ".join(recipe.model_types)
        raise ValueError(f"objective {name!r} needs the heads of {only}, not of {config.model_type!r}, {fits}")
    missing = [piece for piece in recipe.special if getattr(tokenizer, f"{piece}_token_id") is None]
    if missing:
        added = ", ".join(f"'{piece}_token': '<|{piece}|>'" for piece in missing)
        without = [other for other, needs in RECIPES.items() if not needs.special]
        raise ValueError(
            f"objective {name!r} needs a tokenizer with a {' and a '.join(missing)} piece, and this one has none; add "
            f"it with tokenizer.add_special_tokens({{{added}}}), save the tokenizer and tokenize the corpus with it "
            f"(objectives that do not need it: {', '.join(without)})"
        )
    if hide not in recipe.units:
        raise ValueError(f"objective {name!r} hides runs of single pieces; remove --hide {hide}")
    if hide == "word" and recipe.kind == "masked":
        word_starts(tokenizer)  # raises where words cannot be found
