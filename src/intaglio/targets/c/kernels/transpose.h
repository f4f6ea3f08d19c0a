/* Where the lanes of two vectors go when they are interleaved. */
#if LANES == 2
#define LOW 0, 2
#define HIGH 1, 3
#define ROUNDS 1
#elif LANES == 4
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#define ROUNDS 2
#elif LANES == 8
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define ROUNDS 3
#elif LANES == 16
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define ROUNDS 4
#endif

/* to[j][i] = from[i][j] for i, j < LANES, in registers; both may be the same. */
static inline void IG_FUNCTION_transpose(const ELEMENT *from, int64_t from_step, ELEMENT *to, int64_t to_step)
{
    VECTOR even[LANES], odd[LANES];
    IG_UNROLL for (int i = 0; i < LANES; i++)
        even[i] = *(const VECTOR_AT *)(from + i * from_step);
    IG_UNROLL for (int round = 0; round < ROUNDS; round++) {
        IG_UNROLL for (int i = 0; i < LANES / 2; i++) {
            odd[2 * i] = __builtin_shufflevector(even[i], even[i + LANES / 2], LOW);
            odd[2 * i + 1] = __builtin_shufflevector(even[i], even[i + LANES / 2], HIGH);
        }
        IG_UNROLL for (int i = 0; i < LANES; i++)
            even[i] = odd[i];
    }
    IG_UNROLL for (int i = 0; i < LANES; i++)
        *(VECTOR_AT *)(to + i * to_step) = even[i];
}
