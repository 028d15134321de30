"""What the tests of writing and scoring read with: random tables in place of an LM, and tiny masked LMs."""

import json
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForMaskedLM

from boustro.text.tokenizers import with_special_pieces


class Table:
    """read(suffix) of a made-up LM: any log-probabilities, but always the same for the same pieces."""

    dtype = torch.float32

    def __init__(self, seed: int, num_pieces: int, decimals: int = 2) -> None:
        self.seed, self.num_pieces, self.decimals, self.readings = seed, num_pieces, decimals, 0

    def __call__(self, suffix: Tensor, places: Tensor | None = None) -> Tensor:
        self.readings += 1
        found = torch.stack([self.row(tuple(row)) for row in suffix.tolist()])
        return found if places is None else torch.take_along_dim(found, places[..., None], 1)

    def row(self, pieces: tuple[int, ...]) -> Tensor:
        """(S, V); rounded logits, so that equal ones occur."""
        generator = torch.Generator().manual_seed(hash((self.seed, pieces)) % 2**63)
        logits = 3 * torch.randn(len(pieces), self.num_pieces, generator=generator, dtype=torch.float64)
        return logits.round(decimals=self.decimals).log_softmax(-1).float()


class SamePlaces(Table):
    """Gives all hidden places the same log-probabilities, but for the rounding that every reading adds anew."""

    def row(self, pieces: tuple[int, ...]) -> Tensor:
        same = super().row(tuple(sorted(pieces)))[:1].expand(len(pieces), -1)
        return same + 4e-6 * torch.rand(same.shape, generator=torch.Generator().manual_seed(self.readings))


def write_masked_lm(folder: Path, tokenizer: Path, attention: str | None = "prefix", kind: str = "eurobert", **config):
    """A tiny masked LM of random weights, far from uniform; `attention` is what its config says of the prefix."""
    pieces = with_special_pieces(tokenizer, ("mask", "cls", "sep", "pad") if kind == "bert" else ("mask",))
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"max_position_embeddings": 64, "vocab_size": len(pieces), "pad_token_id": None}
    shape |= {"num_key_value_heads": 1} if kind == "eurobert" else {}
    lm = AutoModelForMaskedLM.from_config(AutoConfig.for_model(kind, **(shape | config)), dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in lm.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3, generator=generator)
    lm.save_pretrained(folder)
    pieces.save_pretrained(folder)
    if attention:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"prefix_attention": attention}), "utf-8")
    return folder
