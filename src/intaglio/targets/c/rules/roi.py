"""Regions of interest: RoiAlign and MaxRoiPool. A row is one row of bins of one region, with all channels of each."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.ops.vision_nn import CORNER_LIMIT, POINT_LIMIT
from intaglio.targets.c.printing.register import register_kind
from intaglio.targets.c.routine import ROWS, Routine, disagreement, memory_type, reads, row_blocks, writes
from intaglio.targets.c.rules.channels import channels_last, give_last, result_last
from intaglio.targets.c.rules.places import PLACE, inputs_of
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, side_by_side


def _emit(
    context: Context, node: Node, routine: Routine, bins: tuple[int, int], equal: Sequence[tuple[Dim, Dim]]
) -> None:
    """Call a routine over rows of bins, whose image and output have their channels last."""
    image, rois = inputs_of(node)[:2]
    dtype = computed(image.dtype)
    source, result = channels_last(context, image, dtype), result_last(context, node, dtype)
    (lines, columns), channels = bins, image.shape[1]
    rows = rois.shape[0] * lines
    blocks, tasks, cost = row_blocks(rows, columns * channels * dtype.itemsize, columns * (50 + channels * 2))
    routine.sizes = [
        ("mismatch", disagreement(equal)), ("images", image.shape[0]), ("channels", channels),
        ("height", image.shape[2]), ("width", image.shape[3]), ("lines", lines), ("columns", columns),
        ("rows", rows), *blocks,
    ]  # fmt: skip
    routine.parameters = [reads("x", source), *routine.parameters, writes("out", result)]
    routine.tasks, routine.cost = tasks, cost
    routine.marks |= {
        "element": memory_type(dtype), "kind": register_kind(dtype), "suffix": "f" if dtype.itemsize == 4 else "",
        "scale": repr(float(node.op.spatial_scale)),
    }  # fmt: skip
    context.emit(routine.call(node))
    give_last(context, node, result)


@anchor("RoiAlign")
def roi_align(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Sum or maximum of interpolated points, whose number an adaptive region decides for itself."""
    op, (_, rois, batch) = node.op, inputs_of(node)
    parameters = [reads("rois", side_by_side(context, rois)), reads("batch", context.contiguous(batch))]
    body = _ALIGN.replace("$finish", _MEAN if op.mode == "avg" else "")
    routine = Routine(f"roi_align_{op.mode}", body, parameters, [], 1, 1, checks=True)
    routine.helpers = PLACE + _LINE + _COUNT + (_ADD if op.mode == "avg" else _LARGEST)
    is_half = op.coordinate_transformation_mode == "half_pixel"
    routine.marks = {
        "offset": "0.5" if is_half else "0", "least": "size" if is_half else "(size > 1 ? size : 1)",
        "ratio": str(max(int(op.sampling_ratio), 0)), "limit": str(POINT_LIMIT),
        "start": "0" if op.mode == "avg" else "-__builtin_inf()",
    }  # fmt: skip
    equal = [(rois.shape[1], 4), (batch.tensor.size, rois.shape[0])]
    _emit(context, node, routine, (op.output_height, op.output_width), equal)


_COUNT = """
/* How many points a bin of some size has along one axis: 0 for a region turned inside out, -1 for far too many. */
static inline int64_t IG_FUNCTION_count(double size)
{
    const double wanted = $ratio > 0 ? $ratio : __builtin_ceil(size);
    return wanted > $limit ? -1 : wanted > 0 ? (int64_t)wanted : 0;
}
"""

_LINE = """
/* The two neighbours of a point along one axis and their weights; none beyond one pixel outside. */
static inline void IG_FUNCTION_line(double place, int64_t extent, int64_t *index, double *share)
{
    const double top = (double)(extent - 1), inside = place < 0 ? 0 : place > top ? top : place;
    const double is_near = place >= -1 && place <= (double)extent;
    index[0] = (int64_t)inside;
    index[1] = index[0] + 1 < extent ? index[0] + 1 : index[0];
    share[0] = (1 - (inside - (double)index[0])) * is_near;
    share[1] = (inside - (double)index[0]) * is_near;
}

/* The place of a point, without fused operations: its rounding decides at the border of the image. */
static inline double IG_FUNCTION_point(double first, double step, int64_t bin, int64_t point, int64_t count)
{
    const volatile double start = (double)bin * step, within = ((double)point + 0.5) * step;
    return first + start + within / (double)count;
}
"""

_TAKE = """
/* {what} */
static inline void
IG_FUNCTION_take($element *out, const $element *image, const int64_t *offset, const $element *weight, int64_t channels)
{{
    int64_t c = 0;
    for (; c + IG_LANES <= channels; c += IG_LANES) {{
        ig_$kind total = ig_load_$kind(out + c);
        for (int t = 0; t < 4; t++)
            total = {full};
        ig_store_$kind(out + c, total);
    }}
    if (c < channels) {{
        ig_$kind total = ig_load_n_$kind(out + c, channels - c);
        for (int t = 0; t < 4; t++)
            total = {part};
        ig_store_n_$kind(out + c, total, channels - c);
    }}
}}
"""

_WEIGHED = "ig_set_$kind(weight[t]) * ig_load_$kind(image + offset[t] + c)"
_WEIGHED_PART = "ig_set_$kind(weight[t]) * ig_load_n_$kind(image + offset[t] + c, channels - c)"
_ADD = _TAKE.format(what="Add four weighted pixels.", full=f"total + {_WEIGHED}", part=f"total + {_WEIGHED_PART}")
_LARGEST = _TAKE.format(
    what="The largest of what there is and four weighted pixels.",
    full=f"ig_max_$kind(total, {_WEIGHED})",
    part=f"ig_max_$kind(total, {_WEIGHED_PART})",
)

_MEAN = """\
for (int64_t c = 0; c < channels; c++)
                to[c] /= ($element)(points[0] * points[1]);"""

_ALIGN = f"""
    if (mismatch) {{
        *fault = 1;
        return;
    }}
    for ({ROWS}) {{
        const int64_t region = row / lines, line = row % lines, place = IG_FUNCTION_place(batch[region], images);
        double corner[4];
        for (int k = 0; k < 4; k++) {{
            const volatile $element scaled = rois[region * 4 + k] * ($element)$scale;
            corner[k] = (double)(scaled - ($element)$offset);
        }}
        double step[2];
        int64_t points[2];
        int is_finite = 1;
        for (int axis = 0; axis < 2; axis++) {{
            const double size = corner[3 - axis] - corner[1 - axis];
            is_finite &= size - size == 0;
            step[axis] = $least / (double)(axis == 0 ? lines : columns);
            points[axis] = IG_FUNCTION_count(is_finite ? step[axis] : 0);
        }}
        const int is_fitting = points[0] >= 0 && points[1] >= 0 && points[0] * points[1] <= $limit;
        if (place < 0 || !is_finite || !is_fitting || height < 1 || width < 1) {{
            *fault = 1;
            continue;
        }}
        const $element *image = x + place * height * width * channels;
        for (int64_t column = 0; column < columns; column++) {{
            $element *to = out + (row * columns + column) * channels;
            const int is_empty = points[0] * points[1] == 0;
            for (int64_t c = 0; c < channels; c++)
                to[c] = is_empty ? 0 : ($element)$start;
            if (is_empty)
                continue;
            for (int64_t i = 0; i < points[0] * points[1]; i++) {{
                int64_t index[2][2], offset[4];
                double share[2][2];
                $element weight[4];
                const double down = IG_FUNCTION_point(corner[1], step[0], line, i / points[1], points[0]);
                const double along = IG_FUNCTION_point(corner[0], step[1], column, i % points[1], points[1]);
                IG_FUNCTION_line(down, height, index[0], share[0]);
                IG_FUNCTION_line(along, width, index[1], share[1]);
                for (int t = 0; t < 4; t++) {{
                    offset[t] = (index[0][t / 2] * width + index[1][t % 2]) * channels;
                    weight[t] = ($element)(share[0][t / 2] * share[1][t % 2]);
                }}
                IG_FUNCTION_take(to, image, offset, weight, channels);
            }}
            $finish
        }}
    }}
"""


@anchor("MaxRoiPool")
def max_roi_pool(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The maxima of whole pixels."""
    _, rois = inputs_of(node)
    routine = Routine("max_roi_pool", _MAX_POOL, [reads("rois", side_by_side(context, rois))], [], 1, 1, checks=True)
    routine.helpers, routine.marks = PLACE + _BIN, {"limit": repr(float(CORNER_LIMIT))}
    _emit(context, node, routine, node.op.pooled_shape, [(rois.shape[1], 5)])


_BIN = """
/* The pixels of a bin along one axis, cut to the image. */
static inline void
IG_FUNCTION_bin(int64_t first, int64_t last, int64_t bin, int64_t bins, int64_t extent, int64_t *range)
{
    const float width = (float)(last - first + 1 > 1 ? last - first + 1 : 1) / (float)bins;
    const int64_t from = (int64_t)__builtin_floorf((float)bin * width) + first;
    const int64_t to = (int64_t)__builtin_ceilf((float)(bin + 1) * width) + first;
    range[0] = from < 0 ? 0 : from < extent ? from : extent;
    range[1] = to < 0 ? 0 : to < extent ? to : extent;
}
"""

_MAX_POOL = f"""
    if (mismatch) {{
        *fault = 1;
        return;
    }}
    for ({ROWS}) {{
        const int64_t region = row / lines, line = row % lines;
        int64_t corner[4], range[2][2];
        int is_near = 1;
        for (int k = 0; k < 4; k++) {{
            const volatile $element scaled = rois[region * 5 + 1 + k] * ($element)$scale;
            const $element size = __builtin_floor$suffix(__builtin_fabs$suffix(scaled) + ($element)0.5);
            is_near &= size < ($element)$limit;
            corner[k] = size < ($element)$limit ? (scaled < 0 ? -(int64_t)size : (int64_t)size) : 0;
        }}
        const $element given = rois[region * 5];
        const int is_number = given > ($element)-$limit && given < ($element)$limit;
        const int64_t place = IG_FUNCTION_place(is_number ? (int64_t)given : images, images);
        if (place < 0 || !is_near) {{
            *fault = 1;
            continue;
        }}
        const $element *image = x + place * height * width * channels;
        IG_FUNCTION_bin(corner[1], corner[3], line, lines, height, range[0]);
        for (int64_t column = 0; column < columns; column++) {{
            $element *to = out + (row * columns + column) * channels;
            IG_FUNCTION_bin(corner[0], corner[2], column, columns, width, range[1]);
            const int is_empty = range[0][0] >= range[0][1] || range[1][0] >= range[1][1];
            for (int64_t c = 0; c < channels; c += IG_LANES) {{
                const int64_t n = channels - c < IG_LANES ? channels - c : IG_LANES;
                ig_$kind best = ig_set_$kind(is_empty ? 0 : ($element)-__builtin_inf());
                for (int64_t i = range[0][0]; i < range[0][1]; i++)
                    for (int64_t j = range[1][0]; j < range[1][1]; j++) {{
                        const $element *from = image + (i * width + j) * channels + c;
                        best = ig_max_$kind(best, n == IG_LANES ? ig_load_$kind(from) : ig_load_n_$kind(from, n));
                    }}
                ig_store_n_$kind(to + c, best, n);
            }}
        }}
    }}
"""
