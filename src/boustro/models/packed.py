"""Weights in few bits: a scale and a minimum for each 32 values, as in the Q4_1 of llama.cpp; and reading them.

    value = scale · code + minimum        code 0 to 15 (4 bits) or 0 to 255 (8 bits), scale and minimum in float16,
                                          in float32 in a matrix with blocks that are too small for float16

    packed.safetensors    NAME:codes (blocks, 16 or 32) and NAME:scales (blocks, 2) of each matrix; all else as it is,
                          in 16 bits; the metadata have the bits and the shape of each matrix

The values of a matrix are cut into blocks row by row; the last is filled up. Values that came out of such codes are
given the same codes, or others with exactly these values. All others are given the codes of the least squared error
that a few trials find. They are unpacked when they are read, and computed with in the type of the encoder.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from safetensors import safe_open
from torch import Tensor

from boustro.store import Artefact, ModelPlace, reading

PACKED_FILE, PLAIN_FILE = "packed.safetensors", "model.safetensors"
CODES_ENDING, SCALES_ENDING, LAYOUT = ":codes", ":scales", "layout"
BLOCK_VALUES, BLOCKS_AT_ONCE = 32, 2**14  # values of a block, and blocks at a time: what fits into a core's cache
SYMMETRIC = {4: 8, 8: 127}
"""By what Q4_0 and Q8_0, which have no minimum, divide the largest value for their scale."""
SHRUNK = (1.0, 0.93, 0.86)
"""Shares of a block's range that a trial begins with; what lies outside is given the nearest code."""


def pack_tensors(
    weights: Mapping[str, Tensor], bits: int, before: "StoredWeights | None" = None
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a file, and its metadata; with 16 bits nothing is coded.

    What was left uncoded `before`, in the packed file that they come from, is left so.

    Raises `ValueError` for values that are not finite or beyond float16's range.
    """
    tensors, layout = {}, {}
    for name, weight in weights.items():
        if not weight.is_floating_point():
            tensors[name] = weight
        elif before and name in before.plain and torch.equal((same := before.read(name)).to(weight.dtype), weight):
            tensors[name] = same
        elif bits == 16 or weight.ndim < 2:
            tensors[name] = narrowed(weight)
        else:
            tensors[name + CODES_ENDING], tensors[name + SCALES_ENDING] = encode_matrix(name, weight, bits)
            layout[name] = [bits, *weight.shape]
    # one of them alone: safetensors writes several in any order, and the same model would have other bytes each time
    return tensors, {LAYOUT: json.dumps(layout)} if layout else {"format": "pt"}


def narrowed(weight: Tensor) -> Tensor:
    """In 16 bits, in the type that is nearer to the values: both are for what a smaller model computed in one."""
    if weight.itemsize <= 2:
        return weight
    narrow = [weight.to(dtype) for dtype in (torch.bfloat16, torch.float16)]
    return min(narrow, key=lambda other: (other.to(weight.dtype) - weight).abs().max().nan_to_num(torch.inf).item())


def encode_matrix(name: str, weight: Tensor, bits: int) -> tuple[UInt8[Tensor, "B _"], Float[Tensor, "B 2"]]:
    """Codes and scales of a matrix."""
    values = weight.detach().float().flatten()
    if not values.isfinite().all() or values.abs().max() > torch.finfo(torch.float16).max:
        raise ValueError(f"{name} has values beyond the range of float16, so it cannot be packed; give --bits 16")
    values = F.pad(values[None], (0, -len(values) % BLOCK_VALUES), "replicate")[0].view(-1, BLOCK_VALUES)
    blocks, parts = values.split(BLOCKS_AT_ONCE), []
    for dtype in (torch.float16, torch.float32):
        parts = [_encode(rows, bits, dtype) for rows in blocks]
        if all(_is_near(rows, *part, 2**bits - 1) for rows, part in zip(blocks, parts, strict=True)):
            break
    codes, scales = (torch.cat(part) for part in zip(*parts, strict=True))
    half = BLOCK_VALUES // 2
    return codes if bits == 8 else codes[:, :half] | codes[:, half:] << 4, scales


def _is_near(x: Float[Tensor, "B 32"], codes: Tensor, scales: Float[Tensor, "B 2"], top: int) -> bool:
    """Return whether no block has more error than a step between two codes, and float16's rounding, account for.

    Below float16's smallest normal number a scale loses its digits, and at last itself.
    """
    steps, largest = (x.amax(1) - x.amin(1)) / top, x.abs().amax(1)
    error = (x - decoded(codes.float(), *scales.float().unbind(1))).double().square().mean(1).sqrt()
    return bool((error <= 0.6 * steps + largest / 2**11).all())


def _encode(x: Float[Tensor, "B 32"], bits: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    low, span, largest = x.amin(1), x.amax(1) - x.amin(1), x.abs().amax(1)
    top = 2**bits - 1
    best = _Trial(x, top, span / top, low, dtype)
    symmetric = largest / SYMMETRIC[bits]
    for scale in (symmetric, -symmetric):  # Q4_0 gives code 0 to the largest value, whatever its sign
        best.try_at(~best.exact, scale, -(2 ** (bits - 1)) * _rounded(scale, dtype))
    few = ~best.exact & (x.sort(1).values.diff(dim=1) != 0).sum(1).lt(top) & (bits == 4)
    for steps in range(top, 0, -1) if few.any() else ():  # from the lowest to the highest value of the block
        for first in range(top - steps + 1):
            best.try_at(few & ~best.exact, scale := span / steps, low - first * _rounded(scale, dtype))
    for share in SHRUNK:
        scale, minimum = span * share / top, low + span * (1 - share) / 2
        for _ in range(3):
            codes = best.try_at(~best.exact, scale, minimum)
            mean, centre = codes.mean(1), x.mean(1)
            spread = (codes - mean[:, None]).square().sum(1)
            scale = ((codes - mean[:, None]) * (x - centre[:, None])).sum(1) / spread.clamp_min(1e-9)
            minimum = centre - scale * mean
        best.try_at(~best.exact, scale, minimum)
    return best.codes.to(torch.uint8), torch.stack([best.scale, best.minimum], 1).to(dtype)


def _rounded(part: Tensor, dtype: torch.dtype) -> Tensor:
    """Scales as they are stored; in float32 with 16 digits, so that a product with a code is exact."""
    return part.half().float() if dtype == torch.float16 else (part.view(torch.int32) & -(2**8)).view(torch.float32)


class _Trial:
    """The best scale and minimum of each block so far."""

    def __init__(self, x: Float[Tensor, "B 32"], top: int, scale: Tensor, minimum: Tensor, dtype: torch.dtype) -> None:
        self._x, self._top, self._dtype = x, top, dtype
        self.scale, self.minimum = torch.zeros_like(scale), torch.zeros_like(scale)
        self.codes, self.error = torch.zeros_like(x), torch.full_like(scale, torch.inf)
        self.try_at(torch.ones_like(scale, dtype=torch.bool), scale, minimum)

    @property
    def exact(self) -> Bool[Tensor, " B"]:
        """The blocks whose values are those of their codes."""
        return self.error == 0

    def try_at(self, where: Bool[Tensor, " B"], scale: Tensor, minimum: Tensor) -> Tensor:
        """Take scale and minimum for the blocks of `where` in which they are better; returns all codes (B, 32)."""
        scale, minimum = (_rounded(part, self._dtype) for part in (scale, minimum))
        codes = (self._x - minimum[:, None]).div_(scale.where(scale != 0, 1)[:, None]).round_().clamp_(0, self._top)
        error = (decoded(codes, scale, minimum) - self._x).square_().sum(1)
        better = where & (error < self.error)
        self.codes[better], self.error[better] = codes[better], error[better]
        self.scale[better], self.minimum[better] = scale[better], minimum[better]
        return codes


def decoded(codes: Float[Tensor, "B 32"], scale: Float[Tensor, " B"], minimum: Float[Tensor, " B"]) -> Tensor:
    """Return (B, 32) in float32; the product is exact there, so that all who compute it have the same values."""
    return torch.addcmul(minimum[:, None], scale[:, None], codes)


class StoredWeights:
    """The weights in the one safetensors file of a folder, packed or not."""

    def __init__(self, folder: ModelPlace) -> None:
        """Raises `ValueError` for a packed file without all that its layout names."""
        self.path = Path(folder) / (PACKED_FILE if is_packed(folder) else PLAIN_FILE)
        with reading(self.path, "write the model folder again"):
            self._file = safe_open(self.path, "pt")
            self._layout: dict[str, list[int]] = json.loads((self._file.metadata() or {}).get(LAYOUT, "{}"))
            plain = set(self._file.keys())
            for name, (bits, *shape) in self._layout.items():
                blocks = -(-torch.Size(shape).numel() // BLOCK_VALUES)
                for part, width in ((CODES_ENDING, BLOCK_VALUES * bits // 8), (SCALES_ENDING, 2)):
                    if self._file.get_slice(name + part).get_shape() != [blocks, width]:
                        raise ValueError(f"{name} has codes of another shape than its layout says")
                    plain.remove(name + part)
            self.shapes = {name: tuple(self._file.get_slice(name).get_shape()) for name in plain}
        self.shapes |= {name: tuple(shape) for name, (_, *shape) in self._layout.items()}

    @property
    def coded(self) -> list[str]:
        """The names of those that are packed."""
        return list(self._layout)

    @property
    def plain(self) -> set[str]:
        """The names of the others."""
        return self.shapes.keys() - self._layout.keys()

    def read(self, name: str, dtype: torch.dtype | None = None) -> Tensor:
        """Return one of them, by default in the type of the file, a packed one in float32."""
        if name not in self._layout:
            return self._file.get_tensor(name).to(dtype)
        shape = self.shapes[name]
        codes, scales = (self._file.get_tensor(name + part) for part in (CODES_ENDING, SCALES_ENDING))
        values = torch.empty(len(codes), BLOCK_VALUES, dtype=dtype or torch.float32)
        for rows, code, scale in zip(
            values.split(BLOCKS_AT_ONCE), codes.split(BLOCKS_AT_ONCE), scales.split(BLOCKS_AT_ONCE), strict=True
        ):
            rows.copy_(_unpacked(code, scale))
        return values.flatten()[: torch.Size(shape).numel()].view(shape)

    def rows(self, name: str, dtype: torch.dtype, device: torch.device) -> "StoredRows":
        """Return the rows of one of them, on a device."""
        shape = self.shapes[name]
        if name not in self._layout or shape[1] % BLOCK_VALUES:
            return StoredRows(shape, dtype, self.read(name, dtype).to(device))
        parts = (self._file.get_tensor(name + part) for part in (CODES_ENDING, SCALES_ENDING))
        return StoredRows(shape, dtype, *(part.view(shape[0], -1, part.shape[1]).to(device) for part in parts))

    def read_all(self, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """All, by name."""
        return {name: self.read(name, dtype) for name in self.shapes}


def _unpacked(codes: UInt8[Tensor, "B _"], scales: Float[Tensor, "B 2"]) -> Float[Tensor, "B 32"]:
    codes = codes if codes.shape[1] == BLOCK_VALUES else torch.cat([codes & 15, codes >> 4], 1)
    return decoded(codes.float(), *scales.float().unbind(1))


class StoredRows:
    """Rows of a matrix; those of a packed one are unpacked when they are asked for, so that embeddings take little."""

    def __init__(
        self, shape: tuple[int, ...], dtype: torch.dtype, values: Tensor, scales: Tensor | None = None
    ) -> None:
        self.shape, self._dtype, self._values, self._scales = shape, dtype, values, scales

    def __getitem__(self, numbers: Int[Tensor, "*N"]) -> Float[Tensor, "*N D"]:
        found = self._values[numbers]
        if self._scales is not None:
            scales = self._scales[numbers]
            found = _unpacked(found.flatten(0, -2), scales.flatten(0, -2)).view(*numbers.shape, -1).to(self._dtype)
        return found


def is_packed(path: ModelPlace) -> bool:
    """Return whether a folder has packed weights."""
    return (Path(path) / PACKED_FILE).is_file()


def packed_weights(place: ModelPlace) -> StoredWeights | None:
    """Return those of a packed folder that is complete, every byte compared; None for any other place.

    Raises as `Artefact.check`.
    """
    if not is_packed(place):
        return None
    Artefact.of(place).check("model", verify=True)
    return StoredWeights(place)


def told_change(config: Any) -> str | None:
    """Describe a packed model by its config: "the first 12 of 30 blocks in 4 bits; …"; `None` for any other."""
    facts = getattr(config, "packed", None)
    if facts is None:
        return None
    bits, blocks, whole = facts["bits"], facts["blocks"], facts["of"]
    kept = f"the first {blocks} of {whole} blocks" if blocks < whole else f"all {blocks} blocks"
    end = f"; layer {blocks}, the last, comes after a norm without scale" if "norm" in facts else ""
    same = f"; the states of its layers are those of the whole model{' but for the bits' if bits < 16 else ''}"
    cut = f"; {facts['pieces']:,} of {facts['of_pieces']:,} pieces of the vocabulary" if "pieces" in facts else ""
    return f"{kept} in {bits} bits{same if blocks < whole else ''}{end}{cut}"


def refuse_cut(name: str, config: Any) -> None:
    """`ValueError` for a packed LM without its last blocks, before it is asked for pieces."""
    facts = getattr(config, "packed", None)
    if facts is not None and facts["blocks"] < facts["of"]:
        raise ValueError(
            f"{name} has the first {facts['blocks']} of {facts['of']} blocks of an LM, which predict no pieces; name "
            "the whole LM"
        )
