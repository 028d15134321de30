"""`heads.recurrent.both_ways` as the operator LSTM of ONNX.

PyTorch has the gates of its weights in the order input, forget, cell, output; ONNX in the order input, output, forget,
cell. A word more is computed, since onnxruntime has no LSTM over none.

Source: the operators' specification of ONNX, LSTM (version 14).
"""

from collections.abc import Callable, Sequence
from typing import Any

INT32 = 6


def translations() -> dict[Any, Callable[..., Any]]:
    """For `torch.onnx.export`."""
    import torch

    from boustro.heads import recurrent  # noqa: F401 (the operator)

    return {torch.ops.boustro.both_ways.default: _both_ways}


def _both_ways(x: Any, weights: Sequence[Any]) -> Any:
    import onnxscript

    op: Any = onnxscript.opset20
    hidden = weights[1].shape[1]

    def gates(weight: Any) -> Any:
        parts = [op.Slice(weight, [k * hidden], [(k + 1) * hidden], [0]) for k in (0, 3, 1, 2)]
        return op.Concat(*parts, axis=0)

    def directions(first: int) -> Any:
        return op.Concat(*(op.Unsqueeze(gates(weights[k]), [0]) for k in (first, first + 4)), axis=0)

    words = op.Shape(x, start=0, end=1)
    padded = op.Unsqueeze(op.Pad(x, [0, 0, 1, 0]), [1])
    biases = op.Concat(directions(2), directions(3), axis=1)
    states, _, _ = op.LSTM(
        padded,
        directions(0),
        directions(1),
        biases,
        op.Cast(words, to=INT32),
        hidden_size=hidden,
        direction="bidirectional",
    )
    return op.Slice(op.Reshape(states, [-1, 2 * hidden]), [0], words, [0])
