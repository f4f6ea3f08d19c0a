"""DeformConv compiled, against the reference and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import ml_dtypes  # pyright: ignore[reportMissingImports]
import numpy as np
import pytest

from intaglio.errors import IntaglioError
from intaglio.ops.vision_nn import DeformConv
from intaglio.runtime.model.loading import load

RNG = np.random.default_rng(21)
NAMES = ("x", "w", "offset", "b", "mask")
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 4, 6, 7), (5, 4, 3, 3), {}),
    ((1, 3, 7, 5), (16, 3, 2, 3), {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}),
    ((2, 6, 5, 5), (4, 3, 2, 2), {"group": 2, "offset_group": 3}),
    ((1, 12, 4, 4), (6, 2, 1, 3), {"group": 6, "offset_group": 2, "pads": [0, 1, 0, 1]}),
    ((1, 33, 5, 6), (35, 33, 3, 3), {"pads": [1, 1, 1, 1]}),
]


def inputs(shape: Any, weights: Any, attributes: dict[str, Any], dtype: Any = np.float32, spread: float = 2) -> Any:
    given: Any = {name: tuple(v) if isinstance(v, list) else v for name, v in attributes.items()}
    op = DeformConv(**given)
    outputs = [int(window.output) for window in op.windows(shape[2:], weights[2:])]
    places = int(np.prod(weights[2:])) * op.offset_group
    arrays = {
        "x": RNG.integers(-4, 5, shape), "w": RNG.integers(-4, 5, weights),
        "offset": RNG.integers(-8, 9, (shape[0], places * len(outputs), *outputs)) / 8 * spread,
        "b": RNG.integers(-4, 5, weights[0]), "mask": RNG.integers(0, 5, (shape[0], places, *outputs)) / 4,
    }  # fmt: skip
    return {name: array.astype(dtype) for name, array in arrays.items()}


def model(
    make_model: Any, feed: Any, attributes: dict[str, Any], names: Any = NAMES, constant: Any = (), opset: int = 22
) -> Any:
    dtype = feed["x"].dtype
    shapes = {name: (dtype, feed[name].shape) for name in NAMES if name in names and name not in constant}
    if "x" in shapes:
        spatial = ["h", "v", "u", "t"][: feed["x"].ndim - 2]
        shapes["x"] = (dtype, ["n", feed["x"].shape[1], *spatial])
        shapes["offset"] = (dtype, ["n", feed["offset"].shape[1], *(f"o{axis}" for axis in spatial)])
    order = [name if name in names else "" for name in NAMES]
    while not order[-1]:
        order.pop()
    constants = {name: feed[name] for name in constant}
    return make_model("DeformConv", shapes, attributes, constants, [("y", dtype)], order, opset)


def fed(feed: Any, names: Any, constant: Any = ()) -> Any:
    return {name: feed[name] for name in names if name not in constant}


@pytest.mark.parametrize(("shape", "weights", "attributes"), CASES)
@pytest.mark.parametrize("constant", [(), ("w", "b")])
def test_float32(make_model: Any, judge: Any, shape: Any, weights: Any, attributes: Any, constant: Any) -> None:
    feed = inputs(shape, weights, attributes)
    built = model(make_model, feed, attributes, constant=constant)
    far = inputs(shape, weights, attributes, spread=16) | {name: feed[name] for name in constant}
    judge(built, [fed(each, NAMES, constant) for each in (feed, far)], exact=False)


@pytest.mark.parametrize("names", [("x", "w", "offset"), ("x", "w", "offset", "b"), ("x", "w", "offset", "mask")])
def test_without_bias_or_mask(make_model: Any, judge: Any, names: Any) -> None:
    shape, weights, attributes = CASES[1]
    feed = inputs(shape, weights, attributes)
    judge(model(make_model, feed, attributes, names), [fed(feed, names)], exact=False)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("constant", [(), ("w", "b")])
def test_other_floats(make_model: Any, judge: Any, dtype: Any, constant: Any) -> None:
    for shape, weights, attributes in CASES[1:3]:
        feed = inputs(shape, weights, attributes, dtype)
        built = model(make_model, feed, attributes, constant=constant)
        judge(built, [fed(feed, NAMES, constant)], ort=False, exact=False)


@pytest.mark.parametrize(
    ("shape", "weights"),
    [((2, 3, 9), (4, 3, 3)), ((1, 2, 4, 5, 3), (3, 2, 2, 2, 2)), ((1, 2, 3, 4, 2, 3), (3, 2, 2, 2, 1, 2))],
)
def test_one_three_and_four_axes(make_model: Any, judge: Any, shape: Any, weights: Any) -> None:
    feed = inputs(shape, weights, {})
    judge(model(make_model, feed, {}), [fed(feed, NAMES)], ort=False, exact=False)


def test_offsets_and_masks_that_are_no_numbers(make_model: Any, judge: Any) -> None:
    shape, weights, attributes = CASES[0]
    feed = inputs(shape, weights, attributes)
    feed["offset"][0, 0, 0, 0] = np.nan
    feed["offset"][0, 3, 1, 1] = np.inf
    feed["mask"][0, 2, 2, 2] = np.nan
    feed["offset"][1, :] = 100
    feed["mask"][1, 1, 0, 0] = np.nan
    with np.errstate(invalid="ignore"):
        native = judge(model(make_model, feed, attributes), [fed(feed, NAMES)], ort=False, exact=False)
    assert np.isnan(native.run(fed(feed, NAMES))["y"]).any()


def test_nothing(make_model: Any, judge: Any) -> None:
    feed = inputs((0, 4, 6, 7), (5, 4, 3, 3), {})
    judge(model(make_model, feed, {}), [fed(feed, NAMES)], ort=False)


def test_shapes_that_do_not_fit(make_model: Any) -> None:
    shape, weights, attributes = CASES[0]
    feed = inputs(shape, weights, attributes)
    native = load(model(make_model, feed, attributes), engine="native", strict=True)
    with pytest.raises((IntaglioError, ValueError)):
        native.run(fed(feed, NAMES) | {"offset": feed["offset"][:, :, 1:]})
