"""A module as a file of ONNX, with its weights in float32, float16 or int8.

Of int8, the weights of a product have a scale for each column, and its inputs are rounded as they come, with a scale
for each row: one for all rows would be faster, but then an answer would depend on the texts beside its own. Embeddings
are rows of int8, each with its scale. All of it is standard operators; that of `heads.bodies.both_ways` is LSTM.

Source: the operators' specification of ONNX, LSTM (version 14).
"""

import contextlib
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

OPSET = 20  # the first with Gelu as one operator
LARGE_WEIGHTS = 1 << 30
"""Bytes of weights from which on they stand in a file beside the graph; a message of protocol buffers has 2 GiB."""
SMALL_ARRAY = 1 << 10
"""Values of an array that is left as it is."""
HALF_MAX = np.finfo(np.float16).max
LEAST_DIVISOR = 1e-8
"""Instead of 0, so that there is no 0 / 0."""


def write_graph(
    module: nn.Module,
    given: Sequence[torch.Tensor],
    names: Sequence[str],
    dims: Sequence[Mapping[int, str]],
    outputs: Sequence[str],
    path: Path,
    precision: str,
) -> None:
    """Write a graph.

    Args:
        module: One that takes any number of tensors, `*given`.
        given: Tensors that it is traced with.
        names, dims: Of each the name, and the names of the dimensions that may differ.
        outputs: The names of the outputs.
    """
    import onnx

    from boustro.heads.bodies import both_ways

    both_ways()
    known = {name: torch.export.Dim(name) for axes in dims for name in axes.values()}
    shapes = [{axis: known[name] for axis, name in axes.items()} for axes in dims]
    with _quiet(), torch.no_grad():
        program: Any = torch.onnx.export(
            module.eval(),
            tuple(given),
            dynamo=True,
            dynamic_shapes=(tuple(shapes),),  # of *given
            input_names=list(names),
            output_names=list(outputs),
            opset_version=OPSET,
            custom_translation_table={torch.ops.boustro.both_ways.default: _both_ways},
            verbose=False,
        )
    model = program.model_proto
    _strip(model)
    CONVERSIONS[precision](model)
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    how = {"save_as_external_data": True, "location": f"{path.name}.data"} if size > LARGE_WEIGHTS else {}
    onnx.save_model(model, str(path), **how)


def _strip(model: Any) -> None:
    """Leave out what says how the graph was made: paths, and names of modules."""
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for part in (*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer):
        del part.metadata_props[:]
    del model.graph.value_info[:]
    del model.graph.metadata_props[:], model.metadata_props[:]
    model.doc_string = model.graph.doc_string = ""


def _halve(model: Any) -> None:
    """Weights in float16 where that can hold them, which a `Cast` makes float32 when the graph is opened."""
    from onnx import TensorProto, helper, numpy_helper

    casts = []
    for tensor in list(model.graph.initializer):
        array = numpy_helper.to_array(tensor)
        if array.dtype != np.float32 or array.size < SMALL_ARRAY or np.abs(array).max() > HALF_MAX:
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float16), f"{name}.half"))
        casts.append(helper.make_node("Cast", [f"{name}.half"], [name], to=TensorProto.FLOAT))
    for number, cast in enumerate(casts):
        model.graph.node.insert(number, cast)


def _quantise(model: Any) -> None:
    """Products and embeddings in int8; what is left of the large weights in float16."""
    from onnx import numpy_helper

    _split_affine(model)
    arrays = {tensor.name: tensor for tensor in model.graph.initializer}
    made, given = [], {}
    for node in list(model.graph.node):
        if node.op_type == "MatMul" and node.input[1] in arrays:
            weight = numpy_helper.to_array(arrays[node.input[1]])
            if weight.ndim == 2 and weight.size >= SMALL_ARRAY:
                made.append((node, _integer_product(model, node, weight, given)))
        elif node.op_type == "Gather" and node.input[0] in arrays:
            table = numpy_helper.to_array(arrays[node.input[0]])
            if table.ndim == 2 and table.dtype == np.float32 and table.size >= SMALL_ARRAY:
                made.append((node, _integer_rows(model, node, table)))
    for node, nodes in made:
        place = list(model.graph.node).index(node)
        model.graph.node.remove(node)
        for number, new in enumerate(nodes):
            model.graph.node.insert(place + number, new)
    used = {name for node in model.graph.node for name in node.input} | {o.name for o in model.graph.output}
    for tensor in list(model.graph.initializer):
        if tensor.name not in used:
            model.graph.initializer.remove(tensor)
    _halve(model)


def _split_affine(model: Any) -> None:
    """x · W + b as a product and a sum, where W is a weight."""
    from onnx import helper, numpy_helper

    arrays = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in [node for node in model.graph.node if node.op_type == "Gemm" and node.input[1] in arrays]:
        how = {given.name: helper.get_attribute_value(given) for given in node.attribute}
        if how.get("transA") or how.get("alpha", 1) != 1 or how.get("beta", 1) != 1 or len(node.input) != 3:
            continue
        weight = numpy_helper.to_array(arrays[node.input[1]])
        name, (x, _, bias) = node.output[0], node.input
        _add(model, f"{name}.matrix", np.ascontiguousarray(weight.T if how.get("transB") else weight))
        place = list(model.graph.node).index(node)
        model.graph.node.remove(node)
        model.graph.node.insert(place, helper.make_node("MatMul", [x, f"{name}.matrix"], [f"{name}.product"]))
        model.graph.node.insert(place + 1, helper.make_node("Add", [f"{name}.product", bias], [name]))


def _integer_product(model: Any, node: Any, weight: np.ndarray, given: dict[str, str]) -> list[Any]:
    """x · W as integers: W (d, e) in int8 with a scale for each column, x with one for each row (`given`: those that
    are there already): x / s in -127 … 127, and 128 more, because products want uint8."""
    from onnx import TensorProto, helper

    name, (x, _), (y,) = node.output[0], node.input, node.output
    scale = np.maximum(np.abs(weight).max(0), LEAST_DIVISOR) / 127
    _add(model, f"{name}.weight", np.clip(np.rint(weight / scale), -127, 127).astype(np.int8))
    _add(model, f"{name}.scale", scale.astype(np.float32))
    nodes = []
    if x not in given:
        given[x] = name
        _add(model, f"{name}.last", np.array([-1]))
        _add(model, f"{name}.middle", np.array(128, np.uint8))
        for constant, value in (("shift", 128), ("step", 1 / 127), ("tiny", LEAST_DIVISOR)):
            _add(model, f"{name}.{constant}", np.array(value, np.float32))
        steps = [
            ("Abs", [x], "size"),
            ("ReduceMax", [f"{name}.size", f"{name}.last"], "peak"),
            ("Max", [f"{name}.peak", f"{name}.tiny"], "most"),
            ("Mul", [f"{name}.most", f"{name}.step"], "own"),
            ("Div", [x, f"{name}.own"], "whole"),
            ("Add", [f"{name}.whole", f"{name}.shift"], "shifted"),
            ("Round", [f"{name}.shifted"], "rounded"),
        ]
        nodes = [helper.make_node(kind, inputs, [f"{name}.{result}"]) for kind, inputs, result in steps]
        nodes.append(helper.make_node("Cast", [f"{name}.rounded"], [f"{name}.x"], to=TensorProto.UINT8))
    row = given[x]
    return [
        *nodes,
        helper.make_node("MatMulInteger", [f"{row}.x", f"{name}.weight", f"{row}.middle"], [f"{name}.sum"]),
        helper.make_node("Cast", [f"{name}.sum"], [f"{name}.float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{name}.float", f"{row}.own"], [f"{name}.part"]),
        helper.make_node("Mul", [f"{name}.part", f"{name}.scale"], [y]),
    ]


def _integer_rows(model: Any, node: Any, table: np.ndarray) -> list[Any]:
    """Return a row of a table as int8 times its scale."""
    from onnx import TensorProto, helper

    name, (_, ids), (y,) = node.output[0], node.input, node.output
    scale = np.maximum(np.abs(table).max(1, keepdims=True), LEAST_DIVISOR) / 127
    _add(model, f"{name}.rows", np.clip(np.rint(table / scale), -127, 127).astype(np.int8))
    _add(model, f"{name}.scales", scale.astype(np.float32))
    return [
        helper.make_node("Gather", [f"{name}.rows", ids], [f"{name}.row"], axis=0),
        helper.make_node("Cast", [f"{name}.row"], [f"{name}.float"], to=TensorProto.FLOAT),
        helper.make_node("Gather", [f"{name}.scales", ids], [f"{name}.scale"], axis=0),
        helper.make_node("Mul", [f"{name}.float", f"{name}.scale"], [y]),
    ]


def _add(model: Any, name: str, array: np.ndarray) -> None:
    from onnx import numpy_helper

    model.graph.initializer.append(numpy_helper.from_array(array, name))


CONVERSIONS = {"float32": lambda model: None, "float16": _halve, "int8": _quantise}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Yield the exporter tells of other packages that it looks for."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


INT32 = 6  # TensorProto.INT32 of ONNX


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
