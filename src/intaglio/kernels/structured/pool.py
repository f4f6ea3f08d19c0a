"""Pooling of one to three spatial axes."""

from string import Template
from typing import Literal

from intaglio.kernels.structured.source import (
    StructuredKernel,
    VectorTarget,
    maximum,
    minimum,
    quotient_up,
    unpack_sizes,
)
from intaglio.kernels.structured.window import SIZES, Window, window_kernel

Pool = Literal["max", "average", "average_with_pads"]

_GLOBAL_SIZES = ("images", "pixels", "C", "block")


def pool(target: VectorTarget, kind: Pool) -> StructuredKernel:
    """MaxPool or AveragePool of an NDHWC float32 input; `average_with_pads` also counts the pads.

    The output's extents are given, so that any rounding mode is the caller's. A maximum is NaN where a value is.
    """
    return window_kernel(target, _max_window(target) if kind == "max" else _average_window(kind))


def pool_planes(target: VectorTarget, kind: Pool) -> StructuredKernel:
    """The same of an NCDHW input, value by value; the epilogue's row is a row of an output plane, its column `ow`."""
    names = {
        "lanes": target.vector_bytes // 4,
        "start": "-__builtin_inff()" if kind == "max" else "0",
        "step": "acc = value > acc || value != value ? value : acc;" if kind == "max" else "acc += value;",
        "guard": "acc == acc && " if kind == "max" else "",
        "finish": "acc" if kind == "max" else "acc / (float)count",
        "counts": "1" if kind == "average_with_pads" else "0",
        "sizes": unpack_sizes(SIZES),
        "title": f"{kind} pooling",
    }
    return StructuredKernel(
        hint=f"{kind}_pool_planes",
        source=_PLANES.substitute(names),
        buffers=("x",),
        sizes=SIZES,
        tasks="images * C * OD * OH",
        cost="1 + OW * KD * KH * KW",
        defaults={"row_block": "1"},
    )


def global_average_pool(target: VectorTarget) -> StructuredKernel:
    """The mean over all pixels of an image, channels last; the epilogue's row is the image."""
    lanes = target.vector_bytes // 4
    return StructuredKernel(
        hint="global_average_pool",
        source=_GLOBAL.substitute(lanes=lanes, sizes=unpack_sizes(_GLOBAL_SIZES)),
        buffers=("x",),
        sizes=_GLOBAL_SIZES,
        tasks=f"images * {quotient_up('C', 'block')}",
        cost="1 + pixels * block / 16",
        defaults={"block": maximum(str(4 * lanes), minimum("C", str(16 * lanes)))},
    )


def _max_window(target: VectorTarget) -> Window:
    return Window(
        hint="max_pool",
        title="Maximum pooling",
        buffers=("x",),
        start="acc = -__builtin_inff() - (ig_f32){0};",
        step="acc = IG_FUNCTION_maximum(acc, value);",
        finish="",
        functions=_MAXIMUM.substitute(bytes=target.vector_bytes),
    )


def _average_window(kind: Pool) -> Window:
    return Window(
        hint="average_pool",
        title="Average pooling",
        buffers=("x",),
        start="acc = (ig_f32){0};",
        step="acc += value;",
        finish="acc /= (float)count - (ig_f32){0};",
        counts_pads=kind == "average_with_pads",
    )


_MAXIMUM = Template("""\
/* The greater value of each lane; once NaN, always NaN. */
static inline ig_f32 IG_FUNCTION_maximum(ig_f32 a, ig_f32 b)
{
    typedef int32_t mask __attribute__((vector_size($bytes)));
    const mask keeps = (mask)(a >= b) | (mask)(a != a);
    return (ig_f32)(((mask)a & keeps) | ((mask)b & ~keeps));
}

""")

_PLANES = Template("""\
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

/* $title of an NCDHW input. A task is one row of output pixels.
   buffer: x, the epilogue's
   size: images, C, D, H, W, OD, OH, OW, KD, KH, KW, stride_d, stride_h, stride_w, dilation_d, dilation_h, dilation_w,
         pad_d, pad_h, pad_w, end_d, end_h, end_w, OC, row_block, the epilogue's
   tasks: images * C * OD * OH */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    $sizes
    (void)scratch, (void)images, (void)C, (void)OC, (void)row_block;
    for (int64_t task = begin; task < end; task++) {
        const int64_t oh = task % OH, od = task / OH % OD;
        const int64_t d0 = od * stride_d - pad_d, h0 = oh * stride_h - pad_h;
        const float *x = (const float *)buffer[0] + task / OH / OD * D * H * W;
        int64_t rd[2], rh[2], rw[2];
        const int64_t rows = IG_FUNCTION_range(d0, KD, dilation_d, D, end_d, rd) *
                             IG_FUNCTION_range(h0, KH, dilation_h, H, end_h, rh);
        for (int64_t ow = 0; ow < OW; ow += $lanes) {
            const int64_t n = OW - ow < $lanes ? OW - ow : $lanes;
            ig_f32 result = {0};
            for (int64_t l = 0; l < n; l++) {
                const int64_t w0 = (ow + l) * stride_w - pad_w;
                const int64_t count = rows * IG_FUNCTION_range(w0, KW, dilation_w, W, end_w, rw);
                (void)count;
                float acc = $start;
                for (int64_t d = rd[0]; d < rd[1]; d++)
                    for (int64_t h = rh[0]; h < rh[1]; h++)
                        for (int64_t w = rw[0]; w < rw[1]; w++) {
                            const float value =
                                x[((d0 + d * dilation_d) * H + h0 + h * dilation_h) * W + w0 + w * dilation_w];
                            if (${guard}1) {
                                $step
                            }
                        }
                result[l] = $finish;
            }
            if (n == $lanes)
                ig_epilogue(buffer, size, task, ow, result);
            else
                ig_epilogue_n(buffer, size, task, ow, result, n);
        }
    }
}
""")

_GLOBAL = Template("""\
/* Mean over all pixels, channels last. A task is `block` channels of one image.
   buffer: x, the epilogue's
   size: images, pixels, C, block, the epilogue's
   tasks: images * ceil(C / block) */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    $sizes
    const int64_t blocks = (C + block - 1) / block;
    (void)scratch, (void)images;
    for (int64_t task = begin; task < end; task++) {
        const int64_t image = task / blocks, first = task % blocks * block;
        const int64_t last = first + block < C ? first + block : C;
        const ig_f32 count = (float)pixels - (ig_f32){0};
        int64_t col = first;
        for (; col + $lanes <= last; col += $lanes) {
            const float *x = (const float *)buffer[0] + image * pixels * C + col;
            ig_f32 acc[4] = {{0}, {0}, {0}, {0}};
            int64_t p = 0;
            for (; p + 4 <= pixels; p += 4)
                IG_UNROLL for (int u = 0; u < 4; u++)
                    acc[u] += *(const ig_f32_at *)(x + (p + u) * C);
            for (; p < pixels; p++)
                acc[0] += *(const ig_f32_at *)(x + p * C);
            ig_epilogue(buffer, size, image, col, ((acc[0] + acc[1]) + (acc[2] + acc[3])) / count);
        }
        if (col < last) {
            float sums[$lanes] = {0};
            for (int64_t p = 0; p < pixels; p++)
                for (int64_t l = 0; l < last - col; l++)
                    sums[l] += ((const float *)buffer[0])[(image * pixels + p) * C + col + l];
            ig_epilogue_n(buffer, size, image, col, *(const ig_f32_at *)sums / count, last - col);
        }
    }
}
""")
