"""What an export is made of: the LMs of a trained model, and how each is mixed; what cannot be exported is refused.

The trained head's mix of the layers belongs to the graph of the LM, so that a word leaves it with one vector for each
place, not with one for each layer.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from boustro.apps.runtime.head import GRAPHS
from boustro.encoders.base import ConcatEncoder, Encoder
from boustro.encoders.extended import PooledEncoder, SpelledEncoder
from boustro.encoders.lm import LMEncoder, MaskedEncoder, UnmaskedEncoder
from boustro.encoders.transformer import TransformerEncoder
from boustro.encoders.word_means import WordMeans
from boustro.heads.base import Head
from boustro.heads.mix import LayerConcat
from boustro.tasks.plan import Fitted

BOTH_SIDES = (MaskedEncoder, UnmaskedEncoder)


@dataclass(frozen=True)
class Parts:
    """The LMs, the mix of each, and the memory of the encoder; `pooled` tells whether mentions are."""

    lms: list[TransformerEncoder]
    mixes: list[LayerConcat]
    known: WordMeans | None
    pooled: bool


def find_parts(fitted: Fitted) -> Parts:
    """The parts of a model whose LMs compute in float32; `ValueError`, with the reason, for what has no graph."""
    encoder = fitted.plan.reader.encoder()
    if isinstance(encoder, SpelledEncoder):
        encoder = encoder.base
    known, pooled = None, isinstance(encoder, PooledEncoder)
    if isinstance(encoder, PooledEncoder):
        known, encoder = encoder.known, encoder.base
    found = encoder.parts if isinstance(encoder, ConcatEncoder) else [encoder]
    lms = [_exportable(part) for part in found]
    if fitted.plan.reader.reading.quantise:
        raise ValueError("the encoder's weights are quantised already; train with the LM as it is, and export to int8")
    return Parts(lms, list(fitted.head.mixes)[: len(lms)], known, pooled)


def refuse_head(fitted: Fitted) -> None:
    """`ValueError` for a kind of head that has no graph."""
    head = fitted.plan.head_kind
    if head not in GRAPHS:
        raise ValueError(f"a {head} head compares vectors outside of any graph; {', '.join(GRAPHS)} are exported")


def _exportable(part: Encoder) -> TransformerEncoder:
    if type(part) is not LMEncoder and not isinstance(part, BOTH_SIDES):
        raise ValueError(f"{part.spec}: an encoder of this kind has no graph; an LM and a masked LM have one")
    assert isinstance(part, TransformerEncoder)
    text = part.model.config.get_text_config()
    if isinstance(part, UnmaskedEncoder):
        if part.blocks != (1, part._num_layers):
            raise ValueError(f"{part.spec}: the mask is removed in some blocks only, which has no graph")
        if getattr(text, "sliding_window", None):
            raise ValueError(f"{part.spec}: a window that slides has no graph without a causal mask")
    if not getattr(part.tokenizer, "is_fast", False):
        raise ValueError(f"{part.spec}: its tokenizer has no tokenizer.json, which the export needs")
    return part


class PickedStates(nn.Module):
    """The graph of an LM: rows of pieces → the mixed states at the places where words are read.

    B rows, P pieces, n words of a place, K places, M mixed layers and perhaps the highest one as it is, D width.
    """

    def __init__(self, lm: TransformerEncoder, mix: LayerConcat, top: bool) -> None:
        super().__init__()
        self.model, self._lm, self.top = lm.model, [lm], top  # in a list, so that it is no module
        self.takes_lengths = isinstance(lm, BOTH_SIDES)
        self.num_places, self.width = len(lm._places), lm._width
        self.scales = [1 / scale for scale in lm.scales]
        num_layers = len(lm._layers)
        mean, scale = (getattr(mix, name).detach().view(num_layers, self.num_places, -1) for name in ("mean", "scale"))
        standard = mix.standardise
        weights = torch.ones(num_layers)
        self.sums = mix.learned  # several layers become one
        if mix.learned:
            weights = mix.gamma.detach() * mix.weights.detach().softmax(0)  # type: ignore[union-attr, operator]
        factor = (scale if standard else torch.ones_like(scale)) * weights[:, None, None]
        offset = -mean * factor if standard else torch.zeros_like(factor)
        self.register_buffer("factor", factor.transpose(0, 1).contiguous())  # (K, L, D)
        self.register_buffer("offset", offset.transpose(0, 1).contiguous())

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(n, M, D) for each place, from ids (B, P), perhaps the pieces (B,) of each row and, per place, numbers of
        states (n,) counted row by row."""
        ids, *rest = given
        lengths, places = (rest[0], rest[1:]) if self.takes_lengths else (None, rest)
        states = self._states(ids, lengths)
        kept = [states[layer] * scale for layer, scale in zip(self._lm[0]._layers, self.scales, strict=True)]
        flat = [state.flatten(0, 1) for state in kept]
        return tuple(self.mixed([layer[at] for layer in flat], k) for k, at in enumerate(places))

    def mixed(self, layers: list[torch.Tensor], place: int) -> torch.Tensor:
        """(n, M, D) from the layers (n, D) of a place."""
        factor, offset = self.factor[place], self.offset[place]  # type: ignore[index]
        found = [x * factor[n] + offset[n] for n, x in enumerate(layers)]
        if self.sums:
            found = [sum(found[1:], found[0])]
        return torch.stack([*found, layers[-1]] if self.top else found, 1)

    @torch.no_grad()
    def empty(self) -> torch.Tensor:
        """(K, M, D): what a word has where there is no state."""
        none = [torch.zeros(1, self.width)] * len(self.scales)
        return torch.cat([self.mixed(none, k) for k in range(self.num_places)])

    def _states(self, ids: torch.Tensor, lengths: torch.Tensor | None) -> Any:
        size = ids.shape[1]
        places = torch.arange(size, device=ids.device)
        if lengths is None:
            mask = _additive(places[None] <= places[:, None])[None, None].expand(ids.shape[0], 1, -1, -1)
        else:
            seen = places[None] < lengths[:, None]
            mask = _additive(seen)[:, None, None].expand(-1, 1, size, -1)
        return self._lm[0]._states(input_ids=ids, **self._how(mask, places))

    def _how(self, mask: torch.Tensor, places: torch.Tensor) -> dict[str, Any]:
        lm, text = self._lm[0], self.model.config.get_text_config()
        how: dict[str, Any] = {"attention_mask": mask}
        if type(lm) is MaskedEncoder:
            return how
        how |= {"position_ids": places[None], "use_cache": False}
        window = getattr(text, "sliding_window", None)
        if window and "sliding_attention" in (getattr(text, "layer_types", None) or ()):
            near = _additive(places[:, None] - places[None] < window)[None, None]
            how["attention_mask"] = {"full_attention": mask, "sliding_attention": torch.minimum(mask, near)}
        return how


def _additive(allowed: torch.Tensor) -> torch.Tensor:
    return torch.where(allowed, 0.0, torch.finfo(torch.float32).min)


class HeadScores(nn.Module):
    """The graph of a head: the streams of words → scores; mixed layers come mixed.

    The trained head keeps mixed vectors in float16, so they are rounded here too.
    """

    def __init__(self, head: Head, num_lms: int, top: bool) -> None:
        super().__init__()
        self.head, self._num_lms, self._top = head, num_lms, top

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        """Scores from the streams (N, M, D), perhaps side features (N, F), and what this kind needs besides."""
        streams, rest = given[: len(self.head.streams)], list(given[len(self.head.streams) :])
        mixed = []
        for number, (stream, mix) in enumerate(zip(streams, self.head.mixes, strict=True)):
            if number < self._num_lms:
                mixed.append((stream[:, :-1] if self._top else stream).flatten(1))
            else:
                mixed.append(mix(stream))
        vectors = torch.cat(mixed, 1).half().float()
        if self.head.side:
            vectors = torch.cat([vectors, rest.pop(0)], 1)
        return self.head.graph(vectors, *rest)
