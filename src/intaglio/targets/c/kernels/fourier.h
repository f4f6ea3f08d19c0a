/* Fourier transforms of lines side by side, in passes for each factor of their length. */
#ifndef REAL
#define REAL float
#endif
/* A length with a greater prime factor is transformed by Bluestein's method, as a convolution of a smooth length. */
#ifndef LARGEST
#define LARGEST 60
#endif

/* The factor of a length that the next pass takes. */
static inline int64_t IG_FUNCTION_factor(int64_t n)
{
    for (int64_t f = n % 4 == 0 ? 4 : 2; f * f <= n; f++)
        if (n % f == 0)
            return f;
    return n;
}

/* The largest prime factor, or 1. */
static inline int64_t IG_FUNCTION_largest(int64_t n)
{
    int64_t found = 1;
    for (int64_t f = 2; f * f <= n; f++)
        for (; n % f == 0; n /= f)
            found = f;
    return found > n ? found : n;
}

/* The power of two for the convolution of Bluestein's method. */
static inline int64_t IG_FUNCTION_smooth(int64_t n)
{
    int64_t m = 1;
    while (m < 2 * n - 1)
        m *= 2;
    return m;
}

/* One pass of a transform: y[q, r p + j] = w^(l p j) sum_k x[q, p + m k] w_r^(j k), for all q below s. */
static inline void IG_FUNCTION_pass4(const REAL *restrict xr, const REAL *restrict xi, REAL *restrict yr,
                                     REAL *restrict yi, int64_t m, int64_t s, int64_t l, const REAL *wr, const REAL *wi)
{
    for (int64_t p = 0; p < m; p++) {
        const REAL c1 = wr[l * p], c2 = wr[2 * l * p], c3 = wr[3 * l * p];
        const REAL d1 = wi[l * p], d2 = wi[2 * l * p], d3 = wi[3 * l * p];
        const REAL *const ar = xr + s * p, *const ai = xi + s * p;
        REAL *const tr = yr + 4 * s * p, *const ti = yi + 4 * s * p;
        const int64_t b = s * m, c = 2 * s * m, d = 3 * s * m;
        for (int64_t q = 0; q < s; q++) {
            const REAL even_r = ar[q] + ar[q + c], even_i = ai[q] + ai[q + c];
            const REAL less_r = ar[q] - ar[q + c], less_i = ai[q] - ai[q + c];
            const REAL odd_r = ar[q + b] + ar[q + d], odd_i = ai[q + b] + ai[q + d];
            const REAL turn_r = ai[q + b] - ai[q + d], turn_i = ar[q + d] - ar[q + b];
            const REAL f_r = less_r + turn_r, f_i = less_i + turn_i, h_r = less_r - turn_r, h_i = less_i - turn_i;
            const REAL g_r = even_r - odd_r, g_i = even_i - odd_i;
            tr[q] = even_r + odd_r;
            ti[q] = even_i + odd_i;
            tr[q + s] = f_r * c1 - f_i * d1;
            ti[q + s] = f_r * d1 + f_i * c1;
            tr[q + 2 * s] = g_r * c2 - g_i * d2;
            ti[q + 2 * s] = g_r * d2 + g_i * c2;
            tr[q + 3 * s] = h_r * c3 - h_i * d3;
            ti[q + 3 * s] = h_r * d3 + h_i * c3;
        }
    }
}

static inline void IG_FUNCTION_pass2(const REAL *restrict xr, const REAL *restrict xi, REAL *restrict yr,
                                     REAL *restrict yi, int64_t m, int64_t s, int64_t l, const REAL *wr, const REAL *wi)
{
    for (int64_t p = 0; p < m; p++) {
        const REAL c = wr[l * p], d = wi[l * p];
        for (int64_t q = s * p; q < s * p + s; q++) {
            const REAL less_r = xr[q] - xr[q + s * m], less_i = xi[q] - xi[q + s * m];
            yr[q + s * p] = xr[q] + xr[q + s * m];
            yi[q + s * p] = xi[q] + xi[q + s * m];
            yr[q + s * p + s] = less_r * c - less_i * d;
            yi[q + s * p + s] = less_r * d + less_i * c;
        }
    }
}

static inline void IG_FUNCTION_pass(const REAL *restrict xr, const REAL *restrict xi, REAL *restrict yr,
                                    REAL *restrict yi, int64_t r, int64_t m, int64_t s, int64_t l, int64_t n,
                                    const REAL *wr, const REAL *wi)
{
    for (int64_t p = 0; p < m; p++) {
        for (int64_t j = 0; j < r; j++) {
            REAL *const tr = yr + s * (r * p + j), *const ti = yi + s * (r * p + j);
            for (int64_t k = 0; k < r; k++) {
                const int64_t place = (n / r * (j * k % r) + l * p * j) % n;
                const REAL c = wr[place], d = wi[place];
                const REAL *const ar = xr + s * (p + m * k), *const ai = xi + s * (p + m * k);
                if (k == 0) {
                    for (int64_t q = 0; q < s; q++) {
                        tr[q] = ar[q] * c - ai[q] * d;
                        ti[q] = ar[q] * d + ai[q] * c;
                    }
                } else {
                    for (int64_t q = 0; q < s; q++) {
                        tr[q] += ar[q] * c - ai[q] * d;
                        ti[q] += ar[q] * d + ai[q] * c;
                    }
                }
            }
        }
    }
}

/* Transforms `batch` lines of n numbers side by side; line is the other of the two pairs of buffers on each pass.
   Leaves the result in *re and *im, which may change places with the others. */
static void IG_FUNCTION_fft(REAL **re, REAL **im, REAL **other_re, REAL **other_im, int64_t n, int64_t batch,
                            const REAL *wr, const REAL *wi)
{
    for (int64_t l = 1; l < n;) {
        const int64_t r = IG_FUNCTION_factor(n / l), m = n / l / r, s = batch * l;
        if (r == 4)
            IG_FUNCTION_pass4(*re, *im, *other_re, *other_im, m, s, l, wr, wi);
        else if (r == 2)
            IG_FUNCTION_pass2(*re, *im, *other_re, *other_im, m, s, l, wr, wi);
        else
            IG_FUNCTION_pass(*re, *im, *other_re, *other_im, r, m, s, l, n, wr, wi);
        REAL *const was_re = *re, *const was_im = *im;
        *re = *other_re;
        *im = *other_im;
        *other_re = was_re;
        *other_im = was_im;
        l *= r;
    }
}
