"""Convolutions, pools and repetitions of nothing: no images, channels, outputs, pixels or times."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import intaglio
from intaglio.runtime.engine.engine import EngineName

ALL = [
    (images, channels, outputs, group, side)
    for images, channels, outputs, group, side in itertools.product((0, 1), (0, 4), (0, 6, 8), (1, 2, 4), (0, 4))
    if channels % group == 0 and outputs % group == 0 and 0 in (images, channels, outputs, side)
]
"""Images, channels, results, groups and the side of an image; none is wrong, and one of them at least is 0."""
SOME = [(1, 0, 6, 1, 4), (1, 4, 0, 1, 4), (1, 0, 0, 2, 4), (1, 0, 8, 4, 4), (0, 4, 8, 2, 4), (1, 4, 6, 1, 0)]
OPERATORS = ("Conv", "ConvTranspose", "ConvInteger", "MaxPool", "AveragePool", "GlobalAveragePool")


def model_of(
    operator: str, sizes: tuple[int, ...], kernel: int, is_fed: bool, is_open: bool
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """One node on inputs of these sizes, which the model names or not, and what is fed to it."""
    images, channels, outputs, group, side = sizes
    dtype = np.uint8 if operator == "ConvInteger" else np.float32
    arrays: dict[str, Any] = {"x": np.ones((images, channels, side, side), dtype)}
    attributes: dict[str, Any] = (
        {} if "Global" in operator else {"pads": [kernel // 2] * 4, "kernel_shape": [kernel] * 2}
    )
    if "Conv" in operator:
        shape = (channels, outputs // group) if operator == "ConvTranspose" else (outputs, channels // group)
        arrays["w"] = np.full((*shape, kernel, kernel), 2, dtype)
        attributes["group"] = group
    if operator in ("Conv", "ConvTranspose"):
        arrays["b"] = np.arange(1, outputs + 1, dtype=np.float32)
    feeds = arrays if is_fed else {"x": arrays["x"]}
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [f"{name}{axis}" for axis in range(array.ndim)] if is_open else array.shape,
        )
        for name, array in feeds.items()
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items() if name not in feeds]
    node = helper.make_node(operator, list(arrays), ["y"], **attributes)
    graph = helper.make_graph([node], "empty", inputs, [onnx.ValueInfoProto(name="y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), feeds


def outcome(model: onnx.ModelProto, feeds: dict[str, Any], engine: EngineName) -> Any:
    """The result; None where the sizes are refused."""
    try:
        return intaglio.load(model, engine=engine).run(feeds)["y"]
    except intaglio.IntaglioError:
        return None


def check(operator: str, sizes: tuple[int, ...], kernel: int, is_fed: bool, is_open: bool) -> None:
    model, feeds = model_of(operator, sizes, kernel, is_fed, is_open)
    expected, got = outcome(model, feeds, "reference"), outcome(model, feeds, "native")
    assert (got is None) == (expected is None), sizes
    if expected is not None:
        np.testing.assert_array_equal(got, expected, err_msg=str(sizes), strict=True)


@pytest.mark.parametrize("is_fed", [False, True], ids=["constant", "fed"])
@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose", "ConvInteger"])
def test_nothing_to_convolve(operator: str, is_fed: bool) -> None:
    for place, sizes in enumerate(SOME):
        check(operator, sizes, (3, 1)[place % 2], is_fed, is_open=False)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("is_open", [False, True], ids=["numbers", "symbols"])
@pytest.mark.parametrize("is_fed", [False, True], ids=["constant", "fed"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_nothing_in_any_way(operator: str, is_fed: bool, is_open: bool, kernel: int) -> None:
    for sizes in ALL:
        check(operator, sizes, kernel, is_fed, is_open)


@pytest.mark.parametrize("repeats", [(1, 0, 0), (0, 2, 1), (2, 0, 3), (1, 1, 0), (2, 1, 2)])
@pytest.mark.parametrize("is_fed", [False, True], ids=["constant", "fed"])
def test_nothing_to_repeat(repeats: tuple[int, ...], is_fed: bool) -> None:
    """Tile of no elements, and no times."""
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["a", "b", "c"])]
    counts = np.array(repeats, np.int64)
    if is_fed:
        inputs.append(helper.make_tensor_value_info("r", onnx.TensorProto.INT64, [3]))
    constants = [] if is_fed else [numpy_helper.from_array(counts, "r")]
    node = helper.make_node("Tile", ["x", "r"], ["y"])
    graph = helper.make_graph([node], "repeats", inputs, [onnx.ValueInfoProto(name="y")], constants)
    model = intaglio.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    for shape in [(2, 3, 4), (2, 0, 4), (0, 0, 1), (1, 3, 0)]:
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        got = model.run({"x": x, "r": counts} if is_fed else {"x": x})["y"]
        np.testing.assert_array_equal(got, np.tile(x, repeats), strict=True)
