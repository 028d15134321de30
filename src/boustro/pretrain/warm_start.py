"""Warm start: the weights of another LM over the same vocabulary in place of random ones.

A backward LM may start from all weights of a forward one (`start_from`), or, if the architecture differs, from its
embeddings and the head tied to them, reduced to its own width if they are wider (`start_embeddings_from`). A masked
LM with the blocks of a causal one may start from that: EuroBERT from Llama.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from boustro.models.pretrained import architecture_kind, load_pretrained
from boustro.names import locate_model
from boustro.store import reading
from boustro.text.tokenizers import load_tokenizer, num_ids

ADVICE = "name another model"


def refuse_other_pieces(model: str, tokenizer: Path) -> None:
    """`ValueError` unless both tokenizers have the same pieces; special ones may come after all others."""
    theirs, ours = load_tokenizer(model), load_tokenizer(tokenizer)
    all_theirs, all_ours, most = theirs.get_vocab(), ours.get_vocab(), num_ids(ours)
    own = {piece: number for piece, number in all_theirs.items() if number < most}
    if own != all_ours or len(all_theirs) - len(own) > len(theirs.all_special_ids):
        raise ValueError(
            f"{model} and the shards have different pieces; tokenize the corpus again with `boustro tokenize "
            f"--tokenizer {model}`"
        )


@torch.no_grad()
def start_from(lm: PreTrainedModel, folder: str) -> None:
    """Copy all weights of the LM in `folder` (or of this name on the Hub) into `lm`.

    If `lm` has additional special pieces, which come last, their rows are unchanged. Rows of padding beyond its pieces,
    and learned positions beyond its window, are not copied.
    Raises `ValueError` if the two differ in architecture, naming the first few tensors that do.
    """
    other = _load(folder, lm)
    theirs, ours = other.state_dict(), lm.state_dict()
    more_pieces = lm.config.vocab_size - other.get_input_embeddings().weight.shape[0]
    more_positions = min(0, _window(lm) - _window(other))
    for more in filter(None, (more_pieces, more_positions)):
        theirs = {name: _with_rows(more, tensor, ours.get(name)) for name, tensor in theirs.items()}
    differing = [
        f"{name} {_shape(ours.get(name))} here, {_shape(theirs.get(name))} there"
        for name in sorted(ours.keys() | theirs.keys())
        if _shape(ours.get(name)) != _shape(theirs.get(name))
    ]
    positions = [getattr(model.config, "rope_parameters", None) for model in (lm, other)]
    if not differing and positions[0] != positions[1]:
        differing = [f"rotary positions {positions[0]} here, {positions[1]} there"]
    if differing:
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise ValueError(
            f"{folder} has another architecture: {'; '.join(differing[:3])}{more}. Leave out --preset, give at "
            f"most its window as --segment-length, or use its embeddings only, with --init-embeddings-from"
        )
    lm.load_state_dict(theirs)


@torch.no_grad()
def start_embeddings_from(lm: PreTrainedModel, folder: str) -> None:
    """Copy the embeddings of the LM in `folder` into `lm`, and with them a tied head; all else is unchanged.

    Wider ones are reduced to their principal components, which preserve the inner products of the pieces best. Rows
    beyond our vocabulary are padding and are not copied. Raises `ValueError` for narrower ones.
    """
    ours: Any = lm.get_input_embeddings().weight
    with reading(folder, ADVICE):
        width = AutoConfig.from_pretrained(locate_model(folder)).get_text_config().hidden_size
    if width >= ours.shape[1]:  # otherwise nothing more is read
        theirs = read_embeddings(folder, lm).float()
        width = theirs.shape[1]
    if width < ours.shape[1]:
        raise ValueError(
            f"the embeddings of {folder} are {width:,} wide, those of the model to train {ours.shape[1]:,}; "
            "choose a --preset that is not wider"
        )
    rows = min(len(theirs), len(ours))
    copied = theirs[:rows]
    if width > ours.shape[1]:
        _, axes = torch.linalg.eigh(copied.T @ copied)  # the largest last
        copied = copied @ axes[:, -ours.shape[1] :]
    ours[:rows] = copied


def read_embeddings(model: str, like: PreTrainedModel | None = None) -> Tensor:
    """(V, D) the input embeddings of an LM, in the precision of its files; of safetensors nothing else is read.

    The LM is causal, or of the architecture of `like`.
    """
    folder = locate_model(model)
    config, make = _architecture(folder, like)
    with reading(model, ADVICE):
        with torch.device("meta"):
            bare = getattr(make, "from_config", make)(config)
        (name,) = (n for n, p in bare.named_parameters() if p is bare.get_input_embeddings().weight)
        own = name.split(".", 1)[1]  # a file of the body alone has no prefix, that of a wrapper has another one
        for file in sorted(Path(folder).glob("*.safetensors")):
            with safe_open(file, "pt") as tensors:
                if found := [key for key in tensors.keys() if f".{key}".endswith(f".{own}")]:  # noqa: SIM118
                    return tensors.get_tensor(found[0])
    return load_pretrained(make, folder, dtype="auto").get_input_embeddings().weight.detach()


def _load(folder: str, lm: PreTrainedModel) -> Any:
    """The LM in `folder`, in float32: a causal one, or one of the architecture of `lm`."""
    folder = locate_model(folder)
    config, make = _architecture(folder, lm)
    return load_pretrained(make, folder, config=config, dtype=torch.float32)


def _architecture(folder: str, like: PreTrainedModel | None) -> tuple[Any, Any]:
    """The config of an LM, and the class of transformers for it with its head; see `read_embeddings`."""
    with reading(folder, ADVICE):
        config = AutoConfig.from_pretrained(folder)
    if like is None or architecture_kind(config) == "causal":
        return config, AutoModelForCausalLM
    if config.model_type != like.config.model_type:
        raise ValueError(
            f"{folder} is a {config.model_type} and the model to train a {like.config.model_type}; start from a causal "
            f"LM or from a {like.config.model_type}"
        )
    return config, type(like)


def _with_rows(more: int, theirs: Tensor, ours: Tensor | None) -> Tensor:
    """`theirs` with `more` rows appended from `ours`, or with fewer, if the two differ only in that."""
    if ours is None or ours.shape[1:] != theirs.shape[1:] or len(ours) - len(theirs) != more:
        return theirs
    return torch.cat([theirs[: len(ours)], ours[len(theirs) :]])


def _window(lm: Any) -> int:
    """The number of positions; 0 if the config does not say."""
    return getattr(lm.config.get_text_config(), "max_position_embeddings", 0) or 0


def _shape(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else "x".join(str(size) for size in tensor.shape)
