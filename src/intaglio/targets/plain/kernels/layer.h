/* A recurrent layer: what it has besides weights, its directions, and where a row of its states lies. */
#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef IS_DOUBLE
#define IS_DOUBLE 0
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif
#ifndef HAS_H0
#define HAS_H0 0
#endif
#ifndef HAS_Y
#define HAS_Y 1
#endif
#ifndef DIRECTIONS
#define DIRECTIONS 1
#endif
#ifndef IS_REVERSED
#define IS_REVERSED 0
#endif
#if IS_DOUBLE
#define EXP exp
#define TANH tanh
#else
#define EXP expf
#define TANH tanhf
#endif
#define SIGMOID(x) (1 / (1 + EXP(-x)))
#if IS_REVERSED
#define STEP 1 ? steps - 1 - s : s
#elif DIRECTIONS == 2
#define STEP d ? steps - 1 - s : s
#else
#define STEP s
#endif
#define ROW (d * batch + n) * hidden
#define INPUT x[(t * batch + n) * inputs + k]
/* One bias of unit `u`, of `count` for each direction; and both, that of the input and that of the state. */
#if HAS_BIAS
#define BIAS(gate, count) b[(d * count + gate) * hidden + u]
#define BIASES(gate, gates, count) BIAS(gate, count) + b[(d * count + gates + gate) * hidden + u]
#else
#define BIAS(gate, count) 0
#define BIASES(gate, gates, count) 0
#endif
#if HAS_H0
#define FIRST_H h0[ROW + u]
#else
#define FIRST_H 0
#endif
