"""Arrays with numpy alone: those of a safetensors file, for what runs without torch; vectors of length 1.

The file begins with the size of its header (8 bytes, little-endian) and the header, JSON with the type, the shape and
the place of each array; then come their bytes. Source: the format's documentation, huggingface/safetensors.
"""

import json
import math
from pathlib import Path

import numpy as np

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1", "BOOL": "?"}


def read_arrays(path: str | Path, data: bytes | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name, read-only; `data` are its bytes, where they were read.

    Raises `ValueError` for a damaged file and for a type that numpy lacks.
    """
    data = Path(path).read_bytes() if data is None else data
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise ValueError(f"{path}: not a safetensors file, or a part of one")
    arrays, rest = {}, memoryview(data)[8 + size :]
    try:
        for name, facts in json.loads(data[8 : 8 + size]).items():
            if name == "__metadata__":
                continue
            dtype, shape, (start, stop) = np.dtype(TYPES[facts["dtype"]]), facts["shape"], facts["data_offsets"]
            if not 0 <= start <= stop <= len(rest) or stop - start != math.prod(shape) * dtype.itemsize:
                raise ValueError(f"the array {name!r} does not fit the file")
            arrays[name] = np.frombuffer(rest[start:stop], dtype).reshape(shape)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: damaged, or no safetensors file for numpy ({error})") from error
    return arrays


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return (..., d) each with length 1, in the type of the input; a zero vector stays."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)  # a zero vector stays one
