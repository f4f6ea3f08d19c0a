"""Random numbers: both engines draw the same, any number of threads does, and the distributions are right."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from intaglio.errors import OperatorError
from intaglio.runtime.engine.engine import EngineName
from intaglio.runtime.model.loading import load

FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
COUNTS = [0, 1, 3, 4, 7, 8, 17, 1000, 5001]


def number_of(dtype):
    return TensorProto.BFLOAT16 if dtype is ml_dtypes.bfloat16 else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def drawing(op, output, inputs=(), constants=(), outputs=1, **attributes):
    """A model of one node; `inputs` are (name, dtype, shape), `constants` (name, array)."""
    attributes = {name: value for name, value in attributes.items() if value is not None}
    names = [name for name, *_ in (*inputs, *constants)]
    results = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attributes)],
        op,
        [helper.make_tensor_value_info(name, number_of(dtype), shape) for name, dtype, shape in inputs],
        [
            helper.make_tensor_value_info(name, number_of(output) if i == 0 else TensorProto.BOOL, None)
            for i, name in enumerate(results)
        ],
        [numpy_helper.from_array(array, name) for name, array in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def run(model, feed, engine: EngineName = "native", threads=2):
    options: dict[str, Any] = {"strict": True, "threads": threads} if engine == "native" else {}
    return next(iter(load(model, engine=engine, **options).run(feed).values()))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("limits", [{}, {"low": -1.25, "high": 3.7}])
def test_uniform_numbers_are_the_same_on_both_engines(dtype, limits):
    like = drawing("RandomUniformLike", dtype, [("x", dtype, ["n"])], seed=3.5, **limits)
    native, reference = load(like, engine="native", strict=True), load(like, engine="reference")
    for count in COUNTS:
        x = np.zeros(count, dtype)
        np.testing.assert_array_equal(native(x), reference(x))


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_numbers_are_the_same_on_both_engines_but_for_the_last_bits(dtype):
    like = drawing("RandomNormalLike", dtype, [("x", dtype, ["n"])], seed=3.5, mean=0.5, scale=2.0)
    native, reference = load(like, engine="native", strict=True), load(like, engine="reference")
    for count in COUNTS:
        got, expected = (each(np.zeros(count, dtype)).astype(np.float64) for each in (native, reference))
        step = {np.float32: 2.0**-23, np.float64: 2.0**-50}.get(dtype, 2.0**-7)
        np.testing.assert_allclose(got, expected, rtol=step, atol=step)
        assert dtype is np.float64 or count < 9 or (got == expected).mean() > 0.99


@pytest.mark.parametrize("op", ["RandomUniform", "RandomNormal"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_without_an_input(op, dtype):
    model = drawing(op, dtype, seed=1.0, shape=[3, 70], dtype=number_of(dtype))
    got, expected = run(model, {}), run(model, {}, "reference")
    assert got.shape == (3, 70)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("op", ["RandomUniform", "RandomNormal"])
def test_numbers_are_new_in_each_run_unless_there_is_a_seed(op):
    seeded, fresh = (drawing(op, np.float32, seed=seed, shape=[50]) for seed in (2.0, None))
    model = load(seeded, engine="native", strict=True)
    np.testing.assert_array_equal(model.run({})["y0"], model.run({})["y0"])
    other = run(drawing(op, np.float32, seed=2.5, shape=[50]), {})
    assert (model.run({})["y0"] != other).all()
    model = load(fresh, engine="native", strict=True)
    runs = [model.run({})["y0"] for _ in range(5)]
    assert len({array.tobytes() for array in runs}) == 5


def test_two_nodes_without_a_seed_draw_different_numbers():
    nodes = [helper.make_node("RandomUniform", [], [name], shape=[20]) for name in ("a", "b")]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [20]) for name in ("a", "b")]
    graph = helper.make_graph(nodes, "two", [], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    result = load(model, engine="native", strict=True).run({})
    assert (result["a"] != result["b"]).any()


@pytest.mark.parametrize("op", ["RandomUniformLike", "RandomNormalLike"])
def test_any_number_of_threads_draws_the_same(op):
    model = drawing(op, np.float32, [("x", np.float32, ["n"])], seed=9.0)
    x = np.zeros(300_000, np.float32)
    np.testing.assert_array_equal(run(model, {"x": x}, threads=1), run(model, {"x": x}, threads=2))


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_the_distributions(engine):
    uniform = run(drawing("RandomUniform", np.float64, shape=[200_000], dtype=11, seed=4.0), {}, engine)
    assert 0 <= uniform.min() < uniform.max() < 1
    counts = np.bincount((uniform * 100).astype(int), minlength=100)
    assert ((counts - 2000) ** 2 / 2000).sum() < 160  # chi-square of 99 degrees: beyond 160 once in 10000
    assert abs(np.corrcoef(uniform[:-1], uniform[1:])[0, 1]) < 0.01
    normal = run(drawing("RandomNormal", np.float64, shape=[200_000], dtype=11, seed=4.0), {}, engine)
    assert abs(normal.mean()) < 0.01
    assert abs(normal.std() - 1) < 0.01
    assert abs((normal**3).mean()) < 0.03
    assert abs((normal**4).mean() - 3) < 0.1
    assert abs((np.abs(normal) < 1).mean() - 0.6827) < 0.005
    assert abs(np.corrcoef(normal[::2], normal[1::2])[0, 1]) < 0.015


@pytest.mark.parametrize("dtype", FLOATS)
def test_bernoulli(dtype):
    model = drawing("Bernoulli", dtype, [("x", dtype, ["n"])], seed=1.0)
    chance = np.repeat(np.array([0, 0.001, 0.25, 1], dtype), 20_000)
    got = run(model, {"x": chance})
    np.testing.assert_array_equal(got, run(model, {"x": chance}, "reference"))
    shares = got.astype(np.float64).reshape(4, -1).mean(axis=1)
    np.testing.assert_allclose(shares, [0, 0.001, 0.25, 1], atol=0.01)
    assert 0 < shares[1] < 0.003
    assert shares[0] == 0
    assert shares[3] == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("output", [np.int32, np.int64])
def test_multinomial(dtype, output):
    model = drawing(
        "Multinomial", output, [("x", dtype, ["n", "c"])], seed=1.0, sample_size=501, dtype=number_of(output)
    )
    native, reference = load(model, engine="native", strict=True), load(model, engine="reference")
    rng = np.random.default_rng(0)
    for shape in [(1, 1), (5, 9), (70, 3), (0, 4)]:
        x = rng.normal(size=shape).astype(dtype)
        np.testing.assert_array_equal(native(x), reference(x))
    logarithms = np.log(np.array([[0.5, 0.25, 0.2, 0.05]])).repeat(40, axis=0).astype(dtype)
    shares = np.bincount(native(logarithms).ravel(), minlength=4) / (40 * 501)
    np.testing.assert_allclose(shares, [0.5, 0.25, 0.2, 0.05], atol=0.015)
    with pytest.raises(OperatorError, match="from 0 classes"):
        native(np.zeros((2, 0), dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [1, 311, 312, 313, 4000])
def test_dropout_with_a_seed_drops_the_same(dtype, count):
    constants = [("ratio", np.array(0.3, np.float32)), ("mode", np.array(True))]
    model = drawing("Dropout", dtype, [("x", dtype, ["n"])], constants, outputs=2, seed=5)
    x = np.arange(1, count + 1).astype(dtype)
    got, expected = (load(model, engine=engine).run({"x": x}) for engine in ("native", "reference"))
    np.testing.assert_array_equal(got["y1"], expected["y1"])
    np.testing.assert_array_equal(got["y0"], expected["y0"])
    np.random.seed(5)
    np.testing.assert_array_equal(got["y1"], np.random.uniform(0, 1, count) >= np.float32(0.3))


def test_dropout_without_a_seed():
    inputs = [("x", np.float32, ["n"]), ("ratio", np.float32, []), ("mode", np.bool_, [])]
    model = load(drawing("Dropout", np.float32, inputs, outputs=2), engine="native", strict=True)
    x = np.ones(50_000, np.float32)
    masks = []
    for share in (0.0, 0.1, 0.75):
        result = model.run({"x": x, "ratio": np.array(share, np.float32), "mode": np.array(True)})
        assert abs(result["y1"].mean() - (1 - share)) < 0.01
        np.testing.assert_allclose(result["y0"], result["y1"] / (1 - share), rtol=1e-6)
        masks.append(result["y1"])
    again = model.run({"x": x, "ratio": np.array(0.75, np.float32), "mode": np.array(True)})["y1"]
    assert (again != masks[-1]).any()
    still = model.run({"x": x, "ratio": np.array(0.75, np.float32), "mode": np.array(False)})
    np.testing.assert_array_equal(still["y0"], x)
    with pytest.raises(OperatorError, match="ratio is 1"):
        model.run({"x": x, "ratio": np.array(1.0, np.float32), "mode": np.array(True)})
