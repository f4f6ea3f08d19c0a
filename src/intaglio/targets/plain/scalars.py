"""Kernels over vectors as plain C, where they only load, compute and store: vectors of one element are numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

from intaglio.errors import UnsupportedError
from intaglio.targets.plain.expression import TYPES, Helpers
from intaglio.targets.plain.macros import split_arguments, without_macros

_TYPE = re.compile(r"\big_(f32|f64|[iu](?:8|16|32|64))(?:_element)?\b(?!\()")
_CALL = re.compile(r"\big_([a-z]+(?:_n)?)_(f32|f64|bf16|f16|[iu](?:8|16|32|64))\(")
_BUILTINS = re.compile(
    r"__builtin_(memcpy|memset|floorf?|fabsf?|ceilf?|rintf?|sqrtf?|powf?|sinf?|cosf?|expf?|logf?|log10f?|fmodf?|"
    r"ldexpf?|frexpf?)\b"
)
_WORDS = (
    (re.compile(r"\bIG_LANES\b"), "1"),
    (re.compile(r"\bIG_INLINE\b"), "static inline"),
    (re.compile(r"\bIG_UNROLL\b *\n?"), ""),
    (re.compile(r"static inline __attribute__\(\(always_inline\)\)"), "static inline"),
    (re.compile(r"__builtin_inff?\(\)"), "INFINITY"),
    (re.compile(r"__builtin_nanf?\(\"\"\)"), "NAN"),
    (re.compile(r"\(unsigned long\)"), "(size_t)"),
    (re.compile(r"__INT64_MAX__"), "INT64_MAX"),
    (re.compile(r"__builtin_expect\((.*), [01]\)"), r"\1"),
)


def scalar_text(text: str, helpers: Helpers) -> str:
    """The text without vectors; raises UnsupportedError where it does more with them than one can do with numbers."""
    text = _BUILTINS.sub(r"\1", without_macros(text))
    for pattern, plain in _WORDS:
        text = pattern.sub(plain, text)
    text = _without_calls(text, helpers)
    text = _TYPE.sub(lambda found: TYPES[found[1]], text)
    left = re.search(r"\b(ig_\w+|IG_(?!FUNCTION)\w+|uint128_t|__builtin_convertvector)\b", text)
    if left is not None:
        raise UnsupportedError(f"a kernel has no plain form: it uses {left[1]}")
    return text


def _without_calls(text: str, helpers: Helpers) -> str:
    while found := _CALL.search(text):
        end, arguments = split_arguments(text, found.end())
        printer = _PRINTERS.get(found[1])
        if printer is None:
            raise UnsupportedError(f"a kernel has no plain form: it uses {found[0][:-1]}")
        if text.startswith("[0]", end):
            end += 3
        text = text[: found.start()] + printer(found[2], arguments, helpers) + text[end:]
    return text


def _load(suffix: str, arguments: list[str], helpers: Helpers) -> str:
    if suffix in ("f16", "bf16"):
        helpers.half(suffix)
        return f"f32_from_{suffix}(*({arguments[0]}))"
    return f"*({arguments[0]})"


def _store(suffix: str, arguments: list[str], helpers: Helpers) -> str:
    if suffix in ("f16", "bf16"):
        helpers.half(suffix)
        return f"*({arguments[0]}) = {suffix}_from_f32({arguments[1]})"
    return f"*({arguments[0]}) = {arguments[1]}"


def _extreme(name: str) -> Callable[[str, list[str], Helpers], str]:
    return lambda suffix, arguments, helpers: f"{helpers.function(name, suffix)}({', '.join(arguments)})"


def _round(suffix: str, arguments: list[str], helpers: Helpers) -> str:
    if suffix in ("f16", "bf16"):
        helpers.half(suffix)
        return f"f32_from_{suffix}({suffix}_from_f32({arguments[0]}))"
    return f"rint{'f' if suffix == 'f32' else ''}({arguments[0]})"


_PRINTERS: dict[str, Callable[[str, list[str], Helpers], str]] = {
    "load": _load,
    "load_n": _load,
    "broadcast": _load,
    "store": _store,
    "store_n": _store,
    "set": lambda suffix, arguments, helpers: f"({TYPES[suffix]})({arguments[0]})",
    "max": _extreme("max"),
    "min": _extreme("min"),
    "round": _round,
    "odd": lambda suffix, arguments, helpers: f"{helpers.odd()}({arguments[0]})",
}
