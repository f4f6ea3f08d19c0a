/* A panel of columns that are adjacent in memory. */
static __attribute__((noinline)) void IG_FUNCTION_pack_rows(const ELEMENT *b, int64_t b_step, int64_t depth,
                                                            int64_t columns, ELEMENT *panel)
{
    for (int64_t k = 0; k < depth; k++, b += b_step, panel += COLUMNS) {
        if (columns == COLUMNS) {
            IG_UNROLL for (int v = 0; v < VECTORS; v++)
                *(VECTOR_AT *)(panel + v * LANES) = *(const VECTOR_AT *)(b + v * LANES);
        } else {
            for (int64_t c = 0; c < COLUMNS; c++)
                panel[c] = c < columns ? b[c] : 0;
        }
    }
}
