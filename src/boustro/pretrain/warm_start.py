"""A better start than random weights: those of another LM over the same vocabulary.

A backward LM learns other transitions than a forward one, but the same pieces: it may start from all of a
forward LM's weights (`start_from`), or, when the architecture differs, from its embeddings and the head
that is tied to them (`start_embeddings_from`).
"""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from boustro.text.tokenizers import load_tokenizer

SHOWN = 3


def refuse_other_pieces(model: str, tokenizer: Path) -> None:
    """`ValueError` unless the model's tokenizer has the very pieces of `tokenizer`: the ids would mean others."""
    if load_tokenizer(model).get_vocab() != load_tokenizer(tokenizer).get_vocab():
        raise ValueError(
            f"{model} and the shards have different pieces; tokenize the corpus again with `boustro tokenize "
            f"--tokenizer {model}`"
        )


@torch.no_grad()
def start_from(lm: PreTrainedModel, folder: str) -> None:
    """Copy all weights of the LM in `folder` (or of this name on the hub) into `lm`.

    Raises `ValueError` when the two differ in architecture, naming the first few tensors that do.
    """
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()
    ours = lm.state_dict()
    differing = [
        f"{name} {_shape(ours.get(name))} here, {_shape(theirs.get(name))} there"
        for name in sorted(ours.keys() | theirs.keys())
        if _shape(ours.get(name)) != _shape(theirs.get(name))
    ]
    if differing:
        more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        raise ValueError(
            f"{folder} is of another architecture: {'; '.join(differing[:SHOWN])}{more}. Give its own with --preset "
            f"{folder}, its window with --segment-length, or take its embeddings alone with --init-embeddings-from"
        )
    lm.load_state_dict(theirs)


@torch.no_grad()
def start_embeddings_from(lm: PreTrainedModel, folder: str) -> None:
    """Copy the embeddings of the LM in `folder` into `lm`; a tied head comes with them, all else stays.

    Rows beyond our vocabulary are padding and stay behind. Raises `ValueError` for another width.
    """
    ours: Any = lm.get_input_embeddings().weight
    theirs: Any = ours
    width = AutoConfig.from_pretrained(folder).get_text_config().hidden_size
    if width == ours.shape[1]:  # otherwise a large model is not even loaded
        theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).get_input_embeddings().weight
        width = theirs.shape[1]
    if width != ours.shape[1]:
        raise ValueError(
            f"the embeddings of {folder} are {width:,} wide and those of the model to train {ours.shape[1]:,}; "
            "choose a --preset of that width"
        )
    if len(theirs) < len(ours):
        raise ValueError(f"{folder} has {len(theirs):,} embeddings and the vocabulary {len(ours):,} pieces")
    ours.copy_(theirs[: len(ours)])


def _shape(tensor: torch.Tensor | None) -> str:
    return "absent" if tensor is None else "x".join(str(size) for size in tensor.shape)
