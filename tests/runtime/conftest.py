"""Small models that the tests of the runtime share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

ENGINES = ("native", "reference")
LENGTH = 60


def parsed(text: str, opset: int = 21) -> onnx.ModelProto:
    """A model from ONNX's text form of a graph."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def make() -> Callable[..., onnx.ModelProto]:
    return parsed


@pytest.fixture
def affine() -> onnx.ModelProto:
    """z = relu(x * y + 1), with a symbolic number of rows."""
    return parsed(
        "affine (float[rows, 3] x, float[3] y) => (float[rows, 3] z) {"
        " one = Constant<value = float {1.0}>() scaled = Mul(x, y) shifted = Add(scaled, one) z = Relu(shifted) }"
    )


@pytest.fixture
def endless() -> onnx.ModelProto:
    """A chain of matrix products that takes about a second."""
    nodes = [helper.make_node("MatMul", [f"x{i}", "w"], [f"x{i + 1}"]) for i in range(LENGTH)]
    size = 1024
    weight = numpy_helper.from_array(np.full((size, size), 1 / size, np.float32), "w")
    graph = helper.make_graph(
        nodes,
        "long",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["n", size])],
        [helper.make_tensor_value_info(f"x{LENGTH}", TensorProto.FLOAT, ["n", size])],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
