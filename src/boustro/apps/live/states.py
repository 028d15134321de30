"""States of a text that another engine computed: the file that holds them, the checks, and the answer.

    prompt.safetensors      token_ids (P,), layer.9 (P, D), layer.18 (P, D)
    as vLLM writes it       token_ids (P,), hidden_states (P, L, D), and the numbers of its layers beside it

Layers are counted as everywhere: 0 is the embeddings, k the state after k blocks, and the last one comes after the
final norm. In `hidden_states` the last layer comes before that norm, as vLLM gives it, and is normalised here. The
metadata of a file may say more, each a text:

    layers      the numbers of the layers of `hidden_states`, such as 4,9,14
    weights     the fingerprint of the LM, `encoder_identity.weights` in the config.json of a tagger
    text        what the pieces spell

Format of vLLM: its documentation, "Hidden State Extraction".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from boustro.encoders.lm import LMEncoder
from boustro.encoders.outside import PieceStates, forward_lm
from boustro.errors import shorten
from boustro.models.pretrained import final_norm
from boustro.tasks.answers import Entities, InputAnswer
from boustro.text.start import start_pieces
from boustro.text.tokenizers import num_ids

IDS, STACKED, LAYER = "token_ids", "hidden_states", "layer."
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
UNLIKE, LEAST_JUDGED_WORDS = 4.0, 3
"""A median of squared standardised states above which they are another LM's, and the words that it takes."""
READ_AFTER_OTHERS = "sentences whose states know the sentences before them, of a tagger that was trained on single ones"


@dataclass(frozen=True, kw_only=True)
class GivenStates:
    """Pieces of a text, the start piece among them, and their states.

    Attributes:
        pieces: (P,) ids.
        layers: By their number, (P, D) each.
        unnormed: Whether the last layer comes before the final norm.
        text: What the pieces spell, if it is known.
        weights: The fingerprint of the LM, if it is known.
        name: For messages.
    """

    pieces: Sequence[int]
    layers: Mapping[int, Tensor]
    unnormed: bool = False
    text: str | None = None
    weights: str | None = None
    name: str = "the states given"


def read_states(path: str | Path, layers: Sequence[int] | None = None) -> GivenStates:
    """Return the states in a file; `layers` are those of `hidden_states`, where the file does not say it.

    Raises `FileNotFoundError`, and `ValueError` for a file that is none of the two forms.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file; give a .safetensors file with {IDS} and {LAYER}N")
    try:
        with safe_open(path, "pt") as file:
            facts = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    except SafetensorError as error:
        raise ValueError(f"{path}: not a safetensors file, or a damaged one ({error})") from error
    if IDS not in tensors or tensors[IDS].ndim != 1 or tensors[IDS].is_floating_point():
        raise ValueError(f"{path}: expected the ids of the pieces as {IDS} (P,), found {', '.join(sorted(tensors))}")
    states = {int(n[len(LAYER) :]): t for n, t in tensors.items() if n.startswith(LAYER) and n[len(LAYER) :].isdigit()}
    if stacked := STACKED in tensors:
        numbers = [int(n) for n in facts["layers"].split(",")] if layers is None and facts.get("layers") else layers
        given = tensors[STACKED]
        if numbers is None:
            raise ValueError(f"{path}: {STACKED} does not say which layers it has; give their numbers (--state-layers)")
        if given.ndim != 3 or given.shape[1] != len(numbers):
            raise ValueError(f"{path}: {STACKED} is {_shape(given)}, and the layers are {_list(numbers)}")
        states |= {number: given[:, column] for column, number in enumerate(numbers)}
    if not states:
        raise ValueError(f"{path}: no states; expected {LAYER}N (P, D) or {STACKED} (P, L, D)")
    known: dict[str, Any] = {"text": facts.get("text"), "weights": facts.get("weights"), "name": str(path)}
    return GivenStates(pieces=tensors[IDS].tolist(), layers=states, unnormed=stacked, **known)


def from_states(
    tagger: Any,
    pieces: Sequence[int],
    states: Mapping[int, Any],
    text: str | None = None,
    name: str = "the states given",
) -> Entities:
    """Return the entities of a text whose pieces an LM has read already, such as in vLLM or llama.cpp.

    Args:
        tagger: A trained `Tagger`.
        pieces: (P,) ids, with the start piece and the run-up of training, which are no part of the text.
        states: By the number of the layer, (P, D) each: 0 is the embeddings, k the states after k blocks, the last
            one after the final norm. Of every layer that the tagger reads.
        text: What the pieces spell, to be sure.
        name: For messages.

    What else the tagger reads, such as a backward LM, is computed here. Raises `ValueError` where there is no LM that
    reads forward, where layers are missing, for states of another width, with NaN or infinities or far from those of
    training, for pieces of another vocabulary, that do not begin so (`text_begin`), or that do not spell the text.
    """
    return tagger.result(answer_states(tagger, GivenStates(pieces=pieces, layers=states, text=text, name=name)))


def answer_states(tagger: Any, given: GivenStates) -> InputAnswer[str]:
    """Return the answer of a tagger for the text that pieces spell, from their states. Raises as `from_states`."""
    lm = forward_lm(tagger.encoder())
    stacked, begin = checked_states(lm, given), text_begin(lm, given.pieces, given.name)
    states = PieceStates(lm, stacked[begin - 1] if begin else None)
    text = states.add(given.pieces[begin:], stacked[begin:]) + states.end()
    if given.text is not None and given.text != text:
        at = next((n for n, (a, b) in enumerate(zip(given.text, text, strict=False)) if a != b), -1)
        raise ValueError(
            f"{given.name}: the pieces spell {shorten(text)}, which is not the text {shorten(given.text)}"
            + (f" (they differ from character {at} on)" if at >= 0 else "")
            + "; another tokenizer made them, or they are those of another text"
        )
    vectors = word_vectors(tagger, states, text)
    _refuse_unlike(tagger, lm, vectors, given.name)
    return answer_vectors(tagger, text, vectors)


def word_vectors(tagger: Any, states: PieceStates, text: str) -> np.ndarray:
    """Return (W, L, width): the vectors of the words of a text that pieces spell, all of which are there."""
    parts = list(tagger.inputs.split(text, "the text"))
    lm = forward_lm(tagger.encoder())
    if lm.context == "sentence" and len(parts) > 1:
        lm.counts[READ_AFTER_OTHERS] += len(parts) - 1
    return states.vectors([place for part in parts for place in part.places])


def answer_vectors(tagger: Any, text: str, vectors: np.ndarray) -> InputAnswer[str]:
    """Return the answer for a text with the vectors of its words."""
    plan = replace(tagger.plan, reader=tagger.plan.reader.with_vectors(vectors))
    made = tagger.sharing(plan=plan, _fitted=replace(tagger.fitted, plan=plan))
    return made.answer_inputs([text])[0]


def checked_states(lm: LMEncoder, given: GivenStates) -> Tensor:
    """Return (P, L, D): the layers that `lm` reads; `ValueError` for what is not of this LM, as far as it can be
    known."""
    name, width = given.name, lm.config.get_text_config().hidden_size
    if given.weights is not None and given.weights != lm.weights():
        raise ValueError(f"{name}: computed by another LM than {lm.spec}, which the tagger was trained on")
    if missing := [layer for layer in lm.layers if layer not in given.layers]:
        there = _list(sorted(given.layers))
        raise ValueError(f"{name}: no states of layer {_list(missing)}, which the tagger reads; there are {there}")
    ids = np.asarray(given.pieces, np.int64)
    if len(ids) and (ids.min() < 0 or ids.max() >= num_ids(lm.tokenizer)):
        wrong = ids[(ids < 0) | (ids >= num_ids(lm.tokenizer))][0]
        raise ValueError(
            f"{name}: there is no piece {wrong:,} in the vocabulary of {lm.spec} ({num_ids(lm.tokenizer):,} pieces): "
            "another tokenizer made them"
        )
    for layer in lm.layers:
        _check_layer(torch.as_tensor(given.layers[layer]), f"{name}: layer {layer}", len(ids), width, lm.spec)
    taken = [torch.as_tensor(given.layers[layer]).float() for layer in lm.layers]
    if given.unnormed and lm.layers[-1] == lm.num_layers:
        with torch.inference_mode():
            taken[-1] = final_norm(lm.model, lm.path)(taken[-1].to(lm.model.dtype)).float()
    return torch.stack(taken, dim=1)


def text_begin(lm: LMEncoder, pieces: Sequence[int], name: str) -> int:
    """Return how many pieces stand before a text, as in training: the start piece and the run-up, which are no part of
    it.

    Any number of start pieces, or other special ones, may stand before the run-up: a template and a tokenizer may each
    have put one there. `ValueError` where they are not there, unless another special piece is, such as those of a chat:
    the first word of a text right behind a start piece, or behind two, would be read otherwise than in training.
    """
    ids, start = [int(piece) for piece in pieces], lm.start
    run_up, apart = lm.before[len(start) :], {*start, *lm.tokenizer.all_special_ids}
    first = next((n for n, piece in enumerate(ids) if piece not in apart), len(ids))
    if run_up and ids[first : first + len(run_up)] == run_up and (first or not start):
        return first + len(run_up)
    if not run_up and ids[: len(start)] == start:
        return len(start)
    begun = {*start, *start_pieces(lm.tokenizer, lm.config)}  # what a tokenizer may have put there unasked
    begin = next((n for n, piece in enumerate(ids) if piece not in begun), len(ids))
    if begin < len(ids) and ids[begin] in lm.tokenizer.all_special_ids:
        return begin
    raise ValueError(
        f"{name}: the pieces do not begin with {lm.tokenizer.decode(lm.before)!r}, as all texts did in training, nor "
        "with those of a chat; let the LM read that first, and give its states too, or train with --prefix none"
    )


def _check_layer(states: Tensor, what: str, num_pieces: int, width: int, spec: str) -> None:
    if states.dtype not in DTYPES:
        raise ValueError(f"{what} holds {str(states.dtype)[6:]}; expected float32, bfloat16 or float16")
    if states.ndim != 2 or len(states) != num_pieces:
        raise ValueError(f"{what} is {_shape(states)}, and there are {num_pieces:,} pieces; one row is one piece")
    if states.shape[1] != width:
        raise ValueError(f"{what} has states of width {states.shape[1]:,}, and {spec} of {width:,}: another LM")
    if beyond := int((~states.isfinite()).sum()):
        why = ", beyond float16's range of 65,504" if states.dtype == torch.float16 else ""
        raise ValueError(f"{what} has {beyond:,} values that are no numbers{why}; write bfloat16 or float32")


def _refuse_unlike(tagger: Any, lm: LMEncoder, vectors: np.ndarray, name: str) -> None:
    """`ValueError` where states are far from those of training: those of another LM, or of other layers."""
    stream = next(n for n, s in enumerate(tagger.encoder().streams) if s == lm.streams[0])
    mix = next(mix for n, mix in enumerate(tagger.fitted.head.mixes) if n == stream)
    if not mix.standardise or len(vectors) < LEAST_JUDGED_WORDS:
        return
    far = mix.standardised(torch.from_numpy(vectors).to(mix.mean.device)).square().transpose(0, 1).flatten(1)
    for layer, median in zip(lm.layers, far.median(1).values.tolist(), strict=True):
        if median > UNLIKE:
            raise ValueError(
                f"{name}: the states of layer {layer} are far from those that the head was trained on (by "
                f"{median**0.5:.0f} times their standard deviation): those of another LM or of another layer"
            )


def _shape(states: Tensor) -> str:
    return " x ".join(f"{size:,}" for size in states.shape)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
