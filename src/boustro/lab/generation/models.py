"""Language models that write and score, with what they need to know of their vocabulary and their window.

    open_lm("./my-biglm")        MaskedLM: hides, reads both ways, writes in any order
    open_lm("starter-forward")   CausalLM: reads and writes from left to right

A masked LM that `--objective prefix-suffix` trained says in its config what its prefix sees: with "prefix" the states
of a prompt do not depend on what follows, so they can be computed once. Such an LM may have a `LengthHead`, a linear
layer that tells from the mean state of a prompt how long the text after it is:

    states of [The, ferry, …]  →  mean (D,)  →  scores of the lengths 1, 2, … N

It is trained with the LM, its loss weighted by 0.1 or so, and stands beside the LM's weights in a file of its own.
Source: Ghazvininejad et al. 2019, section 3.3; BiGLM's published code. B prompts, P pieces, D width, N lengths.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM

from boustro.encoders.loading import load_config
from boustro.encoders.precision import refuse_overflow
from boustro.encoders.spec import locate
from boustro.hardware import find_device
from boustro.lab.masked import prediction_head
from boustro.lab.objectives.masking import special_pieces
from boustro.models.packed import refuse_cut
from boustro.models.pretrained import (
    architecture_kind,
    causal_class,
    describe_architecture,
    first_position,
    load_pretrained,
)
from boustro.names import PACKAGED
from boustro.text.start import AUTO, frame_of, start_pieces
from boustro.text.tokenizers import end_of_text_id, load_tokenizer, refuse_ids_beyond

LENGTH_HEAD_FILE = "length_head.safetensors"
PROBE = "The ferry leaves at eight."


class LengthHead(nn.Module):
    """Scores of lengths up to `longest`."""

    def __init__(self, width: int, longest: int) -> None:
        super().__init__()
        self.scores = nn.Linear(width, longest)

    def forward(self, states: Float[Tensor, "B P D"], seen: Bool[Tensor, "B P"]) -> Float[Tensor, "B N"]:
        """From the states of the pieces that are `seen`, at least one of each prompt."""
        mean = (states * seen[..., None]).sum(1) / seen.sum(1, keepdim=True)
        return self.scores(mean.float())

    def loss(
        self, states: Float[Tensor, "B P D"], seen: Bool[Tensor, "B P"], lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, ""]:
        """Mean cross-entropy of the true lengths."""
        return F.cross_entropy(self(states, seen), lengths - 1)

    def save(self, folder: Path) -> None:
        """Write into a folder that `store.write_folder` opened."""
        save_file(self.state_dict(), folder / LENGTH_HEAD_FILE)

    @staticmethod
    def load(folder: str | Path) -> "LengthHead | None":
        """That of a model folder; None where there is none."""
        path = Path(folder) / LENGTH_HEAD_FILE
        if not path.is_file():
            return None
        weights = load_file(path)
        longest, width = weights["scores.weight"].shape
        head = LengthHead(width, longest)
        head.load_state_dict(weights)
        return head.eval().requires_grad_(False)


def likeliest_lengths(
    head: LengthHead, states: Float[Tensor, "B P D"], seen: Bool[Tensor, "B P"], count: int, most: int
) -> list[list[int]]:
    """For each prompt the `count` likeliest lengths of at most `most`, the likeliest first."""
    with torch.inference_mode():
        scores = head(states, seen)[:, :most]
    return (scores.topk(min(count, scores.shape[1]), dim=1).indices + 1).tolist()


CACHING = ("eurobert",)
"""Masked architectures whose body takes keys and values that were computed before."""


@dataclass(frozen=True, kw_only=True)
class OpenedLM:
    """A loaded language model."""

    name: str
    lm: Any
    tokenizer: Any
    writable: Bool[Tensor, " V"]
    """The pieces that can be written: all but special ones."""
    window: int | None
    """The most pieces that it reads, with its frame; None for any number."""
    before: tuple[int, ...]
    after: tuple[int, ...]
    """What stands around every reading: a causal LM's start piece, BERT's [CLS] and [SEP], or nothing."""
    prompt_end: tuple[int, ...]
    """What stands after a prompt: the end-of-text piece where the LM was fine-tuned on pairs."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.lm.device

    @property
    def num_frame_pieces(self) -> int:
        """How many pieces stand around every reading."""
        return len(self.before) + len(self.after)

    def room(self, prompt: Sequence[int]) -> int:
        """Return how many pieces can be written after a prompt."""
        return 2**31 if self.window is None else self.window - self.num_frame_pieces - len(prompt)

    def pieces(self, text: str) -> list[int]:
        """Return the pieces of a text, without a frame."""
        return self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]

    def text(self, pieces: Sequence[int]) -> str:
        """Return the text of pieces."""
        return self.tokenizer.decode(pieces, clean_up_tokenization_spaces=False)

    def refuse_longer(self, num_pieces: int) -> None:
        """`ValueError` for more pieces than the window has."""
        if self.window is not None and num_pieces > self.window:
            raise ValueError(
                f"the prompt and the text have {num_pieces:,} pieces together, and the window of {self.name} has "
                f"{self.window:,}; give a shorter prompt or a smaller --length (nothing is cut)"
            )


@dataclass(frozen=True, kw_only=True)
class MaskedLM(OpenedLM):
    """A masked LM."""

    mask_id: int
    length_head: LengthHead | None = None
    """What expects a length from a prompt, where the LM was fine-tuned on pairs."""

    @property
    def has_prefix_mask(self) -> bool:
        """Whether it was trained with a prefix that does not see what follows."""
        return getattr(self.lm.config, "prefix_attention", None) == "prefix"

    @property
    def has_prefix_cache(self) -> bool:
        """Whether the states of a prompt can be computed once."""
        return self.has_prefix_mask and self.lm.config.model_type in CACHING

    def refuse_cache(self) -> None:
        """`ValueError` where they cannot."""
        if not self.has_prefix_mask:
            raise ValueError(
                f"{self.name}: the prefix cache would change the results, because this model's prompt sees what "
                "follows it; train with boustro lab pretrain --objective prefix-suffix"
            )
        if not self.has_prefix_cache:
            raise ValueError(
                f"{self.name}: a {self.lm.config.model_type} cannot reuse the states of a prompt (known: "
                f"{', '.join(CACHING)})"
            )


@dataclass(frozen=True, kw_only=True)
class CausalLM(OpenedLM):
    """A forward causal LM."""


@torch.inference_mode()
def refuse_narrow(lm: Any, tokenizer: Any, before: Sequence[int], name: str) -> None:
    """`ValueError` for an LM that computes in float16, whose range its states pass: tried on a few words."""
    if lm.dtype == torch.float16:
        ids = [*before, *tokenizer(PROBE, add_special_tokens=False)["input_ids"]]
        refuse_overflow(lm(input_ids=torch.tensor([ids], device=lm.device)).logits, name, lm.dtype)


def open_lm(
    spec: str, device: str | None = None, dtype: str = "float32", start_piece: str = AUTO
) -> MaskedLM | CausalLM:
    """Load the model that a spec such as `starter-forward`, `./my-biglm` or `bert-base-cased` names.

    Raises `FileNotFoundError` if there is none, and `ValueError` for several models, a backward LM, a tokenizer of
    another vocabulary, a masked LM without a mask piece, and an attention that takes no mask.
    """
    if spec in PACKAGED and PACKAGED[spec].spec:
        raise ValueError(f"{spec} is several models side by side, and one writes or scores; name one: starter-forward")
    path, revision = locate(spec)
    config = load_config(path, revision)
    kind, tokenizer = architecture_kind(config), load_tokenizer(path, revision)
    if kind is None:
        raise ValueError(f"{spec} is {describe_architecture(config)}, neither a causal nor a masked LM")
    if getattr(config, "direction", "forward") == "backward":
        raise ValueError(f"{spec} is a backward LM, which cannot continue a text; name a forward or a masked LM")
    refuse_cut(spec, config)
    if kind == "masked" and start_piece != AUTO:
        raise ValueError(f"{spec} is a masked LM, which has no start piece; remove --start-piece {start_piece}")
    make: Any = AutoModelForMaskedLM if kind == "masked" else causal_class(config)
    target = find_device(device)
    lm = load_pretrained(make, str(path), config=config, revision=revision, dtype=getattr(torch, dtype))
    lm = lm.to(target).eval().requires_grad_(False)
    rows = lm.get_input_embeddings().weight.shape[0]
    refuse_ids_beyond(rows, tokenizer, spec)
    writable = torch.from_numpy(~special_pieces(tokenizer, rows)).to(target)
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    window = None if positions is None else positions - first_position(config)
    prompt_end = (end_of_text_id(tokenizer),) if getattr(config, "prompt_end", False) else ()
    common: Any = {"name": spec, "lm": lm, "tokenizer": tokenizer, "writable": writable, "window": window}
    common["prompt_end"] = prompt_end
    if kind == "causal":
        before = tuple(start_pieces(tokenizer, config, start_piece))
        refuse_narrow(lm, tokenizer, before, spec)
        return CausalLM(**common, before=before, after=())
    if tokenizer.mask_token_id is None:
        raise ValueError(f"{spec}: its tokenizer has no mask piece, so it cannot hide what is to be written")
    prediction_head(lm)  # raises now for an unknown head
    before, after = map(tuple, frame_of(tokenizer, tokenizer.mask_token))
    refuse_narrow(lm, tokenizer, before, spec)
    head = LengthHead.load(path.path)
    head = head if head is None else head.to(target)
    return MaskedLM(**common, mask_id=tokenizer.mask_token_id, before=before, after=after, length_head=head)
