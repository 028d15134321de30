"""Two LMs under a trained fusion, `fused:DIR`: three streams, the forward LM's, the backward LM's and the fusion's.

The fusion's stream has one layer, two states wide: the cloze state of a piece, which knows everything but that piece,
and its reading state, which knows the piece too (`models.fusion`). In a word of several pieces, the cloze state of one
piece knows the others. The LMs' own streams are those of `lm`.

The folder names the two LMs by their exact specs; one of an earlier version may contain LMs that were trained with the
fusion (`trained`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from boustro.encoders.base import ConcatEncoder, Encoder, Identity
from boustro.encoders.lm import LMEncoder
from boustro.encoders.loading import naming, weights_fingerprint
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import open_encoder
from boustro.encoders.transformer import StateEncoder
from boustro.models.fusion import CLOZE, FUSION_KIND, READING, Fusion, Towers, load_fusion
from boustro.store import Artefact, fingerprint
from boustro.text.start import AUTO
from boustro.text.tokenizers import end_of_text_id

SIDES = ("forward", "backward")


class FusedEncoder(ConcatEncoder):
    """The fusion's own `pooling` is mean by default.

    Raises `FileNotFoundError` and `ValueError` if the folder or one of its LMs is missing, damaged or changed.
    """

    def __init__(
        self,
        path: Artefact,
        reading: ReadingOptions,
        *,
        spec: str,
        device: str | None = None,
        tokenizer: Any = None,
    ) -> None:
        self._weights = weights_fingerprint(path, None)
        fusion, config = load_fusion(path)
        if reading.start_piece == AUTO:
            reading = replace(reading, start_piece=config["start_piece"])
        specs = (str(path / side) if side in config["trained"] else config[side] for side in SIDES)
        with naming(f"{path} is a fusion of {config['forward']} and {config['backward']}"):
            pair = open_encoder("+".join(specs), reading, device=device, whole=True)
        forward, backward = lms_of(pair)
        if fusion_facts(forward, backward, config["trained"]) != config["towers"]:
            raise ValueError(
                f"{path}: its LMs, {config['forward']} and {config['backward']}, have changed since it was trained; "
                f"train it anew with boustro lab fuse"
            )
        self.lms = forward, backward
        self.towers = towers_of(forward, backward, config["starts"])
        stream = FusionEncoder(fusion, self._weights, self.lms, self.towers, reading, spec)
        super().__init__([forward, backward, stream], spec)
        self.tokenizer = forward.tokenizer

    def identity(self) -> Identity:
        towers = [lm for part in self.parts for lm in part.identity().lms]
        return Identity(
            weights=self._weights,
            vocabulary=towers[0].vocabulary,
            pooling=", ".join(tower.pooling for tower in towers),
            direction="both",
            rest={"towers": [tower.to_dict() for tower in towers]},
        )


class FusionEncoder(StateEncoder):
    """The fusion's stream alone, over LMs that are already loaded."""

    default_pooling = "mean"
    sees_both_sides = True

    def __init__(
        self,
        fusion: Fusion,
        weights: str,
        lms: tuple[LMEncoder, LMEncoder],
        towers: Towers,
        reading: ReadingOptions,
        spec: str,
    ) -> None:
        forward, backward = lms
        self.spec, self.device, self.dtype = spec, forward.device, forward.dtype
        self._fusion, self._weights, self._lms = fusion.to(self.device), weights, lms
        self._towers, self._compute = towers, forward.body.dtype
        self.num_parameters = sum(p.numel() for p in fusion.parameters())
        self._set_reading(forward.tokenizer, reading)
        self._set_output((0,), 2 * fusion.width, tower_window(forward, backward))

    def weights(self) -> str:
        return self._weights

    def identity(self) -> Identity:
        starts, ends = list(self._towers.starts), [[end_of_text_id(self.tokenizer)]] * 2
        begun = {"starts": starts} if starts != ends else {}
        towers, dtypes = fusion_facts(*self._lms)["weights"], [lm.identity().rest["dtype"] for lm in self._lms]
        return super().identity().with_facts(**begun, towers=towers, dtype=dtypes)

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """Return one layer (B, P, 2D): the cloze states beside the reading states."""
        given = torch.tensor(lengths, device=ids.device)
        forward, backward = (states.float() for states in self._towers.states(ids, given))
        return [torch.cat([self._fusion(forward, backward, given, nearest) for nearest in (CLOZE, READING)], -1)]


def named_by_fusion(path: Artefact) -> list[str]:
    """Return the specs of the LMs that a fusion's folder names but does not contain; empty for any other folder."""
    if path.kind != FUSION_KIND:
        return []
    config = load_fusion(path)[1]
    return [config[side] for side in SIDES if side not in config["trained"]]


def lms_of(pair: Encoder) -> tuple[LMEncoder, LMEncoder]:
    """Return the forward and the backward LM of a pair; `ValueError` for anything else."""
    parts = pair.parts if isinstance(pair, ConcatEncoder) else [pair]
    forward, backward = parts if len(parts) == 2 else (None, None)
    if type(forward) is not LMEncoder or type(backward) is not LMEncoder or forward.backward or not backward.backward:
        raise ValueError(
            f"{pair.spec}: expected a forward LM and a backward LM, in this order; if a backward LM's config does not "
            "say so, name it backward:PATH"
        )
    return forward, backward


def towers_of(forward: LMEncoder, backward: LMEncoder, starts: Sequence[list[int]] | None = None) -> Towers:
    """Return the two transformers and their start pieces; by default each LM's own, or the end-of-text piece without
    one."""
    end = [end_of_text_id(forward.tokenizer)]
    first, last = starts or [lm.start or end for lm in (forward, backward)]
    return Towers(forward.model, backward.model, (first, last))


def tower_window(forward: LMEncoder, backward: LMEncoder) -> int:
    """Return the most pieces that both can read after their start pieces."""
    return min(lm.max_pieces - max(1, len(lm.start)) for lm in (forward, backward))


def fusion_facts(forward: LMEncoder, backward: LMEncoder, trained: Sequence[str] = ()) -> dict[str, Any]:
    """Return the vocabulary and weights that a fusion depends on, without the LMs that were `trained` with it."""
    lms = {"forward": forward, "backward": backward}
    weights = [None if side in trained else lm.weights() for side, lm in lms.items()]
    return {"weights": weights, "vocabulary": fingerprint(forward.vocabulary())}
