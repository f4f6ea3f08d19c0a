/* Philox 4x64-10: the four random words at a place, which counts blocks of four, from a key. */
IG_INLINE void IG_FUNCTION_philox(uint64_t place, const uint64_t *key, uint64_t *word)
{
    __extension__ typedef unsigned __int128 product;
    uint64_t a = place + 1, b = 0, c = 0, d = 0, k = key[0], l = key[1];
    IG_UNROLL for (int round = 0; round < 10; round++) {
        const product p = (product)a * 0xD2E7470EE14C6C93u, q = (product)c * 0xCA5A826395121157u;
        const uint64_t high = (uint64_t)(q >> 64) ^ b ^ k, other = (uint64_t)(p >> 64) ^ d ^ l;
        a = high;
        b = (uint64_t)q;
        c = other;
        d = (uint64_t)p;
        k += 0x9E3779B97F4A7C15u;
        l += 0xBB67AE8584CAA73Bu;
    }
    word[0] = a;
    word[1] = b;
    word[2] = c;
    word[3] = d;
}

/* A word as a number from 0 to below 1. */
#define UNIT(word) ((double)(int64_t)((word) >> 11) * 0x1p-53)
