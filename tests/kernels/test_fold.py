"""Col2Im, CenterCropPad and MaxUnpool compiled, against the reference and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import ml_dtypes  # pyright: ignore[reportMissingImports]
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from intaglio.errors import IntaglioError, OperatorError
from intaglio.ops.shared.window import resolve_windows
from intaglio.runtime.model.loading import load

RNG = np.random.default_rng(4)
NUMBERS = (
    np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32,
    np.int64, np.uint64, np.bool_,
)  # fmt: skip
BLOCKS: list[tuple[list[int], list[int], dict[str, list[int]]]] = [
    ([5, 6], [2, 3], {}),
    ([5, 5], [1, 5], {}),
    ([7, 8], [3, 2], {"pads": [1, 0, 2, 1], "strides": [2, 3], "dilations": [1, 2]}),
    ([9], [4], {"strides": [2], "pads": [1, 2]}),
    ([4, 5, 6], [2, 1, 3], {"strides": [1, 2, 2], "pads": [0, 0, 1, 1, 0, 0]}),
    ([2, 3, 4, 3], [1, 2, 2, 2], {"dilations": [1, 1, 2, 1]}),
]


def columns(image: list[int], block: list[int], attributes: dict[str, list[int]], batch: int, channels: int) -> Any:
    windows = resolve_windows(
        image, block, attributes.get("strides"), attributes.get("dilations"), attributes.get("pads")
    )
    return RNG.integers(-9, 9, (batch, channels * int(np.prod(block)), int(np.prod([int(w.output) for w in windows]))))


def col2im(make_model: Any, image: list[int], block: list[int], attributes: Any, dtype: Any = np.float32) -> Any:
    constants = {"image": np.array(image), "block": np.array(block)}
    return make_model("Col2Im", {"x": (dtype, ["n", "c", "l"])}, attributes, constants, [("y", dtype)])


@pytest.mark.parametrize(("image", "block", "attributes"), BLOCKS)
def test_col2im(make_model: Any, judge: Any, image: Any, block: Any, attributes: Any) -> None:
    counts = ((2, 3), (1, 1), (0, 2), (2, 0))
    feeds = [{"x": columns(image, block, attributes, *count).astype(np.float32)} for count in counts]
    by_onnx_runtime = len(image) < 4  # which is wrong about dilations there, by ONNX's own evaluator
    judge(col2im(make_model, image, block, attributes), feeds[:2], ort=by_onnx_runtime)
    judge(col2im(make_model, image, block, attributes), feeds[2:], ort=False)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_col2im_of_all_types(make_model: Any, judge: Any, dtype: Any) -> None:
    for image, block, attributes in BLOCKS[1:3]:
        x = columns(image, block, attributes, 2, 3) * (17 if np.dtype(dtype).itemsize == 1 else 1)
        judge(col2im(make_model, image, block, attributes, dtype), [{"x": x.astype(dtype)}], ort=False)


def test_col2im_rounds_halves_once(make_model: Any, judge: Any) -> None:
    x = (RNG.standard_normal((1, 9, 36)) * 100).astype(np.float16)
    judge(col2im(make_model, [8, 8], [3, 3], {}, np.float16), [{"x": x}], ort=False)


def test_col2im_of_columns_that_do_not_fit(make_model: Any) -> None:
    native = load(col2im(make_model, [5, 6], [2, 3], {}), engine="native", strict=True)
    for shape in ((1, 6, 17), (1, 7, 16), (0, 6, 17)):
        with pytest.raises(OperatorError, match="do not fit"):
            native.run({"x": np.zeros(shape, np.float32)})


def test_col2im_to_the_shape_of_another(judge: Any) -> None:
    """The image's size is symbolic, known from an input's shape."""
    nodes = [
        helper.make_node("Shape", ["like"], ["image"]),
        helper.make_node("Col2Im", ["x", "image", "block"], ["y"], strides=[2, 1]),
    ]
    inputs = [("x", ["n", "c", "l"]), ("like", ["h", "w"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([2, 3]), "block")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    feeds = [
        {"x": columns(image, [2, 3], {"strides": [2, 1]}, 2, 2).astype(np.float32), "like": np.zeros(image, np.float32)}
        for image in ([6, 5], [4, 9])
    ]
    judge(model, feeds)


CROPS: list[tuple[list[int], list[int] | None]] = [
    ([2, 3, 7, 8], None), ([4, 5], [2, 3]), ([9, 9], [2, 3]), ([3, 10], [-1, -2]), ([5], [1]), ([0, 4], [2, 3]),
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "axes"), CROPS)
def test_center_crop_pad(make_model: Any, judge: Any, sizes: Any, axes: Any) -> None:
    shapes = {"x": (np.float32, ["n", "c", "h", "w"])}
    given = make_model("CenterCropPad", shapes, {} if axes is None else {"axes": axes}, {"s": np.array(sizes)})
    feeds = [{"x": RNG.standard_normal(shape).astype(np.float32)} for shape in ((2, 3, 7, 8), (1, 6, 4, 11))]
    judge(given, feeds)
    judge(given, [{"x": np.zeros((2, 3, 0, 8), np.float32)}], ort=False)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_center_crop_pad_of_all_types(make_model: Any, judge: Any, dtype: Any) -> None:
    shapes = {"x": (dtype, ["n", 5, 6])}
    given = make_model("CenterCropPad", shapes, {"axes": [1, 2]}, {"s": np.array([3, 9])}, [("y", dtype)])
    judge(given, [{"x": RNG.integers(0, 50, (2, 5, 6)).astype(dtype)}], ort=False)


def test_a_crop_alone_is_a_view(make_model: Any) -> None:
    given = make_model("CenterCropPad", {"x": (np.float32, [8, 9])}, {}, {"s": np.array([4, 5])})
    x = RNG.standard_normal((8, 9)).astype(np.float32)
    native = load(given, engine="native", strict=True)
    np.testing.assert_array_equal(native.run({"x": x})["y"], x[2:6, 2:7])
    assert native.explain().kernels == 1


def unpool(make_model: Any, dtype: Any, axes: int, sizes: list[int] | None = None) -> Any:
    dims = ["n", "c", *"dhw"[-axes:]]
    attributes = {"kernel_shape": [2] * axes, "strides": [2] * axes}
    constants = None if sizes is None else {"s": np.array(sizes)}
    return make_model(
        "MaxUnpool", {"x": (dtype, dims), "i": (np.int64, dims)}, attributes, constants, [("y", dtype)], opset=22
    )


def unpool_feed(shape: tuple[int, ...], dtype: Any) -> Any:
    count = int(np.prod(shape)) * 2 ** (len(shape) - 2)
    places = RNG.permutation(count)[: int(np.prod(shape))].reshape(shape)
    return {"x": RNG.integers(-9, 9, shape).astype(dtype), "i": places}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_max_unpool(make_model: Any, judge: Any, dtype: Any) -> None:
    for axes, shape in ((1, (2, 3, 5)), (2, (1, 2, 3, 4)), (3, (1, 2, 2, 3, 2))):
        judge(unpool(make_model, dtype, axes), [unpool_feed(shape, dtype)], ort=False)
        sizes = [*shape[:2], *(2 * size + 3 for size in shape[2:])]
        judge(unpool(make_model, dtype, axes, sizes), [unpool_feed(shape, dtype)], ort=False)


def test_max_unpool_by_onnx_runtime(make_model: Any, judge: Any) -> None:
    shapes = {"x": (np.float32, ["n", "c", "h", "w"]), "i": (np.int64, ["n", "c", "h", "w"])}
    given = make_model("MaxUnpool", shapes, {"kernel_shape": [2, 2], "strides": [2, 2]}, opset=11)
    judge(given, [unpool_feed((1, 2, 3, 4), np.float32)])


@pytest.mark.parametrize("sizes", [None, [2, 2, 7, 8]])
def test_max_unpool_in_any_order(make_model: Any, judge: Any, sizes: list[int] | None) -> None:
    """Places in other planes and places named twice: the last element wins."""
    shape = (2, 2, 3, 4)
    feeds = [
        {"x": RNG.standard_normal(shape).astype(np.float32), "i": RNG.integers(0, 96 * 2, shape)} for _ in range(3)
    ]
    judge(unpool(make_model, np.float32, 2, sizes), feeds, ort=False)


def test_max_unpool_refuses(make_model: Any) -> None:
    native = load(unpool(make_model, np.float32, 2, [1, 1, 9, 9]), engine="native", strict=True)
    feed = unpool_feed((1, 1, 2, 2), np.float32)
    for changed in ({"i": np.full((1, 1, 2, 2), 16)}, {"i": np.full((1, 1, 2, 2), -1)}):
        with pytest.raises(IntaglioError, match="indices"):
            native.run(feed | changed)
    with pytest.raises(IntaglioError, match="output_shape"):
        native.run(unpool_feed((1, 1, 5, 4), np.float32))
