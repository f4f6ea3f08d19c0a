"""Convolutions of bytes with exact sums in int32, channels last: windows gathered into rows, and depthwise ones."""

from functools import partial
from math import prod
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt

from intaglio.ir.dim import THREADS, Dim, floordiv, maximum, minimum, pieces
from intaglio.targets.c.structured.conv import WINDOW_SIZES
from intaglio.targets.c.structured.integer_tile import (
    Byte,
    IntegerTarget,
    IntegerTile,
    integer_tile,
    integer_tile_source,
    pack_integer,
    pair_source,
)
from intaglio.targets.c.structured.source import Sizes, StructuredKernel, unpack_sizes

_SIZES = (*WINDOW_SIZES, "groups", "OC")


def integer_conv(target: IntegerTarget, left: Byte = "uint8", *, has_zero: bool = False) -> StructuredKernel:
    """Convolution of an NDHWC input of bytes, which has one zero point, with weights from `pack_integer_conv`.

    The epilogue gets the output pixel as its row, and the output channel. What lies outside counts as the zero point.
    """
    tile = integer_tile(target, left)
    sizes = (*_SIZES, "row_block")
    names = tile.names | {
        "rows": tile.block_rows,
        "sizes": unpack_sizes(sizes),
        "takes_sums": "1" if has_zero else "0",
    }
    source = integer_tile_source(tile, has_zero=has_zero, row_zero=False)
    source += (_TAKE_BYTES if tile.quads else _TAKE_WORDS).substitute(names)
    source += _GATHER.substitute(names) + _CONV.substitute(names)
    speed = target.vector_bytes * (4 if tile.quads else 2)
    return StructuredKernel(
        hint="integer_conv",
        source=source,
        buffers=("x", "w", "zero_point"),
        sizes=sizes,
        tasks=lambda size: size["groups"] * pieces(_pixels(size), size["row_block"]),
        cost=lambda size: (
            1
            + floordiv(
                size["row_block"] * _depth(tile, size) * (floordiv(size["OC"], size["groups"]) + tile.columns), speed
            )
        ),
        scratch=partial(_scratch, tile),
        defaults=partial(_row_block, target, tile),
    )


def _pixels(size: Sizes) -> Dim:
    return size["images"] * size["OD"] * size["OH"] * size["OW"]


def _depth(tile: IntegerTile, size: Sizes) -> Dim:
    """Values of a window, filled up to what one instruction multiplies."""
    channels = floordiv(size["C"], size["groups"])
    return pieces(size["KD"] * size["KH"] * size["KW"] * channels, tile.group) * tile.group


def _scratch(tile: IntegerTile, size: Sizes) -> Dim:
    rows = size["row_block"]
    sums = tile.block_rows * tile.columns * 4
    return sums + pieces(rows * 4, 64) * 64 + rows * _depth(tile, size) * tile.left_bytes + 64


def _row_block(target: IntegerTarget, tile: IntegerTile, size: Sizes) -> dict[str, Dim]:
    """Whole tiles of windows that stay in the second cache, and enough of them for all threads."""
    rows, depth = tile.block_rows, _depth(tile, size)
    resident = floordiv(target.l2 // 4 // tile.left_bytes, (depth + 1) * rows) * rows
    share = pieces(_pixels(size), 4 * rows * THREADS) * rows
    return {"row_block": maximum(rows, minimum(8 * rows, minimum(resident, share)))}


def pack_integer_conv(weights: npt.NDArray[Any], zero: Any, groups: int, tile: IntegerTile) -> npt.NDArray[np.uint8]:
    """Weights (OC, C / groups, *kernel) as panels for each group; the depth runs over the kernel, then the channels."""
    outputs = weights.shape[0] // groups
    zeros = np.broadcast_to(np.asarray(zero).reshape(-1), (weights.shape[0],))
    parts = [
        pack_integer(_as_matrix(weights[first : first + outputs]), zeros[first : first + outputs], tile)
        for first in (group * outputs for group in range(groups))
    ]
    return np.stack(parts)


def _as_matrix(weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
    taps = prod(weights.shape[2:])
    moved = np.moveaxis(weights.reshape(*weights.shape[:2], taps), (2, 1, 0), (0, 1, 2))
    return np.ascontiguousarray(moved).reshape(taps * weights.shape[1], weights.shape[0])


def integer_depthwise(target: IntegerTarget, left: Byte = "uint8") -> StructuredKernel:
    """Convolution with as many groups as input and output channels, with weights from `pack_integer_depthwise`."""
    suffix = "u8" if left == "uint8" else "i8"
    names = {
        "title": "Depthwise convolution",
        "start": "ig_u32 acc = {0};",
        "step": f"acc = IG_FUNCTION_dot(acc, ig_cast_{suffix}_u32(value) - zero, ig_load_u32(weight));",
        "step_n": f"acc = IG_FUNCTION_dot(acc, ig_cast_{suffix}_u32(value) - zero, ig_load_n_u32(weight, count));",
        "result": "(ig_i32)acc",
        "zero": f"ig_set_u32((uint32_t)*(const {left}_t *)buffer[2])",
        "weights": "buffer[1]",
    }
    return _window_kernel(target, left, "integer_depthwise", ("x", "w", "zero_point"), pair_source(), names)


def integer_max_pool(target: IntegerTarget, element: Byte = "uint8") -> StructuredKernel:
    """The greatest byte under each window of an NDHWC input, as it is, to the epilogue."""
    suffix = "u8" if element == "uint8" else "i8"
    names = {
        "title": "Maximum pool",
        "start": f"ig_{suffix} acc = ig_set_{suffix}({'0' if element == 'uint8' else '-128'});",
        "step": f"acc = ig_max_{suffix}(acc, value);",
        "step_n": f"acc = ig_max_{suffix}(acc, value);",
        "result": "acc",
        "zero": "(ig_u32){0}",
        "weights": "0",
    }
    return _window_kernel(target, element, "integer_max_pool", ("x",), "", names)


def _window_kernel(
    target: IntegerTarget, element: Byte, hint: str, buffers: tuple[str, ...], functions: str, names: dict[str, str]
) -> StructuredKernel:
    """A kernel that moves a window over each channel by itself."""
    lanes = target.vector_bytes // 4
    common = {"raw": f"{element}_t", "suffix": "u8" if element == "uint8" else "i8", "lanes": str(lanes)}
    return StructuredKernel(
        hint=hint,
        source=functions + _WINDOW.substitute(names, **common, sizes=unpack_sizes(_SIZES)),
        buffers=buffers,
        sizes=_SIZES,
        tasks=lambda size: size["images"] * size["OD"] * size["OH"],
        cost=lambda size: 1 + floordiv(size["OW"] * size["C"] * size["KD"] * size["KH"] * size["KW"], 2 * lanes),
    )


def pack_integer_depthwise(weights: npt.NDArray[Any], zero: Any) -> npt.NDArray[np.uint32]:
    """Weights (C, 1, *kernel) less their zero points as (taps, C), each the lower half of 32 bits."""
    zeros = np.broadcast_to(np.asarray(zero).astype(np.int32).reshape(-1), (weights.shape[0],))
    shifted = weights.reshape(weights.shape[0], prod(weights.shape[1:])).astype(np.int32) - zeros[:, None]
    return np.ascontiguousarray(shifted.T & 0xFFFF).astype(np.uint32)


_TAKE_BYTES = Template("""\

/* Copies a run of bytes, which may be short. */
static inline void IG_FUNCTION_take($type *to, const $raw *from, int64_t count, int32_t zero)
{
    (void)zero;
    if (count >= 16) {
        for (int64_t k = 0; k + 16 <= count; k += 16)
            __builtin_memcpy(to + k, from + k, 16);
        __builtin_memcpy(to + count - 16, from + count - 16, 16);
    } else if (count >= 4) {
        if (count >= 8) {
            __builtin_memcpy(to, from, 8);
            __builtin_memcpy(to + count - 8, from + count - 8, 8);
        } else {
            __builtin_memcpy(to, from, 4);
            __builtin_memcpy(to + count - 4, from + count - 4, 4);
        }
    } else {
        for (int64_t k = 0; k < count; k++)
            to[k] = from[k];
    }
}

static inline void IG_FUNCTION_fill($type *to, int64_t count, int32_t zero)
{
    __builtin_memset(to, zero, (unsigned long)count);
}
""")

_TAKE_WORDS = Template("""\

/* Takes a run of bytes less their zero point. */
static inline void IG_FUNCTION_take($type *to, const $raw *from, int64_t count, int32_t zero)
{
    typedef $raw narrow __attribute__((vector_size(8)));
    typedef int16_t wide __attribute__((vector_size(16)));
    int64_t k = 0;
    for (; k + 8 <= count; k += 8) {
        narrow raw;
        __builtin_memcpy(&raw, from + k, sizeof raw);
        const wide words = __builtin_convertvector(raw, wide) - (int16_t)zero;
        __builtin_memcpy(to + k, &words, sizeof words);
    }
    for (; k < count; k++)
        to[k] = (int16_t)(from[k] - zero);
}

static inline void IG_FUNCTION_fill($type *to, int64_t count, int32_t zero)
{
    (void)zero;
    __builtin_memset(to, 0, (unsigned long)count * sizeof *to);
}
""")

_GATHER = Template("""\

/* The window of one output pixel as a row: kernel rows one after the other, `count` channels from `x` on a tap. */
static inline void
IG_FUNCTION_gather(const int64_t *size, const $raw *x, int64_t count, int64_t image, int64_t od, int64_t oh, int64_t ow,
                   int32_t zero, $type *row)
{
    $sizes
    const int64_t left = ow * stride_w - pad_w;
    for (int64_t kd = 0; kd < KD; kd++)
        for (int64_t kh = 0; kh < KH; kh++, row += KW * count) {
            const int64_t d = od * stride_d - pad_d + kd * dilation_d, h = oh * stride_h - pad_h + kh * dilation_h;
            if (d < 0 || d >= D || h < 0 || h >= H) {
                IG_FUNCTION_fill(row, KW * count, zero);
                continue;
            }
            const $raw *line = x + ((image * D + d) * H + h) * W * C;
            if (dilation_w == 1 && count == C) {
                const int64_t before = left < 0 ? (-left < KW ? -left : KW) : 0;
                const int64_t end = W - left < 0 ? 0 : W - left < KW ? W - left : KW;
                const int64_t taps = end > before ? end - before : 0;
                IG_FUNCTION_fill(row, before * C, zero);
                if (taps)
                    IG_FUNCTION_take(row + before * C, line + (left + before) * C, taps * C, zero);
                IG_FUNCTION_fill(row + (before + taps) * C, (KW - before - taps) * C, zero);
                continue;
            }
            for (int64_t kw = 0; kw < KW; kw++) {
                const int64_t w = left + kw * dilation_w;
                if (w < 0 || w >= W)
                    IG_FUNCTION_fill(row + kw * count, count, zero);
                else
                    IG_FUNCTION_take(row + kw * count, line + w * C, count, zero);
            }
        }
    (void)images, (void)OD, (void)OH, (void)OW, (void)groups, (void)OC, (void)row_block;
}
""")

_CONV = Template("""\

/* Convolution of bytes. A task is row_block output pixels by all output channels of one group.
   buffer: x, w, zero_point, the epilogue's
   tasks: groups * ceil(images * OD * OH * OW / row_block) */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    enum { sum_bytes = $rows * $columns * 4 };
    $sizes
    const $raw *const x = buffer[0], *const zero_point = buffer[2];
    const int64_t inputs = C / groups, outputs = OC / groups, panels = (outputs + $columns - 1) / $columns;
    const int64_t depth = KD * KH * KW * inputs, step = (depth + $group - 1) / $group * $group;
    const int64_t panel_size = step * $columns + $header;
    const int64_t pixels = images * OD * OH * OW, blocks = (pixels + row_block - 1) / row_block;
    uint32_t *const sum = scratch, *const row_sum = (uint32_t *)((char *)scratch + sum_bytes);
    $type *const window = ($type *)((char *)scratch + sum_bytes + (row_block * 4 + 63) / 64 * 64);
    IG_FUNCTION_begin();
    for (int64_t task = begin; task < end; task++) {
        const int64_t which = task / blocks, block = task % blocks;
        const int64_t row = pixels * block / blocks, rows = pixels * (block + 1) / blocks - row;
        for (int64_t r = 0; r < rows; r++) {
            const int64_t pixel = row + r, line = pixel / OW, plane = line / OH;
            $type *const to = window + r * step;
            IG_FUNCTION_gather(size, x + which * inputs, inputs, plane / OD, plane % OD, line % OH, pixel % OW,
                               zero_point[0], to);
            for (int64_t k = depth; k < step; k++)
                to[k] = 0;
            if ($takes_sums)
                row_sum[r] = IG_FUNCTION_row_sum(to, depth);
        }
        const uint8_t *const weights = (const uint8_t *)buffer[1] + which * panels * panel_size;
        for (int64_t panel = 0; panel < panels; panel++) {
            const int64_t col = panel * $columns;
            IG_FUNCTION_panel(buffer, size, window, step, weights + panel * panel_size, rows, step, zero_point, 0,
                              row_sum, row, which * outputs + col,
                              outputs - col < $columns ? outputs - col : $columns, sum);
        }
    }
    IG_FUNCTION_end();
    (void)D, (void)H, (void)W, (void)stride_d, (void)stride_h, (void)stride_w, (void)dilation_d, (void)dilation_h;
    (void)dilation_w, (void)pad_d, (void)pad_h, (void)pad_w;
}
""")

_WINDOW = Template("""\

/* The first and one past the last tap of a window that lie within an extent. */
static inline void
IG_FUNCTION_taps(int64_t at, int64_t kernel, int64_t dilation, int64_t extent, int64_t *first, int64_t *last)
{
    *first = at < 0 ? (-at + dilation - 1) / dilation : 0;
    *last = at >= extent ? 0 : (extent - 1 - at) / dilation + 1;
    if (*last > kernel)
        *last = kernel;
}

/* $title of bytes. A task is one row of output pixels.
   tasks: images * OD * OH */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    $sizes
    const $raw *const x = buffer[0];
    const uint32_t *const w = $weights;
    const ig_u32 zero = $zero;
    (void)scratch, (void)images, (void)groups, (void)OC, (void)zero;
    for (int64_t task = begin; task < end; task++) {
        const int64_t plane = task / OH, image = plane / OD;
        const int64_t d = plane % OD * stride_d - pad_d, h = task % OH * stride_h - pad_h;
        int64_t d_first, d_last, h_first, h_last, w_first, w_last;
        IG_FUNCTION_taps(d, KD, dilation_d, D, &d_first, &d_last);
        IG_FUNCTION_taps(h, KH, dilation_h, H, &h_first, &h_last);
        for (int64_t ow = 0; ow < OW; ow++) {
            const int64_t left = ow * stride_w - pad_w;
            IG_FUNCTION_taps(left, KW, dilation_w, W, &w_first, &w_last);
            for (int64_t c = 0; c < C; c += $lanes) {
                const int64_t count = C - c < $lanes ? C - c : $lanes;
                $start
                for (int64_t kd = d_first; kd < d_last; kd++)
                    for (int64_t kh = h_first; kh < h_last; kh++) {
                        const int64_t line = (image * D + d + kd * dilation_d) * H + h + kh * dilation_h;
                        const $raw *at = x + (line * W + left + w_first * dilation_w) * C + c;
                        const uint32_t *weight = w + ((kd * KH + kh) * KW + w_first) * C + c;
                        (void)weight;
                        if (count == $lanes)
                            for (int64_t kw = w_first; kw < w_last; kw++, at += dilation_w * C, weight += C) {
                                const ig_$suffix value = ig_load_$suffix(at);
                                $step
                            }
                        else
                            for (int64_t kw = w_first; kw < w_last; kw++, at += dilation_w * C, weight += C) {
                                const ig_$suffix value = ig_load_n_$suffix(at, count);
                                $step_n
                            }
                    }
                if (count == $lanes)
                    ig_epilogue(buffer, size, task * OW + ow, c, $result);
                else
                    ig_epilogue_n(buffer, size, task * OW + ow, c, $result, count);
            }
        }
    }
}
""")
