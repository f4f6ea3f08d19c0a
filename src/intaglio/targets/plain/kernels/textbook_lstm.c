/* LSTM: step by step, for each direction and each of the batch. */
#include "layer.h"

#ifndef HAS_C0
#define HAS_C0 0
#endif
#if HAS_C0
#define FIRST_C c0[ROW + u]
#else
#define FIRST_C 0
#endif

void IG_FUNCTION(const ELEMENT *x, const ELEMENT *w, const ELEMENT *r,
#if HAS_BIAS
                 const ELEMENT *b,
#endif
#if HAS_H0
                 const ELEMENT *h0,
#endif
#if HAS_C0
                 const ELEMENT *c0,
#endif
#if HAS_Y
                 ELEMENT *y,
#endif
                 ELEMENT *h, ELEMENT *c, ELEMENT *next, int64_t steps, int64_t batch, int64_t inputs,
                 int64_t hidden)
{
    for (int64_t d = 0; d < DIRECTIONS; d++) {
        for (int64_t n = 0; n < batch; n++) {
            ELEMENT *const h_now = h + ROW;
            ELEMENT *const c_now = c + ROW;
            for (int64_t u = 0; u < hidden; u++) {
                h_now[u] = FIRST_H;
                c_now[u] = FIRST_C;
            }
            for (int64_t s = 0; s < steps; s++) {
                const int64_t t = STEP;
                for (int64_t u = 0; u < hidden; u++) {
                    ELEMENT gate[4];
                    for (int64_t g = 0; g < 4; g++) {
                        ELEMENT sum = BIASES(g, 4, 8);
                        for (int64_t k = 0; k < inputs; k++) {
                            sum += INPUT * w[((d * 4 + g) * hidden + u) * inputs + k];
                        }
                        for (int64_t k = 0; k < hidden; k++) {
                            sum += h_now[k] * r[((d * 4 + g) * hidden + u) * hidden + k];
                        }
                        gate[g] = sum;
                    }
                    c_now[u] = SIGMOID(gate[2]) * c_now[u] + SIGMOID(gate[0]) * TANH(gate[3]);
                    next[u] = SIGMOID(gate[1]) * TANH(c_now[u]);
                }
                for (int64_t u = 0; u < hidden; u++) {
                    h_now[u] = next[u];
                }
#if HAS_Y
                for (int64_t u = 0; u < hidden; u++) {
                    y[((t * DIRECTIONS + d) * batch + n) * hidden + u] = h_now[u];
                }
#endif
            }
        }
    }
}
