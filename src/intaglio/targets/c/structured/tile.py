"""The inner loops that matrix products and convolutions share: a tile of sums kept in registers."""

from string import Template

from intaglio.targets.c.structured.source import Tile, c_name, result_name, vector_name

_CHUNK_BYTES = 16384
"""Bytes of weights that two tiles read one after the other."""


_PREFETCHED_ROWS = 16
"""How many rows of weights ahead are fetched: without it, loads from the second cache stall a tenth of the time."""


def tile_source(tile: Tile, *, rows_adjacent: bool = False, weights_stride: bool = False) -> str:
    """C of `IG_FUNCTION_tile` as `sum_source` has it, and of `IG_FUNCTION_finish`, which calls the epilogue."""
    finish = _FINISH.substitute(
        type=c_name(tile.element),
        vector=vector_name(tile.element),
        result=result_name(tile.element),
        lanes=tile.lanes,
        columns=tile.columns,
    )
    return sum_source(tile, rows_adjacent=rows_adjacent, weights_stride=weights_stride) + finish


def sum_source(tile: Tile, *, rows_adjacent: bool = False, weights_stride: bool = False) -> str:
    """C of `IG_FUNCTION_tile`, which sums up to tile.rows rows by one panel.

    Row r at depth k of the left operand is a[r * a_step + k], or a[r + k * a_step] when `rows_adjacent`. The weights'
    rows are one panel wide, or `b_step` elements apart when `weights_stride`.
    """
    arguments = "a, a_step, b, b_step, tap, taps, depth, sum, is_first"
    cases = "\n".join(f"    case {rows}: IG_FUNCTION_sum({rows}, {arguments}); break;" for rows in _row_counts(tile))
    return _TILE.substitute(
        type=c_name(tile.element),
        vector=vector_name(tile.element),
        lanes=tile.lanes,
        rows=tile.rows,
        vectors=tile.vectors,
        columns=tile.columns,
        value="x[r + k * a_step]" if rows_adjacent else "x[r * a_step + k]",
        a_row="1" if rows_adjacent else "a_step",
        a_depth="a_step" if rows_adjacent else "1",
        chunk=max(32, _CHUNK_BYTES // (tile.columns * tile.bytes)),
        b_step="b_step" if weights_stride else str(tile.columns),
        ahead=_PREFETCHED_ROWS,
        cases=cases,
    )


def _row_counts(tile: Tile) -> list[int]:
    """The row counts that have code of their own; others are two tiles, which costs no time from four rows on."""
    return [rows for rows in range(1, tile.rows + 1) if rows <= 8 or rows == tile.rows]


def row_source(tile: Tile, *, a_stride: bool = False, weights_stride: bool = False) -> str:
    """C of `IG_FUNCTION_row`: one row by one panel, with enough independent sums to keep the multipliers busy."""
    return _ROW.substitute(
        type=c_name(tile.element),
        vector=vector_name(tile.element),
        lanes=tile.lanes,
        vectors=tile.vectors,
        value="a[(k + u) * a_step]" if a_stride else "a[k + u]",
        b_step="b_step" if weights_stride else str(tile.columns),
    )


_TILE = Template("""\
/* sum[r][c] (+)= over taps t and depth k: row r of the left operand from tap t's place x weights from tap t's place.
   `tap` holds pairs of offsets into a and b. */
static inline __attribute__((always_inline)) void
IG_FUNCTION_sum(const int rows, const $type *a, int64_t a_step, const $type *b, int64_t b_step, const int64_t *tap,
                int64_t taps, int64_t depth, $type *sum, int is_first)
{
    $vector c[$rows][$vectors];
    IG_UNROLL for (int r = 0; r < rows; r++)
        IG_UNROLL for (int v = 0; v < $vectors; v++)
            c[r][v] = ($vector){0};
    if (!is_first)
        IG_UNROLL for (int r = 0; r < rows; r++)
            IG_UNROLL for (int v = 0; v < $vectors; v++)
                c[r][v] = *(const ${vector}_at *)(sum + r * $columns + v * $lanes);
    for (int64_t t = 0; t < taps; t++) {
        const $type *x = a + tap[2 * t], *w = b + tap[2 * t + 1];
        for (int64_t k = 0; k < depth; k++, w += $b_step) {
            $vector weight[$vectors];
            IG_UNROLL for (int v = 0; v < $vectors; v++) {
                weight[v] = *(const ${vector}_at *)(w + v * $lanes);
                __builtin_prefetch(w + $ahead * $b_step + v * $lanes);
            }
            IG_UNROLL for (int r = 0; r < rows; r++) {
                $vector value = $value - ($vector){0};
                IG_UNROLL for (int v = 0; v < $vectors; v++)
                    c[r][v] += value * weight[v];
            }
        }
    }
    (void)b_step;
    IG_UNROLL for (int r = 0; r < rows; r++)
        IG_UNROLL for (int v = 0; v < $vectors; v++)
            *(${vector}_at *)(sum + r * $columns + v * $lanes) = c[r][v];
}

static void
IG_FUNCTION_two_tiles(int64_t rows, const $type *a, int64_t a_step, const $type *b, int64_t b_step, const int64_t *tap,
                      int64_t taps, int64_t depth, $type *sum, int is_first);

static __attribute__((noinline)) void
IG_FUNCTION_tile(int64_t rows, const $type *a, int64_t a_step, const $type *b, int64_t b_step, const int64_t *tap,
                 int64_t taps, int64_t depth, $type *sum, int is_first)
{
    switch (rows) {
$cases
    default: IG_FUNCTION_two_tiles(rows, a, a_step, b, b_step, tap, taps, depth, sum, is_first);
    }
}

/* The same by two tiles, in parts of the depth whose weights stay in the first cache. */
static void
IG_FUNCTION_two_tiles(int64_t rows, const $type *a, int64_t a_step, const $type *b, int64_t b_step, const int64_t *tap,
                      int64_t taps, int64_t depth, $type *sum, int is_first)
{
    const int64_t half = rows / 2;
    for (int64_t t = 0; t < (taps ? taps : 1); t++)
        for (int64_t k = 0; k == 0 || k < depth; k += $chunk) {
            const int64_t part = taps == 0 ? 0 : depth - k < $chunk ? depth - k : $chunk;
            const int64_t place[2] = {taps ? tap[2 * t] + k * $a_depth : 0, taps ? tap[2 * t + 1] + k * $b_step : 0};
            const int is_start = is_first && t == 0 && k == 0;
            IG_FUNCTION_tile(half, a, a_step, b, b_step, place, 1, part, sum, is_start);
            IG_FUNCTION_tile(rows - half, a + half * $a_row, a_step, b, b_step, place, 1, part, sum + half * $columns,
                             is_start);
        }
}

/* How many of the rows that are left the next tile takes. Fewer than four would wait for their own sums. */
static inline int64_t IG_FUNCTION_next(int64_t left)
{
    return left <= $rows ? left : left >= $rows + 4 ? $rows : (left + 1) / 2;
}

""")

_FINISH = Template("""\

/* Hands the sums of `rows` rows and `columns` columns to the epilogue; the rows of the result are `row_step` apart. */
static inline void
IG_FUNCTION_finish(void *const *buffer, const int64_t *size, int64_t row, int64_t row_step, int64_t rows, int64_t col,
                   int64_t columns, const $type *sum)
{
    for (int64_t r = 0; r < rows; r++, row += row_step, sum += $columns) {
        int64_t c = 0;
        for (; c + $lanes <= columns; c += $lanes)
            ig_epilogue(buffer, size, row, col + c, ($result) * (const ${vector}_at *)(sum + c));
        if (c < columns)
            ig_epilogue_n(buffer, size, row, col + c, ($result) * (const ${vector}_at *)(sum + c), columns - c);
    }
}
""")

_ROW = Template("""\
/* sum[c] = over k: value k of a single row x row k of the weights. */
static __attribute__((noinline)) void
IG_FUNCTION_row(const $type *a, int64_t a_step, const $type *b, int64_t b_step, int64_t depth, $type *sum)
{
    enum { UNROLL = 4 };
    $vector c[UNROLL][$vectors];
    IG_UNROLL for (int u = 0; u < UNROLL; u++)
        IG_UNROLL for (int v = 0; v < $vectors; v++)
            c[u][v] = ($vector){0};
    int64_t k = 0;
    for (; k + UNROLL <= depth; k += UNROLL)
        IG_UNROLL for (int u = 0; u < UNROLL; u++, b += $b_step)
            IG_UNROLL for (int v = 0; v < $vectors; v++)
                c[u][v] += ($value - ($vector){0}) * *(const ${vector}_at *)(b + v * $lanes);
    for (const int u = 0; k < depth; k++, b += $b_step)
        IG_UNROLL for (int v = 0; v < $vectors; v++)
            c[0][v] += ($value - ($vector){0}) * *(const ${vector}_at *)(b + v * $lanes);
    (void)a_step, (void)b_step;
    IG_UNROLL for (int v = 0; v < $vectors; v++)
        *(${vector}_at *)(sum + v * $lanes) = (c[0][v] + c[1][v]) + (c[2][v] + c[3][v]);
}
""")
