"""The products of a model's blocks: in the type of their weights, or in int8.

    weights    codes -63 to 63, a scale for each output
    inputs     codes -127 to 127, a scale for each row: one for a whole batch, which libraries have, ruins an LM, where
               one state has values thousands of times as large as all others
    channels   an input that is large in every row is divided by what its weights are multiplied by before
               (SmoothQuant, Xiao et al. 2023); how large they are is known from a few plain sentences

A pair of weights of 63 and inputs of 255 (as the processor has them, unsigned) fits into 16 bits, where processors
without VNNI add it. So sums are exact, and a row gives the same alone, in a batch and on another machine, if its inputs
are the same: what stands between two products must be so, too (`exact_attention`).

All else (embeddings, norms, what is added to a state) is in float32. The op is that of fbgemm, which x86 has alone.
"""

import copy
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor

from boustro.hardware import multiply
from boustro.models.packed import StoredRows, StoredWeights
from boustro.names import CHANNELS_FILE

INT8 = torch.int8
"""The type that a model computes in: its products in int8, the rest in float32."""
ENGINE = "fbgemm"
WEIGHT_CODES, INPUT_CODES = 63, 127
LEAST_CHANNEL, LEAST_DIVISOR = 1e-5, 1e-12  # of a channel, so that none is multiplied by thousands, and of a divisor


class FloatProduct:
    """x · Wᵀ + b in the type of the weights; behind a norm, where `norm` has what it multiplies channels by."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, norm: Tensor | None = None) -> None:
        # column by column a few rows take three quarters of the time, and give the same
        self._weight, self._bias, self._norm = weight.T.contiguous().T, bias, norm

    def __call__(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return (…, K) → (…, N); `rows` (…, 1), in float32, is what the norm multiplies rows by."""
        if rows is not None:
            x = normed(x, rows, self._norm)
        return multiply(x, self._weight, self._bias)

    def in_float32(self) -> "FloatProduct":
        """Return the same in float32."""
        twin = copy.copy(self)
        for name, tensor in vars(self).items():
            vars(twin)[name] = None if tensor is None else tensor.float()
        return twin


class Int8Product:
    """x · Wᵀ + b, computed with weights and inputs in int8."""

    def __init__(
        self,
        weight: Float[Tensor, "N K"],
        bias: Float[Tensor, " N"] | None,
        norm: Float[Tensor, " K"] | None,
        typical: Float[Tensor, " K"],
    ) -> None:
        self._bias = bias
        balance = typical.clamp_min(LEAST_CHANNEL).div_(_largest(weight, 0).clamp_min(LEAST_CHANNEL)).sqrt_()
        balance /= balance.median()
        self._narrowing = (1 if norm is None else norm) / balance
        weight = weight * balance
        scales = (_largest(weight, 1) / WEIGHT_CODES).clamp_min_(LEAST_DIVISOR)
        codes = weight.div_(scales[:, None]).round_().to(torch.int8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch announces that its quantised tensors will go; see `works`
            make: Any = vars(torch)["_make_per_channel_quantized_tensor"]
            coded = make(codes, scales.double(), torch.zeros_like(scales).long(), 0)
            torch.backends.quantized.engine = ENGINE
            self._packed = torch.ops.quantized.linear_prepack(coded, None)

    def in_float32(self) -> "Int8Product":
        """Return itself: all but its codes is in float32."""
        return self

    def __call__(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return (…, K) → (…, N), in float32."""
        narrowed = x * self._narrowing
        largest = torch.maximum(narrowed.amax(-1, keepdim=True), narrowed.amin(-1, keepdim=True).neg_())
        largest.clamp_min_(LEAST_DIVISOR)
        made = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            narrowed.mul_(INPUT_CODES / largest), 1.0, INPUT_CODES + 1, self._packed
        )
        made.mul_(largest.mul_(1 / INPUT_CODES if rows is None else rows / INPUT_CODES))
        return made if self._bias is None else made.add_(self._bias)


def normed(x: Tensor, rows: Tensor, scale: Tensor | None) -> Tensor:
    """`x` (…, K) behind a norm, which multiplies rows (…, 1), in float32, and channels (K,)."""
    made = (x * rows).to(x.dtype)
    return made if scale is None else made.mul_(scale)


def _largest(x: Tensor, axis: int) -> Tensor:
    """Return the largest size of a number along an axis, without a copy of all sizes."""
    return torch.maximum(x.amax(axis), x.amin(axis).neg_())


Product = FloatProduct | Int8Product


class ProductReader:
    """The products of a stored model; several weights that read the same input are one. `num_parameters` counts what
    was read so far."""

    def __init__(self, folder: str, dtype: torch.dtype, device: torch.device) -> None:
        self._stored, self._dtype, self._device, self.num_parameters = StoredWeights(folder), dtype, device, 0
        self._channels = load_channels(folder) if dtype == INT8 else {}
        self._state_type = torch.float32 if dtype == INT8 else dtype  # of all that is no product

    def rows(self, name: str) -> StoredRows:
        """Return the rows of embeddings."""
        self.num_parameters += math.prod(self._stored.shapes[name])
        return self._stored.rows(name, self._state_type, self._device)

    def read(self, name: str) -> Tensor:
        """Return a tensor that is no matrix of a block."""
        self.num_parameters += math.prod(self._stored.shapes[name])
        return self._stored.read(name, self._state_type).to(self._device)

    def product(self, weights: Sequence[str], biases: Sequence[str] = (), norm: str | None = None) -> Product:
        """Return the outputs of all these, side by side; behind the norm of this name."""
        weight = torch.cat([*map(self.read, weights)])
        bias = torch.cat([*map(self.read, biases)]) if biases else None
        scale = self.read(norm) if norm else None
        if self._dtype == INT8:
            return Int8Product(weight, bias, scale, self._channels[weights[0]].float())
        return FloatProduct(weight, bias, scale)


def load_channels(folder: str | Path) -> dict[str, Tensor]:
    """Return the tensors in `CHANNELS_FILE`; the largest number of float16 for what an earlier `pack` had beyond it."""
    return {name: rows.nan_to_num() for name, rows in load_file(Path(folder) / CHANNELS_FILE).items()}


def attention(dtype: torch.dtype) -> Any:
    """Return the function that a model computing in `dtype` attends by."""
    return exact_attention if dtype == INT8 else F.scaled_dot_product_attention


def exact_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
    """Compute as `scaled_dot_product_attention` does, in float64, and round.

    In float32 the last digits depend on what is computed beside a row, or after it. As inputs of products in int8 they
    become other codes, and half a percent of a state.
    """
    return F.scaled_dot_product_attention(q.double(), k.double(), v.double(), mask, **options).float()


def works() -> bool:
    """Return whether products in int8 are right here: sums of the largest codes too, which saturate if they are not."""
    if ENGINE not in torch.backends.quantized.supported_engines:
        return False
    generator = torch.Generator().manual_seed(0)
    weight, x = (torch.randn(rows, 64, generator=generator) for rows in (48, 33))
    weight[:3], x[:3] = 1, torch.tensor([[1.0], [-1.0], [0.5]])
    try:
        codes = Int8Product(weight, None, None, torch.ones(64))(x)
    except (RuntimeError, AttributeError):  # a version of torch without the op
        return False
    exact = FloatProduct(weight)(x)
    return bool(((codes - exact).norm(dim=1) < 0.05 * exact.norm(dim=1)).all())


class TypicalInputs:
    """The root mean square (K,) of what products read, by name: of the states from `first` on in each text, for that
    of a start piece, where attention rests, is like no other."""

    def __init__(self, first: int = 0) -> None:
        self._first, self._squares, self._counts = first, dict[str, Tensor](), Counter[str]()

    def add(self, name: str, given: Float[Tensor, "B P K"]) -> None:
        """Count what one product has read."""
        rows = given.detach()[:, self._first :].flatten(0, -2).double()
        self._squares[name] = self._squares.get(name, 0) + rows.square().sum(0)
        self._counts[name] += len(rows)

    def found(self) -> dict[str, Tensor]:
        """Return what `CHANNELS_FILE` has: in float16, in float32 where that has no such numbers."""
        exact = {name: (total / self._counts[name]).sqrt() for name, total in self._squares.items()}
        return {name: r.half() if r.max() <= torch.finfo(torch.float16).max else r.float() for name, r in exact.items()}


def typical_inputs(watched: Mapping[str, torch.nn.Module], first: int, run: Callable[[], Any]) -> dict[str, Tensor]:
    """Return the `TypicalInputs` of modules, by name, in all that `run()` computes."""
    inputs = TypicalInputs(first)

    def watch(name: str) -> Any:
        return lambda _, given: inputs.add(name, given[0])

    hooks = [module.register_forward_pre_hook(watch(name)) for name, module in watched.items()]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return inputs.found()
