"""GridSample compiled, against the reference and ONNX Runtime."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes  # pyright: ignore[reportMissingImports]
import numpy as np
import pytest
from onnx import parser

from intaglio.errors import IntaglioError
from intaglio.runtime.model.loading import load

MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")
OPTIONS = list(itertools.product(MODES, PADDINGS, (0, 1)))
RNG = np.random.default_rng(3)
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.bool_)


def model(make_model: Any, axes: int, dtype: Any = np.float32, place: Any = np.float32, **attributes: Any) -> Any:
    image = ["n", "c", *"edhw"[-axes:]]
    shapes = {"x": (dtype, image), "grid": (place, ["n", *"pqrs"[:axes], axes])}
    return make_model("GridSample", shapes, attributes, outputs=[("y", dtype)], opset=22)


def feed(image: tuple[int, ...], points: tuple[int, ...], dtype: Any = np.float32, place: Any = np.float32) -> Any:
    grid = RNG.uniform(-1.6, 1.6, (image[0], *points, len(points)))
    return {"x": RNG.standard_normal(image).astype(dtype), "grid": grid.astype(place)}


@pytest.mark.parametrize(("mode", "padding_mode", "align_corners"), OPTIONS)
def test_two_axes(make_model: Any, judge: Any, mode: str, padding_mode: str, align_corners: int) -> None:
    given = model(make_model, 2, mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    images = [(2, 3, 5, 6), (1, 1, 4, 9), (1, 37, 3, 3), (1, 16, 1, 1), (1, 2, 1, 7)]
    feeds = [
        feed(image, points) for image, points in zip(images, [(4, 5), (7, 1), (3, 3), (2, 2), (1, 8)], strict=True)
    ]
    judge(given, feeds, ort=False, exact=False)
    session = judge(given, feeds[:1], ort=mode != "cubic", exact=False)
    assert not session.explain().host_nodes


@pytest.mark.parametrize(("mode", "padding_mode", "align_corners"), OPTIONS)
def test_three_axes_and_one(make_model: Any, judge: Any, mode: str, padding_mode: str, align_corners: int) -> None:
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    feeds = [feed((2, 3, 4, 5, 3), (2, 3, 4)), feed((1, 17, 2, 1, 3), (3, 1, 2))]
    judge(model(make_model, 3, **options), feeds, ort=False, exact=False)
    judge(model(make_model, 1, **options), [feed((2, 3, 7), (5,)), feed((1, 20, 1), (4,))], ort=False, exact=False)


@pytest.mark.parametrize("mode", MODES)
def test_four_axes(make_model: Any, judge: Any, mode: str) -> None:
    judge(model(make_model, 4, mode=mode), [feed((2, 3, 4, 5, 3, 2), (2, 3, 1, 4))], ort=False, exact=False)


@pytest.mark.parametrize(("mode", "padding_mode", "align_corners"), OPTIONS)
def test_coordinates_at_ties_and_far_outside(
    make_model: Any, judge: Any, mode: str, padding_mode: str, align_corners: int
) -> None:
    places = np.array([*np.arange(-2, 2.1, 0.125), -1e4, 1e4, 3e7, -3e7], np.float32)
    grid = np.stack(np.meshgrid(places, places), axis=-1)[None]
    x = RNG.integers(-9, 9, (1, 2, 4, 8)).astype(np.float32)
    given = model(make_model, 2, mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    judge(given, [{"x": x, "grid": grid}], ort=False, exact=mode == "nearest")


@pytest.mark.parametrize(("mode", "padding_mode", "align_corners"), OPTIONS)
def test_coordinates_that_are_no_numbers(
    make_model: Any, judge: Any, mode: str, padding_mode: str, align_corners: int
) -> None:
    places = np.array([np.nan, np.inf, -np.inf, 0.3, -0.9], np.float32)
    grid = np.stack(np.meshgrid(places, places), axis=-1)[None]
    given = model(make_model, 2, mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    with np.errstate(invalid="ignore"):
        judge(
            given, [{"x": RNG.standard_normal((1, 20, 3, 4)).astype(np.float32), "grid": grid}], ort=False, exact=False
        )


@pytest.mark.parametrize("mode", MODES)
def test_a_pixel_without_weight_does_not_count(make_model: Any, judge: Any, mode: str) -> None:
    x = np.full((1, 3, 3, 3), np.inf, np.float32)
    x[:, :, 1, 1] = 5
    grid = np.zeros((1, 1, 1, 2), np.float32)
    given = model(make_model, 2, mode=mode, padding_mode="border", align_corners=1)
    assert judge(given, [{"x": x, "grid": grid}], ort=False).run({"x": x, "grid": grid})["y"].max() == 5


@pytest.mark.parametrize("place", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_floats(make_model: Any, judge: Any, dtype: Any, place: Any) -> None:
    for mode in MODES:
        given = model(make_model, 2, dtype, place, mode=mode)
        eighths = {"grid": (RNG.integers(-12, 13, (2, 3, 4, 2)) / 8).astype(place)}
        whole = {"x": RNG.integers(-8, 9, (2, 5, 4, 8)).astype(dtype)}
        judge(given, [whole | eighths], ort=False, exact=False)
        judge(model(make_model, 2, np.float64, place, mode=mode), [feed((2, 3, 5, 6), (4, 5), np.float64, place)],
              ort=False, exact=False)  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_cut_towards_zero(make_model: Any, judge: Any, dtype: Any) -> None:
    low, high = (0, 2) if dtype == np.bool_ else (40, 60) if np.dtype(dtype).kind == "u" else (-60, 60)
    x = RNG.integers(low, high, (2, 3, 4, 8)).astype(dtype)
    grid = RNG.integers(-12, 13, (2, 5, 7, 2)) / 8
    for mode, place in itertools.product(MODES, (np.float32, np.float64)):
        given = model(make_model, 2, dtype, place, mode=mode, padding_mode="border")
        judge(given, [{"x": x, "grid": grid.astype(place)}], ort=False)


def test_nothing(make_model: Any, judge: Any) -> None:
    given = model(make_model, 2)
    judge(given, [feed((0, 3, 4, 4), (2, 2)), feed((2, 3, 4, 4), (0, 2)), feed((2, 0, 4, 4), (2, 2))], ort=False)


def test_batches_that_differ(make_model: Any) -> None:
    shapes = {"x": (np.float32, ["n", 2, "h", "w"]), "grid": (np.float32, ["m", "p", "q", 2])}
    native = load(make_model("GridSample", shapes, {}, opset=22), engine="native", strict=True)
    with pytest.raises((IntaglioError, IndexError)):
        native.run({"x": np.zeros((2, 2, 3, 3), np.float32), "grid": np.zeros((1, 2, 2, 2), np.float32)})


def test_threads_do_not_change_bits(make_model: Any) -> None:
    given, inputs = model(make_model, 2), feed((2, 19, 33, 31), (70, 60))
    one, two = (load(given, engine="native", strict=True, threads=threads).run(inputs)["y"] for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("is_fed", [False, True], ids=["constant sizes", "fed sizes"])
@pytest.mark.parametrize("maps", ["n,a,b", "n,{axes},b", "n,{axes},{columns}"])
def test_a_grid_of_maps_whose_sizes_are_open(maps: str, is_fed: bool, axes: int) -> None:
    """The number of axes is told by the maps or by the length of the list of sizes."""
    sizes = np.array([2, 1, *range(3, 3 + axes)])
    text = f"float[{maps.format(axes=axes, columns=axes + 1)}] t"
    given = f"int64[{axes + 2}] z" if is_fed else ""
    constant = "" if is_fed else f"z = Constant<value_ints = {sizes.tolist()}>()"
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
        g ({text}{", " if given else ""}{given}) => (y) {{ {constant} y = AffineGrid<align_corners = 1>(t, z) }}""")
    theta = np.random.default_rng(0).standard_normal((2, axes, axes + 1)).astype(np.float32)
    feeds = (theta, sizes) if is_fed else (theta,)
    native, reference = (load(model, engine=engine)(*feeds) for engine in ("native", "reference"))
    np.testing.assert_allclose(native, reference, rtol=1e-5, atol=1e-6)
