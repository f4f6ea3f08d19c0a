"""Floats of at most 8 bits, each in a byte, as functions of plain C."""

from __future__ import annotations

SHARED = """\
/* The number with a code: exponent bits above so many of the mantissa. */
static inline float narrow_number(int code, int mantissa, int bias)
{
    const int exponent = code >> mantissa, rest = code & ((1 << mantissa) - 1);
    const int whole = exponent ? rest + (1 << mantissa) : rest;
    return ldexpf((float)whole, (exponent ? exponent : 1) - bias - mantissa);
}

/* The code of the number nearest to |x|, which may be over the greatest. */
static inline int narrow_code(float x, int mantissa, int bias)
{
    int exponent = 0;
    if (isnan(x) || isinf(x))
        return 1 << 20;
    (void)frexpf(x, &exponent);
    const int power = x == 0 || exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    return ((power + bias - 1) * (1 << mantissa)) + (int)rintf(ldexpf(fabsf(x), mantissa - power));
}
"""

_IEEE = """\
static inline float f32_from_{name}(uint8_t bits)
{{
    const int code = bits & 0x7f;
    const float size = code > {last} ? NAN : code == {infinity} ? INFINITY : narrow_number(code, {mantissa}, {bias});
    return bits > 0x7f ? -size : size;
}}

static inline uint8_t {name}_from_f32(float x, bool saturate)
{{
    int code = narrow_code(x, {mantissa}, {bias});
    if (code > {top})
        code = saturate ? {top} : {beyond};
    return (uint8_t)((isnan(x) ? {nan} : code) | (signbit(x) ? 0x80 : 0));
}}
"""

_FNUZ = """\
static inline float f32_from_{name}(uint8_t bits)
{{
    const float size = narrow_number(bits & 0x7f, {mantissa}, {bias});
    return bits == 0x80 ? NAN : bits > 0x7f ? -size : size;
}}

static inline uint8_t {name}_from_f32(float x, bool saturate)
{{
    int code = narrow_code(x, {mantissa}, {bias});
    if (code > 0x7f)
        code = saturate ? 0x7f : 0x80;
    return (uint8_t)(isnan(x) ? 0x80 : code == 0 ? 0 : code | (signbit(x) ? 0x80 : 0));
}}
"""

_FINITE = """\
static inline float f32_from_{name}(uint8_t bits)
{{
    const float size = narrow_number(bits & {top}, {mantissa}, {bias});
    return bits > {top} ? -size : size;
}}

static inline uint8_t {name}_from_f32(float x, bool saturate)
{{
    const int code = narrow_code(x, {mantissa}, {bias}), sign = signbit(x) ? {top} + 1 : 0;
    (void)saturate;
    return (uint8_t)(isnan(x) ? sign ^ ({top} + 1) : (code > {top} ? {top} : code) | sign);
}}
"""

_E8M0 = """\
static inline {type} {suffix}_from_e8m0(uint8_t bits)
{{
    return bits == 255 ? ({type})NAN : ldexp{f}(1, bits - 127);
}}

/* A power of two: `add` is 2 for the next greater one, 1 for the nearest, 0 for the next smaller. */
static inline uint8_t e8m0_from_{suffix}({type} x, int add, bool saturate)
{{
    int exponent = 0;
    if (isnan(x))
        return 255;
    if (!(x > 0))
        return saturate ? 0 : 255;
    const {type} part = isinf(x) ? ({type})0.5 : frexp{f}(x, &exponent);
    int code = isinf(x) ? 255 : exponent + 126;
    if (add == 2 ? part > ({type})0.5 : add == 1 && part >= ({type})0.75)
        code++;
    return (uint8_t)(code > 254 ? (saturate ? 254 : 255) : code < 0 ? (saturate ? 0 : 255) : code);
}}
"""

_FORMATS = {
    "e4m3fn": _IEEE.format(name="e4m3fn", mantissa=3, bias=7, top=126, beyond=127, infinity=256, last=126, nan=127),
    "e5m2": _IEEE.format(name="e5m2", mantissa=2, bias=15, top=123, beyond=124, infinity=124, last=124, nan=126),
    "e4m3fnuz": _FNUZ.format(name="e4m3fnuz", mantissa=3, bias=8),
    "e5m2fnuz": _FNUZ.format(name="e5m2fnuz", mantissa=2, bias=16),
    "e2m3": _FINITE.format(name="e2m3", mantissa=3, bias=1, top=31),
    "e3m2": _FINITE.format(name="e3m2", mantissa=2, bias=3, top=31),
    "e2m1": _FINITE.format(name="e2m1", mantissa=1, bias=1, top=7),
}

MODES = {"up": 2, "nearest": 1, "down": 0}
"""How numbers are rounded to powers of two."""


def narrow_functions(name: str, type: str) -> dict[str, str]:
    """The functions between the numbers of a type and the bits of a format, by what they are called together."""
    if name == "e8m0":
        spelled = ("float", "f") if type == "f32" else ("double", "")
        return {f"e8m0 {type}": _E8M0.format(type=spelled[0], f=spelled[1], suffix=type)}
    return {"narrow": SHARED, name: _FORMATS[name]}
