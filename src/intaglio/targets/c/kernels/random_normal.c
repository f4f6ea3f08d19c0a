/* Normal random numbers by the method of Box and Muller: elements 2i and 2i + 1 come from the pair of words i. A row is
   two vectors of them; a task is a block of rows. */
#include "kernel.h"
#include "philox.h"
#include "random_result.h"

/* The logarithm of numbers from 2^-53 to 1. */
IG_INLINE ig_f64 IG_FUNCTION_log(ig_f64 x)
{
    const ig_i64 bits = (ig_i64)x;
    ig_f64 m = (ig_f64)((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
    const ig_i64 is_large = ig_gt_f64(m, ig_set_f64(1.4142135623730951));
    m = ig_select_f64(is_large, m * 0.5, m);
    const ig_f64 e = __builtin_convertvector((bits >> 52) - 1023 - is_large, ig_f64);
    const ig_f64 t = (m - 1) / (m + 1), z = t * t;
    ig_f64 p = ig_set_f64(0.043478260869565216);
    p = p * z + 0.047619047619047616;
    p = p * z + 0.05263157894736842;
    p = p * z + 0.058823529411764705;
    p = p * z + 0.06666666666666667;
    p = p * z + 0.07692307692307693;
    p = p * z + 0.09090909090909091;
    p = p * z + 0.1111111111111111;
    p = p * z + 0.14285714285714285;
    p = p * z + 0.2;
    p = p * z + 0.3333333333333333;
    return e * 0.6931471803691238 + (e * 1.9082149292705877e-10 + (2 * t * z * p + 2 * t));
}

/* Cosine and sine of a number of whole turns from 0 to 1. */
IG_INLINE void IG_FUNCTION_turn(ig_f64 turns, ig_f64 *cosine, ig_f64 *sine)
{
    const ig_f64 quarters = ig_round_f64(4 * turns), x = (4 * turns - quarters) * 1.5707963267948966, z = x * x;
    const ig_i64 quadrant = __builtin_convertvector(quarters, ig_i64), is_odd = -(quadrant & 1);
    ig_f64 s = ig_set_f64(-7.647163731819816e-13), c = ig_set_f64(4.779477332387385e-14);
    s = s * z + 1.6059043836821613e-10;
    s = s * z + -2.505210838544172e-08;
    s = s * z + 2.7557319223985893e-06;
    s = s * z + -0.0001984126984126984;
    s = s * z + 0.008333333333333333;
    s = s * z + -0.16666666666666666;
    c = c * z + -1.1470745597729725e-11;
    c = c * z + 2.08767569878681e-09;
    c = c * z + -2.755731922398589e-07;
    c = c * z + 2.48015873015873e-05;
    c = c * z + -0.001388888888888889;
    c = c * z + 0.041666666666666664;
    c = c * z + -0.5;
    s = s * z * x + x;
    c = c * z + 1;
    *cosine = ig_select_f64(is_odd, s, c) * (1 - __builtin_convertvector((quadrant + 1) & 2, ig_f64));
    *sine = ig_select_f64(is_odd, c, s) * (1 - __builtin_convertvector(quadrant & 2, ig_f64));
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const uint64_t *const key = BUFFER(key);
    ELEMENT *const out = BUFFER(out);
    const int64_t count = SIZE(count), rows = SIZE(rows), block = SIZE(block);
    (void)scratch;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const int64_t first = row * 2 * IG_LANES, left = count - first;
        double u[IG_LANES] = {0}, t[IG_LANES] = {0}, z[2 * IG_LANES];
        for (int64_t place = 0; place < IG_LANES && 2 * place < left; place += 2) {
            uint64_t word[4];
            IG_FUNCTION_philox((uint64_t)(first / 2 + place) / 2, key, word);
            for (int l = 0; l < 2; l++) {
                u[place + l] = UNIT(word[2 * l]);
                t[place + l] = UNIT(word[2 * l + 1]);
            }
        }
        ig_f64 cosine, sine;
        const ig_f64 length = ig_sqrt_f64(-2 * IG_FUNCTION_log(1 - ig_load_f64(u)));
        IG_FUNCTION_turn(ig_load_f64(t), &cosine, &sine);
        const ig_f64 x = IG_FUNCTION_scaled(length * cosine), y = IG_FUNCTION_scaled(length * sine);
        for (int l = 0; l < IG_LANES; l++) {
            z[2 * l] = x[l];
            z[2 * l + 1] = y[l];
        }
        for (int64_t half = 0; half < 2 * IG_LANES && half < left; half += IG_LANES) {
            const ig_f64 v = ig_load_f64(z + half);
            STORE_N(out + first + half, NARROWED(v), left - half < IG_LANES ? left - half : IG_LANES);
        }
    }
}
