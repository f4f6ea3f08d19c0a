"""Winograd's convolution for 3x3 filters with stride 1: fewer products, more rounding."""

from functools import partial
from string import Template
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from intaglio.ir.dim import THREADS, Dim, at_most, floordiv, maximum, minimum, pieces, select
from intaglio.memory.constants import allocated
from intaglio.targets.c.structured.source import (
    Sizes,
    StructuredKernel,
    Tile,
    VectorTarget,
    register_tile,
    unpack_sizes,
)
from intaglio.targets.c.structured.tile import tile_source

Output = Literal[2, 4]

_SIZES = ("images", "C", "H", "W", "OH", "OW", "pad_h", "pad_w", "OC", "tile_block", "panel_block")

_FILTER: dict[Output, list[list[float]]] = {
    2: [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
    4: [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ],
}

# One axis of the transforms: values i[...] to o[...].
_TO_PRODUCT: dict[Output, str] = {
    2: """\
    o[0] = i[0] - i[2];
    o[1] = i[1] + i[2];
    o[2] = i[2] - i[1];
    o[3] = i[1] - i[3];
""",
    4: """\
    const ig_f32 a = i[4] - 4 * i[2], b = i[3] - 4 * i[1], c = i[4] - i[2], d = 2 * (i[3] - i[1]);
    o[0] = 4 * i[0] - 5 * i[2] + i[4];
    o[1] = a + b;
    o[2] = a - b;
    o[3] = c + d;
    o[4] = c - d;
    o[5] = 4 * i[1] - 5 * i[3] + i[5];
""",
}
_FROM_PRODUCT: dict[Output, str] = {
    2: """\
    o[0] = i[0] + i[1] + i[2];
    o[1] = i[1] - i[2] - i[3];
""",
    4: """\
    const ig_f32 a = i[1] + i[2], b = i[1] - i[2], c = i[3] + i[4], d = i[3] - i[4];
    o[0] = i[0] + a + c;
    o[1] = b + 2 * d;
    o[2] = a + 4 * c;
    o[3] = b + 8 * d + i[5];
""",
}

_MIDDLE: dict[Output, tuple[int, int, int]] = {2: (1, 2, 1), 4: (2, 1, 3)}
"""How the middle tap of one axis comes out of the transform: (a, b, f) for f * (o[a] - o[b])."""

_FIRST: dict[Output, int] = {2: 1, 4: 4}
"""The factor of the first tap, which is that of the transform's first value; the last is the last value itself."""

LARGE = 2.0**20
"""A tile with a number from here on, or with one that is not finite, is computed directly: what the transforms round
is in proportion to the largest number of the tile, and their sums overflow long before the result does."""

LARGEST_WEIGHT = 1e20
"""With weights up to here no sum of numbers below LARGE overflows."""

_CHUNK = 8
"""Channels whose weights are made again at once where a tile is computed directly."""

_PACKED_AT_ONCE = 2**19
"""So many weights are transformed at once: more would only take memory."""


def winograd(target: VectorTarget, output: Output = 4) -> StructuredKernel:
    """3x3 convolution with stride 1 and dilation 1, ungrouped, of an NHWC float32 input.

    Computes output x output pixels from each (output + 2) x (output + 2) of the input. Weights from `pack_winograd`;
    the epilogue's row is the output pixel. Rounds more than `conv`: about as much for 2, tenfold for 4. Tiles that hold
    infinities, NaN or numbers from LARGE on are summed directly, with weights made again from the packed ones.
    """
    tile = register_tile(target)
    assert 4 * tile.rows <= 64, "the kernel keeps a bit for each tile of a block"
    side = output + 2
    names = {
        "output": output,
        "side": side,
        "positions": side * side,
        "lanes": tile.lanes,
        "columns": tile.columns,
        "rows": tile.rows,
        "to_product": _TO_PRODUCT[output],
        "from_product": _FROM_PRODUCT[output],
        "sizes": unpack_sizes(_SIZES),
        "limit": f"{LARGE * LARGE!r}f",
        "chunk": _CHUNK,
        "plus": f"0, {_MIDDLE[output][0]}, {side - 1}",
        "minus": f"-1, {_MIDDLE[output][1]}, -1",
        "factor": f"{_FIRST[output]}, {_MIDDLE[output][2]}, 1",
    }
    return StructuredKernel(
        hint=f"winograd{output}",
        source=tile_source(tile)
        + "\n"
        + "\n".join(part.substitute(names) for part in (_GATHER, _SCATTER, _DIRECT, _KERNEL)),
        buffers=("x", "w"),
        sizes=_SIZES,
        tasks=lambda size: (
            pieces(_tiles(output, size), size["tile_block"])
            * pieces(pieces(size["OC"], tile.columns), size["panel_block"])
        ),
        cost=lambda size: (
            1
            + floordiv(
                size["tile_block"] * size["panel_block"] * size["C"] * (2 * tile.columns * side * side),
                target.vector_bytes * 2,
            )
        ),
        scratch=partial(_scratch, tile, side),
        defaults=partial(_blocks, target, tile, output),
        tile=f"{tile.rows}x{tile.columns}, {output}x{output} results of {side}x{side}",
    )


def pack_winograd(weights: npt.NDArray[Any], target: VectorTarget, output: Output = 4) -> npt.NDArray[Any]:
    """Weights (OC, C, 3, 3), transformed, as (panels, positions, C, columns)."""
    matrix = np.array(_FILTER[output])
    outputs, channels = weights.shape[:2]
    columns = register_tile(target).columns
    panels = -(-outputs // columns)
    transform = np.kron(matrix, matrix).astype(np.float32)
    packed = allocated((panels, len(transform), channels, columns), np.float32)
    step = max(1, _PACKED_AT_ONCE // (9 * channels * columns))
    for first in range(0, panels, step):
        part = allocated((min(step, panels - first) * columns, channels, 9), np.float32)
        given = weights[first * columns : first * columns + len(part)]
        part[: len(given)], part[len(given) :] = given.reshape(-1, channels, 9), 0
        transformed = allocated((len(transform), len(part) * channels), np.float32)
        np.matmul(transform, part.reshape(-1, 9).T, out=transformed)
        _keep_zeros(transformed, part.reshape(-1, 9), output)
        packed[first : first + step] = transformed.reshape(-1, len(part) // columns, columns, channels).transpose(
            1, 0, 3, 2
        )
    return packed


def _keep_zeros(transformed: npt.NDArray[Any], filters: npt.NDArray[Any], output: Output) -> None:
    """Change last bits so that taps of zero are found as zero again: an infinity times such a tap is NaN."""
    if filters.all():
        return
    at, (a, b, _) = transformed.reshape(output + 2, output + 2, -1), _MIDDLE[output]
    for place, tap in ((0, 1), (-1, 7)):
        np.copyto(at[place, a], at[place, b], where=filters[:, tap] == 0)
    for place, tap in ((0, 3), (-1, 5)):
        np.copyto(at[a, place], at[b, place], where=filters[:, tap] == 0)
    middle = np.array((a, b))
    places = middle[:, None, None], middle[:, None], np.flatnonzero(filters[:, 4] == 0)
    corners = at[places]
    _, exponent = np.frexp(np.abs(corners).max(axis=(0, 1)))
    corners = np.ldexp(np.rint(np.ldexp(corners, 22 - exponent)), exponent - 22)  # so that sums of four are exact
    corners[0, 0] = corners[0, 1] + (corners[1, 0] - corners[1, 1])
    at[places] = corners


def preferred_output(height: int, width: int, channels: int) -> Output:
    """The faster of the two for an output of height x width pixels.

    Large tiles waste much of a small image and need more of the weights' bandwidth; where both tie, the smaller
    rounds less.
    """
    pixels = height * width
    return 4 if pixels > 14 * 14 or (pixels == 14 * 14 and channels < 256) else 2


def _tiles(output: Output, size: Sizes) -> Dim:
    return size["images"] * pieces(size["OH"], output) * pieces(size["OW"], output)


def _scratch(tile: Tile, side: int, size: Sizes) -> Dim:
    row = (pieces(size["C"], tile.lanes) + 1) * tile.lanes
    return side * side * tile.bytes * (size["tile_block"] * (row + tile.columns) + 2 * tile.lanes)


def _blocks(target: VectorTarget, tile: Tile, output: Output, size: Sizes) -> dict[str, Dim]:
    """As many tiles as leave half of the second cache to their transformed values, in whole register tiles."""
    rows, side, tiles, panels = tile.rows, output + 2, _tiles(output, size), pieces(size["OC"], tile.columns)
    resident = floordiv(target.l2 // 2 // (4 * side * side), (size["C"] + 1) * rows) * rows
    tile_block = maximum(1, minimum(maximum(rows, minimum(4 * rows, resident)), tiles))
    share = floordiv(panels * pieces(tiles, tile_block), 4 * THREADS)
    panel_block = maximum(1, select(at_most(4 * THREADS * tile_block, tiles), panels, share))
    return {"tile_block": tile_block, "panel_block": panel_block}


_GATHER = Template("""\
static inline __attribute__((always_inline)) void IG_FUNCTION_to_product(const ig_f32 *i, ig_f32 *o)
{
$to_product}

/* `n` channels of the pixel at (h, w); zero outside of the image. */
static inline ig_f32
IG_FUNCTION_pixel(const float *x, const int64_t *size, int64_t h, int64_t w, int64_t n)
{
    ig_f32 value = {0};
    if (h < 0 || h >= size[2] || w < 0 || w >= size[3])
        return value;
    const float *from = x + (h * size[3] + w) * size[1];
    if (n == $lanes)
        return *(const ig_f32_at *)from;
    __builtin_memcpy(&value, from, (uint64_t)n * sizeof *from);
    return value;
}

/* Transforms the $side x $side pixels from (h, w) on, for every channel; position p goes to to[p * step]. Tells whether
   the sum of the squares of one channel is out of bounds or not a number. */
static inline int
IG_FUNCTION_gather(const float *x, const int64_t *size, int64_t h, int64_t w, float *to, int64_t step)
{
    const int64_t C = size[1], W = size[3];
    const int is_inside = h >= 0 && w >= 0 && h + $side <= size[2] && w + $side <= W;
    __typeof__((ig_f32){0} < (ig_f32){0}) is_small = (ig_f32){0} == (ig_f32){0};
    for (int64_t c = 0; c < C; c += $lanes, to += $lanes) {
        const int64_t n = C - c < $lanes ? C - c : $lanes;
        ig_f32 columns[$side][$side], copy[$side * $side], squares[2] = {{0}, {0}};
        const float *from = x + (h * W + w) * C + c;
        int64_t row_step = W * C, pixel_step = C;
        if (!is_inside || n < $lanes) {
            for (int64_t i = 0; i < $side * $side; i++)
                copy[i] = IG_FUNCTION_pixel(x + c, size, h + i / $side, w + i % $side, n);
            from = (const float *)copy;
            row_step = $side * $lanes;
            pixel_step = $lanes;
        }
        IG_UNROLL for (int j = 0; j < $side; j++) {
            ig_f32 in[$side], out[$side];
            IG_UNROLL for (int i = 0; i < $side; i++)
                in[i] = *(const ig_f32_at *)(from + i * row_step + j * pixel_step);
            IG_UNROLL for (int i = 0; i < $side; i++)
                squares[j % 2] += in[i] * in[i];
            IG_FUNCTION_to_product(in, out);
            IG_UNROLL for (int i = 0; i < $side; i++)
                columns[i][j] = out[i];
        }
        is_small &= squares[0] + squares[1] < $limit - (ig_f32){0};
        IG_UNROLL for (int i = 0; i < $side; i++) {
            ig_f32 out[$side];
            IG_FUNCTION_to_product(columns[i], out);
            IG_UNROLL for (int j = 0; j < $side; j++)
                *(ig_f32_at *)(to + (i * $side + j) * step) = out[j];
        }
    }
    int is_large = 0;
    for (int l = 0; l < $lanes; l++)
        is_large |= !is_small[l];
    return is_large;
}

/* The same pixels as they are. */
static __attribute__((noinline)) void
IG_FUNCTION_copy(const float *x, const int64_t *size, int64_t h, int64_t w, float *to, int64_t step)
{
    for (int64_t c = 0; c < size[1]; c += $lanes)
        for (int64_t i = 0; i < $side * $side; i++)
            *(ig_f32_at *)(to + i * step + c) = IG_FUNCTION_pixel(x + c, size, h + i / $side, w + i % $side,
                                                                  size[1] - c < $lanes ? size[1] - c : $lanes);
}
""")

_SCATTER = Template("""\
static inline __attribute__((always_inline)) void IG_FUNCTION_from_product(const ig_f32 *i, ig_f32 *o)
{
$from_product}

/* Transforms one tile's products back: `height` by `width` output pixels from result row `row` on. */
static inline void
IG_FUNCTION_scatter(void *const *buffer, const int64_t *size, const float *from, int64_t step, int64_t row,
                    int64_t height, int64_t width, int64_t col, int64_t columns)
{
    for (int64_t c = 0; c < columns; c += $lanes) {
        ig_f32 lines[$output][$side], result[$output][$output];
        IG_UNROLL for (int j = 0; j < $side; j++) {
            ig_f32 in[$side], out[$output];
            IG_UNROLL for (int i = 0; i < $side; i++)
                in[i] = *(const ig_f32_at *)(from + c + (i * $side + j) * step);
            IG_FUNCTION_from_product(in, out);
            IG_UNROLL for (int i = 0; i < $output; i++)
                lines[i][j] = out[i];
        }
        IG_UNROLL for (int i = 0; i < $output; i++)
            IG_FUNCTION_from_product(lines[i], result[i]);
        for (int64_t i = 0; i < height; i++)
            for (int64_t j = 0; j < width; j++) {
                if (columns - c >= $lanes)
                    ig_epilogue(buffer, size, row + i * size[5] + j, col + c, result[i][j]);
                else
                    ig_epilogue_n(buffer, size, row + i * size[5] + j, col + c, result[i][j], columns - c);
            }
    }
}
""")

_DIRECT = Template("""\
/* Makes the nine taps of one panel again, for `channels` channels from the transformed weights `w` on. */
static inline void IG_FUNCTION_taps(const float *w, int64_t position, int64_t channels, float *to)
{
    static const int plus[3] = {$plus}, minus[3] = {$minus}, factor[3] = {$factor};
    for (int k = 0; k < 9; k++) {
        const int i = k / 3, j = k % 3;
        const float *above = w + plus[i] * $side * position;
        for (int64_t c = 0; c < channels * $columns; c += $lanes) {
            ig_f32 tap = *(const ig_f32_at *)(above + plus[j] * position + c);
            if (minus[j] >= 0)
                tap -= *(const ig_f32_at *)(above + minus[j] * position + c);
            if (minus[i] >= 0) {
                const float *below = w + minus[i] * $side * position;
                ig_f32 other = *(const ig_f32_at *)(below + plus[j] * position + c);
                if (minus[j] >= 0)
                    other -= *(const ig_f32_at *)(below + minus[j] * position + c);
                tap -= other;
            }
            *(ig_f32_at *)(to + k * $chunk * $columns + c) = tap * (float)(factor[i] * factor[j]);
        }
    }
}

/* One tile by direct sums of the pixels in `from`; the rest as for scatter. */
static __attribute__((noinline)) void
IG_FUNCTION_direct(void *const *buffer, const int64_t *size, const float *from, int64_t step, const float *w,
                   int64_t row, int64_t height, int64_t width, int64_t col, int64_t columns)
{
    float taps[9 * $chunk * $columns], sums[$output][$output * $columns];
    const int64_t C = size[1];
    int64_t tap[18];
    for (int64_t k = 0; k < 9; k++) {
        tap[2 * k] = (k / 3 * $side + k % 3) * step;
        tap[2 * k + 1] = k * $chunk * $columns;
    }
    for (int64_t c = 0; c < C; c += $chunk) {
        const int64_t channels = C - c < $chunk ? C - c : $chunk;
        IG_FUNCTION_taps(w + c * $columns, C * $columns, channels, taps);
        for (int64_t i = 0; i < height; i++)
            IG_FUNCTION_tile(width, from + i * $side * step + c, step, taps, 0, tap, 9, channels, sums[i], c == 0);
    }
    for (int64_t i = 0; i < height; i++)
        IG_FUNCTION_finish(buffer, size, row + i * size[5], 1, width, col, columns, sums[i]);
}
""")

_KERNEL = Template("""\
/* Winograd convolution, $output x $output outputs a tile. A task is tile_block tiles, all images in one row, by
   panel_block panels of $columns output channels.
   buffer: x, w, the epilogue's
   size: images, C, H, W, OH, OW, pad_h, pad_w, OC, tile_block, panel_block, the epilogue's
   tasks: ceil(images * ceil(OH / $output) * ceil(OW / $output) / tile_block) *
          ceil(ceil(OC / $columns) / panel_block) */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    static const int64_t here[2] = {0, 0};
    $sizes
    const int64_t across = (OW + $output - 1) / $output, down = (OH + $output - 1) / $output;
    const int64_t tiles = images * across * down, tile_blocks = (tiles + tile_block - 1) / tile_block;
    const int64_t panels = (OC + $columns - 1) / $columns, panel_blocks = (panels + panel_block - 1) / panel_block;
    const int64_t row_step = (C + $lanes - 1) / $lanes * $lanes + $lanes;
    const int64_t value_step = tile_block * row_step + $lanes, sum_step = tile_block * $columns + $lanes;
    float *value = scratch, *sum = value + $positions * value_step;
    int64_t previous = -1;
    uint64_t large = 0; /* the tiles of the block to be computed directly, a bit each */
    for (int64_t task = begin; task < end; task++) {
        const int64_t block = task / panel_blocks, panel_index = task % panel_blocks;
        const int64_t first = tiles * block / tile_blocks, count = tiles * (block + 1) / tile_blocks - first;
        large = block == previous ? large : 0;
        for (int64_t t = 0; block != previous && t < count; t++) {
            const int64_t tile = first + t, h = tile / across % down * $output - pad_h;
            const int64_t w = tile % across * $output - pad_w;
            const float *image = (const float *)buffer[0] + tile / (across * down) * H * W * C;
            if (IG_FUNCTION_gather(image, size, h, w, value + t * row_step, value_step)) {
                IG_FUNCTION_copy(image, size, h, w, value + t * row_step, value_step);
                large |= (uint64_t)1 << t;
            }
        }
        previous = block;
        const int64_t last = panels * (panel_index + 1) / panel_blocks, parts = (count + $rows - 1) / $rows;
        for (int64_t panel = panels * panel_index / panel_blocks; panel < last; panel++) {
            const float *packed = (const float *)buffer[1] + panel * $positions * C * $columns, *w = packed;
            const int64_t col = panel * $columns, columns = OC - col < $columns ? OC - col : $columns;
            for (int64_t p = 0; p < $positions; p++, w += C * $columns)
                for (int64_t part = 0; part < parts; part++) {
                    const int64_t t = count * part / parts, rows = count * (part + 1) / parts - t;
                    IG_FUNCTION_tile(rows, value + p * value_step + t * row_step, row_step, w, 0, here, 1, C,
                                     sum + p * sum_step + t * $columns, 1);
                }
            for (int64_t t = 0; t < count; t++) {
                const int64_t tile = first + t, image = tile / (across * down);
                const int64_t oh = tile / across % down * $output, ow = tile % across * $output;
                const int64_t row = (image * OH + oh) * OW + ow;
                const int64_t height = OH - oh < $output ? OH - oh : $output;
                const int64_t width = OW - ow < $output ? OW - ow : $output;
                if (large >> t & 1)
                    IG_FUNCTION_direct(buffer, size, value + t * row_step, value_step, packed, row, height, width,
                                       col, columns);
                else
                    IG_FUNCTION_scatter(buffer, size, sum + t * $columns, sum_step, row, height, width, col, columns);
            }
        }
    }
}
""")
