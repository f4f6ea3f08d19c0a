/* True where a random number is not below the share that is dropped; the numbers are those that the Mersenne Twister,
   NumPy's older generator, draws from a seed. There is one task. */
#include "plain.h"
#include "dropout.h"

#define WORDS 624

typedef struct {
    void *state;
#if HAS_MODE
    void *mode;
#endif
#if HAS_RATIO
    void *ratio;
#endif
    void *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t count, rows;
} IG_FUNCTION_sizes;

/* The next words, in place. */
static inline void IG_FUNCTION_twist(uint32_t *word)
{
    for (int i = 0; i < WORDS; i++) {
        const uint32_t y = (word[i] & 0x80000000u) | (word[(i + 1) % WORDS] & 0x7fffffffu);
        word[i] = word[(i + 397) % WORDS] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
}

static inline uint32_t IG_FUNCTION_temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const uint32_t *const state = BUFFER(state);
    uint8_t *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t count = SIZE(count);
    const double share = SHARE;
    uint32_t *const word = scratch;
    (void)begin, (void)end;
    if (!(share >= 0 && share < 1)) {
        *fault = 1;
        return;
    }
    memcpy(word, state, WORDS * sizeof *word);
    for (int64_t i = 0, place = WORDS; i < count; i++, place += 2) {
        if (place == WORDS) {
            IG_FUNCTION_twist(word);
            place = 0;
        }
        const double high = IG_FUNCTION_temper(word[place]) >> 5, low = IG_FUNCTION_temper(word[place + 1]) >> 6;
        out[i] = share == 0 || (high * 67108864.0 + low) / 9007199254740992.0 >= share;
    }
}
