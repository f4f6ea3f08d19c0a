/* What stands in for the epilogue where a kernel is compiled by itself: it stores to the buffer behind the kernel's
   own, whose rows are as many elements apart as the size behind its own tells. An instance has its epilogue in front
   of it. */
static inline void ig_epilogue(void *const *buffer, const int64_t *size, int64_t row, int64_t col, RESULT acc)
{
    const int64_t step = size[sizeof(IG_FUNCTION_sizes) / sizeof(int64_t)];
    char *const out = buffer[sizeof(IG_FUNCTION_buffers) / sizeof(void *)];
    __builtin_memcpy(out + (row * step + col) * (int64_t)sizeof acc[0], &acc, sizeof acc);
}

/* The same for the first n lanes. */
static inline void ig_epilogue_n(void *const *buffer, const int64_t *size, int64_t row, int64_t col, RESULT acc,
                                 int64_t n)
{
    const int64_t step = size[sizeof(IG_FUNCTION_sizes) / sizeof(int64_t)];
    char *const out = buffer[sizeof(IG_FUNCTION_buffers) / sizeof(void *)];
    __builtin_memcpy(out + (row * step + col) * (int64_t)sizeof acc[0], &acc, (uint64_t)n * sizeof acc[0]);
}
