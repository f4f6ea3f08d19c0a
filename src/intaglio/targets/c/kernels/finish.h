/* The way from sums to the epilogue, which gets them as vectors of this type. */
#ifndef RESULT
#define RESULT ig_f32
#endif
#include "epilogue.h"

/* Hands the sums of `rows` rows and `columns` columns to the epilogue; the rows of the result are `row_step` apart. */
static inline void IG_FUNCTION_finish(void *const *buffer, const int64_t *size, int64_t row, int64_t row_step,
                                      int64_t rows, int64_t col, int64_t columns, const ELEMENT *sum)
{
    for (int64_t r = 0; r < rows; r++, row += row_step, sum += COLUMNS) {
        int64_t c = 0;
        for (; c + LANES <= columns; c += LANES)
            ig_epilogue(buffer, size, row, col + c, (RESULT) * (const VECTOR_AT *)(sum + c));
        if (c < columns)
            ig_epilogue_n(buffer, size, row, col + c, (RESULT) * (const VECTOR_AT *)(sum + c), columns - c);
    }
}
