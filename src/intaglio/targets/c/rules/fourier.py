"""Fourier transforms: DFT and STFT of any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from intaglio.ir.dim import Dim, at_most, equal, floordiv, less, maximum, minimum, pieces, product, select, symbol
from intaglio.ir.dtype import FLOAT32, FLOAT64, DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.found_sizes import bind_named, bind_sizes, whole_numbers
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.ops.shared.indices import resolve_axis
from intaglio.ops.signal import known_scalar, signal_sizes
from intaglio.targets.c.kernel_file import Value as Setting
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import (
    Parameter,
    Routine,
    at_least_one,
    disagreement,
    memory_type,
    reader,
    reads,
    writer,
    writes,
)
from intaglio.targets.c.rules.runtime_sizes import bind_axis_parts
from intaglio.targets.c.rules.table import anchor, late_sizes
from intaglio.targets.c.structured.fourier import LARGEST_FACTOR, largest_factor, space, tables

LONGEST = 1 << 28
"""Transforms are shorter than this."""

LINES = 8
"""Lines that are transformed side by side, where a line is short enough for the cache."""


@dataclass(frozen=True)
class _Lines:
    """How the transformed lines lie: line (o, i), element k is at o * outer + i * inner + k * step, in and out.

    `lengths` are all that the length can be, where that is known although the length is not.
    """

    length: Dim
    extent: Dim
    outer: Dim
    inner: Dim
    steps: tuple[Dim, Dim, Dim]
    out_steps: tuple[Dim, Dim, Dim]
    bins: Dim
    parts: int
    is_inverse: bool
    is_half: bool
    mismatch: Size = 0
    lengths: tuple[Dim, ...] = ()

    @property
    def is_direct(self) -> bool:
        """Whether it is known that the length has small factors only."""
        lengths = self.lengths or (self.length,)
        return all(isinstance(length, int) and largest_factor(length) <= LARGEST_FACTOR for length in lengths)

    @property
    def is_paired(self) -> bool:
        """Whether two real lines are transformed as one complex line."""
        return self.parts == 1 or (self.is_inverse and self.is_half)


def _refuse_dft(node: Node) -> Refusal | None:
    length = node.optional(1)
    if length is not None and length.dtype.kind not in ("int", "uint"):
        return Refusal(Cause.ELEMENTS, f"its length is {length.dtype}")
    return _refuse_sizes(node.input.shape[-1], _dft_length(node))


def _refuse_sizes(parts: Dim, length: Dim | None) -> Refusal | None:
    if not isinstance(parts, int):
        return Refusal(Cause.SHAPE, "whether its numbers are complex is not known before the run")
    if isinstance(length, int) and not 1 <= length < LONGEST:
        return Refusal(Cause.FORM, f"its length is {length}")
    return None


def _dft_axis(node: Node) -> int | None:
    """The axis counted from the front, or None where the run tells it."""
    axis = node.optional(2)
    place = -2 if axis is None else known_scalar(axis)
    return resolve_axis(place, node.input.rank) if isinstance(place, int) else None


def _dft_length(node: Node) -> Dim | None:
    given, axis = node.optional(1), _dft_axis(node)
    if given is not None:
        return known_scalar(given)
    return None if axis is None else node.op.length_of(node.input.shape[axis])


def _late_values(node: Node, places: Sequence[int]) -> list[Value]:
    """The parameters at some places that are given and that the run tells."""
    given = [node.optional(place) for place in places]
    return [value for value in given if value is not None and known_scalar(value) is None]


@late_sizes("DFT", refuse=_refuse_dft, reads=lambda node: _late_values(node, [1, 2]))
def discrete_sizes(context: Context, node: Node) -> None:
    """Nothing: the rule itself binds them together with the length."""


def _bins(length: Dim, is_half: bool) -> Dim:
    """How many numbers a transform of some length gives, be it all or those of one side."""
    return floordiv(length, 2) + 1 if is_half else length


def _bind_length(context: Context, node: Node, given: Value, limit: Dim = LONGEST - 1) -> Dim:
    """The length of the transform where the run tells it."""
    (length,) = bind_named(context, node, ["length"], whole_numbers(context, given), least=1, limit=limit)
    return length


def _need_length(context: Context, node: Node, length: Dim) -> None:
    """Stop the run where a length is none of a transform."""
    context.need(node, (less(0, length) * less(length, LONGEST), 1))


@anchor("DFT", refuse=_refuse_dft, reads=lambda node: [node.input, *_late_values(node, [1, 2])])
def discrete_transform(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Transform each line along the axis."""
    data, axis, length = node.input, _dft_axis(node), _dft_length(node)
    if axis is None:
        _transform(context, node, _late_lines(context, node), context.contiguous(data), None)
        return
    if length is None:
        length = _bind_length(context, node, node.needed(1))
        bind_sizes(context, node, {axis: _bins(length, bool(node.op.onesided) and not node.op.inverse)})
    parts = data.shape[-1]
    assert isinstance(parts, int)
    inner, out_parts, bins = product(data.shape[axis + 1 : -1]), node.output.shape[-1], node.output.shape[axis]
    steps = data.shape[axis] * inner * parts, parts, inner * parts
    out_steps = bins * inner * out_parts, out_parts, inner * out_parts
    outer, is_inverse, is_half = product(data.shape[:axis]), bool(node.op.inverse), bool(node.op.onesided)
    lines = _Lines(length, data.shape[axis], outer, inner, steps, out_steps, bins, parts, is_inverse, is_half)
    _transform(context, node, lines, context.contiguous(data), None)


def _late_lines(context: Context, node: Node) -> _Lines:
    """The lines along an axis that the run tells; the driver works out their number, length and distances."""
    data, output, given = node.input, node.output, node.optional(1)
    axis, length, parts, out_parts = node.optional(2), _dft_length(node), data.shape[-1], node.output.shape[-1]
    assert axis is not None
    assert isinstance(parts, int)
    is_inverse, is_half = bool(node.op.inverse), bool(node.op.onesided)
    outer, extent, inner, at = bind_axis_parts(context, node, axis, data.shape[:-1], data.rank)
    if length is None and given is not None:
        length = _bind_length(context, node, given)
    else:
        wanted = node.op.length_of(extent) if length is None else length
        _need_length(context, node, wanted)
        context.assign([(f"{output.name}:length", wanted)], node)
        length = length if isinstance(length, int) else symbol(f"{output.name}:length")
    context.assign([(f"{output.name}:bins", _bins(length, is_half and not is_inverse))], node)
    bins = symbol(f"{output.name}:bins")
    unbound = [(place, name) for place, name in context.unbound(output) if place < data.rank - 1]
    context.assign([(name, select(equal(at, place), bins, data.shape[place])) for place, name in unbound], node)
    steps = extent * inner * parts, parts, inner * parts
    out_steps = bins * inner * out_parts, out_parts, inner * out_parts
    lines = _Lines(length, extent, outer, inner, steps, out_steps, bins, parts, is_inverse, is_half)
    return lines if given is not None else replace(lines, lengths=tuple(map(node.op.length_of, data.shape[:-1])))


def _refuse_frames(node: Node) -> Refusal | None:
    step, length = known_scalar(node.inputs[1]), _frame_length(node)
    if isinstance(step, int) and step < 1:
        return Refusal(Cause.FORM, f"its step is {step}")
    parts = signal_sizes(node.input.shape)[2]
    if node.op.onesided and parts == 2:
        return Refusal(Cause.FORM, "a one-sided transform needs a real signal")
    return _refuse_sizes(parts, length)


def _frame_length(node: Node) -> Dim | None:
    window, length = node.optional(2), node.optional(3)
    if length is not None:
        return known_scalar(length)
    return node.input.shape[1] if window is None else window.shape[0]


def _frame_reads(node: Node) -> list[Value]:
    return [value for value in (node.input, node.optional(2), *_late_values(node, [1, 3])) if value is not None]


@late_sizes("STFT", refuse=_refuse_frames, reads=lambda node: _late_values(node, [1, 3]))
def frame_sizes(context: Context, node: Node) -> None:
    """Nothing: the rule itself binds them together with step and length."""


def _late_frames(context: Context, node: Node) -> dict[str, Dim]:
    """Step and length as far as the run tells them; the number of frames follows from both."""
    step, length = known_scalar(node.inputs[1]), _frame_length(node)
    total, found = node.input.shape[1], dict[str, Dim]()
    if step is None:
        (step,) = bind_named(context, node, ["step"], whole_numbers(context, node.needed(1)), least=1)
        found["step"] = step
    if length is None:
        length = found["length"] = _bind_length(context, node, node.needed(3), minimum(total, LONGEST - 1))
    else:
        _need_length(context, node, length)
        context.need(node, (at_most(length, total), 1))
    context.need(node, (less(0, step), 1))
    bind_sizes(context, node, {1: floordiv(total - length, step) + 1, 2: _bins(length, bool(node.op.onesided))})
    return found


@anchor("STFT", refuse=_refuse_frames, reads=_frame_reads)
def framed_transform(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Transform each frame where it lies in the signal, times the window."""
    signal, window, step, length = node.input, node.optional(2), known_scalar(node.inputs[1]), _frame_length(node)
    if step is None or length is None:
        late = _late_frames(context, node)
        step, length = late.get("step", step), late.get("length", length)
    assert step is not None
    assert length is not None
    (batch, total, parts), (_, frames, bins, _) = signal_sizes(signal.shape), node.output.shape
    assert isinstance(parts, int)
    size: Dim = length if window is None else window.shape[0]
    mismatch = disagreement([(length, size)], [(length, total), (1, length), (1, step)])
    lines = _Lines(
        length, length, batch, frames, (total * parts, step * parts, parts), (frames * bins * 2, bins * 2, 2), bins,
        parts, False, bool(node.op.onesided), mismatch,
    )  # fmt: skip
    _transform(context, node, lines, context.contiguous(signal), None if window is None else context.contiguous(window))


def _transform(context: Context, node: Node, lines: _Lines, data: View, window: View | None) -> None:
    dtype = node.input.dtype
    kind = FLOAT32 if lines.is_direct and dtype != FLOAT64 else FLOAT64  # single precision is enough for small factors
    parameters = [_table(context, node, lines.length, kind), reads("data", data)]
    parameters += [] if window is None else [reads("window", window)]
    parameters.append(writes("out", context.allocate(node.output)))
    names = ("outer_step", "inner_step", "axis_step", "out_outer", "out_inner", "out_step")
    pair = 2 if lines.is_paired else 1
    rows, numbers = pieces(lines.outer * lines.inner, pair), space(lines.length)
    batch = select(less(rows, LINES), maximum(rows, 1), select(at_most(numbers, 8192), LINES, 1))
    tasks = pieces(rows, batch)
    sizes: list[tuple[str, Size]] = [
        ("length", lines.length), ("extent", lines.extent), ("outer", lines.outer), ("inner", lines.inner),
        *zip(names, (*lines.steps, *lines.out_steps), strict=True), ("bins", lines.bins), ("mismatch", lines.mismatch),
        ("rows", rows), ("space", numbers), ("batch", batch), ("tasks", tasks),
    ]  # fmt: skip
    cost = 1 + batch * numbers * 12
    instance = kernel("fourier", _values(lines, dtype, kind), HAS_WINDOW=window is not None)
    routine = Routine("fourier", instance, parameters, sizes, at_least_one(tasks), cost, checks=True)
    routine.scratch = batch * numbers * (4 * kind.itemsize) + 64
    context.emit(routine.call(node))


def _table(context: Context, node: Node, length: Dim, kind: DType) -> Parameter:
    """The tables for a length: a constant, or computed at the beginning of the run."""
    if isinstance(length, int):
        array = tables(length, kind.numpy)
        return reads("table", whole(context.constant(array), array.shape))
    size = length * 18 + 2
    view = whole(context.temporary(kind, size, "table"), (size,))
    instance = kernel("fourier_roots") if kind == FLOAT32 else kernel("fourier_tables", LARGEST=LARGEST_FACTOR)
    routine = Routine("fourier_tables", instance, [writes("table", view)], [("length", length)], 1, 0)
    routine.cost = 1 + length * 100
    routine.scratch = maximum(length, 0) * 64 + 64
    context.emit(routine.call(node))
    return reads("table", view)


def _values(lines: _Lines, dtype: DType, kind: DType) -> dict[str, Setting]:
    """How lines are read, transformed and written, as parameters of the kernel."""
    return {
        "REAL": memory_type(kind),
        "LARGEST": LARGEST_FACTOR,
        "ELEMENT": memory_type(dtype),
        "READ": reader(dtype),
        "WRITE": writer(dtype),
        "IS_COMPLEX": lines.parts == 2,
        "IS_INVERSE": lines.is_inverse,
        "IS_HALF": lines.is_half,
    }
