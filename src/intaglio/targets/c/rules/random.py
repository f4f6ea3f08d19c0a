"""Random numbers, the same as the reference draws from the same key."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir.dim import pieces
from intaglio.ir.dtype import UINT64
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import whole
from intaglio.ops.random import key_of, uniform_bits
from intaglio.targets.c.backend import machine
from intaglio.targets.c.printing.register import MEMORY
from intaglio.targets.c.routine import (
    ROWS,
    Parameter,
    Routine,
    at_least_one,
    memory_type,
    reads,
    row_blocks,
    writes,
)
from intaglio.targets.c.rules.table import anchor

PHILOX = """
/* Philox 4x64-10: the four random words at a place, which counts blocks of four, from a key. */
IG_INLINE void IG_FUNCTION_philox(uint64_t place, const uint64_t *key, uint64_t *word)
{
    __extension__ typedef unsigned __int128 product;
    uint64_t a = place + 1, b = 0, c = 0, d = 0, k = key[0], l = key[1];
    IG_UNROLL
    for (int round = 0; round < 10; round++) {
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
/* A product that is rounded before it is added to: no compiler may fuse the two. */
IG_INLINE ig_f64 IG_FUNCTION_rounded(ig_f64 x)
{
    __asm__("" : "+m"(x));
    return x;
}
"""


def _key(context: Context, node: Node) -> Parameter:
    """The key of a node's numbers: a constant that its seed gives, or one drawn anew in each run."""
    if node.op.seed is not None:
        array = key_of(node.op.seed)
        return reads("key", whole(context.constant(array), array.shape))
    view = whole(context.temporary(UINT64, 2, "key"), (2,))
    routine = Routine("new_key", _NEW_KEY, [writes("key", view)], [], 1, 1000, checks=True, helpers=_ENTROPY)
    context.emit(routine.call(node))
    return reads("key", view)


_ENTROPY = """
extern int getentropy(void *buffer, unsigned long length);
"""

_NEW_KEY = """
    if (getentropy(key, 16))
        *fault = 1;
"""


@anchor("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", reads=lambda node: [])
def random_numbers(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A vector of numbers in double precision, rounded once; element i comes from word i (or pair i / 2)."""
    result = context.allocate(node.output)
    is_normal = "Normal" in node.op.name
    parameters = [_key(context, node), writes("out", result)]
    elements = machine(context).lanes * (2 if is_normal else 1)
    row_bytes, row_cost = elements * node.output.dtype.itemsize, elements * (6 if is_normal else 3)
    count = node.output.tensor.size
    rows = pieces(count, elements)
    blocks, tasks, cost = row_blocks(rows, row_bytes, row_cost)
    sizes: list[tuple[str, Size]] = [("count", count), ("rows", rows), *blocks]
    helpers = PHILOX + (_NORMAL_HELPERS if is_normal else "")
    body = _NORMAL if is_normal else _UNIFORM
    routine = Routine(node.op.name.lower(), body, parameters, sizes, tasks, cost, helpers=helpers)
    routine.marks = _normal_marks(node) if is_normal else _uniform_marks(node)
    context.emit(routine.call(node))


def _literal(number: float) -> str:
    return f"({float(number)!r})" if np.isfinite(number) else _endless(number)


def _endless(number: float) -> str:
    return '__builtin_nan("")' if np.isnan(number) else f"({'-' if number < 0 else ''}__builtin_inf())"


def _store_marks(node: Node) -> dict[str, str]:
    name = node.output.dtype.name
    suffix = MEMORY[name][1]
    value = {"float64": "v", "float32": "ig_cast_f64_f32(v)"}.get(name, "ig_odd_f32(v)")
    return {"suffix": suffix, "value": value}


def _normal_marks(node: Node) -> dict[str, str]:
    return _store_marks(node) | {"factor": _literal(node.op.scale), "offset": _literal(node.op.mean)}


def _uniform_marks(node: Node) -> dict[str, str]:
    bits = uniform_bits(node.output.dtype)
    marks = {"shift": str(64 - bits), "unit": f"0x1p-{bits}"}
    marks |= {"factor": _literal(node.op.high - node.op.low), "offset": _literal(node.op.low)}
    return _store_marks(node) | marks


_UNIFORM = f"""
    for ({ROWS}) {{
        const int64_t first = row * IG_LANES, left = count - first;
        double u[IG_LANES] = {{0}};
        for (int64_t place = 0; place < IG_LANES && place < left; place += 4) {{
            uint64_t word[4];
            IG_FUNCTION_philox((uint64_t)(first + place) / 4, key, word);
            for (int l = 0; l < 4; l++)
                u[place + l] = (double)(int64_t)(word[l] >> $shift) * $unit;
        }}
        const ig_f64 v = IG_FUNCTION_rounded(ig_load_f64(u) * $factor) + $offset;
        ig_store_n_$suffix(out + first, $value, left < IG_LANES ? left : IG_LANES);
    }}
"""

_NORMAL_HELPERS = """
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
"""

_NORMAL = f"""
    for ({ROWS}) {{
        const int64_t first = row * 2 * IG_LANES, left = count - first;
        double u[IG_LANES] = {{0}}, t[IG_LANES] = {{0}}, z[2 * IG_LANES];
        for (int64_t place = 0; place < IG_LANES && 2 * place < left; place += 2) {{
            uint64_t word[4];
            IG_FUNCTION_philox((uint64_t)(first / 2 + place) / 2, key, word);
            for (int l = 0; l < 2; l++) {{
                u[place + l] = (double)(int64_t)(word[2 * l] >> 11) * 0x1p-53;
                t[place + l] = (double)(int64_t)(word[2 * l + 1] >> 11) * 0x1p-53;
            }}
        }}
        ig_f64 cosine, sine;
        const ig_f64 length = ig_sqrt_f64(-2 * IG_FUNCTION_log(1 - ig_load_f64(u)));
        IG_FUNCTION_turn(ig_load_f64(t), &cosine, &sine);
        const ig_f64 x = IG_FUNCTION_rounded(length * cosine * $factor) + $offset;
        const ig_f64 y = IG_FUNCTION_rounded(length * sine * $factor) + $offset;
        for (int l = 0; l < IG_LANES; l++) {{
            z[2 * l] = x[l];
            z[2 * l + 1] = y[l];
        }}
        for (int64_t half = 0; half < 2 * IG_LANES && half < left; half += IG_LANES) {{
            const ig_f64 v = ig_load_f64(z + half);
            ig_store_n_$suffix(out + first + half, $value, left - half < IG_LANES ? left - half : IG_LANES);
        }}
    }}
"""


def _refuse_mask(node: Node) -> Refusal | None:
    seed = node.op.seed
    return None if seed is None or 0 <= seed < 1 << 32 else Refusal(Cause.FORM, f"the seed {seed} is not below 2^32")


@anchor("DropoutMask", refuse=_refuse_mask, reads=lambda node: [v for v in node.inputs[1:] if v is not None])
def dropout_mask(context: Context, node: Node, epilogue: Epilogue) -> None:
    """True where a random number is not below the share; with a seed in order, as NumPy's older generator draws."""
    (ratio, training), result = _two(node.inputs[1:]), context.allocate(node.output)
    is_seeded = node.op.seed is not None
    parameters = [_state(context, node.op.seed) if is_seeded else _key(context, node)]
    parameters += [reads("mode", context.contiguous(training))] if training is not None else []
    parameters += [reads("ratio", context.contiguous(ratio))] if ratio is not None else []
    parameters.append(writes("out", result))
    count = node.output.tensor.size
    sizes: list[tuple[str, Size]] = [("count", count), ("rows", pieces(count, 4))]
    if is_seeded:
        tasks, cost = 1, 1 + count * 8
    else:
        blocks, tasks, cost = row_blocks(pieces(count, 4), 4, 12)
        sizes += [*blocks, ("tasks", tasks)]
        tasks = at_least_one(tasks)
    body = _MASK_HEAD + (_SEEDED_MASK if is_seeded else _MASK)
    helpers = _TWISTER if is_seeded else PHILOX
    routine = Routine("dropout_mask", body, parameters, sizes, tasks, cost, checks=True, helpers=helpers)
    routine.scratch = 624 * 4 if is_seeded else 0
    routine.marks = {
        "training": "mode[0]" if training is not None else "0",
        "ratio": "0.5" if ratio is None else f"(double)ig_load_n_{MEMORY[ratio.dtype.name][1]}(ratio, 1)[0]",
    }
    context.emit(routine.call(node))


def _two(values: Any) -> tuple[Value | None, Value | None]:
    first, second = (*values, None, None)[:2]
    return first, second


def _state(context: Context, seed: int) -> Parameter:
    """The state of NumPy's older generator behind its seeding."""
    array = np.asarray(np.random.RandomState(seed).get_state(legacy=False)["state"]["key"], np.uint32)
    return reads("state", whole(context.constant(array), array.shape))


_MASK_HEAD = """
    const double share = $training ? $ratio : 0;
    if (!(share >= 0 && share < 1)) {
        *fault = 1;
        return;
    }
"""

_MASK = f"""
    for ({ROWS}) {{
        uint64_t word[4];
        IG_FUNCTION_philox((uint64_t)row, key, word);
        for (int64_t l = 0; l < 4 && 4 * row + l < count; l++)
            out[4 * row + l] = (double)(word[l] >> 11) * 0x1p-53 >= share;
    }}
"""

_TWISTER = """
/* The next 624 words of the Mersenne Twister, in place. */
static inline void IG_FUNCTION_twist(uint32_t *word)
{
    for (int i = 0; i < 624; i++) {
        const uint32_t y = (word[i] & 0x80000000u) | (word[(i + 1) % 624] & 0x7fffffffu);
        word[i] = word[(i + 397) % 624] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
}
static inline uint32_t IG_FUNCTION_temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}
"""

_SEEDED_MASK = """
    uint32_t *const word = scratch;
    __builtin_memcpy(word, state, 624 * sizeof *word);
    for (int64_t i = 0, place = 624; i < count; i++, place += 2) {
        if (place == 624) {
            IG_FUNCTION_twist(word);
            place = 0;
        }
        const double high = IG_FUNCTION_temper(word[place]) >> 5, low = IG_FUNCTION_temper(word[place + 1]) >> 6;
        out[i] = share == 0 || (high * 67108864.0 + low) / 9007199254740992.0 >= share;
    }
"""


@anchor("Multinomial")
def multinomial(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Running sums of each row's weights, and a search among them for each number drawn."""
    (data,) = (value for value in node.inputs if value is not None)
    parameters = [_key(context, node), reads("data", context.contiguous(data))]
    parameters.append(writes("out", context.allocate(node.output)))
    (rows, classes), samples = data.shape, node.op.sample_size
    blocks, tasks, cost = row_blocks(rows, (classes + samples) * 8, 8 + classes * 10 + samples * 20)
    sizes: list[tuple[str, Size]] = [
        ("rows", rows), ("classes", classes), ("samples", samples), *blocks, ("tasks", tasks)
    ]  # fmt: skip
    routine = Routine(
        "multinomial", _MULTINOMIAL, parameters, sizes, at_least_one(tasks), cost, checks=True, helpers=PHILOX
    )
    routine.scratch = (classes + 1) * 8
    routine.marks = {"suffix": MEMORY[data.dtype.name][1], "element": memory_type(node.output.dtype)}
    context.emit(routine.call(node))


_MULTINOMIAL = f"""
    double *const bound = scratch;
    if (classes < 1 || samples < 1) {{
        *fault = 1;
        return;
    }}
    for ({ROWS}) {{
        double top = -__builtin_inf(), total = 0;
        for (int64_t c = 0; c < classes; c++) {{
            bound[c] = (double)ig_load_n_$suffix(data + row * classes + c, 1)[0];
            top = bound[c] > top || bound[c] != bound[c] ? bound[c] : top;
        }}
        for (int64_t c = 0; c < classes; c++)
            bound[c] = total += __builtin_exp(bound[c] - top);
        uint64_t word[4] = {{0}};
        for (int64_t s = 0; s < samples; s++) {{
            const uint64_t place = (uint64_t)(row * samples + s);
            if (s == 0 || place % 4 == 0)
                IG_FUNCTION_philox(place / 4, key, word);
            const double drawn = (double)(word[place % 4] >> 11) * 0x1p-53 * total;
            int64_t low = 0, left = classes;
            while (left > 0) {{
                const int64_t half = left / 2;
                const int is_below = !(bound[low + half] > drawn);
                low = is_below ? low + half + 1 : low;
                left = is_below ? left - half - 1 : half;
            }}
            out[row * samples + s] = ($element)(low < classes ? low : classes - 1);
        }}
    }}
"""
