"""Two LMs under a trained fusion as an encoder of words: what each LM says, and what the fusion makes of both.

    fused:DIR    three streams: the forward LM's, the backward LM's, and the fusion's

The fusion's stream has one layer, two states wide: the cloze state of a piece, which knows all around it and
not the piece, and its reading state, which knows it too (`models.fusion`). Of a word of several pieces, the cloze
state of one piece does know the others. The LMs' own streams are just those of `lm`.

The folder names the two LMs by their exact specs; it holds those that were trained along.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from boustro.encoders.concat import ConcatEncoder
from boustro.encoders.contract import Encoder
from boustro.encoders.lm import LMEncoder
from boustro.encoders.pieces import Context, PieceEncoder
from boustro.encoders.weights import weights_fingerprint
from boustro.encoders.windows import Window, plan_centred_windows
from boustro.models.fusion import CLOZE, KIND, READING, Fusion, load_fusion
from boustro.models.towers import Towers
from boustro.store import fingerprint, kind_of
from boustro.text.alignment import Spacing
from boustro.text.tokenizers import end_of_text_id

Load = Callable[..., Encoder]
SIDES: dict[str, tuple[str, ...]] = {"none": (), "backward": ("backward",), "both": ("forward", "backward")}
"""The LMs that `--train-lms` names."""


class FusedEncoder(ConcatEncoder):
    """`load` makes an encoder of a spec (`encoders.load_encoder`); `options` are the LMs' and, of them, the fusion's
    `pooling` (mean by default), `spacing` and `context`.

    Raises `FileNotFoundError` and `ValueError` where the folder or one of its LMs is missing, damaged or changed.
    """

    def __init__(
        self, path: str, load: Load, *, spec: str | None = None, tokenizer: Any = None, **options: Any
    ) -> None:
        if options.pop("revision", None):
            raise ValueError(f"{spec}: a fusion is a folder here, which has no revision")
        self._path = Path(path)
        self._weights = weights_fingerprint(path, None)
        fusion, config = load_fusion(self._path)
        try:
            specs = (str(self._path / side) if side in config["trained"] else config[side] for side in SIDES["both"])
            pair = load("+".join(specs), **options)
        except (FileNotFoundError, ValueError) as error:
            raise type(error)(f"{path} is a fusion of {config['forward']} and {config['backward']}: {error}") from error
        forward, backward = lms_of(pair)
        if facts_of(forward, backward, config["trained"]) != config["towers"]:
            raise ValueError(
                f"{path}: its LMs, {config['forward']} and {config['backward']}, have changed since it was trained; "
                f"train it anew with boustro fuse"
            )
        shared = {name: options[name] for name in ("pooling", "spacing", "context") if name in options}
        stream = FusionEncoder(fusion, self._weights, forward, backward, spec=spec or path, **shared)
        super().__init__([forward, backward, stream], spec or path)
        self.tokenizer = forward.tokenizer

    def identity(self) -> dict[str, Any]:
        towers = [part.identity() for part in self.parts]
        return {
            "weights": self._weights,
            "vocabulary": towers[0]["vocabulary"],
            "pooling": ", ".join(tower["pooling"] for tower in towers),
            "direction": "both",
            "towers": towers,
        }


class FusionEncoder(PieceEncoder):
    """The fusion's stream alone, over LMs that are loaded already."""

    default_pooling = "mean"

    def __init__(
        self,
        fusion: Fusion,
        weights: str,
        forward: LMEncoder,
        backward: LMEncoder,
        *,
        spec: str,
        pooling: str | None = None,
        spacing: Spacing = "natural",
        context: Context = "sentence",
    ) -> None:
        self.spec, self.device, self.dtype = spec, forward.device, forward.dtype
        self._fusion, self._weights, self._lms = fusion.to(self.device), weights, (forward, backward)
        self._towers = towers_of(forward, backward)
        self.num_parameters = sum(p.numel() for p in fusion.parameters())
        self._read_words(forward.tokenizer, spacing, pooling, context)
        self._give((0,), 2 * fusion.width, tower_window(forward, backward))

    def identity(self) -> dict[str, Any]:
        return {
            **super().identity(),
            "weights": self._weights,
            "towers": facts_of(*self._lms)["weights"],
            "dtype": [lm.identity()["dtype"] for lm in self._lms],
        }

    def _plan(self, text: int, num_pieces: int) -> list[Window]:
        return plan_centred_windows(text, num_pieces, self._window, 0)

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """One layer (B, P, 2D): the cloze states beside the reading states."""
        given = torch.tensor(lengths, device=ids.device)
        forward, backward = (states.float() for states in self._towers.states(ids, given))
        return [torch.cat([self._fusion(forward, backward, given, nearest) for nearest in (CLOZE, READING)], -1)]


def named_by_fusion(path: str) -> list[str]:
    """The specs of the LMs that a fusion's folder does not hold itself; nothing for what is none."""
    if kind_of(path) != KIND:
        return []
    config = load_fusion(Path(path))[1]
    return [config[side] for side in SIDES["both"] if side not in config["trained"]]


def lms_of(pair: Encoder) -> tuple[LMEncoder, LMEncoder]:
    """The forward and the backward LM of a pair; `ValueError` for anything else."""
    parts = pair.parts if isinstance(pair, ConcatEncoder) else [pair]
    forward, backward = parts if len(parts) == 2 else (None, None)
    if type(forward) is not LMEncoder or type(backward) is not LMEncoder or forward.backward or not backward.backward:
        raise ValueError(
            f"{pair.spec}: a fusion takes a forward LM and a backward LM, in this order; name a backward LM that does "
            f"not say so itself backward:PATH"
        )
    return forward, backward


def towers_of(forward: LMEncoder, backward: LMEncoder) -> Towers:
    """The LMs themselves, either reading from the end-of-text piece on, whether or not it was trained so."""
    return Towers(forward.model, backward.model, end_of_text_id(forward.tokenizer))


def tower_window(forward: LMEncoder, backward: LMEncoder) -> int:
    """How many pieces both can read after their sentinel."""
    return min(lm.max_pieces for lm in (forward, backward)) - 1


def facts_of(forward: LMEncoder, backward: LMEncoder, trained: Sequence[str] = ()) -> dict[str, Any]:
    """What a fusion was trained over, whatever name it bears: the vocabulary and both LMs' weights.

    Without the weights of the `trained` sides, which the fusion's own folder holds.
    """
    weights = [
        None if side in trained else lm.identity()["weights"]
        for side, lm in (("forward", forward), ("backward", backward))
    ]
    return {"weights": weights, "vocabulary": fingerprint(forward.vocabulary())}
