"""What `boustro pretrain` trains, by the names of `objectives.catalogue`: the model, its loss, and how a batch is made.

    causal          the next piece, in the run's direction                  any causal LM
    masked          hidden pieces or words, BERT's 80/10/10                 bert-*, eurobert-*, electra-*
    span            hidden runs, each piece from the run's boundary too     bert-*, eurobert-*
    replaced        which pieces a small generator has replaced             electra-*
    sentence-pair   hidden pieces, and whether two texts stood together     bert-*

Documents are packed into segments, and a masked LM reads each as if it were alone; of sentence-pair, each example is
a pair of texts in a frame. A further objective is a pure function in `boustro.objectives`, its line in the catalogue,
and a line in `RECIPES`. What it draws at random it draws from a generator keyed by (seed, epoch, index) of each
example, so that a batch does not depend on who makes it.
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    PreTrainedConfig,
)

from boustro.models.boundary import SpanLMWithLoss
from boustro.models.electra import with_generator
from boustro.models.loss import LMWithLoss
from boustro.models.masked import MaskedLMWithLoss, PairLMWithLoss
from boustro.models.presets import PRESETS, config_like, is_masked_preset, make_config
from boustro.objectives.catalogue import OBJECTIVES, check_objective
from boustro.objectives.causal import causal
from boustro.pretrain.config import PretrainConfig
from boustro.pretrain.masked_objectives import masked_batch, masked_config
from boustro.pretrain.pairs import pair_batch, read_pairs
from boustro.pretrain.signals import wait_for_parent
from boustro.text.segments import Example, Segments, Source
from boustro.text.shards import Shards
from boustro.text.tokenizers import with_special_pieces

Batch = dict[str, Any]


def causal_config(config: PretrainConfig, tokenizer: Any, shards: Shards) -> PreTrainedConfig:
    """A causal LM that says which way it reads."""
    if is_masked_preset(config.architecture):
        raise ValueError(
            f"preset {config.architecture!r} is a masked LM, which --objective causal does not train; give --objective "
            f"masked, or a causal preset: {', '.join(PRESETS)}"
        )
    make = config_like if config.architecture == config.init_from else make_config
    fitted = shards.config["vocab_size"], config.segment_length, shards.config["end_of_text_id"]
    made = make(config.architecture, *fitted)
    made.update({"direction": config.direction, "sentinel": True})
    return made


def causal_batch(examples: Sequence[Example], config: PretrainConfig, sentinel: int) -> Batch:
    """Next-piece prediction in the run's direction."""
    pieces = torch.from_numpy(np.stack([example.pieces for example in examples]))
    return causal(pieces, config.direction, sentinel)._asdict()


def segments(shards: Shards, config: PretrainConfig, seed: int | None) -> Source:
    """Documents end to end, cut into segments; `seed` shuffles the documents."""
    return Segments(shards, config.segment_length, seed)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How an objective is trained."""

    objective: str
    """Its line in the catalogue, which says what architecture and what special pieces it needs."""
    model: Any
    """The transformers auto class that makes the model from its config."""
    make_config: Callable[[PretrainConfig, Any, Shards], PreTrainedConfig]
    """Options, tokenizer and shards → the model's config, which says also how it reads."""
    with_loss: Callable[[Any], nn.Module]
    """The model → a module that holds it as `.lm`; called with a batch, it returns {"loss": mean}."""
    make_batch: Callable[[Sequence[Any], PretrainConfig, int], Batch]
    """Examples, options and the sentinel → the module's arguments; `targets` are among them."""
    read: Callable[[Shards, PretrainConfig, int | None], Source] = segments
    """Shards, options and a seed (None: in the order of the corpus) → what examples are made of."""

    def load_tokenizer(self, shards: Shards) -> Any:
        """The tokenizer that goes along with the model: that of the shards, and the pieces that it lacks."""
        return with_special_pieces(shards.tokenizer_path, OBJECTIVES[self.objective].special)

    def config(self, config: PretrainConfig, shards: Shards) -> PreTrainedConfig:
        """The model's config. Raises `ValueError` for a preset or a tokenizer that does not fit the objective."""
        tokenizer = self.load_tokenizer(shards)
        made = self.make_config(config, tokenizer, shards)
        check_objective(self.objective, made, tokenizer, config.hide)
        return made


RECIPES: dict[str, Recipe] = {
    "causal": Recipe(
        objective="causal",
        model=AutoModelForCausalLM,
        make_config=causal_config,
        with_loss=LMWithLoss,
        make_batch=causal_batch,
    ),
    "masked": Recipe(
        objective="masked",
        model=AutoModelForMaskedLM,
        make_config=partial(masked_config, family="eurobert"),
        with_loss=MaskedLMWithLoss,
        make_batch=masked_batch,
    ),
    "span": Recipe(
        objective="span",
        model=AutoModelForMaskedLM,
        make_config=partial(masked_config, family="eurobert"),
        with_loss=SpanLMWithLoss,
        make_batch=masked_batch,
    ),
    "replaced": Recipe(
        objective="replaced",
        model=AutoModelForPreTraining,
        make_config=partial(masked_config, family="electra"),
        with_loss=with_generator,
        make_batch=masked_batch,
    ),
    "sentence-pair": Recipe(
        objective="sentence-pair",
        model=AutoModelForPreTraining,
        make_config=partial(masked_config, family="bert"),
        with_loss=PairLMWithLoss,
        make_batch=pair_batch,
        read=read_pairs,
    ),
}


def find_recipe(objective: str) -> Recipe:
    """The recipe of an objective; `ValueError` with the nearest known one."""
    if objective in RECIPES:
        return RECIPES[objective]
    near = difflib.get_close_matches(objective, RECIPES, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown objective {objective!r}: boustro pretrain knows {', '.join(RECIPES)}{hint}")


@dataclass(frozen=True)
class Collator:
    """Examples → a batch; picklable, so that workers may make batches."""

    config: PretrainConfig
    sentinel: int

    def __call__(self, examples: Sequence[Any]) -> Batch:
        if torch.utils.data.get_worker_info() is not None:
            wait_for_parent()
        return find_recipe(self.config.objective).make_batch(examples, self.config, self.sentinel)
