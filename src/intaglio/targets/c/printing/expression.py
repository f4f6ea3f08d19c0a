"""Expressions of the kernel language as C over vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from intaglio.kernels.elements import FLOATS
from intaglio.kernels.language import Apply, Expr, Name, Number
from intaglio.targets.c.printing.register import (
    MASKS,
    Register,
    as_bytes,
    bool_register,
    combine,
    kind_of,
    literal,
    mask_of,
    select,
)

Print = Callable[[Apply, Sequence[Register]], Register]
_PRINTERS: dict[str, Print] = {}


def vector(value: Expr, variable: Callable[[str], str]) -> Register:
    """The C text of an expression; `variable` gives the C name of what a statement has computed."""
    if isinstance(value, Name):
        return Register(variable(value.name), kind_of(value.type), 0 if value.type == "bool" else None)
    if isinstance(value, Number):
        if value.type == "bool":
            return bool_register("ig_set_i8(-1)" if value.value else "(ig_i8){0}", 8)
        return Register(literal(value.value, value.type), value.type)
    arguments = [vector(each, variable) for each in value.arguments]
    return _PRINTERS.get(value.function, _call)(value, arguments)


def assigned(register: Register) -> tuple[str, str]:
    """The kind of variable that holds a register, and what it is given: truth values become bytes."""
    return ("u8", as_bytes(register)) if register.is_bool else (register.kind, register.text)


def _call(value: Apply, arguments: Sequence[Register]) -> Register:
    """A function that the headers have for every kind of register."""
    kind = arguments[0].kind
    return Register(f"ig_{value.function}_{kind}({', '.join(each.text for each in arguments)})", kind)


def _prints(*names: str) -> Callable[[Print], Print]:
    def register(function: Print) -> Print:
        _PRINTERS.update(dict.fromkeys(names, function))
        return function

    return register


@_prints("add", "sub", "mul")
def _arithmetic(value: Apply, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    return Register(combine(value.function, x.kind, x.text, y.text), x.kind)


@_prints("div")
def _div(value: Apply, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    return Register(f"({x.text} / {y.text})", x.kind) if x.kind in FLOATS else _call(value, arguments)


@_prints("neg")
def _neg(value: Apply, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    return Register(f"(-{x.text})", x.kind) if x.kind in FLOATS else _call(value, arguments)


@_prints("relu")
def _relu(value: Apply, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    return Register(f"ig_max_fast_{x.kind}({literal(0, x.kind)}, {x.text})", x.kind)


@_prints("rint")
def _rint(value: Apply, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    return Register(f"ig_round_{x.kind}({x.text})", x.kind)


@_prints("round")
def _round(value: Apply, arguments: Sequence[Register]) -> Register:
    return Register(f"ig_round_{value.options[0]}({arguments[0].text})", arguments[0].kind)


_SIGNS = {"bit_and": "&", "bit_or": "|", "bit_xor": "^", "and": "&", "or": "|", "xor": "^"}


@_prints("bit_and", "bit_or", "bit_xor")
def _bitwise(value: Apply, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    return Register(f"({x.text} {_SIGNS[value.function]} {y.text})", x.kind)


@_prints("bit_not")
def _bit_not(value: Apply, arguments: Sequence[Register]) -> Register:
    return Register(f"(~{arguments[0].text})", arguments[0].kind)


@_prints("low_bits")
def _low_bits(value: Apply, arguments: Sequence[Register]) -> Register:
    return Register(f"({arguments[0].text} & {(1 << int(value.options[0])) - 1})", arguments[0].kind)


@_prints("magnitude")
def _magnitude(value: Apply, arguments: Sequence[Register]) -> Register:
    return Register(f"ig_magnitude_i64({arguments[0].text})", "u64")


@_prints("eq", "ne", "lt", "le", "gt", "ge")
def _compare(value: Apply, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    if x.is_bool:
        return bool_register(f"ig_{value.function}_u8({as_bytes(x)}, {as_bytes(y)})", 8)
    return bool_register(f"ig_{value.function}_{x.kind}({x.text}, {y.text})", MASKS[x.kind])


@_prints("is_nan")
def _is_nan(value: Apply, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    return bool_register(f"ig_is_nan_{x.kind}({x.text})", MASKS[x.kind])


@_prints("and", "or", "xor")
def _logic(value: Apply, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    bits = max(x.mask or 8, y.mask or 8)
    return bool_register(f"({mask_of(x, bits)} {_SIGNS[value.function]} {mask_of(y, bits)})", bits)


@_prints("not")
def _not(value: Apply, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    bits = x.mask or 8
    return bool_register(f"(~{mask_of(x, bits)})", bits)


@_prints("select")
def _select(value: Apply, arguments: Sequence[Register]) -> Register:
    condition, yes, no = arguments
    if yes.is_bool or no.is_bool:
        bits = max(yes.mask or 8, no.mask or 8, 8)
        mask, a, b = mask_of(condition, bits), mask_of(yes, bits), mask_of(no, bits)
        return bool_register(f"(({mask} & {a}) | (~{mask} & {b}))", bits)
    return select(condition, yes, no)


@_prints("cast")
def _cast(value: Apply, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    if x.is_bool:
        return Register(as_bytes(x), "u8")
    return Register(f"ig_cast_{x.kind}_{value.type}({x.text})", value.type)


@_prints("decode")
def _decode(value: Apply, arguments: Sequence[Register]) -> Register:
    return Register(f"ig_{value.type}_from_{value.options[0]}({arguments[0].text})", value.type)


@_prints("encode")
def _encode(value: Apply, arguments: Sequence[Register]) -> Register:
    (x,), (name, overflow, *mode) = arguments, value.options
    operands = [x.text, *(f"IG_{each.upper()}" for each in mode), "1" if overflow == "saturate" else "0"]
    return Register(f"ig_{name}_from_{x.kind}({', '.join(operands)})", "u8")


@_prints("round_to_odd")
def _round_to_odd(value: Apply, arguments: Sequence[Register]) -> Register:
    return Register(f"ig_odd_f32({arguments[0].text})", "f32")


@_prints("quantize")
def _quantize(value: Apply, arguments: Sequence[Register]) -> Register:
    x, zero = arguments
    return Register(f"ig_quantize_{value.type}({x.text}, {zero.text})", value.type)
