"""An LSTM in each direction over the words of one sentence, as one operator.

A graph that is exported must not have a step for each word, which is what tracing `nn.LSTM` gives; it has this operator
instead, which `boustro.apps.export.onnx` writes as the one of ONNX. Elsewhere `nn.LSTM` is called as it is.
"""

import torch
from torch import Tensor, nn


@torch.library.custom_op("boustro::both_ways", mutates_args=())
def both_ways(x: Tensor, weights: list[Tensor]) -> Tensor:
    """(N, 2h): the states at each word, of vectors (N, d).

    `weights` are those of `nn.LSTM`: (4h, d), (4h, h), (4h,) and (4h,) of each direction.
    """
    start = x.new_zeros(2, 1, weights[1].shape[1])
    states, _, _ = torch.lstm(x[:, None], (start, start), weights, True, 1, 0.0, False, True, False)
    return states[:, 0].clone()


@both_ways.register_fake
def _(x: Tensor, weights: list[Tensor]) -> Tensor:
    return x.new_empty(x.shape[0], 2 * weights[1].shape[1])


def weights_of(*lstms: nn.LSTM) -> list[Tensor]:
    """The weights of both directions, of one `nn.LSTM` that has both or of one for each."""
    names = [name for name, _ in nn.LSTM(1, 1, bidirectional=len(lstms) == 1).named_parameters()]
    return [getattr(lstm, name) for lstm in lstms for name in names]
