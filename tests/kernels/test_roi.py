"""RoiAlign and MaxRoiPool compiled, against the reference and ONNX Runtime."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes  # pyright: ignore[reportMissingImports]
import numpy as np
import pytest

from intaglio.errors import IntaglioError, OperatorError
from intaglio.runtime.model.loading import load

RNG = np.random.default_rng(9)
REGIONS = np.array(
    [[0, 0, 7, 7], [1.5, 2.25, 9, 5], [-3, -2, 4, 6], [5, 5, 30, 30], [6, 6, 2, 1], [2, 2, 2, 2], [40, 40, 50, 50]],
    np.float32,
)
ALIGN = list(itertools.product(("avg", "max"), ("half_pixel", "output_half_pixel"), (0, 1, 3)))


def align(make_model: Any, dtype: Any = np.float32, **attributes: Any) -> Any:
    shapes = {"x": (dtype, ["n", "c", "h", "w"]), "rois": (dtype, ["r", 4]), "batch": (np.int64, ["r"])}
    return make_model("RoiAlign", shapes, attributes, outputs=[("y", dtype)], opset=22)


def feed(shape: tuple[int, ...], dtype: Any = np.float32, regions: Any = REGIONS) -> Any:
    batch = RNG.integers(-shape[0], shape[0], len(regions))
    return {"x": RNG.standard_normal(shape).astype(dtype), "rois": regions.astype(dtype), "batch": batch}


@pytest.mark.parametrize(("mode", "coordinates", "ratio"), ALIGN)
def test_align(make_model: Any, judge: Any, mode: str, coordinates: str, ratio: int) -> None:
    given = align(make_model, mode=mode, coordinate_transformation_mode=coordinates, sampling_ratio=ratio,
                  output_height=3, output_width=2, spatial_scale=0.5)  # fmt: skip
    judge(given, [feed((2, 3, 8, 9)), feed((1, 37, 5, 4)), feed((3, 16, 1, 1))], ort=False, exact=False)


@pytest.mark.parametrize(("mode", "coordinates", "ratio"), ALIGN)
def test_align_by_onnx_runtime(make_model: Any, judge: Any, mode: str, coordinates: str, ratio: int) -> None:
    shapes = {"x": (np.float32, ["n", "c", "h", "w"]), "rois": (np.float32, ["r", 4]), "batch": (np.int64, ["r"])}
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "sampling_ratio": ratio,
                  "output_height": 2, "output_width": 4}  # fmt: skip
    quarters = np.sort(RNG.integers(0, 28, (6, 2, 2)) / 4, axis=1).reshape(6, 4)
    given = {"x": RNG.integers(-8, 9, (2, 5, 8, 8)), "rois": quarters + np.array([0, 0, 0.5, 0.5])}
    inputs = {name: array.astype(np.float32) for name, array in given.items()} | {"batch": np.array([0, 1, 1, 0, 0, 1])}
    judge(make_model("RoiAlign", shapes, attributes, opset=16), [inputs], exact=False)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_align_of_other_floats(make_model: Any, judge: Any, mode: str, dtype: Any) -> None:
    given = align(make_model, dtype, mode=mode, sampling_ratio=2, output_height=2, output_width=2)
    inputs = feed((2, 5, 8, 8), dtype, np.array([[0, 0, 4, 8], [1, 1, 5, 5], [-1, 2, 3, 6]]))
    inputs["x"] = RNG.integers(-4, 5, (2, 5, 8, 8)).astype(dtype)
    judge(given, [inputs], ort=False, exact=False)
    if dtype == np.float64:
        judge(given, [feed((2, 5, 8, 8), dtype)], ort=False, exact=False)


def test_align_of_nothing(make_model: Any, judge: Any) -> None:
    given = align(make_model, output_height=2, output_width=2)
    judge(given, [feed((2, 3, 4, 4), regions=REGIONS[:0]), feed((2, 0, 4, 4))], ort=False)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_align_keeps_nan(make_model: Any, judge: Any, mode: str) -> None:
    inputs = feed((1, 3, 6, 6), regions=np.array([[0.0, 0, 3, 3], [3, 3, 6, 6]]))
    inputs["x"][0, 1, 1, 1] = np.nan
    result = judge(align(make_model, mode=mode, output_height=2, output_width=2), [inputs], ort=False, exact=False)
    found = np.isnan(result.run(inputs)["y"])
    assert found.any()
    assert not found[:, [0, 2]].any()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"batch": np.array([0, 2])}, "batch index 2 is out of range"),
        ({"batch": np.array([-3, 0])}, "batch index -3 is out of range"),
        ({"rois": np.array([[0, 0, np.nan, 1], [0, 0, 1, 1]], np.float32)}, "no finite number"),
        ({"rois": np.array([[0, 0, 1, 1], [0, -np.inf, 1, 1]], np.float32)}, "no finite number"),
        ({"rois": np.array([[0, 0, 1e9, 1e9], [0, 0, 1, 1]], np.float32)}, "limit"),
        ({"rois": np.array([[0, 0, 1e30, 1], [0, 0, 1, 1]], np.float32)}, "limit"),
    ],
)
def test_align_refuses(make_model: Any, changed: Any, message: str) -> None:
    native = load(align(make_model), engine="native", strict=True)
    inputs = {"x": np.zeros((2, 1, 4, 4), np.float32), "rois": REGIONS[:2], "batch": np.array([0, 1])}
    with pytest.raises(IntaglioError, match=message):
        native.run(inputs | changed)


def max_pool(make_model: Any, dtype: Any = np.float32, **attributes: Any) -> Any:
    shapes = {"x": (dtype, ["n", "c", "h", "w"]), "rois": (dtype, ["r", 5])}
    return make_model("MaxRoiPool", shapes, attributes, outputs=[("y", dtype)], opset=22)


def pool_feed(shape: tuple[int, ...], dtype: Any = np.float32, regions: Any = REGIONS) -> Any:
    batch = np.arange(len(regions)) % max(shape[0], 1)
    return {
        "x": RNG.standard_normal(shape).astype(dtype),
        "rois": np.concatenate([batch[:, None], regions], axis=1).astype(dtype),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 0.5, 0.3])
def test_max_pool(make_model: Any, judge: Any, dtype: Any, scale: float) -> None:
    given = max_pool(make_model, dtype, pooled_shape=[3, 2], spatial_scale=scale)
    shapes = [(2, 3, 8, 9), (1, 37, 5, 4), (3, 16, 1, 1), (2, 0, 4, 4), (1, 3, 0, 4)]
    judge(given, [pool_feed(shape, dtype) for shape in shapes], ort=False)
    judge(given, [pool_feed((2, 3, 4, 4), dtype, REGIONS[:0])], ort=False)


def test_max_pool_by_onnx_runtime(make_model: Any, judge: Any) -> None:
    shapes = {"x": (np.float32, ["n", "c", "h", "w"]), "rois": (np.float32, ["r", 5])}
    given = make_model("MaxRoiPool", shapes, {"pooled_shape": [2, 3], "spatial_scale": 0.5}, opset=21)
    judge(given, [pool_feed((2, 3, 8, 9), regions=REGIONS[:4])])


@pytest.mark.parametrize("wrong", [[2, 0, 0, 1, 1], [np.nan, 0, 0, 1, 1], [0, 0, 0, np.inf, 1], [0, -1e30, 0, 1, 1]])
def test_max_pool_refuses(make_model: Any, wrong: list[float]) -> None:
    native = load(max_pool(make_model, pooled_shape=[2, 2]), engine="native", strict=True)
    with pytest.raises(OperatorError, match=r"region|batch index"):
        native.run({"x": np.zeros((2, 1, 4, 4), np.float32), "rois": np.array([wrong], np.float32)})
