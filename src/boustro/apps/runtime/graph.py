"""A graph of an exported folder: what it asks for, read from its bytes before anything opens it; then opened and run.

A graph of ours has standard operators of one version alone, and at most one file beside it, of its own name with
`.data` behind it. The file is a message of protocol buffers; only the fields below are looked at.

Source: onnx.proto3 of ONNX, and the encoding of protocol buffers (fields as number and wire type, varints).
"""

import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from boustro.errors import reason

OPSET = 20  # the first opset with Gelu as one operator
DATA_ENDING = ".data"
GRAPH, OPSETS, TRAINING, FUNCTIONS = 7, 8, 20, 25  # of a model
DOMAIN, VERSION = 1, 2  # of an opset
NODE, INITIALIZER, SPARSE = 1, 5, 15  # of a graph
OPERATOR, NODE_DOMAIN, ATTRIBUTE = 4, 7, 5  # of a node
TENSOR, SUBGRAPH, TENSORS, SUBGRAPHS, SPARSE_TENSORS = 5, 6, 10, 11, (22, 23)  # of an attribute
NO_SPARSE = "has sparse tensors, which boustro export does not write"
EXTERNAL = 13  # of a tensor: pairs of key (1) and value (2)


def check_graph(path: Path) -> None:
    """`ValueError`, in a sentence, for a file that is no ONNX or not as ours are."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise ValueError(f"{path}: empty; export it again")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # closed when no part of it is held any more
    try:
        _check_model(memoryview(data), path)
    except (IndexError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: damaged, or no ONNX file; export it again") from error


def _check_model(model: memoryview, path: Path) -> None:
    versions = {}
    for number, value in _fields(model):
        if number == OPSETS and isinstance(value, memoryview):
            opset = dict(_fields(value))
            versions[_text(opset.get(DOMAIN, b""))] = opset.get(VERSION)
        elif number in (FUNCTIONS, TRAINING):
            what = "functions of its own" if number == FUNCTIONS else "graphs to train it"
            raise ValueError(f"{path}: has {what}, which boustro export does not write")
        elif number == GRAPH and isinstance(value, memoryview):
            _check_graph(value, path)
    if versions != {"": OPSET}:
        names = ", ".join(f"{name or 'ai.onnx'} {version}" for name, version in versions.items()) or "none"
        raise ValueError(f"{path}: needs operators of {names}, and this version reads ai.onnx {OPSET}; export it again")


def _check_graph(graph: memoryview, path: Path) -> None:
    for number, value in _fields(graph):
        if number == NODE and isinstance(value, memoryview):
            _check_node(value, path)
        elif number == SPARSE:
            raise ValueError(f"{path}: {NO_SPARSE}")
        elif number == INITIALIZER and isinstance(value, memoryview):
            _check_tensor(value, path)


def _check_node(node: memoryview, path: Path) -> None:
    for number, value in _fields(node):
        if number == NODE_DOMAIN and _text(value) not in ("", "ai.onnx"):
            raise ValueError(f"{path}: has an operator of {_text(value)}, and only standard ones are run")
        if number == OPERATOR and _text(value) == "DynamicQuantizeLinear":  # as int8 exports had it
            raise ValueError(f"{path}: has one scale for a whole batch, so texts change each other; export it again")
        if number == ATTRIBUTE and isinstance(value, memoryview):
            for kind, part in _fields(value):
                if kind in SPARSE_TENSORS:
                    raise ValueError(f"{path}: {NO_SPARSE}")
                if kind in (TENSOR, TENSORS) and isinstance(part, memoryview):
                    _check_tensor(part, path)
                elif kind in (SUBGRAPH, SUBGRAPHS) and isinstance(part, memoryview):
                    _check_graph(part, path)


def _check_tensor(tensor: memoryview, path: Path) -> None:
    for number, value in _fields(tensor):
        if number == EXTERNAL and isinstance(value, memoryview):
            entry = dict(_fields(value))
            place, ours = _text(entry.get(2, b"")), path.name + DATA_ENDING
            if _text(entry.get(1, b"")) != "location" or (place == ours and (path.parent / ours).is_file()):
                continue
            only = "is not there" if place == ours else f"may only be {ours!r} beside it"
            raise ValueError(f"{path}: its weights are said to be in {place!r}, which {only}; export it again")


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """(number, value) of each field: an integer or bytes; `IndexError` where the message ends too early."""
    place, end = 0, len(message)
    while place < end:
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if kind == 2:
            size, place = _varint(message, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise IndexError("no wire type of ours")
        if place + size > end:
            raise IndexError("ends too early")
        yield key >> 3, message[place : place + size]
        place += size


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise IndexError("no varint")


def _text(value: int | bytes | memoryview) -> str:
    return "" if isinstance(value, int) else bytes(value).decode()


THREADS = "OMP_NUM_THREADS"
"""The environment variable that says how many threads compute, as it does for torch."""


class GraphSession:
    """A graph that runs; `ValueError` for a damaged one, and for one that is not as `boustro export` writes them."""

    def __init__(self, path: Path, inputs: tuple[str, ...]) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError("an exported folder needs onnxruntime: pip install 'boustro[onnx]'") from error
        check_graph(path)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if os.environ.get(THREADS, "").isdigit():
            options.intra_op_num_threads = int(os.environ[THREADS])
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its own classes
            raise ValueError(f"{path}: onnxruntime cannot open it ({reason(error)})") from error
        if (names := [given.name for given in self._session.get_inputs()]) != [*inputs]:
            raise ValueError(f"{path}: its inputs are {', '.join(names)}, not {', '.join(inputs)}; export it again")

    def run(self, given: Mapping[str, np.ndarray]) -> list[Any]:
        """The outputs."""
        return list(self._session.run(None, dict(given)))
