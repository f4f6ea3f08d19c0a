/* Marks the axes of AXES that are named; returns whether one is out of range or named twice. */
static int64_t IG_FUNCTION_mark(const int64_t *axes, int64_t count, int64_t *is_named)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t axis = axes[i] < 0 ? axes[i] + AXES : axes[i];
        if (axis < 0 || axis >= AXES || is_named[axis]++)
            return 1;
    }
    return 0;
}
