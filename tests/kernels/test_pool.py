"""Pools and convolutions of every element type, against the reference."""

from __future__ import annotations

from typing import Any

import ml_dtypes  # pyright: ignore[reportMissingImports]
import numpy as np
import pytest

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.clone import clone
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.kernels.lower import lower
from intaglio.runtime.model.loading import load
from intaglio.targets.c.target import host_target
from intaglio.targets.c.target_rules import CRules

RNG = np.random.default_rng(11)
SHAPES = [(1, 2, 7, 9), (2, 3, 5, 5)]
SIZES = [(1, 7, 9), (2, 4, 5)]


def _array(dtype: Any, shape: Any) -> Any:
    array = RNG.standard_normal(shape) * 20
    return (np.abs(array) if np.dtype(dtype).kind == "u" else array).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint8])
@pytest.mark.parametrize(
    "attributes", [{}, {"strides": [2, 1], "pads": [1, 0, 1, 2], "ceil_mode": 1}, {"dilations": [2, 2]}]
)
def test_max_pool(make_model: Any, judge: Any, dtype: Any, attributes: dict[str, Any]) -> None:
    for order in (0, 1):
        given = {"kernel_shape": [2, 3], "storage_order": order, **attributes}
        outputs = [("y", dtype), ("i", np.int64)]
        model = make_model("MaxPool", {"x": (dtype, ["n", "c", "h", "w"])}, given, outputs=outputs)
        judge(model, [{"x": _array(dtype, shape)} for shape in SHAPES], ort=False)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.float32])
@pytest.mark.parametrize(
    ("op", "attributes"),
    [("AveragePool", {}), ("AveragePool", {"count_include_pad": 1}), ("LpPool", {}), ("LpPool", {"p": 3})],
)
def test_means_and_norms(make_model: Any, judge: Any, op: str, dtype: Any, attributes: dict[str, Any]) -> None:
    for window in (
        {"kernel_shape": [3, 2], "pads": [1, 1, 1, 0], "strides": [2, 1]},
        {"kernel_shape": [2, 2], "ceil_mode": 1, "strides": [2, 2]},
    ):
        model = make_model(op, {"x": (dtype, ["n", "c", "h", "w"])}, attributes | window, outputs=[("y", dtype)])
        judge(model, [{"x": _array(dtype, shape)} for shape in SHAPES], ort=False, exact=False)


CONVOLUTIONS: list[tuple[str, Any, dict[str, Any]]] = [
    ("Conv", (5, 4, 3, 3), {"pads": [1, 1, 1, 1]}),
    ("Conv", (6, 2, 3, 2), {"group": 2, "strides": [2, 1]}),
    ("Conv", (40, 4, 1, 1), {}),
    ("Conv", (8, 1, 3, 3), {"group": 4, "dilations": [1, 2]}),
    ("ConvTranspose", (4, 3, 3, 3), {"strides": [2, 2], "output_padding": [1, 0]}),
    ("ConvTranspose", (4, 33, 2, 3), {"group": 2, "pads": [0, 1, 1, 0]}),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("op", "weights", "attributes"), CONVOLUTIONS)
@pytest.mark.parametrize("is_constant", [False, True])
def test_convolution(
    make_model: Any, judge: Any, op: str, weights: Any, attributes: dict[str, Any], dtype: Any, is_constant: bool
) -> None:
    channels = weights[0] if op == "Conv" else weights[1] * attributes.get("group", 1)
    arrays = {"w": RNG.integers(-3, 4, weights).astype(dtype), "b": RNG.integers(-3, 4, channels).astype(dtype)}
    shapes: dict[str, Any] = {"x": (dtype, ["n", 4, "h", "w"])}
    if not is_constant:
        shapes |= {name: (dtype, array.shape) for name, array in arrays.items()}
    model = make_model(op, shapes, attributes, arrays if is_constant else None, outputs=[("y", dtype)])
    feeds = [{"x": RNG.integers(-4, 5, (n, 4, h, w)).astype(dtype)} for n, h, w in ((1, 7, 9), (2, 6, 5), (0, 5, 5))]
    judge(model, [feed | ({} if is_constant else arrays) for feed in feeds], ort=False, exact=False)


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.uint32, np.int64, np.uint64]
)
@pytest.mark.parametrize(
    "shapes", [((3, 5), (5, 40)), ((2, 3, 4, 5), (5,)), ((7,), (2, 7, 3)), ((2, 1, 17, 3), (3, 3, 2)), ((4,), (4,))]
)
def test_products(make_model: Any, judge: Any, dtype: Any, shapes: Any) -> None:
    low = 0 if np.dtype(dtype).kind == "u" else -5
    a, b = (RNG.integers(low, 6, shape).astype(dtype) for shape in shapes)
    for is_constant in (False, True):
        inputs = {"a": (dtype, a.shape)} | ({} if is_constant else {"b": (dtype, b.shape)})
        model = make_model("MatMul", inputs, None, {"b": b} if is_constant else None, outputs=[("y", dtype)])
        judge(model, [{"a": a} | ({} if is_constant else {"b": b})], ort=False, exact=False)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("weights", [(6, 2, 3, 3), (34, 3, 1, 1), (40, 17, 2, 2), (16, 1, 3, 3)])
def test_convolution_of_unknown_channels(make_model: Any, judge: Any, op: str, weights: Any) -> None:
    """Kernels that come as an input, with sizes that only the run tells."""
    shapes = {"x": (np.float32, ["n", "c", "h", "w"]), "k": (np.float32, ["o", "p", "i", "j"])}
    for group in (1, 2):
        inputs = weights[1] * group if op == "Conv" else weights[0]
        arrays = [(RNG.integers(-4, 5, (n, inputs, h, w)), RNG.integers(-3, 4, weights)) for n, h, w in SIZES]
        feeds = [{"x": x.astype(np.float32), "k": k.astype(np.float32)} for x, k in arrays]
        judge(make_model(op, shapes, {"group": group}), feeds, exact=False)


@pytest.mark.parametrize(
    ("op", "weights", "group"),
    [
        ("Conv", (4, 2, 3, 3), 1),
        ("Conv", (4, 1, 3, 3), 4),
        ("Conv", (4, 2, 1, 1), 1),
        ("ConvTranspose", (4, 2, 3, 3), 1),
    ],
)
@pytest.mark.parametrize("is_constant", [False, True])
def test_channels_that_do_not_fit(make_model: Any, op: str, weights: Any, group: int, is_constant: bool) -> None:
    array = np.ones(weights, np.float32)
    shapes: dict[str, Any] = {"x": (np.float32, ["n", "c", "h", "w"])}
    shapes |= {} if is_constant else {"w": (np.float32, ["o", "p", *weights[2:]])}
    model = make_model(op, shapes, {"group": group}, {"w": array} if is_constant else None)
    native = load(model, engine="native", strict=True)
    for channels in (3, 5, 9):
        with pytest.raises(ShapeError, match="channels"):
            native.run({"x": np.ones((1, channels, 5, 5), np.float32)} | ({} if is_constant else {"w": array}))


@pytest.mark.parametrize("assume", [False, True])
def test_channels_are_required_whether_or_not_they_are_assumed(assume: bool) -> None:
    graph = Graph("g")
    x = graph.add_input("x", TensorType(FLOAT32, tuple(map(symbol, "nchw"))))
    b = Builder(graph)
    graph.set_outputs([b.Conv(x, b.constant(np.ones((4, 2, 3, 3), np.float32)))])
    plan = lower(clone(graph), CRules(host_target()), assume=assume)
    channels = {"n": 1, "h": 5, "w": 5}
    assert all(each.holds(channels | {"c": 2}) for each in plan.requirements)
    assert not all(each.holds(channels | {"c": 3}) for each in plan.requirements)
