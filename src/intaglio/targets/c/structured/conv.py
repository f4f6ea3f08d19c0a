"""Direct convolution and transposed convolution of one to three spatial axes, channels last in the result."""

from collections.abc import Callable
from functools import partial
from math import prod
from string import Template
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from intaglio.ir.dim import THREADS, Dim, at_most, floordiv, maximum, minimum, pieces, product, select
from intaglio.memory.constants import allocated
from intaglio.targets.c.structured.pack import pack_b
from intaglio.targets.c.structured.source import (
    Element,
    Formula,
    Sizes,
    StructuredKernel,
    Tile,
    VectorTarget,
    c_name,
    own_types,
    register_tile,
    unpack_sizes,
)
from intaglio.targets.c.structured.tile import tile_source

Layout = Literal["nhwc", "nchw"]

WINDOW_SIZES = (
    "images", "C", "D", "H", "W", "OD", "OH", "OW", "KD", "KH", "KW",
    "stride_d", "stride_h", "stride_w", "dilation_d", "dilation_h", "dilation_w", "pad_d", "pad_h", "pad_w",
)  # fmt: skip
"""Extents that convolution and pooling share. Axes that a model lacks have extent, kernel and stride 1 and pad 0;
pads are those before the first value, what is missing behind the last one follows from the output's extents."""

_SIZES = (*WINDOW_SIZES, "groups", "OC", "row_block", "col_block", "panel_block")


def conv(
    target: VectorTarget, input_layout: Layout = "nhwc", element: Element = "float32", *, narrow: bool = False
) -> StructuredKernel:
    """Convolution of an NDHWC (or, for few channels, NCDHW) input with weights from `pack_conv`.

    The epilogue gets the row (image * OD + od) * OH * OW + oh * OW + ow and the output channel. A 1x1 convolution with
    stride 1 and without pads and groups is `pointwise` instead. With `narrow`, tiles and panels are one vector wide.
    """
    tile = register_tile(target, element, narrow=narrow)
    names = _names(target, tile, input_layout)
    parts = (_SLAB, _COPIED, _TAPS, _BLOCK, _CONV)
    return _kernel("conv", target, tile, input_layout, names, parts, _slab_elements(_window_extent))


def conv_by_taps(target: VectorTarget, element: Element = "float32", *, narrow: bool = False) -> StructuredKernel:
    """Convolution of an NDHWC input as by `conv`, one tap after the other, each for the outputs that it reaches.

    For taps that lie far apart: nothing is copied, and nothing computed of what lies outside.
    """
    tile = register_tile(target, element, narrow=narrow)
    return _kernel("conv_by_taps", target, tile, "nhwc", _names(target, tile, "nhwc"), (_BY_TAPS,), lambda size: 0)


def conv_transpose(target: VectorTarget, element: Element = "float32") -> StructuredKernel:
    """Transposed convolution of an NDHWC input with weights from `pack_conv_transpose`.

    Every output gathers its inputs, so that nothing is added twice; rows and columns of the epilogue as for `conv`.
    """
    tile = register_tile(target, element)
    names = _names(target, tile, "nhwc")
    parts = (_SLAB, _PHASES, _TRANSPOSED)
    return _kernel("conv_transpose", target, tile, "nhwc", names, parts, _slab_elements(_gather_extent))


def pack_conv(
    weights: npt.NDArray[Any],
    groups: int,
    target: VectorTarget,
    input_layout: Layout = "nhwc",
    element: Element = "float32",
    *,
    narrow: bool = False,
) -> npt.NDArray[Any]:
    """Weights (OC, C / groups, *kernel) as (groups, panels, taps, C / groups, columns), or channels before taps."""
    outputs, channels, *kernel = weights.shape
    grouped = weights.reshape(groups, outputs // groups, channels, prod(kernel))
    order = (0, 3, 2, 1) if input_layout == "nhwc" else (0, 2, 3, 1)
    turned = grouped.transpose(order)
    ordered = allocated(turned.shape, turned.dtype)
    ordered[...] = turned
    packed = pack_b(ordered.reshape(groups, prod(kernel) * channels, outputs // groups), target, element, narrow=narrow)
    return packed.reshape(groups, packed.shape[1], *ordered.shape[1:3], packed.shape[-1])


def pack_conv_transpose(
    weights: npt.NDArray[Any], groups: int, target: VectorTarget, element: Element = "float32"
) -> npt.NDArray[Any]:
    """Weights (C, OC / groups, *kernel) in the order of `pack_conv`."""
    channels, outputs, *kernel = weights.shape
    grouped = np.swapaxes(weights.reshape(groups, channels // groups, outputs, *kernel), 1, 2)
    return pack_conv(grouped.reshape(groups * outputs, channels // groups, *kernel), groups, target, element=element)


def _names(target: VectorTarget, tile: Tile, layout: Layout) -> dict[str, object]:
    is_last = layout == "nhwc"
    return {
        "type": c_name(tile.element),
        "columns": tile.columns,
        "rows": tile.rows,
        "limit": max(64, target.l1 * 2 // 3 // (tile.columns * tile.bytes)),
        "sizes": unpack_sizes(_SIZES),
        "layout": layout.upper(),
        "channel_first": "1" if is_last else "channels",
        "channel_last": "channels" if is_last else "1",
        "pixel_stride": "C" if is_last else "1",
        "plane_stride": "0" if is_last else "D * H * W",
        "group_stride": "channels" if is_last else "channels * D * H * W",
    }


def _kernel(hint: str, target: VectorTarget, tile: Tile, layout: Layout, names: dict[str, object],
            parts: tuple[Template, ...], slab: Formula) -> StructuredKernel:  # fmt: skip
    def scratch(size: Sizes) -> Dim:
        taps = _taps(size) * (1 if layout == "nhwc" else _channels(size))
        sums = size["row_block"] * size["col_block"] * tile.columns
        return (taps + 4) * 16 + (sums + slab(size)) * tile.bytes

    return StructuredKernel(
        hint=hint,
        source=own_types(tile) + tile_source(tile) + "\n" + "\n".join(part.substitute(names) for part in parts),
        buffers=("x", "w"),
        sizes=_SIZES,
        tasks=lambda size: _spatial_tasks(size) * pieces(_panels(tile, size), size["panel_block"]),
        cost=partial(_cost, target, tile),
        scratch=scratch,
        tile=f"{tile.rows}x{tile.columns}",
        defaults=partial(_blocks, tile),
    )


def _channels(size: Sizes) -> Dim:
    """Input channels of a group."""
    return floordiv(size["C"], size["groups"])


def _panels(tile: Tile, size: Sizes) -> Dim:
    return pieces(floordiv(size["OC"], size["groups"]), tile.columns)


def _taps(size: Sizes) -> Dim:
    return size["KD"] * size["KH"] * size["KW"]


def _spatial_tasks(size: Sizes) -> Dim:
    """How many blocks of rows and columns of pixels there are, for each image, group and depth."""
    rows, columns = pieces(size["OH"], size["row_block"]), pieces(size["OW"], size["col_block"])
    return size["images"] * size["groups"] * size["OD"] * rows * columns


def _cost(target: VectorTarget, tile: Tile, size: Sizes) -> Dim:
    sums = size["row_block"] * size["col_block"] * size["panel_block"] * (2 * tile.columns)
    return 1 + floordiv(sums * _taps(size) * _channels(size), target.vector_bytes * 2)


def _blocks(tile: Tile, size: Sizes) -> dict[str, Dim]:
    most, panels = 8 * tile.rows, _panels(tile, size)
    col_block = maximum(1, minimum(size["OW"], most))
    row_block = maximum(1, minimum(size["OH"], floordiv(most, col_block)))
    tasks = _spatial_tasks({**size, "col_block": col_block, "row_block": row_block})
    share = select(at_most(4 * THREADS, tasks), panels, floordiv(panels * tasks, 4 * THREADS))
    return {"col_block": col_block, "row_block": row_block, "panel_block": maximum(1, share)}


def _slab_elements(extent: Callable[[Sizes, Dim, str], Dim]) -> Formula:
    def elements(size: Sizes) -> Dim:
        sides = extent(size, 1, "d"), extent(size, size["row_block"], "h"), extent(size, size["col_block"], "w")
        return _channels(size) * product(sides)

    return elements


def _window_extent(size: Sizes, block: Dim, axis: str) -> Dim:
    reach = (size[f"K{axis.upper()}"] - 1) * size[f"dilation_{axis}"]
    return (block - 1) * size[f"stride_{axis}"] + reach + 1


def _gather_extent(size: Sizes, block: Dim, axis: str) -> Dim:
    reach = (size[f"K{axis.upper()}"] - 1) * size[f"dilation_{axis}"]
    return floordiv(block - 1 + reach, size[f"stride_{axis}"]) + 2


_SLAB = Template("""\
/* The part of the input that a block of the result reads. `channels` counts those of one group. */
typedef struct {
    const $type *data;
    int64_t channel, plane, row, pixel;
    int64_t depth, height, width;
} IG_FUNCTION_slab;

/* Copies `width` pixels from column `first` on; columns outside 0 <= column < limit are zero. */
static inline void
IG_FUNCTION_copy_row(const $type *from, int64_t from_pixel, int64_t first, int64_t width, int64_t limit, int64_t run,
                     $type *to)
{
    int64_t before = first < 0 ? -first : 0, inside = (first + width < limit ? first + width : limit) - first;
    before = before < width ? before : width;
    inside = inside > before ? inside : before;
    __builtin_memset(to, 0, (uint64_t)(before * run) * sizeof *to);
    from += (first + before) * from_pixel;
    $type *pixel = to + before * run;
    if (from_pixel == run)
        __builtin_memcpy(pixel, from, (uint64_t)((inside - before) * run) * sizeof *to);
    else
        for (int64_t i = before; i < inside; i++, from += from_pixel, pixel += run)
            for (int64_t c = 0; c < run; c++)
                pixel[c] = from[c];
    __builtin_memset(to + inside * run, 0, (uint64_t)((width - inside) * run) * sizeof *to);
}

/* Makes the slab that begins at (d, h, w) of `x`, with zeros outside of the input. */
static inline void
IG_FUNCTION_fill(IG_FUNCTION_slab *slab, const $type *x, const int64_t *size, int64_t channels, int64_t d0, int64_t h0,
                 int64_t w0, $type *to)
{
    const int64_t C = size[1], D = size[2], H = size[3], W = size[4];
    const int64_t run = $channel_last, row = W * $pixel_stride, row_elements = slab->width * run;
    (void)C;
    slab->data = to;
    slab->pixel = run;
    slab->row = row_elements;
    slab->plane = slab->height * slab->row;
    slab->channel = slab->depth * slab->plane;
    for (int64_t c = 0; c < $channel_first; c++)
        for (int64_t d = d0; d < d0 + slab->depth; d++)
            for (int64_t h = h0; h < h0 + slab->height; h++, to += row_elements) {
                if (d < 0 || d >= D || h < 0 || h >= H)
                    __builtin_memset(to, 0, (uint64_t)row_elements * sizeof *to);
                else
                    IG_FUNCTION_copy_row(x + c * $plane_stride + (d * H + h) * row, $pixel_stride, w0, slab->width, W,
                                         run, to);
            }
}
""")

_COPIED = Template("""\
/* The slab in place where it lies inside the input, else a copy with zeros around it. */
static inline void
IG_FUNCTION_view(IG_FUNCTION_slab *slab, const $type *x, const int64_t *size, int64_t channels, int64_t d0, int64_t h0,
                 int64_t w0, $type *to)
{
    const int64_t C = size[1], D = size[2], H = size[3], W = size[4];
    if (d0 < 0 || h0 < 0 || w0 < 0 || d0 + slab->depth > D || h0 + slab->height > H || w0 + slab->width > W) {
        IG_FUNCTION_fill(slab, x, size, channels, d0, h0, w0, to);
        return;
    }
    (void)C;
    slab->pixel = $pixel_stride;
    slab->row = W * slab->pixel;
    slab->plane = H * slab->row;
    slab->channel = D * slab->plane;
    slab->data = x + d0 * slab->plane + h0 * slab->row + w0 * slab->pixel;
}
""")

_TAPS = Template("""\
/* Offsets of the filter's taps in the slab and in the panel. A filter row is one tap of `depth` KW times as large where
   it is one run in memory and short enough for the cache. */
static inline int64_t
IG_FUNCTION_taps(const IG_FUNCTION_slab *slab, const int64_t *size, int64_t channels, int64_t *tap, int64_t *depth)
{
    const int64_t KD = size[8], KH = size[9], KW = size[10];
    const int64_t dilation_d = size[14], dilation_h = size[15], dilation_w = size[16], run = $channel_last;
    const int is_run = dilation_w == 1 && slab->pixel == run && KW * run <= $limit;
    const int64_t columns = is_run ? 1 : KW;
    int64_t taps = 0;
    *depth = is_run ? KW * run : run;
    for (int64_t c = 0; c < $channel_first; c++)
        for (int64_t d = 0; d < KD; d++)
            for (int64_t h = 0; h < KH; h++)
                for (int64_t w = 0; w < columns; w++, taps++) {
                    tap[2 * taps] = c * slab->channel + d * dilation_d * slab->plane + h * dilation_h * slab->row +
                                    w * dilation_w * slab->pixel;
                    tap[2 * taps + 1] = taps * *depth * $columns;
                }
    (void)channels;
    return taps;
}
""")

_BLOCK = Template("""\
/* One panel of `height` by `width` output pixels, of which the first is `row` of the result. */
static inline void
IG_FUNCTION_panel(void *const *buffer, const int64_t *size, const IG_FUNCTION_slab *slab, const $type *w,
                  const int64_t *tap, int64_t taps, int64_t depth, int64_t height, int64_t width, int64_t row,
                  int64_t col, int64_t columns, $type *sum)
{
    const int64_t OW = size[7], stride_h = size[12], pixel = size[13] * slab->pixel;
    const int64_t tiles = (width + $rows - 1) / $rows;
    const int64_t part = height * tiles <= 2 ? taps : depth >= $limit || depth == 0 ? 1 : $limit / depth;
    const int64_t sum_step = part < taps ? $columns : 0;
    for (int64_t t = 0; t < taps; t += part) {
        const int64_t count = taps - t < part ? taps - t : part;
        for (int64_t h = 0; h < height; h++)
            for (int64_t first = 0, pixels; first < width; first += pixels) {
                pixels = IG_FUNCTION_next(width - first);
                const $type *x = slab->data + h * stride_h * slab->row + first * pixel;
                $type *tile_sum = sum + (h * width + first) * sum_step;
                IG_FUNCTION_tile(pixels, x, pixel, w, 0, tap + 2 * t, count, depth, tile_sum, t == 0);
                if (t + count == taps)
                    IG_FUNCTION_finish(buffer, size, row + h * OW + first, 1, pixels, col, columns, tile_sum);
            }
    }
}
""")

_EXTENTS = """\
    const int64_t channels = C / groups, outputs = OC / groups, panels = (outputs + $columns - 1) / $columns;
    const int64_t row_blocks = (OH + row_block - 1) / row_block, col_blocks = (OW + col_block - 1) / col_block;
    const int64_t panel_blocks = (panels + panel_block - 1) / panel_block, weights = KD * KH * KW * channels * $columns;
    const $type *x = buffer[0], *w = buffer[1];
    (void)images, (void)D, (void)H, (void)W;
"""

_DECODE = (
    _EXTENTS
    + """\
    int64_t *tap = scratch;
    $type *sum = ($type *)(tap + (2 * KD * KH * KW * $channel_first + 7) / 8 * 8);
    $type *copy = sum + row_block * col_block * $columns;
"""
)

_POSITION = """\
        int64_t place = task / panel_blocks;
        const int64_t col_index = place % col_blocks, row_index = place / col_blocks % row_blocks;
        place /= col_blocks * row_blocks;
        const int64_t od = place % OD, group = place / OD % groups, image = place / OD / groups;
        const int64_t oh = OH * row_index / row_blocks, height = OH * (row_index + 1) / row_blocks - oh;
        const int64_t ow = OW * col_index / col_blocks, width = OW * (col_index + 1) / col_blocks - ow;
        const int64_t row = ((image * OD + od) * OH + oh) * OW + ow, panel_index = task % panel_blocks;
        const $type *image_x = x + image * C * D * H * W + group * $group_stride;
"""

_PANELS = """\
        const int64_t last = panels * (panel_index + 1) / panel_blocks;
        for (int64_t panel = panels * panel_index / panel_blocks; panel < last; panel++) {
            const int64_t left = outputs - panel * $columns;
"""

_HEADER = """\
   A task is row_block rows by col_block columns of output pixels by panel_block panels of $columns output channels.
   buffer: x, w, the epilogue's
   size: images, C, D, H, W, OD, OH, OW, KD, KH, KW, stride_d, stride_h, stride_w, dilation_d, dilation_h, dilation_w,
         pad_d, pad_h, pad_w, groups, OC, row_block, col_block, panel_block, the epilogue's
   tasks: images * groups * OD * ceil(OH / row_block) * ceil(OW / col_block) *
          ceil(ceil(OC / groups / $columns) / panel_block) */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    $sizes
"""

_CONV = Template(
    """\
/* Convolution of an $layout input.
"""
    + _HEADER
    + _DECODE
    + """\
    IG_FUNCTION_slab slab = {.depth = (KD - 1) * dilation_d + 1};
    int64_t taps = 0, depth = 0, previous = -1;
    for (int64_t task = begin; task < end; task++) {
"""
    + _POSITION
    + """\
        if (task / panel_blocks != previous) {
            previous = task / panel_blocks;
            slab.height = (height - 1) * stride_h + (KH - 1) * dilation_h + 1;
            slab.width = (width - 1) * stride_w + (KW - 1) * dilation_w + 1;
            IG_FUNCTION_view(&slab, image_x, size, channels, od * stride_d - pad_d, oh * stride_h - pad_h,
                             ow * stride_w - pad_w, copy);
            taps = IG_FUNCTION_taps(&slab, size, channels, tap, &depth);
        }
"""
    + _PANELS
    + """\
            IG_FUNCTION_panel(buffer, size, &slab, w + (group * panels + panel) * weights, tap, taps, depth, height,
                              width, row, group * outputs + panel * $columns, left < $columns ? left : $columns, sum);
        }
    }
}
"""
)

_BY_TAPS = Template(
    """\
/* Convolution of an NHWC input, one tap after the other.
"""
    + _HEADER
    + _EXTENTS
    + """\
    static const int64_t here[2] = {0, 0};
    $type *sum = scratch;
    for (int64_t task = begin; task < end; task++) {
"""
    + _POSITION
    + _PANELS
    + """\
            const $type *tap_w = w + (group * panels + panel) * weights;
            __builtin_memset(sum, 0, (uint64_t)(height * width * $columns) * sizeof *sum);
            for (int64_t tap = 0; tap < KD * KH * KW; tap++, tap_w += channels * $columns) {
                const int64_t d = od * stride_d - pad_d + tap / KW / KH * dilation_d;
                const int64_t top = oh * stride_h - pad_h + tap / KW % KH * dilation_h;
                const int64_t left_w = ow * stride_w - pad_w + tap % KW * dilation_w;
                const int64_t before = left_w < 0 ? (stride_w - 1 - left_w) / stride_w : 0;
                int64_t behind = left_w < W ? (W - left_w + stride_w - 1) / stride_w : 0;
                behind = behind < width ? behind : width;
                for (int64_t i = 0; d >= 0 && d < D && i < height; i++) {
                    const int64_t h = top + i * stride_h;
                    for (int64_t j = before, pixels; h >= 0 && h < H && j < behind; j += pixels) {
                        pixels = IG_FUNCTION_next(behind - j);
                        IG_FUNCTION_tile(pixels, image_x + ((d * H + h) * W + left_w + j * stride_w) * C, stride_w * C,
                                         tap_w, 0, here, 1, channels, sum + (i * width + j) * $columns, 0);
                    }
                }
            }
            for (int64_t i = 0; i < height; i++)
                IG_FUNCTION_finish(buffer, size, row + i * OW, 1, width, group * outputs + panel * $columns,
                                   left < $columns ? left : $columns, sum + i * width * $columns);
        }
    }
}
"""
)

_PHASES = Template("""\
/* a / b rounded down, for b > 0. */
static inline int64_t IG_FUNCTION_floor(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/* Where filter tap `k` of one axis reads for output `o`: the input's index, or -1 - (a very small number) when the
   strides skip it. */
static inline int IG_FUNCTION_reads(int64_t o, int64_t k, int64_t stride, int64_t dilation, int64_t pad, int64_t *index)
{
    const int64_t place = o + pad - k * dilation;
    *index = IG_FUNCTION_floor(place, stride);
    return *index * stride == place;
}

/* The taps that reach output (od, oh, ow); `d0`, `h0`, `w0` are the input's indices of the slab's first value. */
static inline int64_t
IG_FUNCTION_taps(const IG_FUNCTION_slab *slab, const int64_t *size, int64_t channels, int64_t od, int64_t oh,
                 int64_t ow, int64_t d0, int64_t h0, int64_t w0, int64_t *tap)
{
    const int64_t KD = size[8], KH = size[9], KW = size[10];
    int64_t taps = 0, id, ih, iw;
    for (int64_t d = 0; d < KD; d++)
        for (int64_t h = 0; h < KH; h++)
            for (int64_t w = 0; w < KW; w++) {
                if (!IG_FUNCTION_reads(od, d, size[11], size[14], size[17], &id) ||
                    !IG_FUNCTION_reads(oh, h, size[12], size[15], size[18], &ih) ||
                    !IG_FUNCTION_reads(ow, w, size[13], size[16], size[19], &iw))
                    continue;
                tap[2 * taps] = (id - d0) * slab->plane + (ih - h0) * slab->row + (iw - w0) * slab->pixel;
                tap[2 * taps + 1] = ((d * KH + h) * KW + w) * channels * $columns;
                taps++;
            }
    return taps;
}
""")

_TRANSPOSED = Template(
    """\
/* Transposed convolution of an $layout input. The outputs of one row that are stride_w apart share their taps.
"""
    + _HEADER
    + _DECODE
    + """\
    IG_FUNCTION_slab slab = {0};
    int64_t previous = -1, d0 = 0, h0 = 0, w0 = 0;
    for (int64_t task = begin; task < end; task++) {
"""
    + _POSITION
    + """\
        if (task / panel_blocks != previous) {
            previous = task / panel_blocks;
            d0 = IG_FUNCTION_floor(od + pad_d - (KD - 1) * dilation_d, stride_d);
            h0 = IG_FUNCTION_floor(oh + pad_h - (KH - 1) * dilation_h, stride_h);
            w0 = IG_FUNCTION_floor(ow + pad_w - (KW - 1) * dilation_w, stride_w);
            slab.depth = IG_FUNCTION_floor(od + pad_d, stride_d) - d0 + 1;
            slab.height = IG_FUNCTION_floor(oh + height - 1 + pad_h, stride_h) - h0 + 1;
            slab.width = IG_FUNCTION_floor(ow + width - 1 + pad_w, stride_w) - w0 + 1;
            IG_FUNCTION_fill(&slab, image_x, size, channels, d0, h0, w0, copy);
        }
        for (int64_t h = 0; h < height; h++)
            for (int64_t phase = 0; phase < stride_w && phase < width; phase++) {
                const int64_t taps = IG_FUNCTION_taps(&slab, size, channels, od, oh + h, ow + phase, d0, h0, w0, tap);
                const int64_t pixels = (width - phase + stride_w - 1) / stride_w;
"""
    + _PANELS.replace("        ", "                ")
    + """\
                    for (int64_t first = 0, count; first < pixels; first += count) {
                        count = IG_FUNCTION_next(pixels - first);
                        IG_FUNCTION_tile(count, slab.data + first * slab.pixel, slab.pixel,
                                         w + (group * panels + panel) * weights, 0, tap, taps, channels, sum, 1);
                        IG_FUNCTION_finish(buffer, size, row + h * OW + phase + first * stride_w, stride_w, count,
                                           group * outputs + panel * $columns, left < $columns ? left : $columns, sum);
                    }
                }
            }
    }
}
"""
)
