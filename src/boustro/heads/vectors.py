"""What heads of sentence embeddings share: an example has two texts, the prediction for it is a vector of each.

A text alone is an example whose second text has no word. The last side feature of a word is its weight in its text.

N words of a batch, S texts, P examples, d width of a word with its weight as the last column, e width of an embedding.
"""

from abc import abstractmethod

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boustro.heads.base import Head
from boustro.heads.layout import check_lengths
from boustro.heads.sides import WEIGHT

SIDE_FEATURES = WEIGHT


class VectorHead(Head):
    """A vector for every text."""

    parts = 2

    @property
    @abstractmethod
    def width(self) -> int:
        """The width of an embedding."""

    @abstractmethod
    def embed(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S e"]:
        """The vectors of texts with words; what it gives for a text without words is not used."""

    @torch.no_grad()
    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[np.ndarray]:
        """(2, e) for each example, zero for a text without words; `ValueError` where `lengths` do not sum to N."""
        check_lengths(lengths, len(vectors))
        found = self.embed(vectors, lengths) * (lengths > 0).to(vectors)[:, None]
        return list(found.unflatten(0, (-1, 2)).cpu().numpy())
