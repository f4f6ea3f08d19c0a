"""Attention as C text: for some queries of a head the scores with all keys, their softmax, and its product with V.

The scores stay in scratch memory that a core's cache holds.
"""

from dataclasses import dataclass
from string import Template
from typing import Literal

from intaglio.ir.dim import Dim, maximum, pieces
from intaglio.targets.c.structured.gemm import dot_source
from intaglio.targets.c.structured.pack import panel_packer
from intaglio.targets.c.structured.source import VectorTarget, register_tile
from intaglio.targets.c.structured.tile import sum_source

Mask = Literal["none", "float", "bool"]


@dataclass(frozen=True)
class AttentionKind:
    """What is compiled in: the mask's type and whether it repeats along the keys, causal order, a soft cap."""

    mask: Mask = "none"
    mask_repeats: bool = False
    is_causal: bool = False
    has_cap: bool = False


def attention_helpers(target: VectorTarget) -> str:
    """C of the products that the body calls."""
    tile = register_tile(target)
    pack_v = panel_packer(tile, "rows").replace("IG_FUNCTION_pack", "IG_FUNCTION_pack_v")
    return "\n".join((sum_source(tile), panel_packer(tile, "columns"), dot_source(tile), pack_v, _MIX)).replace(
        "$", "$$"
    )


def attention_body(kind: AttentionKind, target: VectorTarget) -> str:
    """C of the kernel; a task is `row_block` queries of one head of one batch."""
    tile = register_tile(target)
    suffix = "u8" if kind.mask == "bool" else "f32"
    loads = (f"ig_load_{suffix}(bias + j)", f"ig_load_n_{suffix}(bias + j, n)")
    if kind.mask_repeats:
        loads = (f"ig_broadcast_{suffix}(bias)",) * 2
    return Template(_BODY).substitute(
        columns=tile.columns,
        visible="past + first + rows < T ? past + first + rows : T" if kind.is_causal else "T",
        limit="past + first + r + 1 < T ? past + first + r + 1 : T" if kind.is_causal else "visible",
        cap="x = cap * ig_tanh_f32(x / cap);" if kind.has_cap else "",
        bias="" if kind.mask == "none" else _BIAS[suffix],
        mask=_masked(suffix, loads[0]) if kind.mask != "none" else "",
        mask_n=_masked(suffix, loads[1]) if kind.mask != "none" else "",
    )


def _masked(suffix: str, load: str) -> str:
    if suffix == "f32":
        return f"x += {load};"
    return f"x = ig_select_f32(-ig_cast_u8_i32({load}), x, lowest);"


def scratch_bytes(target: VectorTarget, row_block: Dim, keys: Dim, size: Dim) -> Dim:
    """The bytes of scratch memory for blocks of queries with so many keys, each of a size."""
    columns = register_tile(target).columns
    padded = pieces(keys, columns) * columns + columns + 1
    return (row_block * padded + maximum(keys, size) * columns + 64) * 4


_BIAS = {
    "f32": "const float *bias = mask + b * mask_batch + h * mask_head + (first + r) * mask_row;",
    "u8": "const uint8_t *bias = mask + b * mask_batch + h * mask_head + (first + r) * mask_row;",
}

_MIX = """
/* out = over t: weight t x row t of v, a row of `columns` elements. */
static inline void
IG_FUNCTION_mix(const float *weight, const float *v, int64_t v_row, int64_t depth, int64_t columns, float scale,
                float *out)
{
    for (int64_t c = 0; c < columns; c += 4 * IG_LANES) {
        ig_f32 sum[4] = {{0}, {0}, {0}, {0}};
        const int64_t left = columns - c;
        if (left >= 4 * IG_LANES) {
            for (int64_t t = 0; t < depth; t++)
                IG_UNROLL for (int u = 0; u < 4; u++)
                    sum[u] += ig_set_f32(weight[t]) * ig_load_f32(v + t * v_row + c + u * IG_LANES);
            IG_UNROLL for (int u = 0; u < 4; u++)
                ig_store_f32(out + c + u * IG_LANES, sum[u] * scale);
            continue;
        }
        for (int64_t l = c; l < columns; l += IG_LANES) {
            const int64_t n = columns - l < IG_LANES ? columns - l : IG_LANES;
            ig_f32 total = {0};
            for (int64_t t = 0; t < depth; t++)
                total += ig_set_f32(weight[t]) * ig_load_n_f32(v + t * v_row + l, n);
            ig_store_n_f32(out + l, total * scale, n);
        }
    }
}
"""

_BODY = """\
    static const int64_t here[2] = {0, 0};
    const int64_t row_blocks = (S + row_block - 1) / row_block, width = (T + $columns - 1) / $columns * $columns;
    float *scores = scratch, *sum = scores + row_block * width, *packed = sum + row_block * $columns;
    float *scales = packed + (T > D ? T : D) * $columns;
    const float factor = parameter[0], cap = parameter[1];
    const ig_f32 lowest = ig_set_f32(-__builtin_inff());
    (void)past, (void)cap, (void)mask, (void)mask_batch, (void)mask_head, (void)mask_row;
    for (int64_t task = begin; task < end; task++) {
        const int64_t block = task % row_blocks, b = task / row_blocks / heads, h = task / row_blocks % heads;
        const int64_t first = S * block / row_blocks, rows = S * (block + 1) / row_blocks - first;
        const int64_t visible = $visible;
        const float *q_rows = q + b * q_batch + h * q_head + first * q_row;
        const float *keys = k + b * k_batch + h / group * k_head, *values = v + b * v_batch + h / group * v_head;
        float *out = y + b * y_batch + h * y_head + first * y_row;
        for (int64_t key = 0; key < visible; key += $columns) {
            const int64_t count = visible - key < $columns ? visible - key : $columns;
            if (rows <= 2) {
                IG_FUNCTION_dots(q_rows, q_row, keys + key * k_row, k_row, rows, D, count, sum);
            } else {
                IG_FUNCTION_pack(keys + key * k_row, k_row, D, count, packed);
                for (int64_t from = 0, size; from < rows; from += size) {
                    size = IG_FUNCTION_next(rows - from);
                    IG_FUNCTION_tile(size, q_rows + from * q_row, q_row, packed, 0, here, 1, D, sum + from * $columns,
                                     1);
                }
            }
            for (int64_t r = 0; r < rows; r++)
                IG_UNROLL for (int c = 0; c < $columns; c += IG_LANES)
                    ig_store_f32(scores + r * width + key + c, ig_load_f32(sum + r * $columns + c) * factor);
        }
        for (int64_t r = 0; r < rows; r++) {
            const int64_t limit = $limit;
            float *row = scores + r * width;
            ig_f32 top = lowest, total = {0};
            int64_t j = 0;
            $bias
            for (; j + IG_LANES <= limit; j += IG_LANES) {
                ig_f32 x = ig_load_f32(row + j);
                $cap
                $mask
                top = ig_max_f32(top, x);
                ig_store_f32(row + j, x);
            }
            if (j < limit) {
                const int64_t n = limit - j;
                ig_f32 x = ig_load_f32(row + j);
                $cap
                $mask_n
                x = ig_keep_f32(x, lowest, n);
                top = ig_max_f32(top, x);
                ig_store_f32(row + j, x);
            }
            for (j = (limit + IG_LANES - 1) / IG_LANES * IG_LANES; j < visible; j += IG_LANES)
                ig_store_f32(row + j, lowest);
            const float most = ig_reduce_max_f32(top);
            const int is_hidden = most == -__builtin_inff();
            const ig_f32 shift = ig_set_f32(is_hidden ? 0 : most);
            for (j = 0; j < visible; j += IG_LANES) {
                const ig_f32 weight = ig_exp_f32(ig_load_f32(row + j) - shift);
                total += weight;
                ig_store_f32(row + j, weight);
            }
            scales[r] = is_hidden ? 0 : 1 / ig_reduce_add_f32(total);
        }
        if (rows <= 2) {
            for (int64_t r = 0; r < rows; r++)
                IG_FUNCTION_mix(scores + r * width, values, v_row, visible, E, scales[r], out + r * y_row);
            continue;
        }
        for (int64_t col = 0; col < E; col += $columns) {
            const int64_t count = E - col < $columns ? E - col : $columns;
            IG_FUNCTION_pack_v(values + col, v_row, visible, count, packed);
            for (int64_t from = 0, size; from < rows; from += size) {
                size = IG_FUNCTION_next(rows - from);
                IG_FUNCTION_tile(size, scores + from * width, width, packed, 0, here, 1, visible, sum, 1);
                for (int64_t r = 0; r < size; r++) {
                    float *to = out + (from + r) * y_row + col;
                    for (int64_t c = 0; c < count; c += IG_LANES) {
                        const ig_f32 mixed = ig_load_f32(sum + r * $columns + c) * scales[from + r];
                        if (count - c >= IG_LANES)
                            ig_store_f32(to + c, mixed);
                        else
                            ig_store_n_f32(to + c, mixed, count - c);
                    }
                }
            }
        }
    }
"""
