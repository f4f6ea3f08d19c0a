"""Pooling of any element type with the channels first, value by value, as C text."""

from typing import Literal

from intaglio.targets.c.structured.window import TAPS

PlainPool = Literal["max", "average", "lp"]

_STARTS = {"max": "$lowest", "average": "0", "lp": "0"}

_STEPS = {
    "max": """\
if (place < 0 || value > best$nan) {
                            best = value;
                            place = storage == 0 ? (at[0] * in1 + at[1]) * in2 + at[2]
                                                 : at[0] + in0 * (at[1] + in1 * at[2]);
                        }""",
    "average": "best += value;",
    "lp": "best += $power;",
}

_FINISHES = {
    "max": """\
out[cell] = best;
                if (has_indices)
                    indices[cell] = plane * in0 * in1 * in2 + place;""",
    "average": "out[cell] = best / ($element)count;",
    "lp": "out[cell] = $root;",
}


def pool_marks(kind: PlainPool, element: str, lowest: str, counts_pads: bool, p: int) -> dict[str, str]:
    """What the body leaves open, for elements of a C type with its least value."""
    suffix = "f" if element == "float" else ""
    magnitude = f"__builtin_fabs{suffix}(value)"
    powers = {1: (magnitude, "best"), 2: ("value * value", f"__builtin_sqrt{suffix}(best)")}
    power, root = powers.get(
        p, (f"__builtin_pow{suffix}({magnitude}, {p})", f"__builtin_pow{suffix}(best, ({element})(1.0 / {p}))")
    )
    marks = {"element": element, "lowest": lowest, "power": power, "root": root, "counts": str(int(counts_pads))}
    marks["nan"] = " || (value != value && best == best)" if suffix or element == "double" else ""
    return marks | {name: _filled(texts[kind], marks) for name, texts in _PARTS.items()}


_PARTS = {"start": _STARTS, "step": _STEPS, "finish": _FINISHES}


def _filled(text: str, marks: dict[str, str]) -> str:
    for name, mark in marks.items():
        text = text.replace(f"${name}", mark)
    return text


POOL_HELPERS = f"""\
/* The taps of a window that lie inside of an axis; the result counts those that the mean is over. */
{TAPS}"""

POOL_BODY = """\
    (void)scratch, (void)storage, (void)has_indices, (void)indices;
    for (int64_t task = begin; task < end; task++) {
        const int64_t plane = task / (out0 * out1), o0 = task / out1 % out0, o1 = task % out1;
        const int64_t s0 = o0 * stride0 - pad0, s1 = o1 * stride1 - pad1;
        const $element *image = x + plane * in0 * in1 * in2;
        int64_t r0[2], r1[2], r2[2];
        const int64_t rows = IG_FUNCTION_range(s0, kernel0, dilation0, in0, end0, r0) *
                             IG_FUNCTION_range(s1, kernel1, dilation1, in1, end1, r1);
        for (int64_t o2 = 0; o2 < out2; o2++) {
            const int64_t s2 = o2 * stride2 - pad2, cell = task * out2 + o2;
            const int64_t count = rows * IG_FUNCTION_range(s2, kernel2, dilation2, in2, end2, r2);
            int64_t place = -1;
            $element best = $start;
            for (int64_t i = r0[0]; i < r0[1]; i++)
                for (int64_t j = r1[0]; j < r1[1]; j++)
                    for (int64_t l = r2[0]; l < r2[1]; l++) {
                        const int64_t at[3] = {s0 + i * dilation0, s1 + j * dilation1, s2 + l * dilation2};
                        const $element value = image[(at[0] * in1 + at[1]) * in2 + at[2]];
                        $step
                    }
            (void)place, (void)count;
                $finish
        }
    }
"""
