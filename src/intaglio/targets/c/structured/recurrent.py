"""Recurrent layers: the steps of a sequence behind the projection of all its inputs, as C text.

Gates stand interleaved: for each block of a vector's lanes of hidden units one vector a gate, in the projected inputs
and in the recurrence weights, so that the activations follow the sums in registers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import Template
from typing import Literal

from intaglio.targets.c.structured.source import VectorTarget

Cell = Literal["LSTM", "GRU", "GRU_linear", "RNN"]

GATES: dict[Cell, tuple[int, ...]] = {"LSTM": (4,), "GRU": (2, 1), "GRU_linear": (3,), "RNN": (1,)}
"""How many gates each product of the state with recurrence weights computes."""

_ACTIVATIONS: dict[str, tuple[str, float, float]] = {
    "affine": ("alpha * x + beta", 1.0, 0.0),
    "elu": ("ig_select_$kind(ig_ge_$kind(x, zero), x, alpha * ig_expm1_$kind(x))", 1.0, 0.0),
    "hardsigmoid": ("ig_max_$kind(ig_min_$kind(alpha * x + beta, zero + 1), zero)", 0.2, 0.5),
    "leakyrelu": ("ig_select_$kind(ig_ge_$kind(x, zero), x, alpha * x)", 0.01, 0.0),
    "relu": ("ig_max_$kind(x, zero)", 0.0, 0.0),
    "scaledtanh": ("alpha * ig_tanh_$kind(beta * x)", 1.0, 1.0),
    "sigmoid": ("ig_sigmoid_$kind(x)", 0.0, 0.0),
    "softplus": ("ig_softplus_$kind(x)", 0.0, 0.0),
    "softsign": ("x / (zero + 1 + ig_abs_$kind(x))", 0.0, 0.0),
    "tanh": ("ig_tanh_$kind(x)", 0.0, 0.0),
    "thresholdedrelu": ("ig_select_$kind(ig_ge_$kind(x, alpha), x, zero)", 1.0, 0.0),
}
"""The C of each activation, and its parameters where a model gives none; an expression has those that it names."""


@dataclass(frozen=True)
class Activation:
    """An activation with its parameters; its input is bounded by `clip` where that is given."""

    name: str
    alpha: float
    beta: float
    clip: float | None

    def body(self) -> str:
        """C statements that give the activation of `x`."""
        alpha, beta = (f"ig_set_$kind({number!r}$suffix)" for number in (self.alpha, self.beta))
        lines = [f"const ig_$kind zero = {{0}}, alpha = {alpha}, beta = {beta};"]
        lines.append("(void)zero, (void)alpha, (void)beta;")
        if self.clip is not None:
            low, high = (f"ig_set_$kind({bound!r}$suffix)" for bound in (-self.clip, self.clip))
            lines.append(f"x = ig_max_$kind(ig_min_$kind(x, {high}), {low});")
        lines.append(f"return {_ACTIVATIONS[self.name][0]};")
        return "\n        ".join(lines)


def resolve_activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], clips: Sequence[float | None]
) -> list[Activation]:
    """Activations that take their parameters from the lists in order, each as far as it has them."""
    alpha, beta = iter(alphas), iter(betas)
    found: list[Activation] = []
    for name, clip in zip(names, clips, strict=True):
        text, default_alpha, default_beta = _ACTIVATIONS[name.lower()]
        first = _parameter(text, "alpha", alpha, default_alpha)
        found.append(Activation(name.lower(), first, _parameter(text, "beta", beta, default_beta), clip))
    return found


def _parameter(text: str, key: str, given: Iterator[float], default: float) -> float:
    return float(next(given, default)) if key in text else default


def row_tile(target: VectorTarget) -> int:
    """Rows of a batch that share one pass over the recurrence weights."""
    return 4 if target.vector_registers >= 32 else 3


def recurrent_helpers(cell: Cell, activations: Sequence[Sequence[Activation]], target: VectorTarget) -> str:
    """C of the products, the activations and one step of a block of hidden units; `activations` by direction.

    The marks $$type, $$kind and $$suffix, the element type and how its vectors and literals are named, remain.
    """
    text = "".join(_products(gates, target) for gates in GATES[cell])
    for index in range(len(activations[0])):
        text += _activation(index, [of_direction[index] for of_direction in activations])
    return text + _STEPS[cell]


def _products(gates: int, target: VectorTarget) -> str:
    rows = row_tile(target)
    cases = "\n".join(
        f"    case {r}: IG_FUNCTION_sum{gates}({r}, h, h_step, w, depth, sum); break;" for r in range(1, rows + 1)
    )
    return _PRODUCTS.safe_substitute(gates=gates, rows=rows, cases=cases, unroll=max(1, 8 // gates))


def _activation(index: int, by_direction: Sequence[Activation]) -> str:
    first, last = by_direction[0], by_direction[-1]
    other = "" if first == last else f"    if (direction) {{\n        {last.body()}\n    }}\n"
    return (
        f"static inline ig_$kind IG_FUNCTION_act{index}(ig_$kind x, int64_t direction)\n{{\n    (void)direction;\n"
        f"{other}    {{\n        {first.body()}\n    }}\n}}\n\n"
    )


_PRODUCTS = Template("""\
/* sum[r][g] = over k: state k of row r x weights of $gates gates at depth k. */
static inline __attribute__((always_inline)) void
IG_FUNCTION_sum$gates(const int rows, const $type *h, int64_t h_step, const $type *w, int64_t depth, $type *sum)
{
    ig_$kind c[$rows][$gates];
    IG_UNROLL for (int r = 0; r < rows; r++)
        IG_UNROLL for (int g = 0; g < $gates; g++)
            c[r][g] = (ig_$kind){0};
    for (int64_t k = 0; k < depth; k++, w += $gates * IG_LANES) {
        ig_$kind weight[$gates];
        IG_UNROLL for (int g = 0; g < $gates; g++)
            weight[g] = ig_load_$kind(w + g * IG_LANES);
        IG_UNROLL for (int r = 0; r < rows; r++) {
            const ig_$kind value = ig_set_$kind(h[r * h_step + k]);
            IG_UNROLL for (int g = 0; g < $gates; g++)
                c[r][g] += value * weight[g];
        }
    }
    IG_UNROLL for (int r = 0; r < rows; r++)
        IG_UNROLL for (int g = 0; g < $gates; g++)
            ig_store_$kind(sum + (r * $gates + g) * IG_LANES, c[r][g]);
}

/* The same for a batch of one, with enough independent sums to keep the multipliers busy. */
static inline __attribute__((always_inline)) void
IG_FUNCTION_single$gates(const $type *h, const $type *w, int64_t depth, $type *sum)
{
    ig_$kind c[$unroll][$gates];
    IG_UNROLL for (int u = 0; u < $unroll; u++)
        IG_UNROLL for (int g = 0; g < $gates; g++)
            c[u][g] = (ig_$kind){0};
    int64_t k = 0;
    for (; k + $unroll <= depth; k += $unroll)
        IG_UNROLL for (int u = 0; u < $unroll; u++, w += $gates * IG_LANES) {
            const ig_$kind value = ig_set_$kind(h[k + u]);
            IG_UNROLL for (int g = 0; g < $gates; g++)
                c[u][g] += value * ig_load_$kind(w + g * IG_LANES);
        }
    for (; k < depth; k++, w += $gates * IG_LANES)
        IG_UNROLL for (int g = 0; g < $gates; g++)
            c[0][g] += ig_set_$kind(h[k]) * ig_load_$kind(w + g * IG_LANES);
    IG_UNROLL for (int g = 0; g < $gates; g++) {
        ig_$kind total = c[0][g];
        IG_UNROLL for (int u = 1; u < $unroll; u++)
            total += c[u][g];
        ig_store_$kind(sum + g * IG_LANES, total);
    }
}

/* No rows stand for a batch of one: the order of a sum follows from sizes, never from the split into tasks. */
static __attribute__((noinline)) void
IG_FUNCTION_products$gates(int64_t rows, const $type *h, int64_t h_step, const $type *w, int64_t depth, $type *sum)
{
    switch (rows) {
$cases
    default: IG_FUNCTION_single$gates(h, w, depth, sum);
    }
}

""")

_STEPS: dict[Cell, str] = {
    "RNN": """\
static inline ig_$kind
IG_FUNCTION_step(const $type *x, const $type *sum, ig_$kind h, const $type *extra, $type *state, int64_t direction)
{
    (void)h, (void)extra, (void)state;
    return IG_FUNCTION_act0(ig_load_$kind(x) + ig_load_$kind(sum), direction);
}
""",
    "LSTM": """\
/* The new hidden units of one block; `state` is its cell, `extra` the peepholes of input, output and forget gate. */
static inline ig_$kind
IG_FUNCTION_step(const $type *x, const $type *sum, ig_$kind h, const $type *extra, $type *state, int64_t direction)
{
    const ig_$kind c = ig_load_$kind(state);
    ig_$kind gate[4];
    (void)h, (void)extra;
    IG_UNROLL for (int g = 0; g < 4; g++)
        gate[g] = ig_load_$kind(x + g * IG_LANES) + ig_load_$kind(sum + g * IG_LANES);
    $peep_input
    const ig_$kind enter = IG_FUNCTION_act0(gate[0], direction);
    const ig_$kind forget = $forget;
    const ig_$kind cell = forget * c + enter * IG_FUNCTION_act1(gate[3], direction);
    ig_store_$kind(state, cell);
    $peep_output
    return IG_FUNCTION_act0(gate[1], direction) * IG_FUNCTION_act2(cell, direction);
}
""",
    "GRU_linear": """\
/* The new hidden units of one block; `extra` is the bias inside the reset gate. */
static inline ig_$kind
IG_FUNCTION_step(const $type *x, const $type *sum, ig_$kind h, const $type *extra, $type *state, int64_t direction)
{
    const ig_$kind update = IG_FUNCTION_act0(ig_load_$kind(x) + ig_load_$kind(sum), direction);
    const ig_$kind reset = IG_FUNCTION_act0(ig_load_$kind(x + IG_LANES) + ig_load_$kind(sum + IG_LANES), direction);
    const ig_$kind past = reset * (ig_load_$kind(sum + 2 * IG_LANES) + ig_load_$kind(extra));
    const ig_$kind fresh = IG_FUNCTION_act1(ig_load_$kind(x + 2 * IG_LANES) + past, direction);
    (void)state;
    return (1 - update) * fresh + update * h;
}
""",
    "GRU": """\
/* The update gate of one block goes to `state`; the result is the part of h that the reset gate lets through. */
static inline ig_$kind
IG_FUNCTION_reset(const $type *x, const $type *sum, ig_$kind h, $type *state, int64_t direction)
{
    ig_store_$kind(state, IG_FUNCTION_act0(ig_load_$kind(x) + ig_load_$kind(sum), direction));
    return h * IG_FUNCTION_act0(ig_load_$kind(x + IG_LANES) + ig_load_$kind(sum + IG_LANES), direction);
}

static inline ig_$kind
IG_FUNCTION_step(const $type *x, const $type *sum, ig_$kind h, const $type *extra, $type *state, int64_t direction)
{
    const ig_$kind update = ig_load_$kind(state);
    (void)extra;
    const ig_$kind fresh = IG_FUNCTION_act1(ig_load_$kind(x + 2 * IG_LANES) + ig_load_$kind(sum), direction);
    return (1 - update) * fresh + update * h;
}
""",
}

_RESET = """\
            for (int64_t b = 0; b < blocks; b++)
                for (int64_t row = 0; row < rows; row += $tile) {
                    const int64_t count = rows - row < $tile ? rows - row : $tile;
                    IG_FUNCTION_products2(N > 1 ? count : 0, h + row * width, width,
                                          reset_weights + (d * blocks + b) * H * 2 * IG_LANES, H, sum);
                    for (int64_t r = row; r < row + count; r++) {
                        const $type *x = projected + t * x_time + (first + r) * x_batch + (d * blocks + b) * GATES;
                        const int64_t at = r * width + b * IG_LANES;
                        const ig_$kind old = ig_load_$kind(h + at);
                        const $type *gates = sum + (r - row) * 2 * IG_LANES;
                        ig_store_$kind(kept + at, IG_FUNCTION_reset(x, gates, old, state + at, d));
                    }
                }
"""


def recurrent_body(cell: Cell, is_reverse: bool, has_lengths: bool) -> str:
    """C of the whole layer; the marks $$tile, $$gates and those of the cell's step remain to be filled in.

    Buffers: projected, weights, (reset_weights), extra, start_h, start_c, (lengths), y, y_h, y_c. A task is one
    direction of `block` sequences of the batch. `extra` is laid out like the gates that it belongs to.
    """
    return Template(_BODY).safe_substitute(
        reset=_RESET if cell == "GRU" else "",
        source="kept" if cell == "GRU" else "h",
        last=str(GATES[cell][-1]),
        is_reverse="1" if is_reverse else "0",
        active="t < lengths[first + r]" if has_lengths else "1",
        check=_CHECK if has_lengths else "",
    )


_CHECK = """\
        for (int64_t r = 0; r < rows; r++)
            if (lengths[first + r] < 0 || lengths[first + r] > T)
                *fault = 1;
"""

_BODY = """\
    const int64_t blocks = (H + IG_LANES - 1) / IG_LANES, width = blocks * IG_LANES, parts = (N + block - 1) / block;
    enum { GATES = $gates * IG_LANES };
    $type sum[$tile * $most * IG_LANES];
    $type *h = scratch, *next = h + block * width, *state = next + block * width, *kept = state + block * width;
    for (int64_t task = begin; task < end; task++) {
        const int64_t d = task / parts, part = task % parts;
        const int64_t first = N * part / parts, rows = N * (part + 1) / parts - first;
$check        for (int64_t r = 0; r < rows; r++)
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t left = H - b * IG_LANES < IG_LANES ? H - b * IG_LANES : IG_LANES;
                const int64_t from = d * start_direction + (first + r) * start_batch + b * IG_LANES;
                const ig_$kind hidden = has_h ? ig_load_n_$kind(start_h + from, left) : (ig_$kind){0};
                ig_store_$kind(h + r * width + b * IG_LANES, hidden);
                const ig_$kind cell = has_c ? ig_load_n_$kind(start_c + from, left) : (ig_$kind){0};
                ig_store_$kind(state + r * width + b * IG_LANES, cell);
            }
        for (int64_t s = 0; s < T; s++) {
            const int64_t t = $is_reverse || d ? T - 1 - s : s;
$reset            for (int64_t b = 0; b < blocks; b++) {
                const int64_t left = H - b * IG_LANES < IG_LANES ? H - b * IG_LANES : IG_LANES;
                for (int64_t row = 0; row < rows; row += $tile) {
                    const int64_t count = rows - row < $tile ? rows - row : $tile;
                    IG_FUNCTION_products$last(N > 1 ? count : 0, $source + row * width, width,
                                              weights + (d * blocks + b) * H * $last * IG_LANES, H, sum);
                    for (int64_t r = row; r < row + count; r++) {
                        const $type *x = projected + t * x_time + (first + r) * x_batch + (d * blocks + b) * GATES;
                        const int64_t at = r * width + b * IG_LANES;
                        const ig_$kind old = ig_load_$kind(h + at);
                        const int is_active = $active;
                        const ig_$kind new = is_active ? IG_FUNCTION_step(x, sum + (r - row) * $last * IG_LANES, old,
                                                                        extra + (d * blocks + b) * $extras * IG_LANES,
                                                                        state + at, d) : old;
                        $type *out = y + t * y_time + d * y_direction + (first + r) * y_batch + b * IG_LANES;
                        ig_store_$kind(next + at, new);
                        if (left == IG_LANES)
                            ig_store_$kind(out, is_active ? new : (ig_$kind){0});
                        else
                            ig_store_n_$kind(out, is_active ? new : (ig_$kind){0}, left);
                    }
                }
            }
            $type *swapped = h;
            h = next;
            next = swapped;
        }
        for (int64_t r = 0; r < rows; r++) {
            const int64_t to = d * end_direction + (first + r) * end_batch;
            __builtin_memcpy(y_h + to, h + r * width, (uint64_t)H * sizeof *h);
            if (has_end_c)
                __builtin_memcpy(y_c + to, state + r * width, (uint64_t)H * sizeof *h);
        }
    }
    (void)kept, (void)start_h, (void)start_c, (void)y_c, (void)extra;
"""
