"""Packing the right operand of a product into panels of adjacent columns, ahead of time or at run time."""

from string import Template
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from intaglio.ir.dim import floordiv, pieces
from intaglio.memory.constants import allocated
from intaglio.targets.c.structured.source import (
    Element,
    StructuredKernel,
    Tile,
    VectorTarget,
    c_name,
    register_tile,
    unpack_sizes,
    vector_name,
)

Unpacked = Literal["rows", "columns"]

_SIZES = ("N", "K", "batch", "b_step", "b_batch")


def pack_b(
    array: npt.NDArray[Any], target: VectorTarget, element: Element = "float32", *, narrow: bool = False
) -> npt.NDArray[Any]:
    """Matrices (..., K, N) as (..., panels, K, columns): panels of adjacent columns, the last one filled with zeros."""
    columns = register_tile(target, element, narrow=narrow).columns
    *batch, depth, width = array.shape
    full, rest = divmod(width, columns)
    packed = allocated((*batch, full + (rest > 0), depth, columns), element)
    whole = array[..., : full * columns].reshape(*batch, depth, full, columns)
    packed[..., :full, :, :] = np.swapaxes(whole, -3, -2)
    if rest:
        packed[..., full, :, :rest] = array[..., full * columns :]
        packed[..., full, :, rest:] = 0
    return packed


def pack_kernel(target: VectorTarget, element: Element = "float32", b: Unpacked = "rows") -> StructuredKernel:
    """Packs `batch` matrices of K x N as `pack_b` does; a value stands where `gemm` looks for it in the same layout."""
    tile = register_tile(target, element)
    offset = f"panel * {tile.columns}" + (" * b_step" if b == "columns" else "")
    source = panel_packer(tile, b) + _PACK.substitute(
        type=c_name(element), columns=tile.columns, offset=offset, sizes=unpack_sizes(_SIZES)
    )
    return StructuredKernel(
        hint="pack",
        source=source,
        buffers=("b", "packed"),
        sizes=_SIZES,
        tasks=lambda size: size["batch"] * pieces(size["N"], tile.columns),
        cost=lambda size: 1 + floordiv(size["K"] * tile.columns, 4),
    )


def panel_packer(tile: Tile, b: Unpacked) -> str:
    """C of `IG_FUNCTION_pack`, which copies `columns` columns of a run-time operand into one panel."""
    names = {"type": c_name(tile.element), "vector": vector_name(tile.element), "width": tile.columns}
    if b == "rows":
        return _ROWS.substitute(names, vectors=tile.vectors, lanes=tile.lanes)
    return _transpose_source(tile) + _COLUMNS.substitute(names, lanes=tile.lanes)


def _transpose_source(tile: Tile) -> str:
    """C of the transposition of lanes x lanes values in registers: log2(lanes) rounds of interleaving."""
    lanes = tile.lanes
    low = ", ".join(str(index // 2 + index % 2 * lanes) for index in range(lanes))
    high = ", ".join(str(index // 2 + index % 2 * lanes + lanes // 2) for index in range(lanes))
    return _TRANSPOSE.substitute(
        type=c_name(tile.element),
        vector=vector_name(tile.element),
        lanes=lanes,
        half=lanes // 2,
        rounds=lanes.bit_length() - 1,
        low=low,
        high=high,
    )


_PACK = Template("""\

/* Packs matrices into panels of $columns columns.
   buffer: b, packed
   size: N, K, batch, b_step, b_batch
   tasks: batch * ceil(N / $columns) */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    $sizes
    const int64_t panels = (N + $columns - 1) / $columns;
    (void)scratch, (void)batch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t panel = task % panels, col = panel * $columns;
        const $type *b = (const $type *)buffer[0] + task / panels * b_batch + $offset;
        IG_FUNCTION_pack(b, b_step, K, N - col < $columns ? N - col : $columns,
                         ($type *)buffer[1] + task * K * $columns);
    }
}
""")

_ROWS = Template("""\
/* A panel of columns that are adjacent in memory. */
static inline void
IG_FUNCTION_pack(const $type *b, int64_t b_step, int64_t depth, int64_t columns, $type *panel)
{
    for (int64_t k = 0; k < depth; k++, b += b_step, panel += $width) {
        if (columns == $width) {
            IG_UNROLL for (int v = 0; v < $vectors; v++)
                *(${vector}_at *)(panel + v * $lanes) = *(const ${vector}_at *)(b + v * $lanes);
        } else {
            for (int64_t c = 0; c < $width; c++)
                panel[c] = c < columns ? b[c] : 0;
        }
    }
}
""")

_COLUMNS = Template("""\

/* A panel of columns that are b_step apart, each with its depth adjacent in memory. */
static inline void
IG_FUNCTION_pack(const $type *b, int64_t b_step, int64_t depth, int64_t columns, $type *panel)
{
    for (int64_t c = 0; c < $width; c += $lanes) {
        int64_t k = 0;
        for (; c + $lanes <= columns && k + $lanes <= depth; k += $lanes)
            IG_FUNCTION_transpose(b + c * b_step + k, b_step, panel + k * $width + c, $width);
        for (; k < depth; k++)
            for (int64_t l = c; l < c + $lanes; l++)
                panel[k * $width + l] = l < columns ? b[l * b_step + k] : 0;
    }
}
""")

_TRANSPOSE = Template("""\
/* to[j][i] = from[i][j] for i, j < $lanes; both may be the same. */
static inline void
IG_FUNCTION_transpose(const $type *from, int64_t from_step, $type *to, int64_t to_step)
{
    $vector even[$lanes], odd[$lanes];
    IG_UNROLL for (int i = 0; i < $lanes; i++)
        even[i] = *(const ${vector}_at *)(from + i * from_step);
    IG_UNROLL for (int round = 0; round < $rounds; round++) {
        IG_UNROLL for (int i = 0; i < $half; i++) {
            odd[2 * i] = __builtin_shufflevector(even[i], even[i + $half], $low);
            odd[2 * i + 1] = __builtin_shufflevector(even[i], even[i + $half], $high);
        }
        IG_UNROLL for (int i = 0; i < $lanes; i++)
            even[i] = odd[i];
    }
    IG_UNROLL for (int i = 0; i < $lanes; i++)
        *(${vector}_at *)(to + i * to_step) = even[i];
}
""")
