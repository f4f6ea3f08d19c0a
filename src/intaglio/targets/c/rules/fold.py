"""Col2Im: each row of the image sums the blocks that cover it, in the order of the places within a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.errors import ShapeError
from intaglio.ir.dim import floordiv, less, product, symbol
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.found_sizes import bind_named, bind_sizes, whole_numbers
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.ops.shared.indices import known, known_length
from intaglio.ops.shared.window import Window, resolve_windows
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import (
    Routine,
    at_least_one,
    disagreement,
    memory_type,
    numbered,
    part_type,
    reads,
    row_blocks,
    writes,
)
from intaglio.targets.c.rules.places import inputs_of
from intaglio.targets.c.rules.table import anchor, late_sizes
from intaglio.targets.c.rules.widen import computed, give_narrow, side_by_side, wide_result

_FAR = 1 << 60
"""More than any size."""


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
    return [f"{node.output.name}:block{axis}" for axis in range(count)]


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
    columns, image, block = inputs_of(node)
    count = len(windows)
    extents = known(image) or bind_named(
        context, node, [f"image{axis}" for axis in range(count)], whole_numbers(context, image), limit=_FAR
    )
    if known(block) is None:
        context.bind(node, _block_names(node, count), whole_numbers(context, block), least=1, limit=_FAR)
    for extent, window in zip(extents, windows, strict=True):
        room = extent + window.begin + window.end - (window.kernel - 1) * window.dilation - 1
        context.need(node, (less(room + window.stride, 0), 0))
    channels = floordiv(columns.shape[1], product(window.kernel for window in windows))
    bind_sizes(context, node, dict(enumerate((columns.shape[0], channels, *extents))))


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
    sizes: list[tuple[str, Size]] = [("mismatch", disagreement(expected)), ("rows", rows), ("taps", taps)]
    sizes += [("volume", product(window.output for window in windows)), *_window_sizes(windows), *blocks]
    element, is_number = _element(dtype), dtype.is_float or dtype.kind == "complex"
    is_bool = dtype.kind == "bool"
    instance = kernel(
        "col2im", AXES=len(windows), ELEMENT=element, IS_BOOL=is_bool, IS_INTEGER=not is_number and not is_bool
    )
    parameters = [reads("column", source, element), writes("out", result, element)]
    routine = Routine("col2im", instance, parameters, sizes, at_least_one(tasks), cost, checks=True)
    context.emit(routine.call(node, columns))
    give_narrow(context, output, result)


def _element(dtype: DType) -> str:
    """The C type that elements are summed in."""
    return f"{memory_type(part_type(dtype))} _Complex" if dtype.kind == "complex" else memory_type(dtype)


def _window_sizes(windows: Sequence[Window]) -> list[tuple[str, Size]]:
    """The sizes of blocks along each axis."""
    return [
        *numbered("extent", [w.input for w in windows]), *numbered("count", [w.output for w in windows]),
        *numbered("kernel", [w.kernel for w in windows]), *numbered("stride", [w.stride for w in windows]),
        *numbered("dilation", [w.dilation for w in windows]), *numbered("padding", [w.begin for w in windows]),
    ]  # fmt: skip
