"""Fourier transforms: DFT and STFT of any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import Template

from intaglio.ir.dim import Dim, at_most, less, maximum, pieces, product, select, symbol
from intaglio.ir.dtype import FLOAT32, FLOAT64, DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
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
from intaglio.targets.c.rules.runtime_sizes import bind_numbers
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


def _late_length(context: Context, node: Node, axis: int) -> Dim:
    """The length of the transform where the run tells it."""
    given = node.optional(1)
    assert given is not None
    bins = "length / 2 + 1" if node.op.onesided and not node.op.inverse else "length"
    test = f"length < 1 || length >= {LONGEST}"
    return bind_numbers(context, node, {"length": given}, [], {axis: bins}, test)["length"]


@anchor("DFT", refuse=_refuse_dft, reads=lambda node: [node.input, *_late_values(node, [1, 2])])
def discrete_transform(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Transform each line along the axis."""
    data, axis, length = node.input, _dft_axis(node), _dft_length(node)
    if axis is None:
        _transform(context, node, _late_lines(context, node), context.contiguous(data), None)
        return
    if length is None:
        length = _late_length(context, node, axis)
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
    operands = [("axis", memory_type(axis.dtype), context.contiguous(axis))]
    sizes: list[tuple[str, Size]] = [(f"given{place}", extent) for place, extent in enumerate(data.shape[:-1])]
    wanted = "2 * (extent - 1)" if is_inverse and is_half else "extent"
    if length is not None:
        wanted, sizes = "wanted", [*sizes, ("wanted", length)]
    elif given is not None:
        wanted = "(int64_t)dft_length[0]"
        operands.append(("dft_length", memory_type(given.dtype), context.contiguous(given)))
    unbound = context.unbound(output)
    body = Template(_LATE_LINES).substitute(
        rank=data.rank,
        given=", ".join(f"given{place}" for place in range(data.rank - 1)),
        length=wanted,
        longest=LONGEST,
        bins="length / 2 + 1" if is_half and not is_inverse else "length",
    )
    lines = [f"value[{5 + i}] = {place} == at ? bins : given[{place}];" for i, (place, _) in enumerate(unbound)]
    names = [f"{output.name}:{name}" for name in ("outer", "extent", "inner", "length", "bins")]
    context.bind(node, [*names, *(name for _, name in unbound)], "\n".join([body, *lines]), operands, sizes)
    outer, extent, inner, found, bins = (symbol(name) for name in names)
    length = length if isinstance(length, int) else found
    steps = extent * inner * parts, parts, inner * parts
    out_steps = bins * inner * out_parts, out_parts, inner * out_parts
    lines = _Lines(length, extent, outer, inner, steps, out_steps, bins, parts, is_inverse, is_half)
    return lines if given is not None else replace(lines, lengths=tuple(map(node.op.length_of, data.shape[:-1])))


_LATE_LINES = """\
const int64_t given[] = {$given}, at = (int64_t)axis[0] < 0 ? (int64_t)axis[0] + $rank : (int64_t)axis[0];
fault = at < 0 || at >= $rank - 1;
int64_t around[3] = {1, 1, 1};
for (int64_t i = 0; i < $rank - 1; i++)
    around[i < at ? 0 : i == at ? 1 : 2] *= given[i];
const int64_t extent = around[1], length = $length, bins = $bins;
fault |= length < 1 || length >= $longest;
value[0] = around[0];
value[1] = extent;
value[2] = around[2];
value[3] = length;
value[4] = bins;"""


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
    named = {name: value for name, place in (("step", 1), ("length", 3)) for value in _late_values(node, [place])}
    sizes: list[tuple[str, Size]] = [("total", node.input.shape[1])]
    sizes += [(name, number) for name, number in (("step", step), ("length", length)) if number is not None]
    test = f"step < 1 || length < 1 || length > total || length >= {LONGEST}"
    formulas = {1: "(total - length) / step + 1", 2: "length / 2 + 1" if node.op.onesided else "length"}
    return bind_numbers(context, node, named, sizes, formulas, test)


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
