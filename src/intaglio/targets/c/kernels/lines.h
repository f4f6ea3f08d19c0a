/* Lines along one axis of the indices and of the data, which have the same position along all OTHERS. */
#ifndef OTHERS
#define OTHERS 1
#endif

/* Where the line of a number begins in the indices and in the data. */
static inline void IG_FUNCTION_line(int64_t number, const int64_t *count, const int64_t *index_step,
                                    const int64_t *step, int64_t *in_indices, int64_t *in_data)
{
    *in_indices = *in_data = 0;
    for (int64_t axis = OTHERS - 1; axis >= 0; axis--) {
        const int64_t place = number % count[axis];
        *in_indices += place * index_step[axis];
        *in_data += place * step[axis];
        number /= count[axis];
    }
}
