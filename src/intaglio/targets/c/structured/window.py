"""The loops that depthwise and grouped convolution and pooling share: few channels by themselves, channels last."""

from dataclasses import dataclass
from functools import partial
from string import Template

from intaglio.ir.dim import THREADS, Dim, floordiv, maximum, minimum, pieces
from intaglio.targets.c.structured.conv import WINDOW_SIZES
from intaglio.targets.c.structured.source import (
    Sizes,
    StructuredKernel,
    VectorTarget,
    unpack_sizes,
)

SIZES = (*WINDOW_SIZES, "end_d", "end_h", "end_w", "OC", "row_block")
"""`end_*` are the pads behind the last value, which averages may count; OC = C but for groups of several channels."""


@dataclass(frozen=True)
class Window:
    """What happens to the values under a window, as C.

    `start` begins the vector `acc`, `step` takes in `value` (and `weight`), `finish` completes `acc` from `count`. With
    `is_grouped` an output channel reads all channels of its group, and `groups` is one more size.
    """

    hint: str
    title: str
    buffers: tuple[str, ...]
    start: str
    step: str
    finish: str
    functions: str = ""
    has_weights: bool = False
    counts_pads: bool = False
    is_grouped: bool = False


def window_kernel(target: VectorTarget, window: Window) -> StructuredKernel:
    """The kernel that moves `window` over an NDHWC float32 input; the epilogue's row is the output pixel."""
    sizes = (*SIZES, "groups") if window.is_grouped else SIZES
    names = {
        "title": window.title,
        "buffers": ", ".join(window.buffers),
        "start": window.start,
        "step": window.step,
        "finish": window.finish,
        "weights": "buffer[1]" if window.has_weights else "0",
        "weight": _WEIGHT if window.has_weights else "",
        "bytes": target.vector_bytes,
        "first_lanes": ", ".join(str(lane) for lane in range(target.vector_bytes // 4)),
        "lanes": target.vector_bytes // 4,
        "pixels": 8 if target.vector_registers >= 32 else 6,
        "half": 4 if target.vector_registers >= 32 else 3,
        "counts": "1" if window.counts_pads else "0",
        "sizes": unpack_sizes(sizes),
        "size_names": ", ".join(sizes[len(WINDOW_SIZES) :]),
    }
    names["prepare"] = Template(_PLACES).substitute(names) if window.is_grouped else ""
    names["walk"] = Template(_GROUPS if window.is_grouped else _CHANNELS).substitute(names)
    pixels = _SPREAD + _GROUPED_PIXELS if window.is_grouped else _PIXELS
    source = window.functions + _LOAD.substitute(names) + Template(pixels).substitute(names)
    source += _RANGE.substitute(names) + _ROW.substitute(names) + _KERNEL.substitute(names)
    return StructuredKernel(
        hint=window.hint,
        source=source,
        buffers=window.buffers,
        sizes=sizes,
        tasks=lambda size: size["images"] * size["OD"] * pieces(size["OH"], size["row_block"]),
        cost=partial(_cost, target, window),
        defaults=_row_block,
    )


def _cost(target: VectorTarget, window: Window, size: Sizes) -> Dim:
    inputs = floordiv(size["C"], size["groups"]) if window.is_grouped else 1
    values = size["row_block"] * size["OW"] * size["OC"] * size["KD"] * size["KH"] * size["KW"]
    return 1 + floordiv(values * inputs, target.vector_bytes // 2)


def _row_block(size: Sizes) -> dict[str, Dim]:
    share = floordiv(size["images"] * size["OD"] * size["OH"], 8 * THREADS)
    return {"row_block": maximum(1, minimum(size["OH"], share))}


_WEIGHT = "const ig_f32 weight = IG_FUNCTION_load(is_whole, weights + ((d * KH + h) * KW + w) * OC + col, n);"

_LOAD = Template("""\
/* n values, the rest zero; a whole vector in one load. */
static inline __attribute__((always_inline)) ig_f32
IG_FUNCTION_load(const int is_whole, const float *from, int64_t n)
{
    if (is_whole)
        return *(const ig_f32_at *)from;
#if defined __AVX512F__ && IG_LANES == 16
    return __builtin_ia32_loadups512_mask(from, (ig_f32){0}, (uint16_t)((1u << n) - 1));
#elif defined __AVX2__ && IG_LANES == 8
    typedef int32_t lanes __attribute__((vector_size($bytes)));
    return __builtin_ia32_maskloadps256((const ig_f32 *)from, (lanes)((lanes){$first_lanes} < (int32_t)n));
#else
    ig_f32 value = {0};
    for (int64_t l = 0; l < n; l++)
        value[l] = from[l];
    return value;
#endif
}

""")

_PIXELS = """\
/* Adjacent output pixels whose windows are cut alike: taps range[0] <= d < range[1] and so on. `origin` is the place of
   tap (0, 0, 0) of the first pixel, and may lie before the input. */
static inline __attribute__((always_inline)) void
IG_FUNCTION_pixels(const int pixels, const int is_whole, void *const *buffer, const int64_t *size, const int64_t *range,
                   int64_t origin, int64_t count, int64_t row, int64_t col, int64_t n, const int32_t *places)
{
    const int64_t C = size[1], H = size[3], W = size[4], KH = size[9], KW = size[10], OC = size[23];
    const int64_t step_d = size[14] * H * W * C, step_h = size[15] * W * C, step_w = size[16] * C, pixel = size[13] * C;
    const float *x = buffer[0], *weights = $weights;
    (void)KH, (void)KW, (void)OC, (void)weights, (void)count, (void)places;
    ig_f32 sums[$pixels];
    IG_UNROLL for (int p = 0; p < pixels; p++) {
        ig_f32 acc;
        $start
        sums[p] = acc;
    }
    for (int64_t d = range[0]; d < range[1]; d++)
        for (int64_t h = range[2]; h < range[3]; h++)
            for (int64_t w = range[4]; w < range[5]; w++) {
                const float *from = x + (origin + d * step_d + h * step_h + w * step_w + col);
                $weight
                IG_UNROLL for (int p = 0; p < pixels; p++) {
                    const ig_f32 value = IG_FUNCTION_load(is_whole, from + p * pixel, n);
                    ig_f32 acc = sums[p];
                    $step
                    sums[p] = acc;
                }
            }
    IG_UNROLL for (int p = 0; p < pixels; p++) {
        ig_f32 acc = sums[p];
        $finish
        if (is_whole)
            ig_epilogue(buffer, size, row + p, col, acc);
        else
            ig_epilogue_n(buffer, size, row + p, col, acc, n);
    }
}

"""

_SPREAD = """\
typedef int32_t IG_FUNCTION_lanes __attribute__((vector_size($bytes)));

/* Lane l of the result is lane place[l] of the values. */
static inline __attribute__((always_inline)) ig_f32 IG_FUNCTION_spread(ig_f32 value, IG_FUNCTION_lanes place)
{
#ifndef __clang__
    return __builtin_shuffle(value, place);
#elif defined __AVX512F__ && IG_LANES == 16
    return __builtin_ia32_permvarsf512(value, place);
#elif defined __AVX2__ && IG_LANES == 8
    return __builtin_ia32_permvarsf256(value, place);
#else
    ig_f32 result;
    for (int l = 0; l < $lanes; l++)
        result[l] = value[place[l]];
    return result;
#endif
}

"""

_GROUPED_PIXELS = """\
/* Adjacent output pixels whose windows are cut alike, for the n output channels from `col` on: whole groups, whose
   input channels fit one vector. */
static inline __attribute__((always_inline)) void
IG_FUNCTION_pixels(const int pixels, const int is_whole, void *const *buffer, const int64_t *size, const int64_t *range,
                   int64_t origin, int64_t count, int64_t row, int64_t col, int64_t n, const int32_t *places)
{
    const int64_t C = size[1], H = size[3], W = size[4], KH = size[9], KW = size[10], OC = size[23], groups = size[25];
    const int64_t step_d = size[14] * H * W * C, step_h = size[15] * W * C, step_w = size[16] * C, pixel = size[13] * C;
    const int64_t inputs = C / groups, outputs = OC / groups, used = n / outputs * inputs;
    const float *x = (const float *)buffer[0] + col / outputs * inputs;
    IG_FUNCTION_lanes first;
    __builtin_memcpy(&first, places, sizeof first);
    (void)count;
    ig_f32 sums[$pixels];
    IG_UNROLL for (int p = 0; p < pixels; p++)
        sums[p] = (ig_f32){0};
    for (int64_t d = range[0]; d < range[1]; d++)
        for (int64_t h = range[2]; h < range[3]; h++)
            for (int64_t w = range[4]; w < range[5]; w++) {
                const float *from = x + (origin + d * step_d + h * step_h + w * step_w);
                const float *weights = (const float *)buffer[1] + ((d * KH + h) * KW + w) * inputs * OC + col;
                ig_f32 values[$pixels];
                IG_UNROLL for (int p = 0; p < pixels; p++)
                    values[p] = IG_FUNCTION_load(0, from + p * pixel, used);
                for (int64_t i = 0; i < inputs; i++, weights += OC) {
                    const ig_f32 weight = IG_FUNCTION_load(is_whole, weights, n);
                    IG_UNROLL for (int p = 0; p < pixels; p++)
                        sums[p] += IG_FUNCTION_spread(values[p], first + (int32_t)i) * weight;
                }
            }
    IG_UNROLL for (int p = 0; p < pixels; p++)
        if (is_whole)
            ig_epilogue(buffer, size, row + p, col, sums[p]);
        else
            ig_epilogue_n(buffer, size, row + p, col, sums[p], n);
}

"""

TAPS = """\
static inline int64_t
IG_FUNCTION_range(int64_t start, int64_t taps, int64_t dilation, int64_t extent, int64_t end, int64_t *range)
{
    int64_t first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    int64_t last = extent > start ? (extent - start + dilation - 1) / dilation : 0;
    int64_t padded = extent + end > start ? (extent + end - start + dilation - 1) / dilation : 0;
    last = last < taps ? last : taps;
    padded = padded < taps ? padded : taps;
    range[0] = first < last ? first : last;
    range[1] = last;
    return $counts ? padded : range[1] - range[0];
}
"""
"""`IG_FUNCTION_range`: the taps of one axis that lie inside for a window at `start`, and how many an average counts."""

_RANGE = Template(f"""\
/* The taps of one axis that lie inside for a window at `start`; returns how many of them an average counts. */
{TAPS}
""")

_ROW = Template("""\
/* One row of output pixels for the n channels from `col` on. */
static inline void
IG_FUNCTION_columns(const int is_whole, void *const *buffer, const int64_t *size, int64_t *range, int64_t origin,
                    int64_t count, int64_t row, int64_t col, int64_t n, const int32_t *places)
{
    const int64_t C = size[1], W = size[4], OW = size[7], KW = size[10], stride = size[13], dilation = size[16];
    const int64_t pad = size[19], end = size[22];
    for (int64_t ow = 0; ow < OW;) {
        const int64_t start = ow * stride - pad, here = origin + start * C, room = W - 1 - (KW - 1) * dilation - start;
        const int64_t counted = count * IG_FUNCTION_range(start, KW, dilation, W, end, range + 4);
        int64_t alike = start < 0 || room < 0 ? 1 : room / stride + 1;
        alike = alike < OW - ow ? alike : OW - ow;
        if (alike >= $pixels) {
            IG_FUNCTION_pixels($pixels, is_whole, buffer, size, range, here, counted, row + ow, col, n, places);
            ow += $pixels;
        } else if (alike >= $half) {
            IG_FUNCTION_pixels($half, is_whole, buffer, size, range, here, counted, row + ow, col, n, places);
            ow += $half;
        } else {
            IG_FUNCTION_pixels(1, is_whole, buffer, size, range, here, counted, row + ow, col, n, places);
            ow++;
        }
    }
}

""")

_KERNEL = Template("""\
/* $title of an NDHWC input. A task is row_block rows of output pixels.
   buffer: $buffers, the epilogue's
   size: images, C, D, H, W, OD, OH, OW, KD, KH, KW, stride_d, stride_h, stride_w, dilation_d, dilation_h, dilation_w,
         pad_d, pad_h, pad_w, $size_names, the epilogue's
   tasks: images * OD * ceil(OH / row_block) */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    $sizes
    const int64_t row_blocks = (OH + row_block - 1) / row_block;
    (void)scratch, (void)images, (void)KW, (void)stride_w, (void)dilation_w, (void)pad_w, (void)end_w;
$prepare
    for (int64_t task = begin; task < end; task++) {
        const int64_t block = task % row_blocks, od = task / row_blocks % OD, image = task / row_blocks / OD;
        for (int64_t oh = OH * block / row_blocks; oh < OH * (block + 1) / row_blocks; oh++) {
            const int64_t d = od * stride_d - pad_d, h = oh * stride_h - pad_h;
            const int64_t origin = ((image * D + d) * H + h) * W * C, row = ((image * OD + od) * OH + oh) * OW;
            int64_t range[6];
            const int64_t count = IG_FUNCTION_range(d, KD, dilation_d, D, end_d, range) *
                                  IG_FUNCTION_range(h, KH, dilation_h, H, end_h, range + 2);
$walk
        }
    }
}
""")

_CHANNELS = """\
            int64_t col = 0;
            for (; col + $lanes <= OC; col += $lanes)
                IG_FUNCTION_columns(1, buffer, size, range, origin, count, row, col, $lanes, 0);
            if (col < OC)
                IG_FUNCTION_columns(0, buffer, size, range, origin, count, row, col, OC - col, 0);"""

_PLACES = """\
    /* As many groups at a time as a vector holds, and where the first input of each of their outputs stands. */
    const int64_t larger = C > OC ? C / groups : OC / groups, most = larger ? $lanes / larger * (OC / groups) : 0;
    int32_t places[$lanes];
    for (int64_t l = 0; l < $lanes; l++)
        places[l] = (int32_t)(l < most ? l / (OC / groups) * (C / groups) : 0);"""

_GROUPS = """\
            for (int64_t col = 0; col < OC; col += most)
                if (most == $lanes && OC - col >= most)
                    IG_FUNCTION_columns(1, buffer, size, range, origin, count, row, col, $lanes, places);
                else
                    IG_FUNCTION_columns(0, buffer, size, range, origin, count, row, col,
                                        OC - col < most ? OC - col : most, places);"""
