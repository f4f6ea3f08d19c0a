/* The sum of `count` pixels of so many channels, each pixel by its weight. */
IG_INLINE void IG_FUNCTION_mix(ELEMENT *out, const ELEMENT *image, const int64_t *offset, const ELEMENT *weight,
                               int count, int64_t channels)
{
    int64_t c = 0;
    for (; c + IG_LANES <= channels; c += IG_LANES) {
        VECTOR total = {0};
        for (int t = 0; t < count; t++)
            total += SET(weight[t]) * LOAD(image + offset[t] + c);
        STORE(out + c, total);
    }
    if (c < channels) {
        VECTOR total = {0};
        for (int t = 0; t < count; t++)
            total += SET(weight[t]) * LOAD_N(image + offset[t] + c, channels - c);
        STORE_N(out + c, total, channels - c);
    }
}
