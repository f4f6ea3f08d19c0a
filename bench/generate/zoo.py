"""The nine networks inside the onnx package, which come without weights, given random ones.

The package keeps only the topology: each large weight is a ConstantOfShape node that fills it with 0.02. Such a network
says the same thing of every picture, so a wrong answer could go unseen; here every weight gets values fit for its role.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

NAMES = ["bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
         "zfnet512"]  # fmt: skip

_KINDS = {("BatchNormalization", "Sum"): "ResidualNormalization", ("Gemm", "Softmax"): "Classifier"}


def light_path(name: str) -> Path:
    """The file of one network in the installed onnx package."""
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"


def reweighted(name: str) -> onnx.ModelProto:
    """One network with random weights as initializers."""
    model = onnx.load(light_path(name))
    graph = model.graph
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    shapes = _weight_shapes(graph, initializers)
    roles = _roles(graph, shapes)
    plain = _weights_of_plain_inputs(graph)
    rng = np.random.default_rng(0)
    for weight, shape in shapes.items():
        array = _draw(rng, roles.get(weight, ("", 0)), shape)
        if weight in plain:
            array *= math.sqrt(0.5)
        initializers[weight] = numpy_helper.from_array(array.astype(np.float32), weight)
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    used = {value for node in nodes for value in node.input}
    _replace(graph.node, nodes)
    _replace(graph.initializer, [tensor for tensor in initializers.values() if tensor.name in used])
    _replace(graph.input, [value for value in graph.input if value.name not in initializers])
    model.ir_version = 8  # before version 4 every initializer had to be an input too
    onnx.checker.check_model(model)
    return model


def _weight_shapes(graph: onnx.GraphProto, initializers: dict[str, onnx.TensorProto]) -> dict[str, tuple[int, ...]]:
    """Name and shape of each float weight, whether stored or made by ConstantOfShape."""
    shapes = {t.name: tuple(t.dims) for t in initializers.values() if t.data_type == onnx.TensorProto.FLOAT}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shapes[node.output[0]] = tuple(numpy_helper.to_array(initializers[node.input[0]]).tolist())
    return shapes


def _roles(graph: onnx.GraphProto, shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[str, int]]:
    """For each weight the operator that reads it and as which input, seen through Reshape and Unsqueeze."""
    roles: dict[str, tuple[str, int]] = {}
    readers = {value: (node, index) for node in graph.node for index, value in enumerate(node.input)}
    for weight in shapes:
        node, index = readers.get(weight, (None, 0))
        while node is not None and node.op_type in ("Unsqueeze", "Reshape"):
            node, index = readers.get(node.output[0], (None, 0))
        if node is not None:
            reader, _ = readers.get(node.output[0], (None, 0))
            following = "" if reader is None else reader.op_type
            roles[weight] = (_KINDS.get((node.op_type, following), node.op_type), index)
    return roles


def _weights_of_plain_inputs(graph: onnx.GraphProto) -> set[str]:
    """Weights of convolutions whose data no Relu has halved, which must not make up for that."""
    makers = {value: node for node in graph.node for value in node.output}
    plain: set[str] = set()
    for conv in (node for node in graph.node if node.op_type == "Conv"):
        maker = makers.get(conv.input[0])
        while maker is not None and maker.op_type in (
            "AveragePool",
            "Concat",
            "LRN",
            "MaxPool",
            "Reshape",
            "Transpose",
        ):
            maker = makers.get(maker.input[0])
        if maker is None or maker.op_type != "Relu":
            plain.add(conv.input[1])
    return plain


def _draw(rng: np.random.Generator, role: tuple[str, int], shape: tuple[int, ...]) -> np.ndarray:
    match role:
        case "Conv", 1:
            return rng.standard_normal(shape) * math.sqrt(2 / math.prod(shape[1:]))
        case "Gemm", 1:
            return rng.standard_normal(shape) * math.sqrt(2 / shape[-1])
        case "Classifier", 1:
            return rng.standard_normal(shape) * math.sqrt(0.25 / shape[-1])
        case "ResidualNormalization", 1:
            return rng.uniform(0.3, 0.5, shape)
        case ("BatchNormalization", 1 | 4) | ("ResidualNormalization", 4) | ("Mul", _):
            return rng.uniform(0.8, 1.2, shape)
    return rng.standard_normal(shape) * 0.1


def _replace(field: Any, values: list) -> None:
    del field[:]
    field.extend(values)
