"""Fourier transforms, the windows and filter banks that go with them, and determinants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import FLOAT64, INT64
from intaglio.ir.graph import Value
from intaglio.ir.op import OPERATORS, Array, Op
from intaglio.ir.requirements import need_at_most, need_equal
from intaglio.ir.types import TensorType
from intaglio.ops.linear import swap_last
from intaglio.ops.shared.indices import check_size, known, need_integers, need_single, numbered_dtype, resolve_axis
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.operand import cast, known_shape, like, require_equal, require_float
from intaglio.ops.shared.sampling import count_up, size_of


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

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        """The cofactors: minors where the matrices are small, else by way of the inverse, which then must exist."""
        x, size = inputs[0], inputs[0].shape[-1]
        bar = b.Unsqueeze(output_bars[0], [-2, -1])
        if isinstance(size, int) and size <= MINORS_LIMIT:
            return (bar * _cofactors(b, x, size),)
        inverse = b.apply(OPERATORS["com.microsoft", "Inverse"], x)
        return (bar * b.Unsqueeze(outputs[0], [-2, -1]) * swap_last(b, inverse),)


MINORS_LIMIT = 6
"""Up to this size the derivative of a determinant is made of the determinants of all minors."""


def _cofactors(b: Builder, x: Value, size: int) -> Value:
    """For each element of a matrix, the determinant of what is left without its row and column, with its sign."""
    if size == 1:
        return b.Expand(b.constant(1, x.dtype), b.Shape(x))
    others = b.constant(np.array([[j for j in range(size) if j != i] for i in range(size)]))
    rank = x.rank
    minors = b.Gather(b.Gather(x, others, axis=rank - 1), others, axis=rank - 2)
    order = (*range(rank - 2), rank - 2, rank, rank - 1, rank + 1)
    signs = np.where(np.indices((size, size)).sum(axis=0) % 2, -1, 1)
    return b.Det(b.Transpose(minors, perm=order)) * b.constant(signs, x.dtype)


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
        need_single(dft_length, axis)
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

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        """The adjoint of the transform: the inverse one, but for a factor and what a one-sided one leaves out."""
        x, bar = inputs[0], output_bars[0]
        place = -2 if len(inputs) < 3 or inputs[2] is None else known_scalar(inputs[2])
        if x.tensor.shape is None or not isinstance(place, int) or not isinstance(x.shape[-1], int):
            raise UnsupportedError("its gradient needs an axis and a last axis that are known before the run")
        position = self._position(place, x.rank)
        bar = self._adjoint(b, bar, position, inputs[1] if len(inputs) > 1 else None, outputs[0], x)
        if x.shape[-1] == 1:
            bar = b.Slice(bar, [0], [1], [x.rank - 1])
        bar = _fitted(b, bar, b.Shape(x, start=position, end=position + 1), position)
        return bar, *[None] * (len(inputs) - 1)

    def _adjoint(self, b: Builder, bar: Value, axis: int, length: Value | None, output: Value, x: Value) -> Value:
        """The gradient of all that the transform reads, as complex numbers."""
        at = b.constant(axis)
        size = b.Shape(output, start=axis, end=axis + 1)
        if self.onesided and not self.inverse:
            given = b.Shape(x, start=axis, end=axis + 1)
            size = given if length is None else b.Reshape(b.Cast(length, to=7), [1])
            bar = _fitted(b, bar, size, axis)
        count = cast(b, b.Reshape(size, []), bar.dtype)
        if not self.inverse:
            return b.DFT(bar, None, at, inverse=1) * count
        if not self.onesided:
            return b.DFT(bar, None, at) / count
        found = b.DFT(bar, None, at, onesided=1)
        places = count_up(b, b.Reshape(b.Shape(found, start=axis, end=axis + 1), []))
        is_single = b.Or(b.Equal(places, 0), b.Equal(places * 2, b.Reshape(size, [])))
        weights = b.Where(is_single, b.constant(1, bar.dtype), b.constant(2, bar.dtype))
        return found * b.Reshape(weights, [-1, *[1] * (found.rank - 1 - axis)]) / count


def _fitted(b: Builder, x: Value, size: Value, axis: int) -> Value:
    """x cut, or filled up with zeros at the end, to a size along an axis."""
    cut = b.Slice(x, [0], size, [axis])
    missing = size - b.Shape(cut, start=axis, end=axis + 1)
    return b.Pad(cut, b.Concat(b.constant(np.array([0])), missing, axis=0), None, [axis])


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
        need_single(frame_step, frame_length)
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

    def smooth_form(
        self,
        b: Builder,
        signal: Value,
        frame_step: Value,
        window: Value | None = None,
        frame_length: Value | None = None,
    ) -> Value:
        """The frames gathered, weighted and transformed."""
        total = size_of(b, signal, 1)
        length = total if window is None else size_of(b, window, 0)
        length = length if frame_length is None else b.Reshape(b.Cast(frame_length, to=7), [])
        step = b.Reshape(b.Cast(frame_step, to=7), [])
        starts = b.Range(b.constant(0, INT64), total - length + 1, step)
        frames = b.Gather(signal, b.Unsqueeze(starts, [1]) + count_up(b, length), axis=1)
        frames = frames if window is None else frames * b.Unsqueeze(window, [1])
        return b.DFT(frames, None, b.constant(2), onesided=self.onesided)


class MelTriangles(Op):
    """The triangular filters of MelWeightMatrix in double precision."""

    no_gradient = "it is constant between steps, so its gradient is zero"
    domain: ClassVar[str] = "intaglio"

    def infer(
        self,
        num_mel_bins: Value,
        dft_length: Value,
        sample_rate: Value,
        lower_edge_hertz: Value,
        upper_edge_hertz: Value,
    ) -> TensorType:
        need_single(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)
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

    no_gradient = "it is constant between steps, so its gradient is zero"
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

    no_gradient = "it has no input that changes smoothly"
    weights = (0.5, -0.5)


class HammingWindow(_Window):
    """The Hamming window of so many samples."""

    no_gradient = "it has no input that changes smoothly"
    weights = (25 / 46, -21 / 46)


class BlackmanWindow(_Window):
    """The Blackman window of so many samples."""

    no_gradient = "it has no input that changes smoothly"
    weights = (0.42, -0.5, 0.08)
