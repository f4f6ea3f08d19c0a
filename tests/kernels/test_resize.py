"""Resize compiled, against the reference."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from intaglio.errors import OperatorError
from intaglio.ops.resize import COORDINATES, NEAREST
from intaglio.runtime.model.loading import load

SHAPES = [(1, 3, 5, 7), (2, 1, 1, 9), (1, 20, 4, 3)]
SCALES = [(1, 1, 2, 2), (1, 1, 0.6, 1.7), (1, 1, 1, 3), (1, 1, 2.5, 1), (1, 2, 2, 1.5), (2, 1, 1, 2)]


def feeds(dtype: Any = np.float32, shapes: Any = SHAPES) -> list[Any]:
    rng = np.random.default_rng(5)
    return [{"x": (rng.standard_normal(shape) * 9).astype(dtype)} for shape in shapes]


def model(
    make_model: Any,
    attributes: dict[str, Any],
    dtype: Any = np.float32,
    shape: Any = ("n", "c", "h", "w"),
    **given: Any,
) -> Any:
    constants: dict[str, Any] = {
        "roi": np.array(given.get("roi", ()), np.float32),
        "scales": np.array(given.get("scales", ()), np.float32),
    }
    if "sizes" in given:
        constants["sizes"] = np.array(given["sizes"], np.int64)
    return make_model("Resize", {"x": (dtype, shape)}, attributes, constants, outputs=[("y", dtype)])


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_scales(make_model: Any, judge: Any, mode: str, coordinates: str) -> None:
    roi = {"roi": (0, 0, 0.1, -0.2, 1, 1, 0.9, 1.3)} if coordinates == "tf_crop_and_resize" else {}
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "extrapolation_value": 7.0}
    for scales in SCALES:
        for feed in feeds():
            shape = feed["x"].shape
            resized = {"sizes": [int(s * k) for s, k in zip(shape, scales, strict=True)]} if roi else {"scales": scales}
            given = model(make_model, attributes, shape=shape, **resized, **roi)
            judge(given, [feed], ort=False, exact=mode == "nearest")


@pytest.mark.parametrize("nearest", NEAREST)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64, np.int16])
def test_nearest(make_model: Any, judge: Any, nearest: str, dtype: Any) -> None:
    for scales in ((1, 1, 2, 2), (1, 1, 0.5, 1.5)):
        judge(model(make_model, {"nearest_mode": nearest}, dtype, scales=scales), feeds(dtype), ort=False)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes_and_flags(make_model: Any, judge: Any, mode: str) -> None:
    options = itertools.product((0, 1), (0, 1), (np.float32, np.float64))
    for excludes, antialias, dtype in options:
        if mode == "nearest" and antialias:
            continue
        attributes = {"mode": mode, "exclude_outside": excludes, "antialias": antialias, "axes": [2, 3]}
        for feed in feeds(dtype):
            given = model(make_model, attributes, dtype, feed["x"].shape, sizes=(3, 11))
            judge(given, [feed], ort=False, exact=False)


def test_one_and_three_axes(make_model: Any, judge: Any) -> None:
    for shape, scales in (((1, 2, 5), (1, 1, 2)), ((1, 2, 3, 4, 5), (1, 1, 2, 1.5, 2)), ((2, 3, 4, 3), (1, 2, 1, 2))):
        judge(
            model(make_model, {"mode": "linear"}, shape=shape, scales=scales),
            feeds(shapes=[shape]),
            ort=False,
            exact=False,
        )


def test_half_precision(make_model: Any, judge: Any) -> None:
    judge(
        model(make_model, {"mode": "linear"}, np.float16, scales=(1, 1, 2, 2)),
        feeds(np.float16),
        ort=False,
        exact=False,
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.bool_])
def test_integers_by_interpolation(make_model: Any, judge: Any, dtype: Any) -> None:
    """Weights in powers of two, so that sums are exact and their cut towards zero is certain."""
    rng, limits = np.random.default_rng(2), [0, 1]
    if dtype != np.bool_:
        found = np.iinfo(dtype)
        limits = [limit >> max(found.bits - 24, 0) for limit in (found.min, found.max)]
    x = rng.choice(limits, (2, 3, 8, 4)).astype(dtype)
    cases = (("linear", 0, (1, 1, 2, 4)), ("cubic", 0, (1, 1, 2, 2)), ("linear", 1, (1, 1, 0.5, 2)))
    for mode, antialias, scales in cases:
        attributes = {"mode": mode, "antialias": antialias}
        judge(model(make_model, attributes, dtype, scales=scales), [{"x": x}], ort=False)


FED = ("n", "c", "h", "w")


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_scales_and_regions_that_the_run_tells(make_model: Any, judge: Any, mode: str, coordinates: str) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "extrapolation_value": 7.0}
    types = {"x": (np.float32, FED), "roi": (np.float32, [8]), "scales": (np.float32, [4])}
    given = make_model("Resize", types, attributes)
    roi = np.array((0, 0, 0.1, -0.2, 1, 1, 0.9, 1.3), np.float32)
    fed = [{**feed, "roi": roi, "scales": np.array(scales, np.float32)} for feed in feeds() for scales in SCALES]
    judge(given, fed, ort=False, exact=mode == "nearest")


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes_that_the_run_tells(make_model: Any, judge: Any, mode: str, policy: str) -> None:
    attributes = {"mode": mode, "keep_aspect_ratio_policy": policy, "axes": [3, -2]}
    types = {"x": (np.float32, FED), "sizes": (np.int64, [2])}
    given = make_model("Resize", types, attributes, order=["x", "", "", "sizes"])
    pairs = ((3, 11), (7, 7), (1, 1), (16, 2))
    fed = [{**feed, "sizes": np.array(sizes)} for feed in feeds() for sizes in pairs]
    judge(given, fed, ort=False, exact=mode == "nearest")


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float16, np.float64, np.complex128])
def test_element_types_with_scales_that_the_run_tells(make_model: Any, judge: Any, dtype: Any) -> None:
    mode = "nearest" if np.dtype(dtype).kind == "c" else "linear"
    types = {"x": (dtype, FED), "scales": (np.float32, [4])}
    given = make_model("Resize", types, {"mode": mode}, outputs=[("y", dtype)], order=["x", "", "scales"])
    x = np.arange(48).reshape(2, 2, 4, 3).astype(dtype)
    judge(given, [{"x": x, "scales": np.array([1, 1, 2, 4], np.float32)}], ort=False, exact=False)


def test_sizes_that_have_no_form(make_model: Any, judge: Any) -> None:
    """A third of an unknown size is no dimension that the compiler can write down."""
    for mode, antialias in (("nearest", 0), ("linear", 1)):
        given = model(make_model, {"mode": mode, "antialias": antialias}, scales=(1, 1, 0.3, 1.7))
        judge(given, feeds(), ort=False, exact=mode == "nearest")


def test_axes_that_turn_out_to_keep_their_size(make_model: Any, judge: Any) -> None:
    """Nothing of a neighbour with weight 0 comes in, not even if it is infinite."""
    given = make_model(
        "Resize", {"x": (np.float32, FED), "scales": (np.float32, [4])}, {"mode": "linear"}, order=["x", "", "scales"]
    )
    x = np.random.default_rng(1).standard_normal((1, 3, 4, 5)).astype(np.float32)
    x[0, 1] = np.inf
    judge(given, [{"x": x, "scales": np.array([1, 1, 2, 2], np.float32)}], ort=False, exact=False)


def test_nothing_is_resized_to_nothing_only(make_model: Any, judge: Any) -> None:
    sizes = make_model(
        "Resize", {"x": (np.float32, FED), "sizes": (np.int64, [2])}, {"axes": [2, 3]}, order=["x", "", "", "sizes"]
    )
    native = judge(sizes, [{"x": np.zeros((1, 2, 3, 4), np.float32), "sizes": np.array([0, 5])}], ort=False)
    with pytest.raises(OperatorError, match="size 0 cannot be resized"):
        native.run({"x": np.zeros((1, 2, 0, 4), np.float32), "sizes": np.array([3, 4])})


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_antialias_to_sizes_that_the_run_tells(make_model: Any, judge: Any, mode: str, coordinates: str) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "antialias": 1, "axes": [-1, 2]}
    attributes |= {"exclude_outside": int(coordinates == "half_pixel"), "extrapolation_value": 7.0}
    types = {"x": (np.float32, FED), "roi": (np.float32, [4]), "sizes": (np.int64, [2])}
    given = make_model("Resize", types, attributes, order=["x", "roi", "", "sizes"])
    roi = np.array((0.1, -0.2, 0.9, 1.3), np.float32)
    pairs = [(3, 11), (7, 5), (1, 1), (16, 2), (0, 3), (2, 2)]
    shapes = [*SHAPES, (1, 2, 40, 17)]
    fed = [{**feed, "roi": roi, "sizes": np.array(sizes)} for feed in feeds(shapes=shapes) for sizes in pairs]
    judge(given, fed, ort=False, exact=mode == "nearest")


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float16, np.float64, np.complex64])
def test_antialias_of_every_type(make_model: Any, judge: Any, dtype: Any) -> None:
    """Weights in powers of two, so that all sums are exact."""
    types = {"x": (dtype, ["h", "w"]), "sizes": (np.int64, [2])}
    order = ["x", "", "", "sizes"]
    given = make_model("Resize", types, {"mode": "linear", "antialias": 1}, outputs=[("y", dtype)], order=order)
    x = np.arange(64).reshape(8, 8).astype(dtype)
    judge(given, [{"x": x, "sizes": np.array(sizes)} for sizes in [(4, 4), (8, 4), (16, 8), (8, 8)]], ort=False)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias_from_sizes_that_the_run_tells(make_model: Any, judge: Any, mode: str, policy: str) -> None:
    attributes = {"mode": mode, "antialias": 1, "keep_aspect_ratio_policy": policy, "axes": [2, 3]}
    judge(model(make_model, attributes, sizes=(3, 4)), feeds(), ort=False, exact=False)
    types = {"x": (np.float32, FED), "scales": (np.float32, ["k"])}
    given = make_model("Resize", types, {"mode": mode, "antialias": 1}, order=["x", "", "scales"])
    fed = [{**feed, "scales": np.array(scales, np.float32)} for feed in feeds() for scales in SCALES]
    judge(given, fed, ort=False, exact=False)


@pytest.mark.parametrize("antialias", [0, 1])
def test_complex_numbers_beside_a_region(make_model: Any, judge: Any, antialias: int) -> None:
    attributes = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "antialias": antialias}
    types = {"x": (np.complex64, ["h", "w"]), "roi": (np.float32, [4]), "sizes": (np.int64, [2])}
    attributes["extrapolation_value"] = 7.0
    order = ["x", "roi", "", "sizes"]
    given = make_model("Resize", types, attributes, outputs=[("y", np.complex64)], order=order)
    x = (np.arange(35) + 1j * np.arange(35)[::-1]).reshape(5, 7).astype(np.complex64)
    roi = np.array((-0.5, 0, 1, 1.5), np.float32)
    native = judge(given, [], ort=False)
    reference = load(given, engine="reference")
    for sizes in ((3, 4), (9, 9)):
        feed = {"x": x, "roi": roi, "sizes": np.array(sizes)}
        found, expected = native.run(feed)["y"], reference.run(feed)["y"]
        assert (expected == 7).any()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def exact_place(i: int, size: int, resized: int, coordinates: str) -> Fraction:
    """Where element i of an axis resized to a given size lies; no float is involved."""
    if coordinates == "asymmetric":
        return Fraction(i * size, resized)
    if coordinates == "align_corners":
        return Fraction(i * (size - 1), resized - 1) if resized > 1 else Fraction(0)
    if coordinates == "pytorch_half_pixel" and resized == 1:
        return Fraction(0)
    return Fraction((2 * i + 1) * size, 2 * resized) - Fraction(1, 2)


EXACT_NEAREST = {
    "round_prefer_floor": lambda place: math.ceil(place - Fraction(1, 2)),
    "round_prefer_ceil": lambda place: math.floor(place + Fraction(1, 2)),
    "floor": math.floor,
    "ceil": math.ceil,
}


@pytest.mark.parametrize("nearest", NEAREST)
@pytest.mark.parametrize("coordinates", [name for name in COORDINATES if name != "tf_crop_and_resize"])
def test_halves_and_whole_numbers_of_given_sizes(nearest: str, coordinates: str) -> None:
    """Sampled sizes by fractions: float32 has 12.499999 for some places of 12.5."""
    pairs = [tuple(int(n) for n in pair) for pair in np.random.default_rng(3).integers(1, 300, (60, 2))]
    pairs += [(26, 115), (58, 244), (28, 227), (294, 21), (81, 165), (300, 100), (100, 300)]
    options = {"mode": "nearest", "nearest_mode": nearest, "coordinate_transformation_mode": coordinates}
    nodes, inputs, constants, feed = [], [], [], dict[str, Any]()
    for index, (size, resized) in enumerate(pairs):
        nodes.append(helper.make_node("Resize", [f"x{index}", "", "", f"s{index}"], [f"y{index}"], **options))
        constants.append(numpy_helper.from_array(np.array([resized]), f"s{index}"))
        inputs.append(helper.make_tensor_value_info(f"x{index}", TensorProto.INT32, [size]))
        feed[f"x{index}"] = np.arange(size, dtype=np.int32)
    outputs = [helper.make_tensor_value_info(f"y{index}", TensorProto.INT32, None) for index in range(len(pairs))]
    graph = helper.make_graph(nodes, "resizes", inputs, outputs, constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    results = [load(proto, engine=engine).run(feed) for engine in ("reference", "native")]
    for index, (size, resized) in enumerate(pairs):
        places = [EXACT_NEAREST[nearest](exact_place(i, size, resized, coordinates)) for i in range(resized)]
        for result in results:
            np.testing.assert_array_equal(result[f"y{index}"], np.clip(places, 0, size - 1), str((size, resized)))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crops_of_any_axes(mode: str) -> None:
    """Three to five dimensions, some of which are cropped and resized to given sizes, judged by ONNX's evaluator."""
    random = np.random.default_rng(8)
    for _ in range(12):
        shape = tuple(int(size) for size in random.integers(1, 6, int(random.integers(3, 6))))
        axes = [int(axis) for axis in random.permutation(len(shape))[: int(random.integers(1, len(shape) + 1))]]
        start = random.uniform(-0.2, 0.6, len(axes))
        roi = np.concatenate([start, start + random.uniform(0.1, 0.9, len(axes))]).astype(np.float32)
        attributes = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "axes": axes}
        node = helper.make_node("Resize", ["x", "roi", "", "sizes"], ["y"], extrapolation_value=7.0, **attributes)
        constants = {"roi": roi, "sizes": random.integers(1, 7, len(axes))}
        graph = helper.make_graph(
            [node],
            "crop",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        x = random.standard_normal(shape).astype(np.float32)
        (expected,) = map(np.asarray, ReferenceEvaluator(proto).run(None, {"x": x}))
        for engine in ("reference", "native"):
            np.testing.assert_allclose(load(proto, engine=engine)(x), expected, rtol=1e-4, atol=1e-4)


WAYS = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


@pytest.mark.parametrize("sizes", ["1,2,5,8", "n,c,h,w"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_what_is_not_finite_does_not_reach_where_its_weight_is_zero(mode: str, sizes: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 8)).astype(np.float32)
    x[0, 0, 2, 3], x[0, 1, 1, 1], x[0, 1, 4, 7] = np.inf, np.nan, -np.inf
    nodes = "  ".join(
        f'y{place}_{number} = Resize<mode = "{mode}", coordinate_transformation_mode = "{each}">(x, "", s{number})'
        for place, each in enumerate(WAYS)
        for number in range(3)
    )
    names = ", ".join(f"y{place}_{number}" for place in range(len(WAYS)) for number in range(3))
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]> g (float[{sizes}] x) => ({names}) {{
        s0 = Constant<value = float[4] {{1, 1, 2, 3}}>()  s1 = Constant<value = float[4] {{1, 1, 1, 3}}>()
        s2 = Constant<value = float[4] {{1, 1, 2, 2}}>()  {nodes} }}""")
    native, reference = (load(model, engine=engine)(x) for engine in ("native", "reference"))
    for got, expected in zip(native, reference, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_fed", [False, True], ids=["known sizes", "fed sizes"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias_keeps_float64(mode: str, is_fed: bool) -> None:
    """Windows are as wide as the ratio of the sizes, which is not rounded to float32."""
    x = np.random.default_rng(0).standard_normal((1, 2, 9, 13))
    ways = ("half_pixel", "align_corners", "asymmetric")
    nodes = "  ".join(
        f'y{i} = Resize<antialias = 1, mode = "{mode}", coordinate_transformation_mode = "{each}">(x, "", "", z)'
        for i, each in enumerate(ways)
    )
    given, constant = (", int64[4] z", "") if is_fed else ("", "z = Constant<value_ints = [1, 2, 5, 7]>()")
    names = ", ".join(f"y{i}" for i in range(len(ways)))
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> g (double[n,c,9,13] x{given}) => ({names}) {{ {constant} {nodes} }}'
    )
    feeds = (x, np.array([1, 2, 5, 7])) if is_fed else (x,)
    native, reference = (load(model, engine=engine)(*feeds) for engine in ("native", "reference"))
    for got, expected in zip(native, reference, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)
