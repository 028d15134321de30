"""What can be trained by `boustro pretrain`, by name: the model, its loss, and how segments become a batch.

A further objective is a function in `boustro.objectives` and one line in `OBJECTIVES`. What it draws at random it
draws from a generator keyed by (seed, epoch, index) of each example, so that a batch does not depend on
who makes it.

    causal   the next piece, in the run's direction                              any causal LM
    masked   hidden pieces or words, BERT's 80/10/10; documents packed, unseen by each other    bert-*, eurobert-*
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedConfig, PreTrainedModel

from boustro.models.loss import LMWithLoss
from boustro.models.masked import MaskedLMWithLoss
from boustro.models.masked_presets import SIZES, make_masked_config
from boustro.models.presets import make_config
from boustro.objectives.catalogue import check_objective
from boustro.objectives.causal import causal
from boustro.objectives.examples import collate, keyed_generator
from boustro.objectives.masked import masked
from boustro.objectives.masking import Masking, make_masking
from boustro.pretrain.config import PretrainConfig
from boustro.pretrain.signals import wait_for_parent
from boustro.text.segments import Example
from boustro.text.shards import Shards
from boustro.text.tokenizers import load_tokenizer

MASK = "<|mask|>"
COUNTED_PIECES = 1 << 24


@dataclass(frozen=True)
class Objective:
    """`with_loss(lm)` is a module with the wrapped model as `.lm`; called with a batch, it returns {"loss": mean}."""

    model: Any
    """The transformers auto class that makes the model from its config."""
    make_config: Callable[[PretrainConfig, Shards], PreTrainedConfig]
    """The model's config, which says also how it reads. `ValueError` for what does not fit."""
    load_tokenizer: Callable[[Path], Any]
    """The tokenizer that goes along with the model, from that of the shards."""
    with_loss: Callable[[PreTrainedModel], nn.Module]
    make_batch: Callable[[Sequence[Example], PretrainConfig, int], dict[str, Tensor]]
    """Examples, the run's options and the sentinel → the arguments of the module; `targets` are among them."""


def causal_config(config: PretrainConfig, shards: Shards) -> PreTrainedConfig:
    """A causal LM that says which way it reads."""
    sentinel = shards.config["end_of_text_id"]
    made = make_config(config.preset, shards.config["vocab_size"], config.segment_length, sentinel)
    check_objective("causal", made, load_tokenizer(shards.tokenizer_path))
    made.update({"direction": config.direction, "sentinel": True})
    return made


def causal_batch(examples: Sequence[Example], config: PretrainConfig, sentinel: int) -> dict[str, Tensor]:
    """Next-piece prediction in the run's direction."""
    pieces = torch.from_numpy(np.stack([example.pieces for example in examples]))
    return causal(pieces, config.direction, sentinel)._asdict()


def masked_config(config: PretrainConfig, shards: Shards) -> PreTrainedConfig:
    """A masked LM over the vocabulary of the shards and a mask piece."""
    tokenizer = with_mask_piece(shards.tokenizer_path)
    preset = f"eurobert-{config.preset}" if config.preset in SIZES else config.preset
    made = make_masked_config(preset, tokenizer, config.segment_length)
    check_objective("masked", made, tokenizer, config.hide)
    return made


def masked_batch(examples: Sequence[Example], config: PretrainConfig, sentinel: int) -> dict[str, Tensor]:
    """Pieces to be told from all the others of their document."""
    masking = _masking(tuple(config.shards), config.mask_rate, config.hide, sentinel)
    return collate([masked(e.pieces, keyed_generator(config.seed, e.epoch, e.index), masking) for e in examples])


def with_mask_piece(path: Path) -> Any:
    """The tokenizer of some shards; one without a mask piece gets it, after all its other pieces."""
    tokenizer = load_tokenizer(path)
    if tokenizer.mask_token_id is None:
        tokenizer.add_special_tokens({"mask_token": MASK})
    return tokenizer


@lru_cache(maxsize=1)
def _masking(paths: tuple[Path, ...], rate: float, unit: Literal["piece", "word"], sentinel: int) -> Masking:
    """Random pieces are drawn by their frequency at the head of the corpora."""
    opened = [Shards.open(path) for path in paths]
    tokenizer = with_mask_piece(opened[0].tokenizer_path)
    counts = [np.bincount(s.pieces[0][:COUNTED_PIECES], minlength=len(tokenizer)) for s in opened]
    return make_masking(tokenizer, sentinel, unit, len(tokenizer), np.sum(counts, 0), rate=rate)


OBJECTIVES: dict[str, Objective] = {
    "causal": Objective(AutoModelForCausalLM, causal_config, load_tokenizer, LMWithLoss, causal_batch),
    "masked": Objective(AutoModelForMaskedLM, masked_config, with_mask_piece, MaskedLMWithLoss, masked_batch),
}


def find_objective(name: str) -> Objective:
    """The objective of this name; `ValueError` with the nearest known one."""
    if name in OBJECTIVES:
        return OBJECTIVES[name]
    near = difflib.get_close_matches(name, OBJECTIVES, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown objective {name!r}: known are {', '.join(OBJECTIVES)}{hint}")


@dataclass(frozen=True)
class Collator:
    """Examples → a batch; picklable, so that workers may make batches."""

    config: PretrainConfig
    sentinel: int

    def __call__(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        if torch.utils.data.get_worker_info() is not None:
            wait_for_parent()
        return find_objective(self.config.objective).make_batch(examples, self.config, self.sentinel)
