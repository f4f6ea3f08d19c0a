"""DFT, STFT, windows and MelWeightMatrix, judged by the reference, NumPy and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from intaglio.errors import IntaglioError, OperatorError
from intaglio.runtime.model.loading import load
from intaglio.targets.c.structured.fourier import largest_factor, smooth_length

RNG = np.random.default_rng(3)
KINDS = [(1, 0, 0), (1, 0, 1), (2, 0, 0), (2, 1, 0), (1, 1, 0), (2, 1, 1)]
"""Parts of a number, inverse, one-sided: all that DFT allows."""

LENGTHS = [1, 2, 3, 4, 5, 8, 12, 30, 59, 61, 97, 122, 400, 1009, 1024]


def number_of(dtype):
    return TensorProto.BFLOAT16 if dtype is ml_dtypes.bfloat16 else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def model_of(op, inputs, constants, output, order=None, opset=20, **attributes):
    """A model of one node; `inputs` give dtype and shape by name, `constants` arrays."""
    names = [*inputs, *constants] if order is None else list(order)
    while names[-1] == "":
        names.pop()
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        op,
        [helper.make_tensor_value_info(name, number_of(dtype), shape) for name, (dtype, shape) in inputs.items()],
        [helper.make_tensor_value_info("y", number_of(output), None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def transform(shape, dtype: Any = np.float32, length=None, axis=None, **attributes):
    constants = {name: array for name, array in (("length", length), ("axis", axis)) if array is not None}
    order = ["x", *("" if name not in constants else name for name in ("length", "axis"))]
    return model_of("DFT", {"x": (dtype, shape)}, constants, dtype, order, **attributes)


def compare(got, expected, tolerance):
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    assert np.abs(got - expected).max(initial=0) <= tolerance * max(1, np.abs(expected).max(initial=0))


def agree(model, feeds, tolerance=1e-6, threads=2):
    native, reference = load(model, engine="native", strict=True, threads=threads), load(model, engine="reference")
    for feed in feeds:
        compare(native.run(feed)["y"], reference.run(feed)["y"], tolerance)
    return native


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_length(length, kind):
    parts, inverse, onesided = kind
    if inverse and onesided and length == 1:
        pytest.skip("one number of a one-sided spectrum gives no signal")
    model = transform(["n", length, parts], inverse=inverse, onesided=onesided)
    agree(model, [{"x": RNG.normal(size=(n, length, parts)).astype(np.float32)} for n in (1, 2, 9, 0)])


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_that_only_the_run_tells(kind):
    parts, inverse, onesided = kind
    model = transform(["n", "m", parts], np.float64, inverse=inverse, onesided=onesided)
    feeds = [{"x": RNG.normal(size=(n, m, parts))} for n in (1, 3) for m in LENGTHS[1:]]
    native = agree(model, feeds, tolerance=1e-14)
    with pytest.raises(IntaglioError):
        native(np.zeros((2, 0, parts)))


@pytest.mark.parametrize("axis", [0, 1, 2, -2, -3])
@pytest.mark.parametrize("length", [None, 4, 7, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_axes_and_lengths_that_cut_or_fill_up(axis, length, kind):
    parts, inverse, onesided = kind
    model = transform(["a", "b", "c", parts], length=length, axis=axis, inverse=inverse, onesided=onesided)
    agree(model, [{"x": RNG.normal(size=(*shape, parts)).astype(np.float32)} for shape in [(5, 6, 7), (9, 2, 3)]])


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("length", [8, 61])
@pytest.mark.parametrize("kind", KINDS)
def test_every_type(dtype, length, kind):
    parts, inverse, onesided = kind
    model = transform(["n", length, parts], dtype, inverse=inverse, onesided=onesided)
    tolerance = {np.float64: 1e-14, np.float16: 2.0**-10, ml_dtypes.bfloat16: 2.0**-7}[dtype]
    agree(model, [{"x": RNG.normal(size=(n, length, parts)).astype(dtype)} for n in (1, 20)], tolerance)


@pytest.mark.parametrize("length", [16, 256, 1024])
@pytest.mark.parametrize("kind", KINDS[:4])
def test_onnx_runtime_agrees(length, kind):
    import onnxruntime

    parts, inverse, onesided = kind
    model = transform(["n", length, parts], inverse=inverse, onesided=onesided)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = RNG.normal(size=(5, length, parts)).astype(np.float32)
    compare(load(model, engine="native", strict=True)(x), session.run(None, {"x": x})[0], 2e-6)


def test_there_and_back():
    x = RNG.normal(size=(3, 360, 2))
    there, back = (load(transform(["n", 360, 2], np.float64, inverse=inverse), engine="native") for inverse in (0, 1))
    np.testing.assert_allclose(back(there(x)), x, atol=1e-13)


def test_any_number_of_threads_gives_the_same_bits():
    x = RNG.normal(size=(301, 240, 1)).astype(np.float32)
    model = transform(["n", "m", 1], onesided=1)
    one, two = (load(model, engine="native", threads=threads)(x) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_a_length_from_an_input():
    inputs = {"x": (np.float32, ["n", "m", 1]), "length": (np.int64, [])}
    model = model_of("DFT", inputs, {}, np.float32, onesided=1)
    native, reference = load(model, engine="native"), load(model, engine="reference")
    for length in (5, 12, 20):
        feed = {"x": RNG.normal(size=(2, 12, 1)).astype(np.float32), "length": np.array(length)}
        compare(native.run(feed)["y"], reference.run(feed)["y"], 1e-6)
    with pytest.raises(OperatorError, match="it must be at least 1"):
        native.run({"x": np.zeros((2, 12, 1), np.float32), "length": np.array(0)})


def test_factors():
    for number in range(2, 400):
        factors = [f for f in range(2, number + 1) if number % f == 0 and all(f % g for g in range(2, f))]
        assert largest_factor(number) == max(factors)
    for number in (1, 2, 3, 61, 1009):
        smooth = smooth_length(number)
        assert 2 * number - 1 <= smooth < max(2, 4 * number - 2)


def frames(dtype, step, *, window=None, length=None, parts: int | None = 1, total="t", onesided=1):
    constants = {"step": np.array(step)}
    constants |= {name: array for name, array in (("window", window), ("length", length)) if array is not None}
    order = ["x", "step", *("" if name not in constants else name for name in ("window", "length"))]
    shape = ["n", total] if parts is None else ["n", total, parts]
    return model_of("STFT", {"x": (dtype, shape)}, constants, dtype, order, onesided=onesided)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("size", [16, 25, 61])
@pytest.mark.parametrize("step", [1, 10, 70])
@pytest.mark.parametrize("given", ["window", "length", "both"])
def test_frames(dtype, size, step, given):
    window = np.hanning(size).astype(dtype) if given != "length" else None
    length = np.array(size) if given != "window" else None
    tolerance = {np.float64: 1e-14, np.float32: 1e-6, np.float16: 2.0**-9}[dtype]
    for parts, onesided in ((1, 1), (1, 0), (2, 0), (None, 1), (None, 0)):
        model = frames(dtype, step, window=window, length=length, parts=parts, onesided=onesided)
        shapes = [(n, t) if parts is None else (n, t, parts) for n, t in ((1, 100), (3, 61))]
        agree(model, [{"x": RNG.normal(size=shape).astype(dtype)} for shape in shapes], tolerance)


@pytest.mark.parametrize("parts", [1, None])
def test_onnx_runtime_agrees_on_frames(parts):
    import onnxruntime

    model = frames(np.float32, 16, window=np.hanning(64).astype(np.float32), parts=parts)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = RNG.normal(size=(2, 1000) if parts is None else (2, 1000, 1)).astype(np.float32)
    compare(load(model, engine="native", strict=True)(x), session.run(None, {"x": x})[0], 1e-6)


def test_frames_that_do_not_fit():
    model = load(frames(np.float32, 4, length=np.array(16)), engine="native", strict=True)
    with pytest.raises(OperatorError, match="do not fit a signal of 9"):
        model(np.zeros((1, 9, 1), np.float32))
    inputs = {"x": (np.float32, ["n", "t", 1]), "window": (np.float32, ["w"])}
    constants = {"step": np.array(2), "length": np.array(4)}
    model = model_of("STFT", inputs, constants, np.float32, ["x", "step", "window", "length"])
    with pytest.raises(OperatorError, match="the window has 3 samples"):
        load(model, engine="native", strict=True)(np.zeros((1, 9, 1), np.float32), np.ones(3, np.float32))


def test_a_window_from_an_input():
    inputs = {"x": (np.float32, ["n", "t", 1]), "window": (np.float32, ["w"])}
    model = model_of("STFT", inputs, {"step": np.array(7)}, np.float32, ["x", "step", "window"])
    sizes = [(32, 100), (97, 200), (100, 100)]
    feeds = [
        {"x": RNG.normal(size=(2, t, 1)).astype(np.float32), "window": RNG.random(w).astype(np.float32)}
        for w, t in sizes
    ]
    agree(model, feeds)


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("output", [np.float32, np.float64, np.float16])
def test_windows(op, periodic, output):
    options = {"periodic": periodic, "output_datatype": number_of(output)}
    model = model_of(op, {"size": (np.int64, [])}, {}, output, **options)
    agree(
        model, [{"size": np.array(size)} for size in (10, 2, 33)], tolerance=2.0**-12 if output is np.float16 else 1e-7
    )


MEL = {
    "bins": np.array(8),
    "length": np.array(16, np.int32),
    "rate": np.array(8192),
    "low": np.array(0, np.float32),
    "high": np.array(8192 / 2, np.float64),
}


@pytest.mark.parametrize("output", [np.float32, np.float64, np.float16, np.int64])
@pytest.mark.parametrize("known", [(), ("bins",), ("bins", "length"), ("length", "rate"), tuple(MEL)])
def test_mel_weights(output, known):
    inputs = {name: (array.dtype, []) for name, array in MEL.items() if name not in known}
    constants = {name: MEL[name] for name in known}
    model = model_of("MelWeightMatrix", inputs, constants, output, list(MEL), output_datatype=number_of(output))
    feed = {name: MEL[name] for name in inputs}
    feeds = [feed, feed | {"bins": np.array(3)}] if "bins" in inputs else [feed]
    agree(model, feeds, tolerance=0)


@pytest.mark.parametrize(("name", "number"), [("bins", -1), ("length", 0), ("rate", 0), ("high", 1e9)])
def test_mel_weights_check_their_inputs(name, number):
    inputs = {key: (array.dtype, []) for key, array in MEL.items()}
    model = load(model_of("MelWeightMatrix", inputs, {}, np.float32), engine="native", strict=True)
    with pytest.raises(OperatorError, match=r"not all positive|outside of"):
        model.run(MEL | {name: np.array(number, MEL[name].dtype)})
