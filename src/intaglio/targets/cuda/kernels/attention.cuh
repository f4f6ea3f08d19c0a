/* Attention of 16-bit floats: a block has 64 queries of a head, a warp 16 of them, and goes over the keys 64 at a time.
   Scores stay in registers; sums and the softmax are single precision. HEAD is the size of a head, a multiple of 16. */
constexpr int QUERIES = 64, KEYS = 64, STEP = HEAD + 8; /* 8 more, so that rows begin in other banks */

struct Arguments {
    const uint16_t *q, *k, *v;
#if HAS_MASK
    const MASK *mask;
#endif
    uint16_t *y;
    int64_t heads, share, queries, keys, blocks, is_causal;
    int64_t q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, y_batch, y_head, y_row;
    int64_t mask_batch, mask_head, mask_row, mask_column;
    int64_t scale; /* the bits of a double */
};

/* The product of a 16 x 16 and a 16 x 8 matrix, added to one of 16 x 8. */
static inline void product(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." FORMAT "." FORMAT ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The greater number; NaN where one of them is none. */
static inline float greater(float one, float other)
{
    return one != one || one > other ? one : other;
}

static inline uint32_t pair(float low, float high)
{
    return (uint32_t)TO_HALF(low) | (uint32_t)TO_HALF(high) << 16;
}

template <bool EVEN>
static inline void load(uint16_t *to, const uint16_t *from, int64_t row_step, int64_t rows)
{
    if constexpr (EVEN) {
        for (int at = threadIdx.x; at < KEYS * (HEAD / 8); at += 128) {
            const int row = at / (HEAD / 8), column = at % (HEAD / 8) * 8;
            const uint4 none = {0, 0, 0, 0};
            *(uint4 *)(to + row * STEP + column) = row < rows ? *(const uint4 *)(from + row * row_step + column) : none;
        }
    } else {
        for (int at = threadIdx.x; at < KEYS * HEAD; at += 128) {
            const int row = at / HEAD, column = at % HEAD;
            to[row * STEP + column] = row < rows ? from[row * row_step + column] : 0;
        }
    }
}

template <bool EVEN>
static inline void attention(const Arguments &a)
{
    __shared__ alignas(16) uint16_t keys[KEYS * STEP];
    __shared__ alignas(16) uint16_t values[KEYS * STEP];
    const int lane = threadIdx.x % 32, group = lane / 4, place = lane % 4;
    const int64_t first_block = blockIdx.x % a.blocks, head = blockIdx.x / a.blocks % a.heads, batch = blockIdx.x / a.blocks / a.heads;
    const int64_t first = first_block * QUERIES + threadIdx.x / 32 * 16;
    const uint16_t *const q = a.q + batch * a.q_batch + head * a.q_head;
    const uint16_t *const k = a.k + batch * a.k_batch + head / a.share * a.k_head;
    const uint16_t *const v = a.v + batch * a.v_batch + head / a.share * a.v_head;
    const float scale = (float)__longlong_as_double(a.scale);

    uint32_t query[HEAD / 16][4];
#pragma unroll
    for (int step = 0; step < HEAD / 16; step++)
#pragma unroll
        for (int part = 0; part < 4; part++) {
            const int64_t row = first + group + part % 2 * 8;
            const uint16_t *const from = q + row * a.q_row + step * 16 + place * 2 + part / 2 * 8;
            query[step][part] = row < a.queries ? (uint32_t)from[0] | (uint32_t)from[1] << 16 : 0;
        }

    float result[HEAD / 8][4] = {};
    float greatest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
    const int64_t end = a.is_causal && (first_block + 1) * QUERIES < a.keys ? (first_block + 1) * QUERIES : a.keys;
    for (int64_t begin = 0; begin < end; begin += KEYS) {
        __syncthreads();
        load<EVEN>(keys, k + begin * a.k_row, a.k_row, a.keys - begin);
        load<EVEN>(values, v + begin * a.v_row, a.v_row, a.keys - begin);
        __syncthreads();
        float score[KEYS / 8][4] = {};
#pragma unroll
        for (int step = 0; step < HEAD / 16; step++)
#pragma unroll
            for (int tile = 0; tile < KEYS / 8; tile++) {
                const uint32_t *const from = (const uint32_t *)(keys + (tile * 8 + group) * STEP + step * 16 + place * 2);
                product(score[tile], query[step], from[0], from[4]);
            }
#pragma unroll
        for (int side = 0; side < 2; side++) {
            const int64_t row = first + group + side * 8;
            float best = greatest[side];
#pragma unroll
            for (int tile = 0; tile < KEYS / 8; tile++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int64_t column = begin + tile * 8 + place * 2 + i;
                    float &x = score[tile][side * 2 + i];
                    x *= scale;
                    const bool is_seen = column < a.keys && row < a.queries && !(a.is_causal && column > row);
#if HAS_MASK
                    if (is_seen) {
                        const MASK m = a.mask[batch * a.mask_batch + head * a.mask_head + row * a.mask_row + column * a.mask_column];
                        x = APPLY(x, m);
                    }
#endif
                    x = is_seen ? x : -INFINITY;
                    best = x != x || x > best ? x : best;
                }
            best = greater(best, __shfl_xor_sync(0xffffffffu, best, 1));
            best = greater(best, __shfl_xor_sync(0xffffffffu, best, 2));
            const float shift = best == -INFINITY ? 0 : best;
            const float shrink = greatest[side] == -INFINITY ? 0 : expf(greatest[side] - shift);
            float sum = 0;
#pragma unroll
            for (int tile = 0; tile < KEYS / 8; tile++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float &x = score[tile][side * 2 + i];
                    x = exp2f((x - shift) * 1.4426950408889634f);
                    sum += x;
                }
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            total[side] = total[side] * shrink + sum;
            greatest[side] = best;
#pragma unroll
            for (int tile = 0; tile < HEAD / 8; tile++) {
                result[tile][side * 2] *= shrink;
                result[tile][side * 2 + 1] *= shrink;
            }
        }
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++) {
            const uint32_t chance[4] = {
                pair(score[2 * step][0], score[2 * step][1]), pair(score[2 * step][2], score[2 * step][3]),
                pair(score[2 * step + 1][0], score[2 * step + 1][1]), pair(score[2 * step + 1][2], score[2 * step + 1][3])};
#pragma unroll
            for (int tile = 0; tile < HEAD / 8; tile++) {
                const uint16_t *const from = values + (step * 16 + lane % 16) * STEP + tile * 8;
                uint32_t b0, b1;
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                             : "=r"(b0), "=r"(b1)
                             : "r"((uint32_t)__cvta_generic_to_shared(from)));
                product(result[tile], chance, b0, b1);
            }
        }
    }
    uint16_t *const y = a.y + batch * a.y_batch + head * a.y_head;
#pragma unroll
    for (int side = 0; side < 2; side++) {
        const int64_t row = first + group + side * 8;
        const float factor = total[side] == 0 ? 0 : 1 / total[side];
        if (row < a.queries)
#pragma unroll
            for (int tile = 0; tile < HEAD / 8; tile++)
                for (int i = 0; i < 2; i++)
                    y[row * a.y_row + tile * 8 + place * 2 + i] = TO_HALF(result[tile][side * 2 + i] * factor);
    }
}
