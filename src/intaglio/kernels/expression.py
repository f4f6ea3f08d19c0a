"""Elementwise operators as C expressions over vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from intaglio.ir.dtype import FLOAT32, DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.register import (
    BITS,
    FLOATS,
    HALVES,
    MEMORY,
    NARROW_FLOATS,
    NARROW_INTEGERS,
    OPAQUE,
    Register,
    as_bytes,
    bool_register,
    combine,
    converted,
    decoded,
    is_computable,
    literal,
    low_bits,
    mask_of,
    number_kind,
    register_kind,
    select,
)

_MOVING = frozenset(
    {"BitCast", "CenterCropPad", "Compress", "Concat", "ConstantOfShape", "Expand", "EyeLike", "Gather",
     "GatherElements", "GatherND", "Identity", "If", "Loop", "OneHot", "Pad", "Reshape", "ReverseSequence", "Scan",
     "ScatterElements", "ScatterND", "Slice", "Split", "Squeeze", "TensorScatter", "Tile", "Trilu", "Unsqueeze",
     "Where"}
)  # fmt: skip
"""Operators that may only move their operands, where they are more than views."""

_INDICES = {
    "Gather": 1, "GatherElements": 1, "GatherND": 1, "OneHot": 0, "ReverseSequence": 1, "ScatterElements": 1,
    "ScatterND": 1, "TensorScatter": 2, "Trilu": 1,
}  # fmt: skip
"""Which operand of a moving operator is read as numbers."""

_DECODING = frozenset({"Cast", "CastLike", "IsInf", "IsNaN"})
"""Operators that take narrow numbers apart or make them."""

_PAIRING = frozenset({"Col2Im", "GridSample", "NonZero", "Resize", "Unique"})
"""Operators that take complex numbers for pairs of real ones."""


def handles(node: Node, dtype: DType) -> bool:
    """Whether the operator, where it is not a view, makes sense of an element type: not all do of opaque ones."""
    if dtype.name not in OPAQUE:
        return is_computable(dtype)
    index = node.inputs[_INDICES.get(node.op.name, len(node.inputs)) :][:1]
    is_indexed = any(value is not None and value.dtype.name in OPAQUE for value in index)
    combined = ("none", "add", "mul") if dtype.kind == "complex" else ("none",)
    is_moving = node.op.name in _MOVING and getattr(node.op, "reduction", "none") in combined and not is_indexed
    return is_moving or node.op.name in (_PAIRING if dtype.kind == "complex" else _DECODING)


Emitter = Callable[[Node, Sequence[Register]], Register]
EMITTERS: dict[str, Emitter] = {}
"""How each elementwise operator is computed, by its ONNX name."""

_KINDS: dict[str, frozenset[str]] = {}
"""The register kinds that an operator's inputs may have, where not all."""


def can_emit(node: Node) -> bool:
    """Whether the node is elementwise and its types are ones that can be computed."""
    if node.op.name not in EMITTERS or node.op.domain != "" or len(node.outputs) != 1:
        return False
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    if not all(hasattr(v.type, "dtype") and v.tensor.shape is not None and handles(node, v.dtype) for v in values):
        return False
    allowed = _KINDS.get(node.op.name)
    inputs = [value for value in node.inputs if value is not None]
    if allowed is not None and not all(number_kind(v.dtype) in allowed for v in inputs):
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
    reference does, and where the expansion has a cast.
    """
    dtype, producers = node.output.dtype.name, [value.producer for value in node.inputs if value is not None]
    is_exact = node.op.name in _EXACT and not any(_is_one_node(producer, node) for producer in producers)
    if dtype not in HALVES or is_exact:
        return text
    if node.op.name != "Cast" and all(_is_one_node(node, reader) for reader in node.output.readers):
        return text
    return f"ig_round_{MEMORY[dtype][1]}({text})"


def _is_one_node(left: Node | None, right: Node) -> bool:
    """Whether two nodes came from one ONNX node."""
    return left is not None and bool(left.origin) and left.origin == right.origin


def _emits(*names: str, kinds: frozenset[str] | None = None) -> Callable[[Emitter], Emitter]:
    def register(function: Emitter) -> Emitter:
        for name in names:
            EMITTERS[name] = function
            if kinds is not None:
                _KINDS[name] = kinds
        return function

    return register


_UNARY = {
    "Ceil": "ceil", "Floor": "floor", "Round": "round", "Sqrt": "sqrt", "Exp": "exp", "Log": "log",
    "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan",
    "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh",
    "Sigmoid": "sigmoid",
}  # fmt: skip


@_emits(*_UNARY, kinds=FLOATS)
def _unary(node: Node, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    return Register(f"ig_{_UNARY[node.op.name]}_{x.kind}({x.text})", x.kind)


@_emits("Erf")
def _erf(node: Node, arguments: Sequence[Register]) -> Register:
    """Cut towards zero, it is 0 for integers up to 5 and rounds to 1 from 6 on."""
    (x,) = arguments
    if x.kind in FLOATS:
        return Register(f"ig_erf_{x.kind}({x.text})", x.kind)
    bits, zero = BITS[x.kind], Register(literal(0, x.kind), x.kind)
    above = bool_register(f"ig_ge_{x.kind}({x.text}, {literal(6, x.kind)})", bits)
    if x.kind[0] == "i":
        below = bool_register(f"ig_le_{x.kind}({x.text}, {literal(-6, x.kind)})", bits)
        zero = select(below, Register(literal(-1, x.kind), x.kind), zero)
    return select(above, Register(literal(1, x.kind), x.kind), zero)


@_emits("Abs", "Neg", "Sign", "Reciprocal", "Relu", "BitwiseNot", "Identity")
def _simple(node: Node, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    if x.is_bool:
        return x
    text = {
        "Abs": f"ig_abs_{x.kind}({x.text})",
        "Neg": f"(-{x.text})" if x.kind in FLOATS else f"ig_neg_{x.kind}({x.text})",
        "Sign": f"ig_sign_{x.kind}({x.text})",
        "Reciprocal": f"({literal(1, x.kind)} / {x.text})",
        "Relu": f"ig_max_fast_{x.kind}({literal(0, x.kind)}, {x.text})"
        if x.kind in FLOATS
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


@_emits("Add", "Sub", "Mul")
def _arithmetic(node: Node, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    return Register(combine(node.op.name.lower(), x.kind, x.text, y.text), x.kind)


@_emits("Div")
def _div(node: Node, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    text = f"({x.text} / {y.text})" if x.kind in FLOATS else f"ig_div_{x.kind}({x.text}, {y.text})"
    return Register(text, x.kind)


@_emits("Pow")
def _pow(node: Node, arguments: Sequence[Register]) -> Register:
    """Small constant powers as products; an exponent of another type in double precision, which holds both."""
    x, y = arguments
    is_exact = x.kind not in FLOATS and y.kind not in FLOATS
    exponent = node.inputs[1].constant if node.inputs[1] is not None else None
    if exponent is not None and exponent.size == 1 and (is_exact or x.kind in FLOATS):
        number = float(exponent.reshape(()))
        if number in (1.0, 2.0, 3.0):
            square = combine("mul", x.kind, x.text, x.text)
            return Register({1.0: x.text, 2.0: square, 3.0: combine("mul", x.kind, square, x.text)}[number], x.kind)
    if is_exact:
        return _integer_power(x, y)
    if x.kind == y.kind:
        return Register(f"ig_pow_{x.kind}({x.text}, {y.text})", x.kind)
    power = f"ig_pow_f64({converted(x, 'f64')}, {converted(y, 'f64')})"
    return Register(converted(Register(power, "f64"), x.kind), x.kind)


def _integer_power(x: Register, y: Register) -> Register:
    """A power modulo 2**64, cut to the width of the base."""
    exponent = f"ig_magnitude_i64({converted(y, 'i64')})" if y.kind[0] == "i" else converted(y, "u64")
    power = Register(f"ig_power_u64({converted(x, 'u64')}, {exponent})", "u64")
    result = Register(converted(power, x.kind), x.kind)
    if y.kind[0] == "u":
        return result
    is_negative = bool_register(f"ig_lt_{y.kind}({y.text}, {literal(0, y.kind)})", BITS[y.kind])
    is_unit = [f"ig_eq_{x.kind}({x.text}, {literal(unit, x.kind)})" for unit in ([1, -1] if x.kind[0] == "i" else [1])]
    units = bool_register(f"({' | '.join(is_unit)})", BITS[x.kind])  # only these have a reciprocal that is not 0
    return select(is_negative, select(units, result, Register(literal(0, x.kind), x.kind)), result)


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


@_emits("LeakyRelu", kinds=FLOATS)
def _leaky_relu(node: Node, arguments: Sequence[Register]) -> Register:
    (x,) = arguments
    alpha = literal(node.op.alpha, x.kind)
    is_negative = bool_register(f"ig_lt_{x.kind}({x.text}, {literal(0, x.kind)})", BITS[x.kind])
    return select(is_negative, Register(f"({x.text} * {alpha})", x.kind), x)


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


@_emits("IsNaN", kinds=FLOATS)
def _is_nan(node: Node, arguments: Sequence[Register]) -> Register:
    x = decoded(arguments[0], node.input.dtype)
    return bool_register(f"ig_is_nan_{x.kind}({x.text})", BITS[x.kind])


@_emits("IsInf", kinds=FLOATS)
def _is_inf(node: Node, arguments: Sequence[Register]) -> Register:
    x = decoded(arguments[0], node.input.dtype)
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
    return select(condition, yes, no)


@_emits("BitShift")
def _bit_shift(node: Node, arguments: Sequence[Register]) -> Register:
    x, y = arguments
    function = "shift_left" if node.op.direction == "LEFT" else "shift_right"
    return Register(f"ig_{function}_{x.kind}({x.text}, {y.text})", x.kind)


@_emits("BitCast")
def _bit_cast(node: Node, arguments: Sequence[Register]) -> Register:
    """Truth values from bytes of any bits; between other types a copy serves."""
    (x,) = arguments
    return x if x.is_bool else bool_register(f"ig_ne_{x.kind}({x.text}, {literal(0, x.kind)})", 8)


@_emits("Cast", "CastLike")
def _cast(node: Node, arguments: Sequence[Register]) -> Register:
    given, to = node.input.dtype, node.output.dtype
    if given == to:
        return arguments[0]
    if given.name == "float8e8m0" and to.name in ("bool", "float64"):
        return _cast_power(arguments[0], to)
    x, kind = decoded(arguments[0], given), register_kind(to)
    if to.name == "bool":
        return bool_register(f"ig_ne_{x.kind}({x.text}, {literal(0, x.kind)})", BITS[x.kind])
    if x.is_bool:
        x = Register(as_bytes(x), "u8")
    if to.name in NARROW_INTEGERS:
        return Register(low_bits(converted(x, "u8"), to), "u8")
    if to.name in NARROW_FLOATS:
        return Register(_encoded(node, x), "u8")
    return Register(_narrowed(x, to) or converted(x, kind), kind)


def _cast_power(x: Register, to: DType) -> Register:
    """A power of two, of which the least is a denormal float32: it must not be computed with in single precision."""
    if to.name == "bool":
        return bool_register(f"(ig_set_i8(-1) | (ig_i8){x.text})", 8)  # none of them is zero
    return Register(f"ig_f64_from_e8m0({x.text})", "f64")


def _encoded(node: Node, x: Register) -> str:
    """Numbers as the bits of a narrow float, rounded once."""
    name = NARROW_FLOATS[node.output.dtype.name]
    saturate = int(bool(node.op.saturate))
    if name == "e8m0":
        wide = "f32" if x.kind == "f32" or BITS[x.kind] < 32 else "f64"
        return f"ig_e8m0_from_{wide}({converted(x, wide)}, IG_{node.op.round_mode.upper()}, {saturate})"
    single = f"ig_odd_f32({x.text})" if x.kind == "f64" else converted(x, "f32")
    return f"ig_{name}_from_f32({single}, {saturate})"


def _narrowed(x: Register, to: DType) -> str | None:
    """The casts in which single precision on the way to 16 bits would round twice."""
    if to.name in HALVES and x.kind == "f64":
        return f"ig_odd_f32({x.text})"
    if to.name == "bfloat16" and x.kind in ("i32", "u32", "i64", "u64"):
        return f"ig_odd_f32(ig_cast_{x.kind}_f64({x.text}))"
    return None


def _is_integer(node: Node) -> bool:
    return node.output.dtype.is_integer


_GUARDS: dict[str, Callable[[Node], bool]] = {
    "BitCast": lambda node: node.output.dtype.kind == "bool",
    "BitShift": _is_integer,
    "Neg": lambda node: node.output.dtype.kind != "bool",
    "Reciprocal": lambda node: node.output.dtype.is_float,
    "Relu": lambda node: node.output.dtype.kind != "uint",
}


@_emits("QuantizeLinear")
def _quantize(node: Node, arguments: Sequence[Register]) -> Register:
    """Bytes with one scale and zero point."""
    x, scale, *zero = arguments
    kind, known = register_kind(node.output.dtype), node.needed(1).constant
    quotient = x.text if known is not None and np.all(known == 1) else f"({x.text} / {scale.text})"
    return Register(f"ig_quantize_{kind}({quotient}, {zero[0].text if zero else literal(0, kind)})", kind)


def _is_byte_quantization(node: Node) -> bool:
    floats = [value for value in node.inputs[:2] if value is not None]
    parameters = [value for value in node.inputs[1:] if value is not None]
    is_single = all(value.tensor.shape in ((), (1,)) for value in parameters)
    is_float = all(value.dtype.name == "float32" for value in floats) and node.op.precision in (0, FLOAT32.number)
    return is_single and is_float and node.output.dtype.name in ("int8", "uint8")


_GUARDS["QuantizeLinear"] = _is_byte_quantization

CHEAP = frozenset(
    {"Add", "Sub", "Mul", "Neg", "Abs", "Relu", "Cast", "Min", "Max", "Where", "Clip", "Identity", "And", "Or", "Not",
     "QuantizeLinear", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}
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
    if value.dtype.name in OPAQUE:
        return None
    number = float(value.constant.reshape(()))
    return number if number in (0.0, 1.0, -1.0, 2.0, 0.5) and not (number == 0 and np.signbit(number)) else None
