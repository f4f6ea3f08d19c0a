/* GRU: step by step, for each direction and each of the batch. */
#include "layer.h"

/* Whether a reset acts on the state behind the weights, and not before them. */
#ifndef RESETS_BEHIND
#define RESETS_BEHIND 0
#endif
#if RESETS_BEHIND
#define STATE h_now[k]
#define OLD next[hidden + u] * old
#else
#define STATE next[hidden + k] * h_now[k]
#define OLD old
#endif

void IG_FUNCTION(const ELEMENT *x, const ELEMENT *w, const ELEMENT *r,
#if HAS_BIAS
                 const ELEMENT *b,
#endif
#if HAS_H0
                 const ELEMENT *h0,
#endif
#if HAS_Y
                 ELEMENT *y,
#endif
                 ELEMENT *h, ELEMENT *next, int64_t steps, int64_t batch, int64_t inputs,
                 int64_t hidden)
{
    for (int64_t d = 0; d < DIRECTIONS; d++) {
        for (int64_t n = 0; n < batch; n++) {
            ELEMENT *const h_now = h + ROW;
            for (int64_t u = 0; u < hidden; u++) {
                h_now[u] = FIRST_H;
            }
            for (int64_t s = 0; s < steps; s++) {
                const int64_t t = STEP;
                for (int64_t g = 0; g < 2; g++) {
                    for (int64_t u = 0; u < hidden; u++) {
                        ELEMENT sum = BIASES(g, 3, 6);
                        for (int64_t k = 0; k < inputs; k++) {
                            sum += INPUT * w[((d * 3 + g) * hidden + u) * inputs + k];
                        }
                        for (int64_t k = 0; k < hidden; k++) {
                            sum += h_now[k] * r[((d * 3 + g) * hidden + u) * hidden + k];
                        }
                        next[g * hidden + u] = SIGMOID(sum);
                    }
                }
                for (int64_t u = 0; u < hidden; u++) {
                    ELEMENT sum = BIAS(2, 6);
                    ELEMENT old = BIAS(5, 6);
                    for (int64_t k = 0; k < inputs; k++) {
                        sum += INPUT * w[((d * 3 + 2) * hidden + u) * inputs + k];
                    }
                    for (int64_t k = 0; k < hidden; k++) {
                        old += STATE * r[((d * 3 + 2) * hidden + u) * hidden + k];
                    }
                    next[u] = (1 - next[u]) * TANH(sum + OLD) + next[u] * h_now[u];
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
