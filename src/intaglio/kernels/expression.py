"""Elementwise operators as C expressions over vectors.

A register holds IG_LANES elements of one type. Its `kind` names the vector type behind `ig_`: f32, f64, i8 to i64, u8
to u64; float16 and bfloat16 are computed as f32 and rounded at the end of each ONNX node. A boolean register is a mask:
lanes of 0 or -1 as wide as the operands that were compared (`mask` is that width in bits), or 0 and 1 in bytes as in
memory (`mask` is 0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node, Value

MEMORY: dict[str, tuple[str, str]] = {
    "float32": ("float", "f32"),
    "float64": ("double", "f64"),
    "float16": ("uint16_t", "f16"),
    "bfloat16": ("uint16_t", "bf16"),
    "int8": ("int8_t", "i8"),
    "int16": ("int16_t", "i16"),
    "int32": ("int32_t", "i32"),
    "int64": ("int64_t", "i64"),
    "uint8": ("uint8_t", "u8"),
    "uint16": ("uint16_t", "u16"),
    "uint32": ("uint32_t", "u32"),
    "uint64": ("uint64_t", "u64"),
    "bool": ("uint8_t", "u8"),
}
"""The C type of an element in memory and the suffix of the functions that load and store it."""

BITS = {"f32": 32, "f64": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64}


_HALVES = frozenset({"float16", "bfloat16"})


@dataclass(frozen=True)
class Register:
    """A C variable or expression that holds a vector."""

    text: str
    kind: str
    mask: int | None = None

    @property
    def is_bool(self) -> bool:
        """Whether it holds truth values."""
        return self.mask is not None


def register_kind(dtype: DType) -> str:
    """The kind of register that computes an element type."""
    return "f32" if dtype.name in _HALVES else MEMORY[dtype.name][1]


def is_computable(dtype: DType) -> bool:
    """Whether generated code can hold the element type at all."""
    return dtype.name in MEMORY


Emitter = Callable[[Node, Sequence[Register]], Register]
EMITTERS: dict[str, Emitter] = {}
"""How each elementwise operator is computed, by its ONNX name."""

_FLOATS = frozenset({"f32", "f64"})
_KINDS: dict[str, frozenset[str]] = {}
"""The register kinds that an operator's inputs may have, where not all."""


def can_emit(node: Node) -> bool:
    """Whether the node is elementwise and its types are ones that can be computed."""
    if node.op.name not in EMITTERS or node.op.domain != "" or len(node.outputs) != 1:
        return False
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    if not all(hasattr(v.type, "dtype") and v.tensor.shape is not None and is_computable(v.dtype) for v in values):
        return False
    allowed = _KINDS.get(node.op.name)
    inputs = [value for value in node.inputs if value is not None]
    if allowed is not None and not all(register_kind(v.dtype) in allowed for v in inputs):
        return False
    guard = _GUARDS.get(node.op.name)
    return guard is None or guard(node)


def emit(node: Node, arguments: Sequence[Register]) -> Register:
    """The C expression of an elementwise node."""
    register = EMITTERS[node.op.name](node, arguments)
    return register if register.is_bool else Register(round_once(register.text, node), register.kind)


_EXACT = frozenset({"Abs", "Neg", "Sign", "Relu", "Identity", "Min", "Max", "Clip", "Where", "Ceil", "Floor", "Round"})
"""Operators whose result needs no rounding where their operands need none."""


def round_once(text: str, node: Node) -> str:
    """A result in a register as the nodes that read it there must see it.

    Operators that one ONNX node was expanded to round to float16 and bfloat16 once, at their end, as that node's
    reference does.
    """
    dtype, producers = node.output.dtype.name, [value.producer for value in node.inputs if value is not None]
    is_exact = node.op.name in _EXACT and not any(_is_one_node(producer, node) for producer in producers)
    if dtype not in _HALVES or is_exact or all(_is_one_node(node, reader) for reader in node.output.readers):
        return text
    return f"ig_round_{MEMORY[dtype][1]}({text})"


def _is_one_node(left: Node | None, right: Node) -> bool:
    """Whether two nodes came from one ONNX node."""
    return left is not None and bool(left.source) and left.source == right.source


def _emits(*names: str, kinds: frozenset[str] | None = None) -> Callable[[Emitter], Emitter]:
    def register(function: Emitter) -> Emitter:
        for name in names:
            EMITTERS[name] = function
            if kinds is not None:
                _KINDS[name] = kinds
        return function

    return register


def mask_of(register: Register, bits: int) -> str:
    """A truth value as lanes of 0 or -1 with the given width."""
    if register.mask == bits:
        return register.text
    if register.mask == 0:
        return f"(-ig_cast_u8_i{bits}({register.text}))" if bits != 8 else f"(-(ig_i8){register.text})"
    return f"ig_cast_i{register.mask}_i{bits}({register.text})"


def as_bytes(register: Register) -> str:
    """A truth value as bytes of 0 and 1."""
    if register.mask == 0:
        return register.text
    return f"(ig_cast_i{register.mask}_u8({register.text}) & 1)"


def bool_register(text: str, bits: int) -> Register:
    """A truth value that came from comparing lanes of so many bits."""
    return Register(text, f"i{bits}", bits)


def _select(condition: Register, yes: Register, no: Register) -> Register:
    bits = BITS[yes.kind]
    return Register(f"ig_select_{yes.kind}({mask_of(condition, bits)}, {yes.text}, {no.text})", yes.kind)


def literal(value: Any, kind: str) -> str:
    """A vector whose lanes all hold a number, printed exactly."""
    if kind in _FLOATS:
        return f"ig_set_{kind}({float_literal(float(value), kind)})"
    number = int(value)
    text = (
        f"{number}ULL"
        if kind.startswith("u")
        else "(-9223372036854775807LL - 1)"
        if number == -(2**63)
        else f"{number}LL"
    )
    return f"ig_set_{kind}((ig_{kind}_element){text})"


def float_literal(value: float, kind: str) -> str:
    """A floating-point number in C, exact to the bit."""
    if np.isnan(value):
        return '__builtin_nan("")'
    if np.isinf(value):
        return "-__builtin_inf()" if value < 0 else "__builtin_inf()"
    return value.hex() + ("f" if kind == "f32" else "")


_UNARY = {
    "Ceil": "ceil", "Floor": "floor", "Round": "round", "Sqrt": "sqrt", "Exp": "exp", "Log": "log",
    "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan",
    "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh",
    "Erf": "erf", "Sigmoid": "sigmoid",
}  # fmt: skip


@_emits(*_UNARY, kinds=_FLOATS)
def _unary(node: Node, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    return Register(f"ig_{_UNARY[node.op.name]}_{x.kind}({x.text})", x.kind)


@_emits("Abs", "Neg", "Sign", "Reciprocal", "Relu", "BitwiseNot", "Identity")
def _simple(node: Node, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    if x.is_bool:
        return x
    text = {
        "Abs": f"ig_abs_{x.kind}({x.text})",
        "Neg": f"(-{x.text})" if x.kind in _FLOATS else f"ig_neg_{x.kind}({x.text})",
        "Sign": f"ig_sign_{x.kind}({x.text})",
        "Reciprocal": f"({literal(1, x.kind)} / {x.text})",
        "Relu": f"ig_max_fast_{x.kind}({literal(0, x.kind)}, {x.text})"
        if x.kind in _FLOATS
        else f"ig_max_{x.kind}({x.text}, {literal(0, x.kind)})",
        "BitwiseNot": f"(~{x.text})",
        "Identity": x.text,
    }[node.op.name]
    return Register(text, x.kind)


_BITWISE = {"BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^"}


@_emits(*_BITWISE)
def _bitwise(node: Node, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    return Register(f"({x.text} {_BITWISE[node.op.name]} {y.text})", x.kind)


_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}


def combine(function: str, kind: str, left: str, right: str) -> str:
    """Two vectors added, subtracted, multiplied, or the lesser or greater of them; signed integers wrap around."""
    if function in _ARITHMETIC and not kind.startswith("i"):
        return f"({left} {_ARITHMETIC[function]} {right})"
    return f"ig_{function}_{kind}({left}, {right})"


@_emits("Add", "Sub", "Mul")
def _arithmetic(node: Node, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    return Register(combine(node.op.name.lower(), x.kind, x.text, y.text), x.kind)


@_emits("Div")
def _div(node: Node, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    text = f"({x.text} / {y.text})" if x.kind in _FLOATS else f"ig_div_{x.kind}({x.text}, {y.text})"
    return Register(text, x.kind)


@_emits("Pow")
def _pow(node: Node, arguments: Sequence[Register]) -> Register:
    """Small constant powers as products; an exponent of another type in double precision, which holds both."""
    x, y = arguments
    exponent = node.inputs[1].constant if node.inputs[1] is not None else None
    if exponent is not None and exponent.size == 1:
        number = float(exponent.reshape(()))
        if number in (1.0, 2.0, 3.0):
            return Register("(" + " * ".join([x.text] * int(number)) + ")", x.kind)
    if x.kind == y.kind:
        return Register(f"ig_pow_{x.kind}({x.text}, {y.text})", x.kind)
    power = f"ig_pow_f64({_converted(x, 'f64')}, {_converted(y, 'f64')})"
    return Register(_converted(Register(power, "f64"), x.kind), x.kind)


def _converted(x: Register, kind: str) -> str:
    return x.text if x.kind == kind else f"ig_cast_{x.kind}_{kind}({x.text})"


@_emits("Min", "Max")
def _extreme(node: Node, arguments: Sequence[Register]) -> Register:
    function = node.op.name.lower()
    text = arguments[0].text
    for other in arguments[1:]:
        text = f"ig_{function}_{other.kind}({text}, {other.text})"
    return Register(text, arguments[0].kind)


@_emits("Sum")
def _sum(node: Node, arguments: Sequence[Register]) -> Register:
    return Register("(" + " + ".join(argument.text for argument in arguments) + ")", arguments[0].kind)


@_emits("Clip")
def _clip(node: Node, arguments: Sequence[Register]) -> Register:
    present = iter(arguments)
    x = next(present)
    text = x.text
    for value, function in zip(node.inputs[1:], ("max", "min"), strict=False):
        if value is not None:
            text = f"ig_{function}_{x.kind}({text}, {next(present).text})"
    return Register(text, x.kind)


@_emits("Mod")
def _mod(node: Node, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    function = "fmod" if node.op.fmod else "mod"
    return Register(f"ig_{function}_{x.kind}({x.text}, {y.text})", x.kind)


@_emits("LeakyRelu", kinds=_FLOATS)
def _leaky_relu(node: Node, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    alpha = literal(node.op.alpha, x.kind)
    is_negative = bool_register(f"ig_lt_{x.kind}({x.text}, {literal(0, x.kind)})", BITS[x.kind])
    return _select(is_negative, Register(f"({x.text} * {alpha})", x.kind), x)


_COMPARISONS = {"Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge"}


@_emits(*_COMPARISONS)
def _compare(node: Node, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    function = f"ig_{_COMPARISONS[node.op.name]}"
    if x.is_bool:
        return bool_register(f"{function}_u8({as_bytes(x)}, {as_bytes(y)})", 8)
    return bool_register(f"{function}_{x.kind}({x.text}, {y.text})", BITS[x.kind])


@_emits("And", "Or", "Xor")
def _logic(node: Node, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    bits = max(x.mask or 8, y.mask or 8)
    sign = {"And": "&", "Or": "|", "Xor": "^"}[node.op.name]
    return bool_register(f"({mask_of(x, bits)} {sign} {mask_of(y, bits)})", bits)


@_emits("Not")
def _not(node: Node, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    bits = x.mask or 8
    return bool_register(f"(~{mask_of(x, bits)})", bits)


@_emits("IsNaN", kinds=_FLOATS)
def _is_nan(node: Node, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    return bool_register(f"ig_is_nan_{x.kind}({x.text})", BITS[x.kind])


@_emits("IsInf", kinds=_FLOATS)
def _is_inf(node: Node, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    tests: list[str] = []
    if node.op.detect_positive:
        tests.append(f"ig_eq_{x.kind}({x.text}, {literal(np.inf, x.kind)})")
    if node.op.detect_negative:
        tests.append(f"ig_eq_{x.kind}({x.text}, {literal(-np.inf, x.kind)})")
    return bool_register("(" + " | ".join(tests or [f"(ig_i{BITS[x.kind]}){{0}}"]) + ")", BITS[x.kind])


@_emits("Where")
def _where(node: Node, arguments: Sequence[Register]) -> Register:
    condition, yes, no = arguments
    if yes.is_bool or no.is_bool:
        bits = max(yes.mask or 8, no.mask or 8, 8)
        mask, a, b = mask_of(condition, bits), mask_of(yes, bits), mask_of(no, bits)
        return bool_register(f"(({mask} & {a}) | (~{mask} & {b}))", bits)
    return _select(condition, yes, no)


@_emits("BitShift")
def _bit_shift(node: Node, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    function = "shift_left" if node.op.direction == "LEFT" else "shift_right"
    return Register(f"ig_{function}_{x.kind}({x.text}, {y.text})", x.kind)


@_emits("Cast", "CastLike")
def _cast(node: Node, arguments: Sequence[Register]) -> Register:
    x, to = arguments[0], node.output.dtype
    kind = register_kind(to)
    if to.name == "bool":
        return x if x.is_bool else bool_register(f"ig_ne_{x.kind}({x.text}, {literal(0, x.kind)})", BITS[x.kind])
    if x.is_bool:
        text = as_bytes(x)
        return Register(text if kind == "u8" else f"ig_cast_u8_{kind}({text})", kind)
    return Register(_narrowed(x, to) or _converted(x, kind), kind)


def _narrowed(x: Register, to: DType) -> str | None:
    """The casts in which single precision on the way to 16 bits would round otherwise than the reference does."""
    if to.name == "float16" and x.kind == "f64":
        return f"ig_odd_f32({x.text})"
    if to.name == "bfloat16" and x.kind in ("i64", "u64"):
        return f"ig_cast_f64_f32(ig_cast_{x.kind}_f64({x.text}))"
    return None


def _cast_is_plain(node: Node) -> bool:
    return all(value is not None and is_computable(value.dtype) for value in node.inputs[:1])


def _base_is_float(node: Node) -> bool:
    return node.output.dtype.is_float


def _is_integer(node: Node) -> bool:
    return node.output.dtype.is_integer


_GUARDS: dict[str, Callable[[Node], bool]] = {
    "Cast": _cast_is_plain,
    "CastLike": _cast_is_plain,
    "Pow": _base_is_float,
    "BitShift": _is_integer,
    "Neg": lambda node: node.output.dtype.kind != "bool",
    "Reciprocal": lambda node: node.output.dtype.is_float,
    "Relu": lambda node: node.output.dtype.kind != "uint",
}

CHEAP = frozenset(
    {"Add", "Sub", "Mul", "Neg", "Abs", "Relu", "Cast", "Min", "Max", "Where", "Clip", "Identity", "And", "Or", "Not",
     "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}
)  # fmt: skip
"""Operators that cost less than keeping their result in memory."""


def cost_of(node: Node) -> float:
    """Nanoseconds for one element, roughly, on one core."""
    if node.op.name in CHEAP:
        return 0.05
    return 0.1 if node.op.name in ("Div", "Sqrt", "Reciprocal", "Round", "Floor", "Ceil", "Sum") else 0.6


def scalar_constant(value: Value) -> float | None:
    """The number that a literal may stand for: constants that the compiler can make use of."""
    if value.constant is None or value.constant.size != 1 or value.constant.dtype.kind not in "fiu":
        return None
    number = float(value.constant.reshape(()))
    return number if number in (0.0, 1.0, -1.0, 2.0, 0.5) and not (number == 0 and np.signbit(number)) else None
