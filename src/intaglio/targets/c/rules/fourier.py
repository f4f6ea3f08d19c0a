"""Fourier transforms: DFT and STFT of any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import Template
from typing import Any

import numpy as np

from intaglio.ir.dim import Dim, at_most, less, maximum, pieces, product, select, symbol
from intaglio.ir.dtype import FLOAT32, FLOAT64, DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.ops.indices import resolve_axis
from intaglio.ops.signal import known_scalar, signal_sizes
from intaglio.targets.c.printing.register import MEMORY
from intaglio.targets.c.routine import Parameter, Routine, at_least_one, disagreement, memory_type, reads, writes
from intaglio.targets.c.rules.late import bind_numbers
from intaglio.targets.c.rules.table import anchor, late_sizes

Array = np.ndarray[Any, Any]

LARGEST_FACTOR = 60
"""A length with a greater prime factor is transformed by Bluestein's method, as a convolution of a smooth length."""

LONGEST = 1 << 28
"""Transforms are shorter than this."""

LINES = 8
"""Lines that are transformed side by side, where a line is short enough for the cache."""


def largest_factor(length: int) -> int:
    """The largest prime factor of a number, or 1.

    >>> [largest_factor(n) for n in (1, 8, 15, 97, 400)]
    [1, 2, 5, 97, 5]
    """
    found, factor = 1, 2
    while factor * factor <= length:
        while length % factor == 0:
            length, found = length // factor, factor
        factor += 1
    return max(found, length)


def smooth_length(length: int) -> int:
    """The power of two for the convolution of Bluestein's method."""
    return 1 << (2 * length - 1 - 1).bit_length() if length > 1 else 1


def tables(length: int, dtype: Any) -> Array:
    """What the routine reads for a length: roots of unity, and for Bluestein's method chirp and filter behind them."""
    if largest_factor(length) <= LARGEST_FACTOR:
        return _parts(_roots(length)).astype(dtype)
    smooth, places = smooth_length(length), np.arange(length)
    chirp = np.exp(-1j * np.pi * (places * places % (2 * length)) / length)
    taps = np.zeros(smooth, np.complex128)
    taps[:length] = chirp.conj()
    taps[smooth - length + 1 :] = chirp[1:][::-1].conj()
    joined = [_parts(_roots(smooth)), _parts(chirp), _parts(np.fft.fft(taps) / smooth)]
    return np.concatenate(joined).astype(dtype)


def _roots(length: int) -> Array:
    return np.exp(-2j * np.pi * np.arange(length) / length)


def _parts(numbers: Array) -> Array:
    return np.concatenate([numbers.real, numbers.imag])


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
    names = [f"{output.name}.{name}" for name in ("outer", "extent", "inner", "length", "bins")]
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
    rows, space = pieces(lines.outer * lines.inner, pair), _space(lines.length)
    batch = select(less(rows, LINES), maximum(rows, 1), select(at_most(space, 8192), LINES, 1))
    tasks = pieces(rows, batch)
    sizes: list[tuple[str, Size]] = [
        ("length", lines.length), ("extent", lines.extent), ("outer", lines.outer), ("inner", lines.inner),
        *zip(names, (*lines.steps, *lines.out_steps), strict=True), ("bins", lines.bins), ("mismatch", lines.mismatch),
        ("rows", rows), ("space", space), ("batch", batch), ("tasks", tasks),
    ]  # fmt: skip
    cost = 1 + batch * space * 12
    helpers = _HELPERS + _HELPERS_ELEMENTS
    routine = Routine("fourier", _BODY, parameters, sizes, at_least_one(tasks), cost, checks=True, helpers=helpers)
    routine.scratch = batch * space * (4 * kind.itemsize) + 64
    routine.marks = _marks(lines, dtype, kind, window)
    context.emit(routine.call(node))


def _space(length: Dim) -> Dim:
    """How many numbers a line takes while it is transformed."""
    if not isinstance(length, int):
        return select(less(0, length), 4 * length, 1)
    return length if largest_factor(length) <= LARGEST_FACTOR else smooth_length(length)


def _table(context: Context, node: Node, length: Dim, kind: DType) -> Parameter:
    """The tables for a length: a constant, or computed at the beginning of the run."""
    if isinstance(length, int):
        array = tables(length, kind.numpy)
        return reads("table", whole(context.constant(array), array.shape))
    size = length * 18 + 2
    view = whole(context.temporary(kind, size, "table"), (size,))
    body, helpers = (_ROOTS, "") if kind == FLOAT32 else (_TABLES, _HELPERS)
    routine = Routine("fourier_tables", body, [writes("table", view)], [("length", length)], 1, 0, helpers=helpers)
    routine.cost = 1 + length * 100
    routine.scratch = maximum(length, 0) * 64 + 64
    routine.marks = {"real": "double", "largest": str(LARGEST_FACTOR), "pi": repr(np.pi)}
    context.emit(routine.call(node))
    return reads("table", view)


def _marks(lines: _Lines, dtype: DType, kind: DType, window: View | None) -> dict[str, str]:
    suffix = MEMORY[dtype.name][1]
    if lines.is_inverse and lines.is_half:
        load, store = _LOAD_HALF, _STORE_REAL
    elif lines.is_paired:
        load, store = _LOAD_REAL, _STORE_PAIR
    else:
        load, store = _LOAD_COMPLEX, _STORE_COMPLEX
    real = memory_type(kind)
    is_plain = dtype.name in ("float32", "float64")
    written = "ig_set_f32((float)({0}))" if real == "float" else "ig_odd_f32(ig_set_f64({0}))"
    marks = {
        "real": real,
        "largest": str(LARGEST_FACTOR),
        "element": memory_type(dtype),
        "get": "return *p" if is_plain else f"return ig_load_n_{suffix}(p, 1)[0]",
        "put": f"*p = ({memory_type(dtype)})x" if is_plain else f"ig_store_n_{suffix}(p, {written.format('x')}, 1)",
        "window": "" if window is None else "* IG_FUNCTION_get(window + k)",
        "scale": f"1 / ({real})length" if lines.is_inverse else "1",
        "re": "im" if lines.is_inverse else "re",
        "im": "re" if lines.is_inverse else "im",
    }
    return marks | {"load": Template(load).substitute(marks), "store": Template(store).substitute(marks)}


_HELPERS = """
static inline int64_t IG_FUNCTION_factor(int64_t n)
{
    for (int64_t f = n % 4 == 0 ? 4 : 2; f * f <= n; f++)
        if (n % f == 0)
            return f;
    return n;
}
static inline int64_t IG_FUNCTION_largest(int64_t n)
{
    int64_t found = 1;
    for (int64_t f = 2; f * f <= n; f++)
        for (; n % f == 0; n /= f)
            found = f;
    return found > n ? found : n;
}
static inline int64_t IG_FUNCTION_smooth(int64_t n)
{
    int64_t m = 1;
    while (m < 2 * n - 1)
        m *= 2;
    return m;
}
/* One pass of a transform: y[q, r p + j] = w^(l p j) sum_k x[q, p + m k] w_r^(j k), for all q below s. */
static inline void IG_FUNCTION_pass4(const $real *restrict xr, const $real *restrict xi, $real *restrict yr,
                                     $real *restrict yi, int64_t m, int64_t s, int64_t l, const $real *wr,
                                     const $real *wi)
{
    for (int64_t p = 0; p < m; p++) {
        const $real c1 = wr[l * p], c2 = wr[2 * l * p], c3 = wr[3 * l * p];
        const $real d1 = wi[l * p], d2 = wi[2 * l * p], d3 = wi[3 * l * p];
        const $real *const ar = xr + s * p, *const ai = xi + s * p;
        $real *const tr = yr + 4 * s * p, *const ti = yi + 4 * s * p;
        const int64_t b = s * m, c = 2 * s * m, d = 3 * s * m;
        for (int64_t q = 0; q < s; q++) {
            const $real even_r = ar[q] + ar[q + c], even_i = ai[q] + ai[q + c];
            const $real less_r = ar[q] - ar[q + c], less_i = ai[q] - ai[q + c];
            const $real odd_r = ar[q + b] + ar[q + d], odd_i = ai[q + b] + ai[q + d];
            const $real turn_r = ai[q + b] - ai[q + d], turn_i = ar[q + d] - ar[q + b];
            const $real f_r = less_r + turn_r, f_i = less_i + turn_i, h_r = less_r - turn_r, h_i = less_i - turn_i;
            const $real g_r = even_r - odd_r, g_i = even_i - odd_i;
            tr[q] = even_r + odd_r;
            ti[q] = even_i + odd_i;
            tr[q + s] = f_r * c1 - f_i * d1;
            ti[q + s] = f_r * d1 + f_i * c1;
            tr[q + 2 * s] = g_r * c2 - g_i * d2;
            ti[q + 2 * s] = g_r * d2 + g_i * c2;
            tr[q + 3 * s] = h_r * c3 - h_i * d3;
            ti[q + 3 * s] = h_r * d3 + h_i * c3;
        }
    }
}
static inline void IG_FUNCTION_pass2(const $real *restrict xr, const $real *restrict xi, $real *restrict yr,
                                     $real *restrict yi, int64_t m, int64_t s, int64_t l, const $real *wr,
                                     const $real *wi)
{
    for (int64_t p = 0; p < m; p++) {
        const $real c = wr[l * p], d = wi[l * p];
        for (int64_t q = s * p; q < s * p + s; q++) {
            const $real less_r = xr[q] - xr[q + s * m], less_i = xi[q] - xi[q + s * m];
            yr[q + s * p] = xr[q] + xr[q + s * m];
            yi[q + s * p] = xi[q] + xi[q + s * m];
            yr[q + s * p + s] = less_r * c - less_i * d;
            yi[q + s * p + s] = less_r * d + less_i * c;
        }
    }
}
static inline void IG_FUNCTION_pass(const $real *restrict xr, const $real *restrict xi, $real *restrict yr,
                                    $real *restrict yi, int64_t r, int64_t m, int64_t s, int64_t l, int64_t n,
                                    const $real *wr, const $real *wi)
{
    for (int64_t p = 0; p < m; p++) {
        for (int64_t j = 0; j < r; j++) {
            $real *const tr = yr + s * (r * p + j), *const ti = yi + s * (r * p + j);
            for (int64_t k = 0; k < r; k++) {
                const int64_t place = (n / r * (j * k % r) + l * p * j) % n;
                const $real c = wr[place], d = wi[place];
                const $real *const ar = xr + s * (p + m * k), *const ai = xi + s * (p + m * k);
                if (k == 0) {
                    for (int64_t q = 0; q < s; q++) {
                        tr[q] = ar[q] * c - ai[q] * d;
                        ti[q] = ar[q] * d + ai[q] * c;
                    }
                } else {
                    for (int64_t q = 0; q < s; q++) {
                        tr[q] += ar[q] * c - ai[q] * d;
                        ti[q] += ar[q] * d + ai[q] * c;
                    }
                }
            }
        }
    }
}
/* Transforms `batch` lines of n numbers side by side; line is the other of the two pairs of buffers on each pass.
   Leaves the result in *re and *im, which may change places with the others. */
static void IG_FUNCTION_fft($real **re, $real **im, $real **other_re, $real **other_im, int64_t n, int64_t batch,
                            const $real *wr, const $real *wi)
{
    for (int64_t l = 1; l < n;) {
        const int64_t r = IG_FUNCTION_factor(n / l), m = n / l / r, s = batch * l;
        if (r == 4)
            IG_FUNCTION_pass4(*re, *im, *other_re, *other_im, m, s, l, wr, wi);
        else if (r == 2)
            IG_FUNCTION_pass2(*re, *im, *other_re, *other_im, m, s, l, wr, wi);
        else
            IG_FUNCTION_pass(*re, *im, *other_re, *other_im, r, m, s, l, n, wr, wi);
        $real *const was_re = *re, *const was_im = *im;
        *re = *other_re;
        *im = *other_im;
        *other_re = was_re;
        *other_im = was_im;
        l *= r;
    }
}
"""

_ROOTS = """
    for (int64_t k = 0; k < length; k++) {
        table[k] = (float)__builtin_cos(2 * $pi * (double)k / (double)length);
        table[length + k] = (float)-__builtin_sin(2 * $pi * (double)k / (double)length);
    }
"""

_TABLES = """
    if (length < 1)
        return;
    const int is_direct = IG_FUNCTION_largest(length) <= $largest;
    const int64_t n = is_direct ? length : IG_FUNCTION_smooth(length);
    for (int64_t k = 0; k < n; k++) {
        table[k] = __builtin_cos(2 * $pi * (double)k / (double)n);
        table[n + k] = -__builtin_sin(2 * $pi * (double)k / (double)n);
    }
    if (is_direct)
        return;
    double *const chirp = table + 2 * n, *const taps = chirp + 2 * length;
    double *re = scratch, *im = re + n, *other_re = taps, *other_im = taps + n;
    for (int64_t k = 0; k < n; k++)
        re[k] = im[k] = 0;
    for (int64_t k = 0; k < length; k++) {
        const double angle = $pi * (double)(k * k % (2 * length)) / (double)length;
        chirp[k] = __builtin_cos(angle);
        chirp[length + k] = -__builtin_sin(angle);
        re[k] = re[(n - k) % n] = chirp[k] / (double)n;
        im[k] = im[(n - k) % n] = -chirp[length + k] / (double)n;
    }
    IG_FUNCTION_fft(&re, &im, &other_re, &other_im, n, 1, table, table + n);
    if (re != taps) {
        __builtin_memcpy(taps, re, (unsigned long)n * sizeof *taps);
        __builtin_memcpy(taps + n, im, (unsigned long)n * sizeof *taps);
    }
"""

_BODY = """
    if (mismatch || length < 1) {
        *fault = 1;
        return;
    }
    const int is_direct = IG_FUNCTION_largest(length) <= $largest;
    const int64_t n = is_direct ? length : IG_FUNCTION_smooth(length), lines = outer * inner;
    const $real *const chirp = table + 2 * n, *const taps = chirp + 2 * length;
    for (int64_t task = begin; task < end && task * batch < rows; task++) {
        const int64_t first = task * batch, count = rows - first < batch ? rows - first : batch;
        $real *re = scratch, *im = re + n * count, *other_re = im + n * count, *other_im = other_re + n * count;
        for (int64_t b = 0; b < count; b++) {
$load
        }
        if (is_direct) {
            IG_FUNCTION_fft(&re, &im, &other_re, &other_im, n, count, table, table + n);
        } else {
            for (int64_t k = 0; k < n; k++) {
                for (int64_t q = k * count; q < k * count + count; q++) {
                    const $real x = k < length ? re[q] : 0, y = k < length ? im[q] : 0;
                    const $real c = k < length ? chirp[k] : 0, d = k < length ? chirp[length + k] : 0;
                    re[q] = x * c - y * d;
                    im[q] = x * d + y * c;
                }
            }
            IG_FUNCTION_fft(&re, &im, &other_re, &other_im, n, count, table, table + n);
            for (int64_t k = 0; k < n; k++) {
                for (int64_t q = k * count; q < k * count + count; q++) {
                    const $real x = re[q] * taps[k] - im[q] * taps[n + k], y = re[q] * taps[n + k] + im[q] * taps[k];
                    re[q] = y; /* real and imaginary parts change places: the transform back is the one forth */
                    im[q] = x;
                }
            }
            IG_FUNCTION_fft(&re, &im, &other_re, &other_im, n, count, table, table + n);
            for (int64_t k = 0; k < length; k++) {
                for (int64_t q = k * count; q < k * count + count; q++) {
                    const $real x = im[q], y = re[q];
                    re[q] = x * chirp[k] - y * chirp[length + k];
                    im[q] = x * chirp[length + k] + y * chirp[k];
                }
            }
        }
        const $real scale = $scale;
        for (int64_t b = 0; b < count; b++) {
$store
        }
    }
"""

_HELPERS_ELEMENTS = """
IG_INLINE $real IG_FUNCTION_get(const $element *p)
{
    $get;
}
IG_INLINE void IG_FUNCTION_put($element *p, $real x)
{
    $put;
}
/* Where a line begins. */
IG_INLINE int64_t IG_FUNCTION_start(int64_t line, int64_t inner, int64_t outer_step, int64_t inner_step)
{
    return line / inner * outer_step + line % inner * inner_step;
}
"""

_START = "IG_FUNCTION_start({0}, inner, outer_step, inner_step)"
_OUT_START = "IG_FUNCTION_start({0}, inner, out_outer, out_inner)"

_LOAD_COMPLEX = f"""
            const $element *const x = data + {_START.format("first + b")};
            for (int64_t k = 0; k < length; k++) {{
                const int is_there = k < extent;
                ${{re}}[k * count + b] = is_there ? IG_FUNCTION_get(x + k * axis_step) ${{window}} : 0;
                ${{im}}[k * count + b] = is_there ? IG_FUNCTION_get(x + k * axis_step + 1) ${{window}} : 0;
            }}
"""

_LOAD_REAL = f"""
            const int64_t line = 2 * (first + b), next = line + 1 < lines ? line + 1 : line;
            const $element *const x = data + {_START.format("line")};
            const $element *const y = data + {_START.format("next")};
            for (int64_t k = 0; k < length; k++) {{
                const int is_there = k < extent;
                ${{re}}[k * count + b] = is_there ? IG_FUNCTION_get(x + k * axis_step) ${{window}} : 0;
                ${{im}}[k * count + b] = is_there ? IG_FUNCTION_get(y + k * axis_step) ${{window}} : 0;
            }}
"""

_LOAD_HALF = f"""
            const int64_t line = 2 * (first + b), next = line + 1 < lines ? line + 1 : line;
            const $element *const x = data + {_START.format("line")};
            const $element *const y = data + {_START.format("next")};
            for (int64_t k = 0; 2 * k <= length; k++) {{
                const int is_there = k < extent, is_real = k == 0 || 2 * k == length;
                const $real xr = is_there ? IG_FUNCTION_get(x + k * axis_step) : 0;
                const $real yr = is_there ? IG_FUNCTION_get(y + k * axis_step) : 0;
                const $real xi = is_there && !is_real ? IG_FUNCTION_get(x + k * axis_step + 1) : 0;
                const $real yi = is_there && !is_real ? IG_FUNCTION_get(y + k * axis_step + 1) : 0;
                const int64_t mirror = (length - k) % length;
                ${{re}}[mirror * count + b] = xr + yi;
                ${{im}}[mirror * count + b] = yr - xi;
                ${{re}}[k * count + b] = xr - yi;
                ${{im}}[k * count + b] = yr + xi;
            }}
"""

_STORE_COMPLEX = f"""
            $element *const z = out + {_OUT_START.format("first + b")};
            for (int64_t k = 0; k < bins; k++) {{
                IG_FUNCTION_put(z + k * out_step, ${{re}}[k * count + b] * scale);
                IG_FUNCTION_put(z + k * out_step + 1, ${{im}}[k * count + b] * scale);
            }}
"""

_STORE_REAL = f"""
            const int64_t line = 2 * (first + b);
            $element *const z = out + {_OUT_START.format("line")};
            $element *const w = out + {_OUT_START.format("line + 1")};
            for (int64_t k = 0; k < bins; k++) {{
                IG_FUNCTION_put(z + k * out_step, ${{re}}[k * count + b] * scale);
                if (line + 1 < lines)
                    IG_FUNCTION_put(w + k * out_step, ${{im}}[k * count + b] * scale);
            }}
"""

_STORE_PAIR = f"""
            const int64_t line = 2 * (first + b);
            $element *const z = out + {_OUT_START.format("line")};
            $element *const w = out + {_OUT_START.format("line + 1")};
            for (int64_t k = 0; k < bins; k++) {{
                const int64_t q = k * count + b, mirror = (length - k) % length * count + b;
                const $real xr = ${{re}}[q], xi = ${{im}}[q], yr = ${{re}}[mirror], yi = ${{im}}[mirror];
                const $real half = scale / 2;
                IG_FUNCTION_put(z + k * out_step, (xr + yr) * half);
                IG_FUNCTION_put(z + k * out_step + 1, (xi - yi) * half);
                if (line + 1 < lines) {{
                    IG_FUNCTION_put(w + k * out_step, (xi + yi) * half);
                    IG_FUNCTION_put(w + k * out_step + 1, (yr - xr) * half);
                }}
            }}
"""
