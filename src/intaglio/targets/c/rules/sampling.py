"""GridSample: for each place of the grid a few pixels and their weights, then all channels of their sum."""

from __future__ import annotations

from intaglio.ir.dim import floordiv, product
from intaglio.ir.dtype import FLOAT64, DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.targets.c.printing.register import register_kind
from intaglio.targets.c.routine import ROWS, Routine, disagreement, memory_type, part_type, reads, row_blocks, writes
from intaglio.targets.c.rules.channels import MIX_HELPERS, MOST_AXES, channels_last, give_last, result_last
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
    routine = Routine(f"grid_sample_{node.op.mode}", _body(node), parameters, sizes, tasks, cost, checks=True)
    routine.helpers = MIX_HELPERS + _helpers(node)
    routine.marks = _marks(node, part, places.buffer.dtype)
    context.emit(routine.call(node))
    give_last(context, node, result)


def _marks(node: Node, dtype: DType, place: DType) -> dict[str, str]:
    axes = _inputs(node)[0].rank - 2
    return {
        "element": memory_type(dtype), "kind": register_kind(dtype), "axes": str(axes),
        "near": str(_TAPS[node.op.mode]), "taps": str(_TAPS[node.op.mode] ** axes),
        "place": memory_type(place), "share": "double" if node.op.mode == "cubic" else memory_type(place),
        "suffix": "f" if place.itemsize == 4 else "",
        "low": "0" if node.op.align_corners else "-0.5", "margin": str(int(node.op.align_corners)),
        "volume": " * ".join(f"extent{axis}" for axis in range(axes)),
        "empty": " || ".join(f"extent{axis} < 1" for axis in range(axes)),
    }  # fmt: skip


def _helpers(node: Node) -> str:
    op = node.op
    coordinate = _ALIGNED if op.align_corners else _CENTRED
    early = "" if op.mode == "cubic" else "    at = IG_FUNCTION_fold(at, extent);\n"
    outside = _DARK if op.padding_mode == "zeros" else _NEAREST_INSIDE
    cubic = _CUBIC if op.mode == "cubic" else ""
    neighbours = _NEIGHBOURS.format(coordinate=coordinate, early=early, weights=_WEIGHTS[op.mode], outside=outside)
    return _FOLD.format(_FOLDS[op.padding_mode]) + cubic + neighbours


def _body(node: Node) -> str:
    axes = _inputs(node)[0].rank - 2
    neighbours = "\n".join(_axis_text(axis, axes) for axis in range(axes))
    return _BODY.format(rows=ROWS, neighbours=neighbours, collect=_collect_text(axes))


def _axis_text(axis: int, axes: int) -> str:
    """C that finds the neighbours along one axis; the grid's innermost axis comes first."""
    position = f"grid[row * {axes} + {axes - 1 - axis}]"
    return f"        IG_FUNCTION_neighbours({position}, extent{axis}, index[{axis}], share[{axis}]);"


def _collect_text(axes: int) -> str:
    """C of a loop for each axis around the pixel that their neighbours make; one of weight 0 is written over."""
    lines: list[str] = []
    for axis in range(axes):
        weight, at = f"share[{axis}][k{axis}]", f"index[{axis}][k{axis}]"
        if axis:
            weight, at = f"weight{axis - 1} * {weight}", f"at{axis - 1} * extent{axis} + {at}"
        indent = "        " + "    " * axis
        lines += [
            f"{indent}for (int k{axis} = 0; k{axis} < $near; k{axis}++) {{",
            f"{indent}    const $share weight{axis} = {weight};",
            f"{indent}    const int64_t at{axis} = {at};",
        ]
    indent, last = "        " + "    " * axes, axes - 1
    lines += [f"{indent}offset[count] = at{last} * channels;", f"{indent}weight[count] = ($element)weight{last};"]
    return "\n".join([*lines, f"{indent}count += weight{last} != 0;", "        " + "}" * axes])


_FOLD = """
/* A coordinate folded back into an image, where the padding wants that. */
static inline $place IG_FUNCTION_fold($place at, int64_t extent)
{{
    {}
}}
"""

_FOLDS = {
    "zeros": "return at;",
    "border": "const $place top = ($place)(extent - 1);\n    return at < 0 ? 0 : at > top ? top : at;",
    "reflection": """\
const $place low = ($place)$low, span = ($place)(extent - $margin);
    if (span <= 0)
        return low;
    $place rest = at - low;
    if (!(rest >= 0 && rest < 2 * span)) {
        rest = __builtin_fmod$suffix(rest, 2 * span);
        rest = rest < 0 ? rest + 2 * span : rest;
    }
    return low + (rest > span ? 2 * span - rest : rest);""",
}

_CUBIC = """
/* The weight of cubic convolution with its free parameter at -0.75; that of a distance which is NaN is NaN. */
static inline double IG_FUNCTION_cubic(double t)
{
    const double a = -0.75;
    return t <= 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : t >= 2 ? 0 : ((t - 5) * t + 8) * t * a - 4 * a;
}
"""

_NEIGHBOURS = """
/* The pixels along one axis that take part at a position of the grid, and their weights. */
static inline void IG_FUNCTION_neighbours($place position, int64_t extent, int64_t *index, $share *share)
{{
    {coordinate}
{early}    {weights}
    for (int k = 0; k < $near; k++) {{
        const $place folded = IG_FUNCTION_fold(base + ($place)k, extent);
        const int is_inside = folded >= 0 && folded < ($place)extent;
        {outside}
    }}
}}
"""

_NEAREST_INSIDE = "index[k] = is_inside ? (int64_t)folded : folded >= 0 ? extent - 1 : 0;"

# What lies outside is black: it has no weight, unless that is NaN.
_DARK = """\
index[k] = is_inside ? (int64_t)folded : 0;
        share[k] = is_inside || share[k] != share[k] ? share[k] : 0;"""

_ALIGNED = "$place at = (position + 1) / 2 * ($place)(extent - 1);"

# Without fused operations: the rounding decides at ties.
_CENTRED = """\
const volatile $place scaled = (position + 1) * ($place)extent;
    $place at = (scaled - 1) / 2;"""

_WEIGHTS = {
    "nearest": "const $place base = __builtin_rint$suffix(at);\n    share[0] = 1;",
    "linear": """\
const $place base = __builtin_floor$suffix(at), rest = at - base;
    share[0] = 1 - rest;
    share[1] = rest;""",
    "cubic": """\
const $place base = __builtin_floor$suffix(at) - 1, rest = at - (base + 1);
    for (int k = 0; k < 4; k++)
        share[k] = IG_FUNCTION_cubic(__builtin_fabs$suffix(rest - ($place)(k - 1)));""",
}

_BODY = """
    if (mismatch || $empty) {{
        *fault = 1;
        return;
    }}
    int64_t n = points > 0 ? begin * block / points : 0, point = begin * block - n * points;
    for ({rows}) {{
        const $element *image = x + n * channels * $volume;
        int64_t index[$axes][$near], offset[$taps];
        $share share[$axes][$near];
        $element weight[$taps];
        int count = 0;
{neighbours}
{collect}
        if (count == $taps)
            IG_FUNCTION_mix(out + row * channels, image, offset, weight, $taps, channels);
        else
            IG_FUNCTION_mix(out + row * channels, image, offset, weight, count, channels);
        if (++point == points) {{
            point = 0;
            n++;
        }}
    }}
"""
