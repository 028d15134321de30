"""A transform of vectors (`heads.transforms`) among the weights of a head, so that it is saved and opened with them."""

import numpy as np
import torch
from torch import nn

from boustro.heads.transforms import TRANSFORMS, Transform


class FittedTransform(nn.Module):
    """A transform by its name; its arrays are buffers, zero until `fit`."""

    def __init__(self, name: str, width: int) -> None:
        super().__init__()
        self.kind = TRANSFORMS[name]
        for array, shape in self.kind.shapes(width).items():
            self.register_buffer(array, torch.zeros(shape))

    @property
    def transform(self) -> Transform:
        """The transform."""
        return self.kind.from_arrays({name: buffer.cpu().numpy() for name, buffer in self.named_buffers()})

    def fit(self, sample: np.ndarray) -> Transform:
        """Fit it to `sample` (n, d), and return it; `ValueError` as `Transform.fit`."""
        fitted = self.kind.fit(sample)
        for name, array in fitted.arrays().items():
            getattr(self, name).copy_(torch.from_numpy(array))
        return fitted
