"""Regions of interest: RoiAlign and MaxRoiPool. A row is one row of bins of one region, with all channels of each."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.ops.vision_nn import CORNER_LIMIT, POINT_LIMIT
from intaglio.targets.c.kernel_file import Instance, Value, kernel
from intaglio.targets.c.printing.register import register_kind
from intaglio.targets.c.routine import Parameter, Routine, disagreement, memory_type, reads, row_blocks, writes
from intaglio.targets.c.rules.channels import channels_last, give_last, result_last
from intaglio.targets.c.rules.places import inputs_of
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, side_by_side


def _emit(
    context: Context,
    node: Node,
    instance: Instance,
    regions: Sequence[Parameter],
    bins: tuple[int, int],
    equal: Sequence[tuple[Dim, Dim]],
) -> None:
    """Call a kernel over rows of bins, whose image and output have their channels last."""
    image, rois = inputs_of(node)[:2]
    dtype = computed(image.dtype)
    source, result = channels_last(context, image, dtype), result_last(context, node, dtype)
    (lines, columns), channels = bins, image.shape[1]
    rows = rois.shape[0] * lines
    blocks, tasks, cost = row_blocks(rows, columns * channels * dtype.itemsize, columns * (50 + channels * 2))
    sizes: list[tuple[str, Size]] = [
        ("mismatch", disagreement(equal)), ("images", image.shape[0]), ("channels", channels),
        ("height", image.shape[2]), ("width", image.shape[3]), ("lines", lines), ("columns", columns),
        ("rows", rows), *blocks,
    ]  # fmt: skip
    parameters = [reads("x", source), *regions, writes("out", result)]
    hint = f"roi_align_{node.op.mode}" if node.op.name == "RoiAlign" else "max_roi_pool"
    context.emit(Routine(hint, instance, parameters, sizes, tasks, cost, checks=True).call(node))
    give_last(context, node, result)


def _values(node: Node) -> dict[str, Value]:
    """The elements and the scale of the regions, as parameters of a kernel."""
    dtype = computed(node.input.dtype)
    return {"ELEMENT": memory_type(dtype), "KIND": register_kind(dtype), "SCALE": repr(float(node.op.spatial_scale))}


@anchor("RoiAlign")
def roi_align(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Sum or maximum of interpolated points, whose number an adaptive region decides for itself."""
    op, (_, rois, batch) = node.op, inputs_of(node)
    regions = [reads("rois", side_by_side(context, rois)), reads("batch", context.contiguous(batch))]
    instance = kernel(
        "roi_align",
        _values(node),
        IS_AVERAGE=op.mode == "avg",
        IS_HALF_PIXEL=op.coordinate_transformation_mode == "half_pixel",
        RATIO=max(int(op.sampling_ratio), 0),
        LIMIT=POINT_LIMIT,
    )
    equal = [(rois.shape[1], 4), (batch.tensor.size, rois.shape[0])]
    _emit(context, node, instance, regions, (op.output_height, op.output_width), equal)


@anchor("MaxRoiPool")
def max_roi_pool(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The maxima of whole pixels."""
    _, rois = inputs_of(node)
    is_double = computed(node.input.dtype).itemsize == 8
    instance = kernel("max_roi_pool", _values(node), IS_DOUBLE=is_double, LIMIT=repr(float(CORNER_LIMIT)))
    regions = [reads("rois", side_by_side(context, rois))]
    _emit(context, node, instance, regions, node.op.pooled_shape, [(rois.shape[1], 5)])
