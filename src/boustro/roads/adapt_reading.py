"""Adapts an LM without its mask to the states that it has, as it is, when it reads a text a second time.

    teacher    [S] p0 p1 p2 ⏎ p0 p1 p2     with its mask, states of the second p0 p1 p2, as `repeated:` reads
    student    [S] p0 p1 p2                without its mask, under the adapter, states of p0 p1 p2

    loss       mean of Huber((s - mean) / sd, (t - mean) / sd)

over pieces, layers and dimensions; mean and sd are the teacher's, of the first texts. So one reading does what two did.
The layers are those that a tagger reads by default. Standardised targets are cut at ±6, so that the few very large
dimensions of an LM do not rule. Sources: Springer et al. 2024 (echo embeddings), the teacher; Romero et al. 2015
(FitNets), regression of hidden states.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from boustro.encoders.lm import LMEncoder, RepeatedEncoder
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import Part
from boustro.models.lora import Adaptation
from boustro.roads.adapt import TextObjective
from boustro.roads.options import AdaptConfig
from boustro.text.segments import Example, Segments
from boustro.text.shards import Shards

MOST, DELTA = 6.0, 2.0
STATISTICS_PIECES = 8192


def second_reading(config: AdaptConfig, encoder: LMEncoder, base: Adaptation) -> TextObjective:
    """Raises `ValueError` where two copies of a segment do not fit into the LM's window."""
    lm = Part.parse(config.lm)
    how: dict[str, Any] = {"spec": config.lm, "revision": lm.revision, "direction": base.direction}
    teacher = RepeatedEncoder(lm.place, ReadingOptions(start_piece=config.start_piece), **how)
    length = config.text.segment_length
    if length > teacher.room:
        raise ValueError(f"{config.lm} reads texts of up to {teacher.room:,} pieces twice; shorten --segment-length")
    mean, scale = _statistics(config, teacher)

    def make(examples: list[Example]) -> dict[str, Tensor]:
        texts = [_reading(example.pieces, teacher) for example in examples]
        targets = (_states(teacher, texts) - mean) * scale
        ids = torch.tensor([[*encoder.start, *text] for text in texts])
        return {"input_ids": ids, "targets": targets.clamp(-MOST, MOST)}

    def loss_of(input_ids: Tensor, targets: Tensor) -> Tensor:
        read = encoder.model(input_ids=input_ids, output_hidden_states=True, use_cache=False).hidden_states
        own = torch.stack([read[layer][:, len(encoder.start) :] for layer in teacher.layers], 2).float()
        return F.huber_loss((own - mean.to(own.device)) * scale.to(own.device), targets, delta=DELTA)

    facts = {"objective": "second-reading", "layers": list(teacher.layers)}
    return TextObjective(make, loss_of, facts, perplexity=False)


def _reading(pieces: np.ndarray, teacher: RepeatedEncoder) -> list[int]:
    return pieces[:: -1 if teacher.backward else 1].tolist()


@torch.no_grad()
def _states(teacher: RepeatedEncoder, texts: list[list[int]]) -> Tensor:
    """(B, T, L, D) on the CPU, in float32."""
    return teacher.last_copy(texts).float().cpu()


def _statistics(config: AdaptConfig, teacher: RepeatedEncoder) -> tuple[Tensor, Tensor]:
    """The mean of each dimension of each layer (L, D), and one over its standard deviation."""
    options = config.text
    assert options.shards is not None
    segments = Segments(Shards.open(options.shards), options.segment_length, config.seed)
    count = min(len(segments), max(1, STATISTICS_PIECES // options.segment_length))
    parts = range(0, count, options.batch_segments)
    texts = [[_reading(segments[n], teacher) for n in range(count)[i : i + options.batch_segments]] for i in parts]
    states = torch.cat([_states(teacher, part).flatten(0, 1) for part in texts])
    return states.mean(0), 1 / states.std(0).clamp_min(1e-3)
