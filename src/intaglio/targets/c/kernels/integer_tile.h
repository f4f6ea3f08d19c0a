/* Sums of products of bytes: a tile of up to ROWS rows by one panel of VECTORS vectors of int32. With QUADS, one
   instruction multiplies four unsigned by four signed bytes and adds them to a sum; one operand of the two is kept with
   its sign flipped where it has the wrong one. Otherwise the left operand is widened to 16 bits with its zero point
   taken off, and pairs are multiplied. Both are exact: no partial sum is limited to 16 bits. */
#ifndef QUADS
#define QUADS 0
#endif
#ifndef ROWS
#define ROWS 6
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
/* The bytes of the left operand. */
#ifndef LEFT_SIGNED
#define LEFT_SIGNED 0
#endif
/* Whether some packed column may have a zero point. */
#ifndef HAS_ZERO
#define HAS_ZERO 1
#endif
/* Whether each row of the left operand has a zero point of its own. */
#ifndef ROW_ZERO
#define ROW_ZERO 0
#endif
/* Whether the processor has registers of 16 rows by 64 bytes and multiplies them. */
#ifndef MATRICES
#define MATRICES 0
#endif
#define COLUMNS (IG_LANES * VECTORS)
/* Bytes in front of each panel: what the left zero point is multiplied by, and the zero points of columns. */
#define HEADER (8 * COLUMNS)
#if LEFT_SIGNED
#define RAW int8_t
#define UNSIGNED weight
#define SIGNED value
#define PRODUCT "tdpbsud"
#else
#define RAW uint8_t
#define UNSIGNED value
#define SIGNED weight
#define PRODUCT "tdpbusd"
#endif
/* Neighbours along the depth that one instruction multiplies, and the left operand as the tile reads it. */
#if QUADS
#define GROUP 4
#define LEFT RAW
#define ONE 0x01010101
#else
#define GROUP 2
#define LEFT int16_t
#define ONE 0x00010001
#endif
#if ROW_ZERO
#define ZERO_OF_ROW zero_point[r * zero_step]
#else
#define ZERO_OF_ROW zero_point[0]
#endif
/* The most rows whose sums are kept at once. */
#if MATRICES
#define BLOCK_ROWS 32
#else
#define BLOCK_ROWS ROWS
#endif
#define RESULT ig_i32
#include "epilogue.h"

#if QUADS
#include "quad_dot.h"

IG_INLINE ig_u32 IG_FUNCTION_weights(const uint8_t *b)
{
    return ig_load_u32(b);
}

/* GROUP neighbours of the left operand, in every lane. */
IG_INLINE ig_u32 IG_FUNCTION_value(const LEFT *a)
{
    uint32_t bits;
    __builtin_memcpy(&bits, a, sizeof bits);
    return ig_set_u32(bits);
}
#else
#include "pair_dot.h"

typedef int8_t IG_FUNCTION_bytes __attribute__((vector_size(2 * IG_LANES)));

IG_INLINE ig_u32 IG_FUNCTION_weights(const uint8_t *b)
{
    IG_FUNCTION_bytes bytes;
    __builtin_memcpy(&bytes, b, sizeof bytes);
    return (ig_u32) __builtin_convertvector(bytes, IG_FUNCTION_words);
}

/* GROUP neighbours of the left operand, in every lane. */
IG_INLINE ig_u32 IG_FUNCTION_value(const LEFT *a)
{
    uint32_t bits;
    __builtin_memcpy(&bits, a, sizeof bits);
    return ig_set_u32(bits);
}

/* A row of bytes as 16-bit numbers less their zero point, filled with zeros to whole groups. */
static inline void IG_FUNCTION_widen(const RAW *from, int64_t depth, int32_t zero, int16_t *to)
{
    int64_t k = 0;
    for (; k + IG_LANES <= depth; k += IG_LANES) {
        RAW raw __attribute__((vector_size(IG_LANES)));
        __builtin_memcpy(&raw, from + k, sizeof raw);
        typedef int16_t narrow __attribute__((vector_size(2 * IG_LANES)));
        const narrow words = __builtin_convertvector(raw, narrow) - (int16_t)zero;
        __builtin_memcpy(to + k, &words, sizeof words);
    }
    for (; k < depth; k++)
        to[k] = (int16_t)(from[k] - zero);
    for (; k % GROUP; k++)
        to[k] = 0;
}
#endif

/* The last depth % GROUP neighbours of the left operand. */
static inline ig_u32 IG_FUNCTION_tail(const LEFT *a, int64_t count)
{
    LEFT some[GROUP] = {0};
    for (int64_t k = 0; k < count; k++)
        some[k] = a[k];
    return IG_FUNCTION_value(some);
}

/* sum[r][c] (+)= row r of the left operand x column c of a panel. */
IG_INLINE void IG_FUNCTION_sum(const int rows, const int unroll, const LEFT *a, int64_t a_step, const uint8_t *b,
                               int64_t depth, uint32_t *sum, int is_first)
{
    enum { STEP = GROUP * COLUMNS };
    ig_u32 c[ROWS][VECTORS];
    IG_UNROLL for (int r = 0; r < rows * unroll; r++) {
        IG_UNROLL for (int v = 0; v < VECTORS; v++)
            c[r][v] = (ig_u32){0};
    }
    const int64_t groups = depth / GROUP;
    int64_t k = 0;
    for (; k + unroll <= groups; k += unroll) {
        IG_UNROLL for (int u = 0; u < unroll; u++, b += STEP) {
            ig_u32 weight[VECTORS];
            IG_UNROLL for (int v = 0; v < VECTORS; v++) {
                weight[v] = IG_FUNCTION_weights(b + v * IG_LANES * GROUP);
                __builtin_prefetch(b + 16 * STEP + v * IG_LANES * GROUP);
            }
            IG_UNROLL for (int r = 0; r < rows; r++) {
                const ig_u32 value = IG_FUNCTION_value(a + r * a_step + (k + u) * GROUP);
                IG_UNROLL for (int v = 0; v < VECTORS; v++)
                    c[u * rows + r][v] = IG_FUNCTION_dot(c[u * rows + r][v], value, weight[v]);
            }
        }
    }
    for (int64_t left; k * GROUP < depth; k++, b += STEP) {
        left = depth - k * GROUP;
        IG_UNROLL for (int r = 0; r < rows; r++) {
            const LEFT *x = a + r * a_step + k * GROUP;
            const ig_u32 value = left < GROUP ? IG_FUNCTION_tail(x, left) : IG_FUNCTION_value(x);
            IG_UNROLL for (int v = 0; v < VECTORS; v++)
                c[r][v] = IG_FUNCTION_dot(c[r][v], value, IG_FUNCTION_weights(b + v * IG_LANES * GROUP));
        }
    }
    IG_UNROLL for (int r = 0; r < rows; r++) {
        IG_UNROLL for (int v = 0; v < VECTORS; v++) {
            ig_u32 total = is_first ? c[r][v] : c[r][v] + ig_load_u32(sum + r * COLUMNS + v * IG_LANES);
            IG_UNROLL for (int u = 1; u < unroll; u++)
                total += c[u * rows + r][v];
            ig_store_u32(sum + r * COLUMNS + v * IG_LANES, total);
        }
    }
}

static __attribute__((noinline)) void IG_FUNCTION_tile(int64_t rows, const LEFT *a, int64_t a_step, const uint8_t *b,
                                                       int64_t depth, uint32_t *sum, int is_first)
{
    switch (rows) {
    case 1: IG_FUNCTION_sum(1, 4, a, a_step, b, depth, sum, is_first); break;
    case 2: IG_FUNCTION_sum(2, 2, a, a_step, b, depth, sum, is_first); break;
#if ROWS > 6
    case 3: IG_FUNCTION_sum(3, 2, a, a_step, b, depth, sum, is_first); break;
    case 4: IG_FUNCTION_sum(4, 2, a, a_step, b, depth, sum, is_first); break;
    case 5: IG_FUNCTION_sum(5, 2, a, a_step, b, depth, sum, is_first); break;
    case 6: IG_FUNCTION_sum(6, 2, a, a_step, b, depth, sum, is_first); break;
    case ROWS: IG_FUNCTION_sum(ROWS, 1, a, a_step, b, depth, sum, is_first); break;
#else
    case 3: IG_FUNCTION_sum(3, 1, a, a_step, b, depth, sum, is_first); break;
    case 4: IG_FUNCTION_sum(4, 1, a, a_step, b, depth, sum, is_first); break;
    case 5: IG_FUNCTION_sum(5, 1, a, a_step, b, depth, sum, is_first); break;
    case 6: IG_FUNCTION_sum(6, 1, a, a_step, b, depth, sum, is_first); break;
#endif
    default: {
        const int64_t half = rows / 2;
        IG_FUNCTION_tile(half, a, a_step, b, depth, sum, is_first);
        IG_FUNCTION_tile(rows - half, a + half * a_step, a_step, b, depth, sum + half * COLUMNS, is_first);
    }
    }
}

/* The sum of a row of the left operand as the tile reads it. */
static inline uint32_t IG_FUNCTION_row_sum(const LEFT *a, int64_t depth)
{
    ig_u32 lanes = {0};
    int64_t k = 0;
    for (; k + (IG_LANES * GROUP) <= depth; k += (IG_LANES * GROUP)) {
        const ig_u32 value = ig_load_u32(a + k), weight = ig_set_u32(ONE);
        lanes = IG_FUNCTION_dot(lanes, value, weight);
    }
    uint32_t total = 0;
    for (int l = 0; l < IG_LANES; l++)
        total += lanes[l];
    for (; k < depth; k++)
        total += (uint32_t)a[k];
    return total;
}

#if MATRICES
/* Whether this process may use the matrix registers: 1 yes, -1 no, 0 not asked yet. The kernel of the system gives them
   to a whole process, once, when it asks. */
static int IG_FUNCTION_allowed;

static inline void IG_FUNCTION_begin(void)
{
    int allowed = __atomic_load_n(&IG_FUNCTION_allowed, __ATOMIC_RELAXED);
    if (!allowed) {
        int64_t result;
        __asm__ volatile("syscall" : "=a"(result) : "a"(158LL), "D"(0x1023LL), "S"(18LL) : "rcx", "r11", "memory");
        allowed = result == 0 ? 1 : -1;
        __atomic_store_n(&IG_FUNCTION_allowed, allowed, __ATOMIC_RELAXED);
    }
    if (allowed < 0)
        return;
    /* palette 1; eight registers of 16 rows by 64 bytes */
    static const struct {
        uint8_t palette, start, zero[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shape = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    __asm__ volatile("ldtilecfg %0" : : "m"(shape));
}

static inline void IG_FUNCTION_end(void)
{
    if (__atomic_load_n(&IG_FUNCTION_allowed, __ATOMIC_RELAXED) > 0)
        __asm__ volatile("tilerelease");
}

/* 32 or 16 rows by one panel; the number of rows done, 0 where there are too few. */
static inline int64_t IG_FUNCTION_matrices(int64_t rows, const LEFT *a, int64_t a_step, const uint8_t *b, int64_t depth,
                                           uint32_t *sum)
{
    if (rows < 16 || depth < 64 || IG_FUNCTION_allowed < 0)
        return 0;
    const int64_t whole = depth / 64 * 64, b_step = GROUP * COLUMNS, sum_step = 4 * COLUMNS;
    const int64_t count = rows < 32 ? 16 : 32;
    const uint8_t *w = b;
    /* clang-format off */
    if (count == 32) {
        __asm__ volatile("tilezero %%tmm0; tilezero %%tmm1; tilezero %%tmm2; tilezero %%tmm3" ::: "memory");
        for (int64_t k = 0; k < whole; k += 64, w += 16 * b_step) {
            IG_UNROLL for (int line = 0; line < 32; line++)
                __builtin_prefetch(w + 32 * b_step + 64 * line);
            __asm__ volatile("tileloadd (%2, %3, 1), %%tmm6; "
                             "tileloadd (%0, %4, 1), %%tmm4; "
                             "tileloadd 64(%2, %3, 1), %%tmm7; "
                             PRODUCT " %%tmm6, %%tmm4, %%tmm0; "
                             "tileloadd (%1, %4, 1), %%tmm5; "
                             PRODUCT " %%tmm7, %%tmm4, %%tmm1; "
                             PRODUCT " %%tmm6, %%tmm5, %%tmm2; "
                             PRODUCT " %%tmm7, %%tmm5, %%tmm3"
                             : : "r"(a + k), "r"(a + 16 * a_step + k), "r"(w), "r"(b_step), "r"(a_step) : "memory");
        }
        __asm__ volatile("tilestored %%tmm0, (%0, %2, 1); tilestored %%tmm1, 64(%0, %2, 1); "
                         "tilestored %%tmm2, (%1, %2, 1); tilestored %%tmm3, 64(%1, %2, 1)"
                         : : "r"(sum), "r"(sum + 16 * COLUMNS), "r"(sum_step) : "memory");
    } else {
        __asm__ volatile("tilezero %%tmm0; tilezero %%tmm1" ::: "memory");
        for (int64_t k = 0; k < whole; k += 64, w += 16 * b_step)
            __asm__ volatile("tileloadd (%1, %2, 1), %%tmm6; "
                             "tileloadd (%0, %3, 1), %%tmm4; "
                             "tileloadd 64(%1, %2, 1), %%tmm7; "
                             PRODUCT " %%tmm6, %%tmm4, %%tmm0; "
                             PRODUCT " %%tmm7, %%tmm4, %%tmm1"
                             : : "r"(a + k), "r"(w), "r"(b_step), "r"(a_step) : "memory");
        __asm__ volatile("tilestored %%tmm0, (%0, %1, 1); tilestored %%tmm1, 64(%0, %1, 1)"
                         : : "r"(sum), "r"(sum_step) : "memory");
    }
    /* clang-format on */
    if (whole < depth)
        IG_FUNCTION_tile(count, a + whole, a_step, w, depth - whole, sum, 0);
    return count;
}
#else
static inline int64_t IG_FUNCTION_matrices(int64_t rows, const LEFT *a, int64_t a_step, const uint8_t *b, int64_t depth,
                                           uint32_t *sum)
{
    (void)rows, (void)a, (void)a_step, (void)b, (void)depth, (void)sum;
    return 0;
}

static inline void IG_FUNCTION_begin(void) {}
static inline void IG_FUNCTION_end(void) {}
#endif

/* `rows` rows by one panel: sums, less what the zero points add, to the epilogue. `row_sum` is of these rows. */
static inline void IG_FUNCTION_panel(void *const *buffer, const int64_t *size, const LEFT *a, int64_t a_step,
                                     const uint8_t *panel, int64_t rows, int64_t depth, const RAW *zero_point,
                                     int64_t zero_step, const uint32_t *row_sum, int64_t row, int64_t col,
                                     int64_t columns, uint32_t *sum)
{
    for (int64_t first = 0, count; first < rows; first += count) {
        const int64_t left = rows - first;
        count = IG_FUNCTION_matrices(left, a + first * a_step, a_step, panel + HEADER, depth, sum);
        if (!count) {
            count = left <= ROWS ? left : left >= ROWS + 4 ? ROWS : (left + 1) / 2;
            IG_FUNCTION_tile(count, a + first * a_step, a_step, panel + HEADER, depth, sum, 1);
        }
        for (int64_t at = 0; at < count; at++) {
            const int64_t r = first + at;
            const uint32_t zero = QUADS ? (uint32_t)ZERO_OF_ROW : 0;
            for (int64_t c = 0; c < columns; c += IG_LANES) {
                ig_u32 total = ig_load_u32(sum + at * COLUMNS + c);
                if (QUADS)
                    total -= zero * ig_load_u32(panel + c * 4);
                if (HAS_ZERO)
                    total -= row_sum[r] * ig_load_u32(panel + (COLUMNS + c) * 4);
                if (c + IG_LANES <= columns)
                    ig_epilogue(buffer, size, row + r, col + c, (ig_i32)total);
                else
                    ig_epilogue_n(buffer, size, row + r, col + c, (ig_i32)total, columns - c);
            }
        }
    }
    (void)row_sum, (void)zero_point, (void)zero_step;
}
