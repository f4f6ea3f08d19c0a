"""GridSample: for each place of the grid a few pixels and their weights, then all channels of their sum."""

from __future__ import annotations

from intaglio.ir.dim import floordiv, product
from intaglio.ir.dtype import FLOAT64, DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.targets.c.kernel_file import Value as Setting
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.printing.register import register_kind
from intaglio.targets.c.routine import Routine, disagreement, memory_type, part_type, reads, row_blocks, writes
from intaglio.targets.c.rules.channels import MOST_AXES, channels_last, give_last, result_last
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, side_by_side

_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}


def _inputs(node: Node) -> tuple[Value, Value]:
    return node.input, node.needed(1)


def _refuse(node: Node) -> Refusal | None:
    image, _ = _inputs(node)
    return (
        None
        if 3 <= image.rank <= MOST_AXES + 2
        else Refusal(Cause.FORM, f"GridSample of rank {image.rank} is not compiled")
    )


def _computed(image: Value) -> DType:
    """The element type of sums: integers are summed in double precision, as the reference does."""
    return computed(image.dtype) if image.dtype.is_float or image.dtype.kind == "complex" else FLOAT64


@anchor("GridSample", refuse=_refuse)
def grid_sample(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A row is one place of the grid with all its channels."""
    image, grid = _inputs(node)
    dtype, axes = _computed(image), image.rank - 2
    part = part_type(dtype)
    parts = dtype.itemsize // part.itemsize
    places = side_by_side(context, grid)
    source, result = channels_last(context, image, dtype), result_last(context, node, dtype)
    taps = _TAPS[node.op.mode] ** axes
    channels, points = image.shape[1] * parts, product(grid.shape[1:-1])
    rows = image.shape[0] * points
    row_cost = 20 * axes + taps * (2 + floordiv(channels, 8))
    blocks, tasks, cost = row_blocks(rows, channels * dtype.itemsize, row_cost)
    sizes: list[tuple[str, Size]] = [
        ("mismatch", disagreement([(image.shape[0], grid.shape[0]), (grid.shape[-1], axes)])),
        ("channels", channels), ("points", points), ("rows", rows),
        *((f"extent{axis}", image.shape[2 + axis]) for axis in range(axes)), *blocks,
    ]  # fmt: skip
    element = memory_type(part)
    parameters = [reads("x", source, element), reads("grid", places), writes("out", result, element)]
    instance = kernel("grid_sample", _values(node, part, places.buffer.dtype))
    hint = f"grid_sample_{node.op.mode}"
    context.emit(Routine(hint, instance, parameters, sizes, tasks, cost, checks=True).call(node))
    give_last(context, node, result)


def _values(node: Node, dtype: DType, place: DType) -> dict[str, Setting]:
    """How pixels are found and mixed, as parameters of the kernel."""
    return {
        "ELEMENT": memory_type(dtype),
        "KIND": register_kind(dtype),
        "AXES": node.input.rank - 2,
        "PLACE": memory_type(place),
        "IS_DOUBLE": place.itemsize == 8,
        "MODE": node.op.mode.upper(),
        "PADDING": node.op.padding_mode.upper(),
        "ALIGN_CORNERS": bool(node.op.align_corners),
    }
