"""Matrix products: C = A x B for floats and integers, batched, with a fused epilogue."""

from functools import partial
from string import Template
from typing import Literal

from intaglio.ir.dim import THREADS, Dim, at_most, floordiv, maximum, minimum, pieces, select
from intaglio.targets.c.structured.pack import panel_packer
from intaglio.targets.c.structured.source import (
    Element,
    Sizes,
    StructuredKernel,
    Tile,
    VectorTarget,
    c_name,
    own_types,
    register_tile,
    unpack_sizes,
    vector_name,
)
from intaglio.targets.c.structured.tile import row_source, tile_source

THIN = 4
"""Products of so few columns are made of dot products..."""

THIN_DEPTH = 32
"""...where the depth is at least so many times the columns."""

Left = Literal["rows", "columns"]
Right = Literal["packed", "rows", "columns"]

_SIZES = ("M", "N", "K", "outer", "inner", "a_step", "a_outer", "a_inner", "b_step", "b_outer", "b_inner")


def gemm(
    target: VectorTarget,
    element: Element = "float32",
    a: Left = "rows",
    b: Right = "packed",
    *,
    narrow: bool = False,
) -> StructuredKernel:
    """outer x inner products of M x K by K x N matrices; result row (batch * M + m) goes to the epilogue.

    A value of the left operand stands at a_outer * o + a_inner * i + a_step * m + k for a="rows" and at ... + m +
    a_step * k for a="columns"; of the right one at b_outer * o + b_inner * i + b_step * k + n for b="rows", at ... +
    b_step * n + k for b="columns", and in panels as `pack_b` makes them for b="packed" (b_step is not read). A stride
    of 0 repeats the matrix. The order in which a sum is made depends on M, N and K alone. With `narrow`, tiles and
    panels are one vector wide.
    """
    tile = register_tile(target, element, narrow=narrow)
    sizes = (*_SIZES, "row_block", "panel_block", "depth_block")
    source = own_types(tile) + "\n".join(
        (
            tile_source(tile, rows_adjacent=a == "columns", weights_stride=b == "rows"),
            row_source(tile, a_stride=a == "columns", weights_stride=b == "rows"),
            *([] if b == "packed" else [panel_packer(tile, b)]),
            *([dot_source(tile)] if _uses_dots(a, b) else []),
            _kernel_source(tile, sizes, a, b),
        )
    )
    packed = 0 if b == "packed" else 1
    return StructuredKernel(
        hint="gemm",
        source=source,
        buffers=("a", "b"),
        sizes=sizes,
        tasks=partial(matrix_tasks, tile.columns),
        cost=partial(_cost, target, tile),
        scratch=lambda size: (size["row_block"] + size["K"] * packed) * (tile.columns * tile.bytes),
        defaults=partial(_packed_blocks if b == "packed" else _unpacked_blocks, target, tile),
        tile=f"{tile.rows}x{tile.columns}",
    )


def matrix_tasks(columns: int, size: Sizes) -> Dim:
    """A task is a block of rows by a block of panels of so many columns, of one product."""
    panel_blocks = pieces(pieces(size["N"], columns), size["panel_block"])
    return size["outer"] * size["inner"] * pieces(size["M"], size["row_block"]) * panel_blocks


def _uses_dots(a: Left, b: Right) -> bool:
    return a == "rows" and b == "columns"


def dot_source(tile: Tile) -> str:
    """C of `IG_FUNCTION_dots`: a few rows by the columns of one panel without packing; it needs the transposition."""
    return _DOTS.substitute(
        type=c_name(tile.element), vector=vector_name(tile.element), lanes=tile.lanes, width=tile.columns
    )


def _panel_offset(tile: Tile, b: Right) -> str:
    return {
        "packed": f"panel * K * {tile.columns}",
        "rows": f"panel * {tile.columns}",
        "columns": f"panel * {tile.columns} * b_step",
    }[b]


def _kernel_source(tile: Tile, sizes: tuple[str, ...], a: Left, b: Right) -> str:
    panel = _PANEL.substitute(
        type=c_name(tile.element), rows=tile.rows, columns=tile.columns, a_row="1" if a == "columns" else "a_step",
        a_depth="a_step" if a == "columns" else "1",
        b_row="b_step" if b == "rows" else str(tile.columns),
    )  # fmt: skip
    return panel + _KERNEL.substitute(
        type=c_name(tile.element),
        columns=tile.columns,
        a_row="1" if a == "columns" else "a_step",
        offset=_panel_offset(tile, b),
        prepare=_prepare_source(tile, a, b),
        b_row=str(tile.columns) if b != "rows" else "b_row",
        sizes=unpack_sizes(sizes),
        b_layout=b,
        a_layout=a,
    )


def _prepare_source(tile: Tile, a: Left, b: Right) -> str:
    """C that makes `b_panel` readable as a panel: packs it, or leaves it where few rows would not repay that."""
    if b == "packed":
        return "            (void)b_step;"
    pack = _USE_PACKED.substitute(type=c_name(tile.element), columns=tile.columns)
    if b == "rows":
        return _PREPARE_ROWS.substitute(columns=tile.columns, rows=tile.rows, pack=pack)
    return (
        _PREPARE_DOTS.substitute(thin=THIN, least=THIN_DEPTH) if _uses_dots(a, b) else ""
    ) + f"            {{\n{pack}            }}"


def _cost(target: VectorTarget, tile: Tile, size: Sizes) -> Dim:
    """Nanoseconds of a task: what is computed, and weights that come out of a far cache at some 20 bytes a nanosecond.

    A core computes, roughly, two fused vector operations in each of 2.5 cycles of a nanosecond.
    """
    flops_per_ns = max(4, target.vector_bytes // tile.bytes * 8)
    flops_per_element = flops_per_ns * tile.bytes // 20
    weights = size["panel_block"] * size["K"] * tile.columns
    return 1 + floordiv(weights * (2 * size["row_block"] + flops_per_element), flops_per_ns)


def _depth_block(target: VectorTarget, tile: Tile, size: Sizes) -> Dim:
    """As much of the depth as leaves a panel's part in the second cache; shorter parts cost more than they save."""
    limit = max(256, target.l2 // 4 // (tile.columns * tile.bytes))
    depth = size["K"]
    is_whole = maximum(at_most(size["M"], 2 * tile.rows), at_most(depth, limit + limit // 2))
    return select(is_whole, maximum(depth, 1), pieces(depth, maximum(pieces(depth, limit), 1)))


def _packed_blocks(target: VectorTarget, tile: Tile, size: Sizes) -> dict[str, Dim]:
    blocks = packed_blocks(target, tile.rows, tile.columns, tile.bytes, size)
    return blocks | {"depth_block": _depth_block(target, tile, size)}


def packed_blocks(target: VectorTarget, rows: int, columns: int, element: int, size: Sizes) -> dict[str, Dim]:
    """Column panels are the tasks when there are enough of them, row blocks when the weights stay in cache.

    `rows` and `columns` are those of the register tile, `element` the bytes of one operand's element.
    """
    half, most = target.l2 // 2 // element, target.l2 * 3 // 4 // element
    height, depth, panels = size["M"], size["K"], pieces(size["N"], columns)
    weights_fit = at_most(depth * size["N"], half)
    resident = maximum(4 * rows, floordiv(most, maximum(depth, 1)))
    share = pieces(height, 4 * THREADS)
    is_wide = at_most(4 * THREADS, panels) * maximum(at_most(height * depth, most), 1 - weights_fit)
    tall_block = maximum(rows, minimum(select(weights_fit, 8 * rows, resident), share))
    row_block = maximum(1, select(is_wide, minimum(height, resident), tall_block))
    is_tall = weights_fit * at_most(4 * THREADS, pieces(height, row_block))
    return {"row_block": row_block, "panel_block": select(is_tall, maximum(panels, 1), 1)}


def _unpacked_blocks(target: VectorTarget, tile: Tile, size: Sizes) -> dict[str, Dim]:
    """Each task packs its panels, so that it should have many rows."""
    height, panels, products = size["M"], pieces(size["N"], tile.columns), size["outer"] * size["inner"]
    resident = maximum(8 * tile.rows, floordiv(target.l2 // 2 // tile.bytes, maximum(size["K"], 1)))
    share = select(at_most(2 * THREADS, products * panels), height, pieces(height, 4 * THREADS))
    return {
        "row_block": maximum(1, minimum(resident, maximum(2 * tile.rows, share))),
        "panel_block": select(at_most(4 * THREADS, products), maximum(panels, 1), 1),
        "depth_block": _depth_block(target, tile, size),
    }


_PANEL = Template("""\
/* `rows` rows by one panel, in parts of the depth; `sum` holds all of them where there are several. */
static inline void
IG_FUNCTION_panel(void *const *buffer, const int64_t *size, const $type *a, int64_t a_step, const $type *b,
                  int64_t b_step, int64_t rows, int64_t depth, int64_t depth_block, int64_t row, int64_t col,
                  int64_t columns, $type *sum)
{
    static const int64_t here[2] = {0, 0};
    const int64_t sum_step = depth > depth_block ? $columns : 0;
    for (int64_t k = 0; k == 0 || k < depth; k += depth_block) {
        const int64_t part = depth - k < depth_block ? depth - k : depth_block;
        for (int64_t first = 0, count; first < rows; first += count) {
            count = IG_FUNCTION_next(rows - first);
            $type *tile_sum = sum + first * sum_step;
            IG_FUNCTION_tile(count, a + first * $a_row + k * $a_depth, a_step, b + k * $b_row, b_step, here, 1, part,
                             tile_sum, k == 0);
            if (k + part == depth)
                IG_FUNCTION_finish(buffer, size, row + first, 1, count, col, columns, tile_sum);
        }
    }
}

""")

_KERNEL = Template("""\
/* Matrix product, left operand in $a_layout, right operand in $b_layout. A task is row_block rows by panel_block
   panels of $columns columns of one product.
   buffer: a, b, the epilogue's
   size: M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner, row_block, panel_block,
         depth_block, the epilogue's
   tasks: outer * inner * ceil(M / row_block) * ceil(ceil(N / $columns) / panel_block) */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    $sizes
    const $type *a = buffer[0], *b = buffer[1];
    $type *sum = scratch;
    const int64_t panels = (N + $columns - 1) / $columns, row_blocks = (M + row_block - 1) / row_block;
    const int64_t panel_blocks = (panels + panel_block - 1) / panel_block;
    (void)outer;
    for (int64_t task = begin; task < end; task++) {
        const int64_t batch = task / (row_blocks * panel_blocks), in_batch = task % (row_blocks * panel_blocks);
        const int64_t block = in_batch % row_blocks, panel_index = in_batch / row_blocks;
        const int64_t row = M * block / row_blocks, rows = M * (block + 1) / row_blocks - row;
        const $type *a_rows = a + batch / inner * a_outer + batch % inner * a_inner + row * $a_row;
        const $type *b_batch = b + batch / inner * b_outer + batch % inner * b_inner;
        const int64_t last = panels * (panel_index + 1) / panel_blocks;
        for (int64_t panel = panels * panel_index / panel_blocks; panel < last; panel++) {
            const $type *b_panel = b_batch + $offset;
            int64_t b_row = b_step;
            const int64_t col = panel * $columns, columns = N - col < $columns ? N - col : $columns;
$prepare
            (void)b_row;
            if (M == 1) {
                IG_FUNCTION_row(a_rows, a_step, b_panel, b_row, K, sum);
                IG_FUNCTION_finish(buffer, size, batch, 1, 1, col, columns, sum);
            } else {
                IG_FUNCTION_panel(buffer, size, a_rows, a_step, b_panel, b_row, rows, K, depth_block,
                                  batch * M + row, col, columns, sum);
            }
        }
    }
}
""")

_USE_PACKED = Template("""\
                $type *packed = sum + row_block * $columns;
                IG_FUNCTION_pack(b_panel, b_step, K, columns, packed);
                b_panel = packed;
                b_row = $columns;
""")

_PREPARE_ROWS = Template("""\
            if (columns < $columns || rows > $rows) {
$pack            }""")

_PREPARE_DOTS = Template("""\
            if (N <= $thin && K >= $least * N) {
                IG_FUNCTION_thin(a_rows, a_step, b_panel, b_step, rows, K, columns, sum);
                IG_FUNCTION_finish(buffer, size, batch * M + row, 1, rows, col, columns, sum);
                continue;
            }
            if (M <= 2) {
                IG_FUNCTION_dots(a_rows, a_step, b_panel, b_step, rows, K, columns, sum);
                IG_FUNCTION_finish(buffer, size, batch * M + row, 1, rows, col, columns, sum);
                continue;
            }
""")

_DOTS = Template("""\
/* The product of a row and a column, both contiguous, as $lanes parts to add up. */
static inline __attribute__((always_inline)) $vector
IG_FUNCTION_dot(const $type *a, const $type *w, int64_t depth)
{
    $vector even = {0}, odd = {0};
    int64_t k = 0;
    for (; k + 2 * $lanes <= depth; k += 2 * $lanes) {
        even += *(const ${vector}_at *)(a + k) * *(const ${vector}_at *)(w + k);
        odd += *(const ${vector}_at *)(a + k + $lanes) * *(const ${vector}_at *)(w + k + $lanes);
    }
    for (; k + $lanes <= depth; k += $lanes)
        even += *(const ${vector}_at *)(a + k) * *(const ${vector}_at *)(w + k);
    for (; k < depth; k++)
        odd[0] += a[k] * w[k];
    return even + odd;
}

/* sum[r][c] = row r of the left operand x column c, without packing. */
static inline void
IG_FUNCTION_dots(const $type *a, int64_t a_step, const $type *b, int64_t b_step, int64_t rows, int64_t depth,
                 int64_t columns, $type *sum)
{
    for (int64_t r = 0; r < rows; r++, a += a_step, sum += $width)
        for (int64_t c = 0; c < columns; c += $lanes) {
            $type part[$lanes][$lanes];
            $vector total = {0};
            for (int64_t l = 0; l < $lanes; l++)
                *(${vector}_at *)part[l] =
                    c + l < columns ? IG_FUNCTION_dot(a, b + (c + l) * b_step, depth) : ($vector){0};
            IG_FUNCTION_transpose(part[0], $lanes, part[0], $lanes);
            for (int l = 0; l < $lanes; l++)
                total += *(const ${vector}_at *)part[l];
            *(${vector}_at *)(sum + c) = total;
        }
}

/* The same for few columns and many rows: the dot products of $lanes rows are added up at once. */
static inline void
IG_FUNCTION_thin(const $type *a, int64_t a_step, const $type *b, int64_t b_step, int64_t rows, int64_t depth,
                 int64_t columns, $type *sum)
{
    for (int64_t r = 0; r < rows; r += $lanes)
        for (int64_t c = 0; c < columns; c++) {
            const int64_t count = rows - r < $lanes ? rows - r : $lanes;
            $type part[$lanes][$lanes];
            $vector total = {0};
            for (int64_t l = 0; l < $lanes; l++)
                *(${vector}_at *)part[l] =
                    l < count ? IG_FUNCTION_dot(a + (r + l) * a_step, b + c * b_step, depth) : ($vector){0};
            IG_FUNCTION_transpose(part[0], $lanes, part[0], $lanes);
            for (int l = 0; l < $lanes; l++)
                total += *(const ${vector}_at *)part[l];
            for (int64_t l = 0; l < count; l++)
                sum[(r + l) * $width + c] = total[l];
        }
}
""")
