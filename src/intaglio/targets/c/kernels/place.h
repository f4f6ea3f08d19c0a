/* The place that an index means, counted from the end where it is negative; -1 where it is out of range. */
static inline int64_t IG_FUNCTION_place(int64_t index, int64_t extent)
{
    const int64_t place = index < 0 ? index + extent : index;
    return (uint64_t)place < (uint64_t)extent ? place : -1;
}
