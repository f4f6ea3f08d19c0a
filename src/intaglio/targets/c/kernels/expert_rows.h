/* The rows from `from` on that an expert has, at most ROWS of them, into `found`; `from` is behind the last. */
static int64_t IG_FUNCTION_find(const int64_t *index, int64_t expert, int64_t rows, int64_t *from, int64_t *found)
{
    int64_t count = 0, row = *from;
    for (; row < rows && count < ROWS; row++)
        if (index[row] == expert)
            found[count++] = row;
    *from = row;
    return count;
}
