"""Col2Im: each row of the image sums the blocks that cover it, in the order of the places within a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.errors import ShapeError
from intaglio.ir.dim import product, symbol
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.ops.indices import known, known_length
from intaglio.ops.window import Window, resolve_windows
from intaglio.targets.c.routine import (
    ROWS,
    Routine,
    at_least_one,
    disagreement,
    memory_type,
    part_type,
    reads,
    row_blocks,
    writes,
)
from intaglio.targets.c.rules.places import inputs_of
from intaglio.targets.c.rules.table import anchor, late_sizes
from intaglio.targets.c.rules.widen import computed, give_narrow, side_by_side, wide_result


def _windows(node: Node) -> tuple[Window, ...] | None:
    """The blocks along each axis of the image, with symbols for what the run tells; None where they do not fit."""
    op: Any = node.op
    _, image_shape, block_shape = inputs_of(node)
    count = known_length(image_shape)
    if not count or count != known_length(block_shape) or node.output.rank != count + 2:
        return None
    image, block = known(image_shape), known(block_shape)
    image = list(node.output.shape[2:]) if image is None else image
    block = [symbol(name) for name in _block_names(node, count)] if block is None else block
    try:
        return resolve_windows(image, block, op.strides, op.dilations, op.pads)
    except ShapeError:
        return None


def _block_names(node: Node, count: int) -> list[str]:
    return [f"{node.output.name}.block{axis}" for axis in range(count)]


def _is_late(node: Node) -> bool:
    return any(known(value) is None for value in inputs_of(node)[1:])


def _refuse(node: Node) -> Refusal | None:
    return (
        Refusal(Cause.FORM, "how many axes its blocks have is not known, or they do not fit")
        if _windows(node) is None
        else None
    )


def _reads(node: Node) -> list[Value]:
    return inputs_of(node)[: 3 if _is_late(node) else 1]


@late_sizes("Col2Im", refuse=_refuse, reads=_reads)
def col2im_sizes(context: Context, node: Node) -> None:
    """Nothing: the rule itself binds them together with the sizes of blocks."""


def _bind_blocks(context: Context, node: Node, windows: Sequence[Window]) -> None:
    """Bind the sizes of blocks and of the output."""
    (columns, image, block), unbound = inputs_of(node), context.unbound(node.output)
    names = _block_names(node, len(windows)) if known(block) is None else []
    lines = [_SHAPE.replace("$rank", str(len(windows)))]
    for i, window in enumerate(windows):
        lines.append(f"fault |= image[{i}] > far || block[{i}] > far || image[{i}] < 0;")
        room = f"(int64_t)image[{i}] + pads{i} - ((int64_t)block[{i}] - 1) * {window.dilation} - 1"
        lines.append(f"fault |= !fault && {room} + {window.stride} < 0;")
    lines += [f"value[{i}] = (int64_t)block[{i}];" for i in range(len(names))]
    lines += [f"value[{len(names) + place}] = shape[{axis}];" for place, (axis, _) in enumerate(unbound)]
    operands = [
        (name, memory_type(value.dtype), context.contiguous(value))
        for name, value in (("image", image), ("block", block))
    ]
    sizes: list[tuple[str, Size]] = [("batch", columns.shape[0]), ("channels", columns.shape[1])]
    sizes += [(f"pads{i}", window.begin + window.end) for i, window in enumerate(windows)]
    context.bind(node, [*names, *(name for _, name in unbound)], "\n".join(lines), operands, sizes)


_SHAPE = """\
const int64_t far = __INT64_MAX__ / 8;
int64_t taps = 1, shape[$rank + 2] = {batch};
for (int64_t i = 0; i < $rank; i++) {
    fault |= block[i] < 1 || __builtin_mul_overflow(taps, (int64_t)block[i], &taps);
    shape[2 + i] = (int64_t)image[i];
}
shape[1] = fault ? 0 : channels / taps;"""


@anchor("Col2Im", refuse=_refuse, reads=_reads)
def col2im(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A row is one along the last axis of the image; what adds to it is found by the places within a block."""
    columns, windows = inputs_of(node)[0], _windows(node)
    assert windows is not None
    if _is_late(node):
        _bind_blocks(context, node, windows)
    dtype, output = computed(columns.dtype), node.output
    source, result = side_by_side(context, columns), wide_result(context, output)
    taps = product(window.kernel for window in windows)
    rows, width = product(output.shape[:-1]), windows[-1].input
    blocks, tasks, cost = row_blocks(rows, width * (4 * dtype.itemsize), 8 + width * taps)
    expected = [
        (columns.shape[1], output.shape[1] * taps), (columns.shape[2], product(window.output for window in windows)),
    ]  # fmt: skip
    sizes: list[tuple[str, Size]] = [("mismatch", disagreement(expected)), ("taps", taps)]
    sizes += [("rows", rows), *window_sizes(windows), *blocks, ("tasks", tasks)]
    routine = Routine(
        "col2im",
        _body(windows),
        [reads("column", source, _element(dtype)), writes("out", result, _element(dtype))],
        sizes,
        at_least_one(tasks),
        cost,
        checks=True,
        marks=_marks(dtype, len(windows)),
    )
    context.emit(routine.call(node, columns))
    give_narrow(context, output, result)


def _marks(dtype: DType, axes: int) -> dict[str, str]:
    volume = " * ".join(f"out{axis}" for axis in range(axes))
    return {"element": _element(dtype), "sum": _sum(dtype), "volume": volume}


def _element(dtype: DType) -> str:
    """The C type that elements are summed in."""
    return f"{memory_type(part_type(dtype))} _Complex" if dtype.kind == "complex" else memory_type(dtype)


def _sum(dtype: DType) -> str:
    if dtype.kind == "bool":
        return "a | b"
    return "a + b" if dtype.is_float or dtype.kind == "complex" else "(uint64_t)a + (uint64_t)b"


def window_sizes(windows: Sequence[Window]) -> list[tuple[str, Size]]:
    """The sizes of windows along each axis, by names that end with its number."""
    sizes: list[tuple[str, Size]] = []
    for axis, w in enumerate(windows):
        sizes += [(f"in{axis}", w.input), (f"out{axis}", w.output), (f"kernel{axis}", w.kernel)]
        sizes += [(f"stride{axis}", w.stride), (f"dilation{axis}", w.dilation), (f"pad{axis}", w.begin)]
    return sizes


def _body(windows: Sequence[Window]) -> str:
    """C with a loop over the places within a block for each axis; all but the last find at most one block."""
    last = len(windows) - 1
    decode = [f"        const int64_t y{axis} = rest % in{axis};\n        rest /= in{axis};" for axis in range(last)]
    loops = [_AXIS.format(axis=axis, tap=_joined("tap", "k", axis, "kernel"), block=_joined("block", "o", axis, "out"))
             for axis in range(last)]  # fmt: skip
    tap, block = _joined("tap", "k", last, "kernel"), f"block{last - 1} * out{last}" if last else "0"
    inner = _INNER.format(last=last, tap=tap, block=block)
    return _BODY.format(
        rows=ROWS, last=last, decode="\n".join(reversed(decode)), loops="\n".join([*loops, inner]), close="}" * last
    )


def _joined(name: str, place: str, axis: int, extent: str) -> str:
    """C of a place along all axes up to one, counted in row-major order."""
    return f"{name}{axis - 1} * {extent}{axis} + {place}{axis}" if axis else f"{place}0"


_AXIS = """\
        for (int64_t k{axis} = 0; k{axis} < kernel{axis}; k{axis}++) {{
            const int64_t from{axis} = y{axis} + pad{axis} - k{axis} * dilation{axis};
            const int64_t o{axis} = from{axis} / stride{axis};
            if (from{axis} < 0 || from{axis} % stride{axis} != 0 || o{axis} >= out{axis})
                continue;
            const int64_t tap{axis} = {tap}, block{axis} = {block};"""

_INNER = """\
        for (int64_t k{last} = 0; k{last} < kernel{last}; k{last}++) {{
            const int64_t tap{last} = {tap}, shift = k{last} * dilation{last} - pad{last};
            const int64_t room = in{last} - shift, least = shift < 0 ? (stride{last} - 1 - shift) / stride{last} : 0;
            const int64_t most = room > 0 ? (room + stride{last} - 1) / stride{last} : 0;
            const $element *from = column + (plane * taps + tap{last}) * volume + {block};
            for (int64_t o = least; o < (most < out{last} ? most : out{last}); o++) {{
                const $element a = to[o * stride{last} + shift], b = from[o];
                to[o * stride{last} + shift] = ($element)($sum);
            }}
        }}"""

_BODY = """
    if (mismatch) {{
        *fault = 1;
        return;
    }}
    for ({rows}) {{
        int64_t rest = row;
{decode}
        const int64_t plane = rest, volume = $volume;
        $element *const to = out + row * in{last};
        for (int64_t j = 0; j < in{last}; j++)
            to[j] = 0;
{loops}
        {close}
    }}
"""
