"""How long the text after a prompt is: a linear layer on the mean state of the prompt.

    states of [The, ferry, …]  →  mean (D,)  →  scores of the lengths 1, 2, … N

It is trained with the LM, its loss weighted by 0.1 or so, and stands beside the LM's weights in a file of its own.
Source: Ghazvininejad et al. 2019, section 3.3; BiGLM's published code. B prompts, P pieces, D width, N lengths.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

WEIGHTS = "length_head.safetensors"


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
        save_file(self.state_dict(), folder / WEIGHTS)

    @staticmethod
    def load(folder: str | Path) -> "LengthHead | None":
        """That of a model folder; None where there is none."""
        path = Path(folder) / WEIGHTS
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
