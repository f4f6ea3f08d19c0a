"""Pad in every mode, with pads that add and pads that cut."""

import numpy as np
import pytest

from intaglio.errors import IntaglioError, OperatorError
from intaglio.runtime.model.loading import load

RNG = np.random.default_rng(17)
MODES = ["constant", "reflect", "edge", "wrap"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "pads", [[0, 1, 2, 0, 2, 1], [0, 0, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0], [2, 2, 2, 2, 2, 2]]
)
def test_pads_that_add(make_model, judge, mode, pads):
    model = make_model("Pad", {"x": (np.float32, ["a", "b", "c"])}, {"mode": mode}, {"p": np.array(pads)})
    feeds = [{"x": RNG.random(shape).astype(np.float32)} for shape in [(3, 4, 5), (3, 3, 3), (5, 20, 90)]]
    judge(model, feeds)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pads", [[-1, 0, 0, -1], [2, -1, -1, 1], [-2, -1, 0, 0], [0, 3, 0, -2]])
def test_pads_that_cut(make_model, judge, mode, pads):
    model = make_model("Pad", {"x": (np.float32, [5, 6])}, {"mode": mode}, {"p": np.array(pads)})
    judge(model, [{"x": RNG.random((5, 6)).astype(np.float32)}], ort=False)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8, np.int64, np.bool_])
def test_every_element_size(make_model, judge, mode, dtype):
    model = make_model(
        "Pad", {"x": (dtype, ["a", "b"])}, {"mode": mode}, {"p": np.array([1, 2, 0, 1])}, outputs=[("y", dtype)]
    )
    judge(model, [{"x": RNG.integers(0, 2, shape).astype(dtype)} for shape in [(3, 4), (4, 30)]], ort=False)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_pads_longer_than_the_axis(make_model, judge, mode):
    model = make_model("Pad", {"x": (np.float32, ["a", "b"])}, {"mode": mode}, {"p": np.array([5, 7, 9, 4])})
    judge(model, [{"x": RNG.random(shape).astype(np.float32)} for shape in [(1, 1), (2, 3), (1, 4)]], ort=False)


def test_nothing_to_repeat_says_so(make_model):
    model = make_model("Pad", {"x": (np.float32, ["a", 2])}, {"mode": "edge"}, {"p": np.array([1, 0, 0, 0])})
    with pytest.raises(OperatorError, match="nothing to pad with"):
        load(model, engine="native", strict=True)(np.ones((0, 2), np.float32))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pads", [[-1, 0, -2, -1], [2, -1, -1, 1], [-2, -1, 0, 0]])
def test_pads_that_cut_from_sizes_that_are_not_known(make_model, judge, mode, pads):
    model = make_model("Pad", {"x": (np.float32, ["a", "b"])}, {"mode": mode}, {"p": np.array(pads)})
    native = judge(
        model, [{"x": RNG.random(shape).astype(np.float32)} for shape in [(5, 6), (4, 2), (9, 33)]], ort=False
    )
    with pytest.raises(IntaglioError, match=r"Pad.*pads of .* cut more than the [01] elements of axis"):
        native(np.ones((1, 1) if min(pads[0], 0) + min(pads[2], 0) < -1 else (9, 0), np.float32))
