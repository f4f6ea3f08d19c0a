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

/* The dot products that are made at once: each vector of the operands is used four times. */
#define DOT_SIDE 4

/* part[r][c] = LANES parts of row r x column c, of `rows` rows. */
IG_INLINE void IG_FUNCTION_dot_tile(const int rows, const ELEMENT *const *row, const ELEMENT *const *column,
                                    int64_t depth, ELEMENT (*part)[DOT_SIDE][LANES])
{
    VECTOR c[DOT_SIDE][DOT_SIDE];
    int64_t k = 0;
    IG_UNROLL for (int r = 0; r < rows; r++) {
        IG_UNROLL for (int s = 0; s < DOT_SIDE; s++)
            c[r][s] = (VECTOR){0};
    }
    for (; k + LANES <= depth; k += LANES) {
        VECTOR weight[DOT_SIDE];
        IG_UNROLL for (int s = 0; s < DOT_SIDE; s++)
            weight[s] = *(const VECTOR_AT *)(column[s] + k);
        IG_UNROLL for (int r = 0; r < rows; r++) {
            const VECTOR value = *(const VECTOR_AT *)(row[r] + k);
            IG_UNROLL for (int s = 0; s < DOT_SIDE; s++)
                c[r][s] += value * weight[s];
        }
    }
    for (; k < depth; k++) {
        IG_UNROLL for (int r = 0; r < rows; r++) {
            IG_UNROLL for (int s = 0; s < DOT_SIDE; s++)
                c[r][s][0] += row[r][k] * column[s][k];
        }
    }
    IG_UNROLL for (int r = 0; r < rows; r++) {
        IG_UNROLL for (int s = 0; s < DOT_SIDE; s++)
            *(VECTOR_AT *)part[r][s] = c[r][s];
    }
}

/* sum[r][c] for up to DOT_SIDE rows and columns; where there are fewer, the last is taken again. */
static __attribute__((noinline)) void IG_FUNCTION_few_dots(const ELEMENT *a, int64_t a_step, const ELEMENT *b,
                                                           int64_t b_step, int64_t rows, int64_t depth,
                                                           int64_t columns, ELEMENT *sum)
{
    ELEMENT part[DOT_SIDE][DOT_SIDE][LANES];
    const ELEMENT *row[DOT_SIDE], *column[DOT_SIDE];
    for (int64_t s = 0; s < DOT_SIDE; s++) {
        row[s] = a + (s < rows ? s : rows - 1) * a_step;
        column[s] = b + (s < columns ? s : columns - 1) * b_step;
    }
    if (rows > DOT_SIDE / 2) {
        IG_FUNCTION_dot_tile(DOT_SIDE, row, column, depth, part);
    } else {
        __builtin_memset(part, 0, sizeof part);
        IG_FUNCTION_dot_tile(DOT_SIDE / 2, row, column, depth, part);
    }
    ELEMENT total[DOT_SIDE * DOT_SIDE];
    for (int64_t first = 0; first < DOT_SIDE * rows; first += LANES) {
        ELEMENT *group = part[0][0] + first * LANES;
        VECTOR whole = {0};
        IG_FUNCTION_transpose(group, LANES, group, LANES);
        for (int l = 0; l < LANES; l++)
            whole += *(const VECTOR_AT *)(group + l * LANES);
        *(VECTOR_AT *)(total + first) = whole;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s++)
            sum[r * COLUMNS + s] = total[r * DOT_SIDE + s];
}

/* The same as `dots` for a few rows: every column is read once for DOT_SIDE rows. */
static inline void IG_FUNCTION_few(const ELEMENT *a, int64_t a_step, const ELEMENT *b, int64_t b_step, int64_t rows,
                                   int64_t depth, int64_t columns, ELEMENT *sum)
{
    for (int64_t c = 0; c < columns; c += DOT_SIDE)
        for (int64_t r = 0; r < rows; r += DOT_SIDE)
            IG_FUNCTION_few_dots(a + r * a_step, a_step, b + c * b_step, b_step,
                                 rows - r < DOT_SIDE ? rows - r : DOT_SIDE, depth,
                                 columns - c < DOT_SIDE ? columns - c : DOT_SIDE, sum + r * COLUMNS + c);
}
