"""Fourier transforms, the windows and filter banks that go with them, and determinants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import FLOAT64, INT64
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op
from intaglio.ir.requirements import need_at_most, need_equal
from intaglio.ir.types import TensorType
from intaglio.ops.indices import check_size, known, need_integers, numbered_dtype, resolve_axis
from intaglio.ops.indices import wide as widen
from intaglio.ops.operand import cast, known_shape, like, require_equal, require_float


class Det(Op):
    """The determinants of the matrices in the last two axes."""

    def infer(self, X: Value) -> TensorType:
        require_float(X)
        shape = known_shape(X, least=2)
        if shape is None:
            return X.tensor
        require_equal(shape[-1], shape[-2], "the sides of the matrices")
        return X.tensor.with_shape(shape[:-2])

    def reference(self, X: Array) -> Array:
        return like(np.linalg.det(widen(X)), X)


def known_scalar(value: Value | None) -> Dim | None:
    """The one element of an integer tensor where it is known before the run."""
    items = known(value)
    return items[0] if items is not None and len(items) == 1 else None


def scalar(array: Array, name: str) -> int:
    """The one element of an integer tensor."""
    if array.size != 1:
        raise OperatorError(f"{name} has {array.size} elements, one is needed")
    return int(array.reshape(())[()])


class DFT(Op):
    """The discrete Fourier transform along an axis; the last axis holds real and imaginary parts."""

    inverse: int = 0
    onesided: int = 0

    def infer(self, input: Value, dft_length: Value | None = None, axis: Value | None = None) -> TensorType:
        require_float(input)
        shape = known_shape(input, least=2)
        place = -2 if axis is None else known_scalar(axis)
        if shape is None:
            return input.tensor
        self._check_parts(shape[-1])
        parts = 1 if self.inverse and self.onesided else 2
        if not isinstance(place, int):
            return input.tensor.with_shape((*(dims.fresh() for _ in shape[:-1]), parts))
        position = self._position(place, len(shape))
        length = self.length_of(shape[position]) if dft_length is None else known_scalar(dft_length)
        sizes = list(shape)
        sizes[position] = dims.fresh() if length is None else self._output_size(length)
        return input.tensor.with_shape((*sizes[:-1], parts))

    def _check_parts(self, parts: Dim) -> None:
        message = f"the last axis has {parts} elements, it must have 1 (real) or 2 (complex)"
        need_at_most(1, parts, message)
        need_at_most(parts, 2, message)
        if self.onesided:
            wanted, kind = (2, "complex") if self.inverse else (1, "real")
            need_equal(parts, wanted, f"a one-sided transform with inverse={self.inverse} needs {kind} input")

    def _position(self, axis: int, rank: int) -> int:
        position = resolve_axis(axis, rank)
        if position == rank - 1:
            raise ShapeError(f"axis is {axis}, the last axis holds real and imaginary parts")
        return position

    def length_of(self, size: Dim) -> Dim:
        """The length of the transform of an axis of this size, where none is given."""
        return dims.maximum((size - 1) * 2, 0) if self.inverse and self.onesided else size

    def _output_size(self, length: Dim) -> Dim:
        return dims.floordiv(length, 2) + 1 if self.onesided and not self.inverse else length

    def reference(self, input: Array, dft_length: Array | None = None, axis: Array | None = None) -> Array:
        self._check_parts(input.shape[-1])
        position = self._position(-2 if axis is None else scalar(axis, "axis"), input.ndim)
        length: Any = self.length_of(input.shape[position]) if dft_length is None else scalar(dft_length, "dft_length")
        if length < 1:
            raise OperatorError(f"dft_length is {length}, it must be at least 1")
        others = (size for axis, size in enumerate(input.shape) if axis != position)
        check_size((*others, length), np.dtype(np.complex128))
        signal = _complex(input)
        if self.onesided and self.inverse:
            return like(_parts(np.fft.irfft(signal, length, position)), input)
        if self.onesided:
            return like(_parts(np.fft.rfft(np.real(signal), length, position)), input)
        transform = np.fft.ifft if self.inverse else np.fft.fft
        return like(_parts(transform(signal, length, position)), input)


def _complex(array: Array) -> Array:
    """Real and imaginary parts in the last axis as complex numbers of the same precision."""
    wide = widen(array)
    result = np.zeros(wide.shape[:-1], np.result_type(wide.dtype, np.complex64))
    result += wide[..., 0]
    if wide.shape[-1] == 2:
        result += 1j * wide[..., 1]
    return result


def _parts(array: Array) -> Array:
    """The inverse of `_complex`; one part where the array is real."""
    return np.stack((np.real(array), np.imag(array)), axis=-1) if np.iscomplexobj(array) else array[..., None]


def signal_sizes(shape: Sequence[Dim]) -> tuple[Dim, Dim, Dim]:
    """Batch, samples and parts of a signal: one of two axes is real."""
    if len(shape) not in (2, 3):
        raise ShapeError(f"the signal has the rank {len(shape)}, expected 3, or 2 for a real one")
    return shape[0], shape[1], shape[2] if len(shape) == 3 else 1


class STFT(Op):
    """The Fourier transforms of overlapping frames of a signal."""

    onesided: int = 1

    def infer(
        self, signal: Value, frame_step: Value, window: Value | None = None, frame_length: Value | None = None
    ) -> TensorType:
        require_float(signal, window)
        need_integers(frame_step)
        given = known_shape(signal)
        shape = None if given is None else signal_sizes(given)
        batch: Dim = dims.fresh() if shape is None else shape[0]
        if shape is not None:
            need_at_most(1, shape[2], f"the last axis of {signal.name} has {shape[2]} elements, expected 1 or 2")
        length = self._frame_length(shape, window, frame_length)
        if length is None:
            return TensorType(signal.dtype, (batch, dims.fresh(), dims.fresh(), 2))
        step = known_scalar(frame_step)
        frames: Dim = dims.fresh()
        if shape is not None and isinstance(step, int) and step > 0:
            frames = dims.maximum(dims.floordiv(shape[1] - length, step) + 1, 0)
        bins = dims.floordiv(length, 2) + 1 if self.onesided else length
        return TensorType(signal.dtype, (batch, frames, bins, 2))

    def _frame_length(self, shape: Any, window: Value | None, frame_length: Value | None) -> Dim | None:
        if frame_length is not None:
            return known_scalar(frame_length)
        if window is not None:
            found = known_shape(window, rank=1)
            return None if found is None else found[0]
        return None if shape is None else shape[1]

    def reference(
        self, signal: Array, frame_step: Array, window: Array | None = None, frame_length: Array | None = None
    ) -> Array:
        step, (_, total, parts) = scalar(frame_step, "frame_step"), signal_sizes(signal.shape)
        assert isinstance(total, int)
        length = total if window is None else window.shape[0]
        length = length if frame_length is None else scalar(frame_length, "frame_length")
        if step < 1 or not 1 <= length <= total:
            raise OperatorError(f"frame_step {step} and frame_length {length} do not fit a signal of {total} samples")
        if window is not None and window.shape[0] != length:
            raise OperatorError(f"the window has {window.shape[0]} samples, frame_length is {length}")
        if self.onesided and parts == 2:
            raise OperatorError("a one-sided transform needs a real signal")
        starts = np.arange(0, total - length + 1, step)
        frames = _complex(signal.reshape(*signal.shape[:2], -1))[:, starts[:, None] + np.arange(length)]
        frames = frames if window is None else frames * widen(window)
        result = np.fft.rfft(np.real(frames)) if self.onesided else np.fft.fft(frames)
        return like(_parts(result), signal)


class MelTriangles(Op):
    """The triangular filters of MelWeightMatrix in double precision."""

    domain: ClassVar[str] = "intaglio"

    def infer(
        self,
        num_mel_bins: Value,
        dft_length: Value,
        sample_rate: Value,
        lower_edge_hertz: Value,
        upper_edge_hertz: Value,
    ) -> TensorType:
        length, bins = known_scalar(dft_length), known_scalar(num_mel_bins)
        rows = dims.fresh() if length is None else dims.floordiv(length, 2) + 1
        return TensorType(FLOAT64, (rows, dims.fresh() if bins is None else bins))

    def reference(
        self,
        num_mel_bins: Array,
        dft_length: Array,
        sample_rate: Array,
        lower_edge_hertz: Array,
        upper_edge_hertz: Array,
    ) -> Array:
        bins, length = scalar(num_mel_bins, "num_mel_bins"), scalar(dft_length, "dft_length")
        rate = scalar(sample_rate, "sample_rate")
        if bins < 0 or length < 1 or rate < 1:
            raise OperatorError(f"num_mel_bins {bins}, dft_length {length} and sample_rate {rate} are not all positive")
        check_size((length // 2 + 1, bins), np.dtype(np.float64))
        low, high = (_mel(float(widen(edge).reshape(()))) for edge in (lower_edge_hertz, upper_edge_hertz))
        mels = low + np.arange(bins + 2) * (high - low) / (bins + 2)
        edges = np.floor((length + 1) * 700 * (10 ** (mels / 2595) - 1) / rate).astype(np.int64)
        rows = length // 2 + 1
        if edges.min() < 0 or edges.max() >= rows:
            raise OperatorError(f"the edges {float(edges.min())} to {edges.max()} are outside of {rows} spectrum bins")
        return _triangles(edges, rows)


class MelWeightMatrix(Op):
    """The triangular filters that turn a spectrum into one on the mel scale."""

    output_datatype: int = 1

    def expand(
        self,
        b: Builder,
        num_mel_bins: Value,
        dft_length: Value,
        sample_rate: Value,
        lower_edge_hertz: Value,
        upper_edge_hertz: Value,
    ) -> Value:
        inputs = (num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)
        return cast(b, b.apply(MelTriangles, *inputs), numbered_dtype(self.output_datatype))


def _mel(hertz: float) -> float:
    return 2595 * np.log10(1 + hertz / 700)


def _triangles(edges: Array, rows: int) -> Array:
    """One triangle per column, from edge i over a peak of one at edge i+1 to edge i+2."""
    place = np.arange(rows)[:, None]
    left, peak, right = edges[:-2], edges[1:-1], edges[2:]
    rising = np.where((place >= left) & (place <= peak), (place - left) / np.maximum(peak - left, 1), 0)
    falling = np.where((place > peak) & (place < right), (right - place) / np.maximum(right - peak, 1), 0)
    return np.where(place == peak, 1.0, rising + falling)


class _Window(Op, abstract=True):
    """A sum of cosines over the window's length."""

    output_datatype: int = 1
    periodic: int = 1

    weights: ClassVar[tuple[float, ...]] = ()

    def expand(self, b: Builder, size: Value) -> Value:
        need_integers(size)
        count = b.Reshape(cast(b, size, INT64), [])
        place = cast(b, b.Range(b.constant(0, INT64), count, b.constant(1, INT64)), FLOAT64)
        period = count if self.periodic else count - 1
        angle = place * (2 * np.pi) / cast(b, period, FLOAT64)
        total = b.Cos(angle) * self.weights[1]
        for order, weight in enumerate(self.weights[2:], 2):
            total = total + b.Cos(angle * order) * weight
        return cast(b, total + self.weights[0], numbered_dtype(self.output_datatype))  # last, so that the peak is 1


class HannWindow(_Window):
    """The Hann window of so many samples."""

    weights = (0.5, -0.5)


class HammingWindow(_Window):
    """The Hamming window of so many samples."""

    weights = (25 / 46, -21 / 46)


class BlackmanWindow(_Window):
    """The Blackman window of so many samples."""

    weights = (0.42, -0.5, 0.08)
