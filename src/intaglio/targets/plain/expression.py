"""Expressions of the kernel language in plain C11, and the small functions that they use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from intaglio.errors import UnsupportedError
from intaglio.kernels.elements import BITS, FLOATS
from intaglio.kernels.language import Apply, Expr, Name, Number
from intaglio.targets.plain.narrow import MODES, narrow_functions

TYPES = {"f32": "float", "f64": "double", "bool": "bool"} | {
    f"{sign}{bits}": f"{'u' if sign == 'u' else ''}int{bits}_t" for sign in "iu" for bits in (8, 16, 32, 64)
}
"""How C spells each scalar type."""

_LIBRARY = frozenset(
    {"ceil", "floor", "rint", "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
     "asinh", "acosh", "atanh", "erf", "fmod", "pow", "expm1"}
)  # fmt: skip
_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "bit_and": "&", "bit_or": "|", "bit_xor": "^", "eq": "==", "ne": "!=",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "&&", "or": "||", "xor": "!=",
}  # fmt: skip

_HELPERS = {
    "sigmoid": "static inline {t} sigmoid_{n}({t} x)\n{{\n    return 1 / (1 + exp{f}(-x));\n}}\n",
    "relu": "static inline {t} relu_{n}({t} x)\n{{\n    return x < 0 ? 0 : x;\n}}\n",
    "max": "static inline {t} max_{n}({t} a, {t} b)\n{{\n    return a != a || a > b ? a : b;\n}}\n",
    "min": "static inline {t} min_{n}({t} a, {t} b)\n{{\n    return a != a || a < b ? a : b;\n}}\n",
    "sign": "static inline {t} sign_{n}({t} x)\n{{\n    return x > 0 ? 1 : x < 0 ? -1 : x;\n}}\n",
    "mod": (
        "static inline {t} mod_{n}({t} a, {t} b)\n{{\n    const {t} r = fmod{f}(a, b);\n"
        "    if (r == 0)\n        return copysign{f}(0, b);\n    return (r < 0) != (b < 0) ? r + b : r;\n}}\n"
    ),
}
"""Functions of floating-point numbers that C does not have; NaN stays NaN."""

_INTEGER_HELPERS = {
    "max": "static inline {t} max_{n}({t} a, {t} b)\n{{\n    return a > b ? a : b;\n}}\n",
    "min": "static inline {t} min_{n}({t} a, {t} b)\n{{\n    return a < b ? a : b;\n}}\n",
    "sign": "static inline {t} sign_{n}({t} x)\n{{\n    return ({t})((x > 0) - (x < 0));\n}}\n",
    "div": (
        "/* A divisor of 0 gives 0, and the least number divided by -1 itself. */\n"
        "static inline {t} div_{n}({t} a, {t} b)\n{{\n    if (b == 0)\n        return 0;\n"
        "    return ({t})({minus}a / b);\n}}\n"
    ),
    "fmod": ("static inline {t} fmod_{n}({t} a, {t} b)\n{{\n    return b == 0{minus_one} ? 0 : ({t})(a % b);\n}}\n"),
    "mod": (
        "static inline {t} mod_{n}({t} a, {t} b)\n{{\n    const {t} r = b == 0{minus_one} ? 0 : ({t})(a % b);\n"
        "    return r != 0 && (r < 0) != (b < 0) ? ({t})(r + b) : r;\n}}\n"
    ),
    "shift_left": (
        "static inline {t} shift_left_{n}({t} a, {t} b)\n{{\n"
        "    return (uint64_t)b >= {bits} ? 0 : ({t})((uint64_t)a << b);\n}}\n"
    ),
    "shift_right": (
        "static inline {t} shift_right_{n}({t} a, {t} b)\n{{\n"
        "    return (uint64_t)b >= {bits} ? ({t})(a < 0 ? -1 : 0) : ({t})(a >> b);\n}}\n"
    ),
    "power": (
        "static inline {t} power_{n}({t} base, {t} exponent)\n{{\n    {t} power = 1;\n"
        "    for (; exponent; exponent >>= 1, base *= base)\n        power = exponent & 1 ? power * base : power;\n"
        "    return power;\n}}\n"
    ),
}
"""Functions of integers that C does not have, or that may be undefined there."""

_UNSIGNED_HELPERS = _INTEGER_HELPERS | {
    "sign": "static inline {t} sign_{n}({t} x)\n{{\n    return x > 0;\n}}\n",
    "mod": "static inline {t} mod_{n}({t} a, {t} b)\n{{\n    return b == 0 ? 0 : ({t})(a % b);\n}}\n",
    "shift_right": (
        "static inline {t} shift_right_{n}({t} a, {t} b)\n{{\n    return b >= {bits} ? 0 : ({t})(a >> b);\n}}\n"
    ),
}
"""The same for integers without a sign, of which a compiler does not want to hear that they may be negative."""

_ROUND = {
    "f16": """\
static inline float f32_from_f16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float size = exponent == 31 ? (mantissa ? NAN : INFINITY)
        : exponent ? ldexpf((float)(mantissa + 1024), exponent - 25) : ldexpf((float)mantissa, -24);
    return bits & 0x8000 ? -size : size;
}
static inline uint16_t f16_from_f32(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const float size = fabsf(x);
    if (isnan(x))
        return (uint16_t)(sign | 0x7e00);
    if (size >= 65520.0f)
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x1p-14f)
        return (uint16_t)(sign | (uint16_t)rintf(size * 0x1p24f));
    int exponent;
    const float fraction = frexpf(size, &exponent);
    return (uint16_t)(sign | (uint16_t)(((exponent + 14) << 10) + (int)rintf(fraction * 2048.0f) - 1024));
}
""",
    "bf16": """\
static inline float f32_from_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}
static inline uint16_t bf16_from_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(isnan(x) ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
""",
}
"""16-bit floats in memory."""


_ODD = """\
/* Towards zero, and the last bit set where that is not exact: rounding once more gives the nearest. */
static inline float f32_odd(double x)
{
    float near = (float)x;
    uint32_t bits;
    memcpy(&bits, &near, sizeof bits);
    if ((double)near != x)
        bits = (bits - (fabs((double)near) > fabs(x))) | 1;
    memcpy(&near, &bits, sizeof near);
    return near;
}
"""

_QUANTIZE = """\
/* x to the nearest whole number, half to even, and the zero point; NaN gives the zero point. */
static inline {t} quantize_{n}(float x, {t} zero)
{{
    const float least = (float)({low} - zero), most = (float)({high} - zero);
    const float within = isnan(x) ? 0 : x < least ? least : x > most ? most : x;
    return ({t})((int)rintf(within) + zero);
}}
"""


class Helpers:
    """The small functions that printed code uses, each once, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    @property
    def text(self) -> str:
        """All of them."""
        return "\n".join(self._texts.values())

    def function(self, name: str, type: str) -> str:
        """The name of a function for a type, which is written down."""
        own = f"{name}_{type}"
        if own not in self._texts:
            text = _helpers_of(type)[name]
            signed = type[0] == "i"
            self._texts[own] = text.format(
                t=TYPES[type], n=type, f=suffix(type), bits=BITS.get(type, 0),
                minus=f"b == -1 ? ({TYPES[type]})(0 - (uint64_t)a) : " if signed else "",
                minus_one=" || b == -1" if signed else "",
            )  # fmt: skip
        return own

    def saturated(self, type: str, given: str) -> str:
        """The name of a function that brings floats into the range of an integer type, which is written down."""
        own, bits, limit = f"{type}_from_{given}", BITS[type], TYPES[type].removesuffix("_t").upper()
        low = "x <= 0 ? 0" if type[0] == "u" else f"x < -0x1p{bits - 1}{suffix(given)} ? {limit}_MIN"
        high = f"x >= 0x1p{bits if type[0] == 'u' else bits - 1}{suffix(given)} ? {limit}_MAX"
        self._texts.setdefault(
            own,
            f"""\
/* What is out of range becomes the nearest end of it, NaN becomes 0. */
static inline {TYPES[type]} {own}({TYPES[given]} x)
{{
    return isnan(x) ? 0 : {high} : {low} : ({TYPES[type]})x;
}}
""",
        )
        return own

    def odd(self) -> str:
        """The name of a function that rounds towards zero and to odd, which is written down."""
        self._texts.setdefault("f32_odd", _ODD)
        return "f32_odd"

    def narrow(self, format: str, type: str) -> None:
        """Write down the functions between numbers of a type and the bits of a narrow format."""
        for name, text in narrow_functions(format, type).items():
            self._texts.setdefault(name, text)

    def quantized(self, type: str) -> str:
        """The name of a function that rounds to bytes around a zero point, which is written down."""
        low, high = ("0", "255") if type == "u8" else ("-128", "127")
        self._texts.setdefault(f"quantize_{type}", _QUANTIZE.format(t=TYPES[type], n=type, low=low, high=high))
        return f"quantize_{type}"

    def ask(self, name: str) -> None:
        """Write down the function of a name, if it is one that kernel files know too."""
        kind, _, type = name.partition("_")
        if kind in ("max", "min") and type in FLOATS:
            self.function(kind, type)
        for format in _ROUND:
            if name in (f"f32_from_{format}", f"{format}_from_f32"):
                self.half(format)

    def half(self, format: str) -> None:
        """Write down the functions that read and write a 16-bit format."""
        self._texts.setdefault(format, _ROUND[format])


def _helpers_of(type: str) -> dict[str, str]:
    return _HELPERS if type in FLOATS else _UNSIGNED_HELPERS if type[0] == "u" else _INTEGER_HELPERS


def suffix(type: str) -> str:
    """What stands behind the names of library functions for a type."""
    return "f" if type == "f32" else ""


def expression(value: Expr, variable: Callable[[str], str], helpers: Helpers) -> str:
    """The C text of an expression. Raises UnsupportedError for formats of few bits, which plain C does not have."""
    if isinstance(value, Name):
        return variable(value.name)
    if isinstance(value, Number):
        return number(value)
    arguments = [expression(each, variable, helpers) for each in value.arguments]
    return _apply(value, arguments, helpers)


def number(value: Number) -> str:
    """A literal that is exact to the bit."""
    if value.type == "bool":
        return "true" if value.value else "false"
    if value.type not in FLOATS:
        whole = int(value.value)
        return "INT64_MIN" if whole == -(2**63) else f"UINT64_C({whole})" if whole > 2**63 - 1 else str(whole)
    x = float(value.value)
    if math.isnan(x) or math.isinf(x):
        return "NAN" if math.isnan(x) else "-INFINITY" if x < 0 else "INFINITY"
    short = repr(x)
    return short + suffix(value.type)


def _apply(value: Apply, arguments: Sequence[str], helpers: Helpers) -> str:
    function, type = value.function, value.arguments[0].type
    if function in _OPERATORS:
        return _operator(value, arguments)
    if function == "div" and type in FLOATS:
        return f"({arguments[0]} / {arguments[1]})"
    if function in _LIBRARY and type in FLOATS:
        return f"{function}{suffix(type)}({', '.join(arguments)})"
    if function in _helpers_of(type):
        return f"{helpers.function(function, type)}({', '.join(arguments)})"
    special = _SPECIAL.get(function)
    if special is None:
        raise UnsupportedError(f"plain C has no {function} of {type}")
    return special(value, arguments, helpers)


def _operator(value: Apply, arguments: Sequence[str]) -> str:
    type = value.arguments[0].type
    text = f"({arguments[0]} {_OPERATORS[value.function]} {arguments[1]})"
    if value.type == "bool" or type in FLOATS:
        return text
    wide = "uint64_t" if value.function in ("add", "sub", "mul") else TYPES[type]  # which wraps around
    return f"({TYPES[type]})((({wide}){arguments[0]}) {_OPERATORS[value.function]} (({wide}){arguments[1]}))"


Special = Callable[[Apply, Sequence[str], Helpers], str]


def _abs(value: Apply, arguments: Sequence[str], helpers: Helpers) -> str:
    if value.type in FLOATS:
        return f"fabs{suffix(value.type)}({arguments[0]})"
    wrapped = f"({TYPES[value.type]})(0 - (uint64_t){arguments[0]})"
    return arguments[0] if value.type[0] == "u" else f"({arguments[0]} < 0 ? {wrapped} : {arguments[0]})"


def _neg(value: Apply, arguments: Sequence[str], helpers: Helpers) -> str:
    if value.type in FLOATS:
        return f"(-{arguments[0]})"
    return f"({TYPES[value.type]})(0 - (uint64_t){arguments[0]})"


def _cast(value: Apply, arguments: Sequence[str], helpers: Helpers) -> str:
    given = value.arguments[0].type
    if given not in FLOATS or value.type in FLOATS:
        return f"(({TYPES[value.type]}){arguments[0]})"
    if BITS[value.type] < 32:
        return f"(({TYPES[value.type]}){helpers.saturated('i32', given)}({arguments[0]}))"
    return f"{helpers.saturated(value.type, given)}({arguments[0]})"


def _decode(value: Apply, arguments: Sequence[str], helpers: Helpers) -> str:
    format = value.options[0]
    if format in ("int4", "int2"):
        low, sign = (15, 8) if format == "int4" else (3, 2)
        return f"((int8_t)((({arguments[0]} & {low}) ^ {sign}) - {sign}))"
    helpers.narrow(format, value.type)
    return f"{value.type}_from_{format}({arguments[0]})"


def _encode(value: Apply, arguments: Sequence[str], helpers: Helpers) -> str:
    format, overflow, *mode = value.options
    given = value.arguments[0].type
    helpers.narrow(format, given)
    operands = [arguments[0], *(str(MODES[each]) for each in mode), "true" if overflow == "saturate" else "false"]
    return f"{format}_from_{given}({', '.join(operands)})"


def _low_bits(value: Apply, arguments: Sequence[str], helpers: Helpers) -> str:
    return f"({TYPES[value.type]})({arguments[0]} & {(1 << int(value.options[0])) - 1})"


def _round(value: Apply, arguments: Sequence[str], helpers: Helpers) -> str:
    (format,) = value.options
    helpers.half(format)
    return f"f32_from_{format}({format}_from_f32({arguments[0]}))"


_SPECIAL: dict[str, Special] = {
    "abs": _abs,
    "neg": _neg,
    "cast": _cast,
    "round": _round,
    "decode": _decode,
    "encode": _encode,
    "low_bits": _low_bits,
    "round_to_odd": lambda value, arguments, helpers: f"{helpers.odd()}({arguments[0]})",
    "quantize": lambda value, arguments, helpers: f"{helpers.quantized(value.type)}({', '.join(arguments)})",
    "not": lambda value, arguments, helpers: f"(!{arguments[0]})",
    "bit_not": lambda value, arguments, helpers: f"({TYPES[value.type]})(~{arguments[0]})",
    "is_nan": lambda value, arguments, helpers: f"(isnan({arguments[0]}) != 0)",
    "select": lambda value, arguments, helpers: f"({arguments[0]} ? {arguments[1]} : {arguments[2]})",
    "magnitude": lambda value, arguments, helpers: (
        f"({arguments[0]} < 0 ? 0 - (uint64_t){arguments[0]} : (uint64_t){arguments[0]})"
    ),
}
