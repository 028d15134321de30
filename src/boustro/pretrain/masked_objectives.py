"""How the masked objectives are trained: the model's config, and batches of hidden pieces.

The objective's function in the catalogue does the hiding; what it needs to know of the vocabulary (`Masking`) is the
same for all and made once a process.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor
from transformers import PreTrainedConfig

from boustro.models.presets import PRESETS, SIZES, make_masked_config
from boustro.objectives.catalogue import OBJECTIVES
from boustro.objectives.examples import IGNORED, collate, keyed_generator
from boustro.objectives.masking import Masking, make_masking
from boustro.pretrain.config import PretrainConfig
from boustro.text.segments import Example
from boustro.text.shards import Shards
from boustro.text.tokenizers import with_special_pieces


def masked_config(config: PretrainConfig, tokenizer: Any, shards: Shards, family: str) -> PreTrainedConfig:
    """A masked LM over the vocabulary of the shards and the special pieces; `family` is that of a bare `mini`.

    Raises `ValueError` for a preset, a tokenizer or a rate that does not fit.
    """
    given = config.architecture
    preset = f"{family}-{given}" if given in SIZES else given
    if preset in PRESETS:
        raise ValueError(
            f"preset {preset!r} is a causal LM, which --objective {config.objective} does not train; give --objective "
            f"causal, or one such as {family}-mini"
        )
    made = make_masked_config(preset, tokenizer, config.segment_length)
    make_run_masking(config, shards.config["end_of_text_id"])  # raises now, not at the first batch
    return made


def masked_batch(examples: Sequence[Example], config: PretrainConfig, sentinel: int) -> dict[str, Any]:
    """Segments, each with pieces hidden as the run's objective does it."""
    objective, masking = OBJECTIVES[config.objective], make_run_masking(config, sentinel)
    return counted(collate([objective.make(e.pieces, key_of(e, config), masking) for e in examples]))


def counted(batch: dict[str, Tensor]) -> dict[str, Any]:
    """A batch, and how many targets it has: a number, so that no GPU need be waited for to know it."""
    return {**batch, "num_targets": int((batch["targets"] != IGNORED).sum())}


def key_of(example: Any, config: PretrainConfig) -> np.random.Generator:
    """The generator of one example."""
    return keyed_generator(config.seed, example.epoch, example.index)


def make_run_masking(config: PretrainConfig, sentinel: int) -> Masking:
    """What a run's objective knows of the vocabulary; random pieces are drawn by their frequency in the corpora."""
    special = OBJECTIVES[config.objective].special
    return _masking(tuple(config.shards), special, config.mask_rate, config.hide, sentinel)


@lru_cache(maxsize=1)
def _masking(
    paths: tuple[Path, ...], special: tuple[str, ...], rate: float, unit: Literal["piece", "word"], sentinel: int
) -> Masking:
    opened = [Shards.open(path) for path in paths]
    tokenizer = with_special_pieces(opened[0].tokenizer_path, special)
    counts = [s.counts(len(tokenizer)) for s in opened]
    return make_masking(tokenizer, sentinel, unit, len(tokenizer), np.sum(counts, 0), rate=rate)
