/* The product of a row and a column, both contiguous, as LANES parts to add up. */
IG_INLINE VECTOR IG_FUNCTION_dot(const ELEMENT *a, const ELEMENT *w, int64_t depth)
{
    VECTOR even = {0}, odd = {0};
    int64_t k = 0;
    for (; k + 2 * LANES <= depth; k += 2 * LANES) {
        even += *(const VECTOR_AT *)(a + k) * *(const VECTOR_AT *)(w + k);
        odd += *(const VECTOR_AT *)(a + k + LANES) * *(const VECTOR_AT *)(w + k + LANES);
    }
    for (; k + LANES <= depth; k += LANES)
        even += *(const VECTOR_AT *)(a + k) * *(const VECTOR_AT *)(w + k);
    for (; k < depth; k++)
        odd[0] += a[k] * w[k];
    return even + odd;
}

/* sum[r][c] = row r of the left operand x column c, without packing. */
static inline void IG_FUNCTION_dots(const ELEMENT *a, int64_t a_step, const ELEMENT *b, int64_t b_step, int64_t rows,
                                    int64_t depth, int64_t columns, ELEMENT *sum)
{
    for (int64_t r = 0; r < rows; r++, a += a_step, sum += COLUMNS)
        for (int64_t c = 0; c < columns; c += LANES) {
            ELEMENT part[LANES][LANES];
            VECTOR total = {0};
            for (int64_t l = 0; l < LANES; l++)
                *(VECTOR_AT *)part[l] = c + l < columns ? IG_FUNCTION_dot(a, b + (c + l) * b_step, depth) : (VECTOR){0};
            IG_FUNCTION_transpose(part[0], LANES, part[0], LANES);
            for (int l = 0; l < LANES; l++)
                total += *(const VECTOR_AT *)part[l];
            *(VECTOR_AT *)(sum + c) = total;
        }
}

/* The same for few columns and many rows: the dot products of LANES rows are added up at once. */
static inline void IG_FUNCTION_thin(const ELEMENT *a, int64_t a_step, const ELEMENT *b, int64_t b_step, int64_t rows,
                                    int64_t depth, int64_t columns, ELEMENT *sum)
{
    for (int64_t r = 0; r < rows; r += LANES)
        for (int64_t c = 0; c < columns; c++) {
            const int64_t count = rows - r < LANES ? rows - r : LANES;
            ELEMENT part[LANES][LANES];
            VECTOR total = {0};
            for (int64_t l = 0; l < LANES; l++)
                *(VECTOR_AT *)part[l] =
                    l < count ? IG_FUNCTION_dot(a + (r + l) * a_step, b + c * b_step, depth) : (VECTOR){0};
            IG_FUNCTION_transpose(part[0], LANES, part[0], LANES);
            for (int l = 0; l < LANES; l++)
                total += *(const VECTOR_AT *)part[l];
            for (int64_t l = 0; l < count; l++)
                sum[(r + l) * COLUMNS + c] = total[l];
        }
}
