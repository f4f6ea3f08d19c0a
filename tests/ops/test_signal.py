"""Fourier transforms, windows and filter banks against ONNX Runtime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intaglio.errors import LimitError, OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.signal import DFT, STFT, HannWindow, MelWeightMatrix

KINDS = [(0, 0, 1), (0, 0, 2), (1, 0, 1), (0, 1, 2)]


def numbers(*shape: int) -> Any:
    return np.random.default_rng(10).standard_normal(shape).astype(np.float32)


def scalar(value: int) -> Any:
    return np.array(value, np.int64)


@pytest.mark.parametrize("shape", [(3, 4, 4), (4, 4), (1, 1, 1), (0, 3, 3)])
def test_determinant(agree: Any, shape: tuple[int, ...]) -> None:
    agree("Det", numbers(*shape))


@pytest.mark.parametrize(("onesided", "inverse", "parts"), KINDS)
@pytest.mark.parametrize("length", [None, 6, 12])
@pytest.mark.parametrize("axis", [None, 1, -2])
def test_dft(agree: Any, onesided: int, inverse: int, parts: int, length: int | None, axis: int | None) -> None:
    inputs = (numbers(2, 8, 3, parts), *(None if value is None else scalar(value) for value in (length, axis)))
    agree("DFT", *inputs, opset=20, onesided=onesided, inverse=inverse, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("length", [None, 7, 8, 14])
def test_inverse_of_half_a_spectrum(length: int | None) -> None:
    signal = numbers(3, 5, 2)
    result = DFT(onesided=1, inverse=1).reference(signal, None if length is None else scalar(length))
    expected = np.fft.irfft(signal[..., 0] + 1j * signal[..., 1], length)[..., None]
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_dft_and_back() -> None:
    signal = numbers(2, 9, 2)
    np.testing.assert_allclose(DFT(inverse=1).reference(DFT().reference(signal)), signal, rtol=1e-4, atol=1e-5)


def test_dft_errors() -> None:
    with pytest.raises(ShapeError, match="last axis holds"):
        DFT().reference(numbers(2, 4, 1), None, scalar(-1))
    with pytest.raises(OperatorError, match="dft_length is 0"):
        DFT().reference(numbers(2, 4, 1), scalar(0))
    with pytest.raises(ShapeError, match="needs real input"):
        DFT(onesided=1).reference(numbers(2, 4, 2))
    b = Builder(Graph())
    with pytest.raises(ShapeError, match="3 elements"):
        b.DFT(b.graph.add_input("x", TensorType(FLOAT32, (2, 4, 3))))


def test_huge_transforms_are_refused() -> None:
    with pytest.raises(LimitError, match="over the limit"):
        DFT().reference(numbers(1, 4, 1), scalar(2**40))
    edges = (np.array(0, np.float32), np.array(4096, np.float32))
    with pytest.raises(LimitError, match="over the limit"):
        MelWeightMatrix().reference(scalar(2**40), scalar(16), scalar(8192), *edges)


def test_dft_of_a_symbolic_length() -> None:
    b, n = Builder(Graph()), dim.symbol("N")
    x = b.graph.add_input("x", TensorType(FLOAT32, (1, n, 1)))
    assert b.DFT(x, onesided=1).shape == (1, dim.floordiv(n, 2) + 1, 2)


@pytest.mark.parametrize(("onesided", "parts"), [(1, 1), (0, 1), (0, 2)])
@pytest.mark.parametrize(("has_window", "has_length"), [(True, True), (True, False), (False, True)])
def test_stft(agree: Any, onesided: int, parts: int, has_window: bool, has_length: bool) -> None:
    inputs = (numbers(2, 20, parts), scalar(3), np.abs(numbers(8)) if has_window else None)
    length = scalar(8) if has_length else None
    agree("STFT", *inputs, length, opset=17, onesided=onesided, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize(("has_window", "has_length"), [(True, True), (True, False), (False, True)])
def test_stft_of_two_axes(agree: Any, onesided: int, has_window: bool, has_length: bool) -> None:
    inputs = (numbers(2, 20), scalar(3), np.abs(numbers(8)) if has_window else None)
    length = scalar(8) if has_length else None
    agree("STFT", *inputs, length, opset=17, onesided=onesided, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(20,), (1, 2, 20, 1)])
def test_stft_of_other_ranks(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=f"rank {len(shape)}, expected 3, or 2"):
        STFT().reference(numbers(*shape), scalar(1), None, scalar(4))


@pytest.mark.parametrize(
    ("step", "window", "length", "message"),
    [(0, None, 8, "frame_step 0"), (1, None, 99, "frame_length 99"), (1, 5, 8, "window has 5 samples")],
)
def test_stft_errors(step: int, window: int | None, length: int, message: str) -> None:
    weights = None if window is None else numbers(window)
    with pytest.raises(OperatorError, match=message):
        STFT().reference(numbers(1, 20, 1), scalar(step), weights, scalar(length))


@pytest.mark.parametrize("name", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("size", [2, 7, 10])
def test_windows(agree: Any, name: str, periodic: int, size: int) -> None:
    agree(name, scalar(size), opset=17, periodic=periodic)
    agree(name, np.array(size, np.int32), opset=17, periodic=periodic, output_datatype=11, atol=1e-6)


def test_window_size_is_the_shape() -> None:
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, (dim.symbol("N"),)))
    size = b.Reshape(b.Shape(x), [])
    assert b.HannWindow(size).shape == (dim.symbol("N"),)
    assert HannWindow().reference(np.array(0)).shape == (0,)


@pytest.mark.parametrize(("bins", "length", "rate", "low", "high"), [(8, 16, 8192, 0, 4096), (12, 64, 16000, 20, 7000)])
def test_mel_weights(agree: Any, bins: int, length: int, rate: int, low: float, high: float) -> None:
    edges = (np.array(low, np.float32), np.array(high, np.float32))
    agree("MelWeightMatrix", scalar(bins), scalar(length), scalar(rate), *edges, opset=17)


def test_mel_edges_must_be_in_the_spectrum() -> None:
    edges = (np.array(0, np.float32), np.array(20000, np.float32))
    with pytest.raises(OperatorError, match="outside of 9 spectrum bins"):
        MelWeightMatrix().reference(scalar(8), scalar(16), scalar(8192), *edges)


def test_wrong_types() -> None:
    b = Builder(Graph())
    with pytest.raises(ShapeError, match="floating-point"):
        b.Det(b.graph.add_input("x", TensorType(INT64, (2, 2))))
    with pytest.raises(ShapeError, match="sides"):
        b.Det(b.graph.add_input("x", TensorType(FLOAT32, (2, 3))))
