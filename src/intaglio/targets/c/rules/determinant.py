"""Det and inverses: elimination with partial pivoting, one matrix a task."""

from __future__ import annotations

from intaglio.ir.dim import floordiv, product
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.targets.c.routine import Routine, disagreement, memory_type, reads, writes
from intaglio.targets.c.rules.places import inputs_of
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, give_narrow, side_by_side, wide_result


@anchor("Det")
def determinant(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The product of the pivots; a matrix is copied to scratch memory and eliminated there."""
    (data,), output = inputs_of(node), node.output
    dtype = computed(data.dtype)
    source, result = side_by_side(context, data), wide_result(context, output)
    side = data.shape[-1]
    sizes: list[tuple[str, Size]] = [("mismatch", disagreement([(side, data.shape[-2])])), ("side", side)]
    routine = Routine(
        "determinant",
        _BODY,
        [reads("x", source), writes("out", result)],
        sizes,
        product(data.shape[:-2]),
        10 + floordiv(side * side * (side + 8), 8),
        side * side * dtype.itemsize,
        checks=True,
        helpers=_HELPERS,
        marks={"element": memory_type(dtype), "suffix": "f" if dtype.itemsize == 4 else ""},
    )
    context.emit(routine.call(node, data))
    give_narrow(context, output, result)


_HELPERS = """\
/* The row with the largest element in a column, from the diagonal down; the first NaN is larger than any number. */
static inline int64_t IG_FUNCTION_pivot(const $element *a, int64_t side, int64_t k)
{
    int64_t best = k;
    for (int64_t i = k + 1; i < side; i++) {
        const $element largest = __builtin_fabs$suffix(a[best * side + k]);
        best = largest != largest || __builtin_fabs$suffix(a[i * side + k]) <= largest ? best : i;
    }
    return best;
}

/* One row less a multiple of another, from an element on. */
static inline void
IG_FUNCTION_reduce($element *restrict row, const $element *restrict pivot, $element factor, int64_t from, int64_t side)
{
    for (int64_t j = from; j < side; j++)
        row[j] -= factor * pivot[j];
}
"""

_BODY = """
    $element *const a = scratch;
    if (mismatch) {
        *fault = 1;
        return;
    }
    for (int64_t task = begin; task < end; task++) {
        $element total = 1; /* its exponent apart, so that only the result can be too large or too small */
        int64_t exponent = 0;
        __builtin_memcpy(a, x + task * side * side, (unsigned long)(side * side) * sizeof *a);
        for (int64_t k = 0; k < side && total != 0; k++) {
            const int64_t best = IG_FUNCTION_pivot(a, side, k);
            for (int64_t j = k; j < side && best != k; j++) {
                const $element kept = a[k * side + j];
                a[k * side + j] = a[best * side + j];
                a[best * side + j] = kept;
            }
            const $element pivot = a[k * side + k];
            int power = 0;
            total = __builtin_frexp$suffix(total * (best == k ? pivot : -pivot), &power);
            exponent += power;
            for (int64_t i = k + 1; i < side; i++)
                IG_FUNCTION_reduce(a + i * side, a + k * side, a[i * side + k] / pivot, k + 1, side);
        }
        exponent = exponent < -10000 ? -10000 : exponent > 10000 ? 10000 : exponent;
        out[task] = __builtin_ldexp$suffix(total, (int)exponent);
    }
"""


@anchor("MatrixInverse")
def inverse(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Rows of the matrix and of the identity are reduced together, in double precision."""
    (data,), output = inputs_of(node), node.output
    source, result = side_by_side(context, data), wide_result(context, output)
    side = data.shape[-1]
    sizes: list[tuple[str, Size]] = [("mismatch", disagreement([(side, data.shape[-2])])), ("side", side)]
    routine = Routine(
        "inverse",
        _INVERSE,
        [reads("x", source), writes("out", result)],
        sizes,
        product(data.shape[:-2]),
        10 + floordiv(side * side * (side + 8), 2),
        side * side * 16,
        checks=True,
        helpers=_HELPERS,
        marks={"element": "double", "suffix": "", "result": memory_type(computed(data.dtype))},
    )
    context.emit(routine.call(node, data))
    give_narrow(context, output, result)


_INVERSE = """
    double *const a = scratch, *const b = a + side * side;
    if (mismatch) {
        *fault = 1;
        return;
    }
    for (int64_t task = begin; task < end; task++) {
        for (int64_t i = 0; i < side * side; i++) {
            a[i] = (double)x[task * side * side + i];
            b[i] = i / side == i % side;
        }
        for (int64_t k = 0; k < side; k++) {
            const int64_t best = IG_FUNCTION_pivot(a, side, k);
            const double pivot = a[best * side + k];
            if (pivot == 0) {
                *fault = 1;
                return;
            }
            for (int64_t j = 0; j < side; j++) {
                const double left = a[best * side + j], right = b[best * side + j];
                a[best * side + j] = a[k * side + j];
                b[best * side + j] = b[k * side + j];
                a[k * side + j] = left / pivot;
                b[k * side + j] = right / pivot;
            }
            for (int64_t i = 0; i < side; i++) {
                const double factor = a[i * side + k];
                if (i == k || factor == 0)
                    continue;
                IG_FUNCTION_reduce(a + i * side, a + k * side, factor, k, side);
                IG_FUNCTION_reduce(b + i * side, b + k * side, factor, 0, side);
            }
        }
        for (int64_t i = 0; i < side * side; i++)
            out[task * side * side + i] = ($result)b[i];
    }
"""
