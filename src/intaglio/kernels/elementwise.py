"""Elementwise operators in the language of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from intaglio.ir.dtype import FLOAT32, DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.elements import (
    BITS,
    FLOATS,
    HALVES,
    NARROW_FLOATS,
    NARROW_INTEGERS,
    OPAQUE,
    is_computable,
    number_type,
    scalar_type,
)
from intaglio.kernels.language import Apply, Expr, Number


def handles(node: Node, dtype: DType) -> bool:
    """Whether the operator, where it is not a view, makes sense of an element type: not all do of opaque ones."""
    if dtype.name not in OPAQUE:
        return is_computable(dtype)
    place = node.op.number_operand
    index = () if place is None else node.inputs[place : place + 1]
    is_indexed = any(value is not None and value.dtype.name in OPAQUE for value in index)
    combined = ("none", "add", "mul") if dtype.kind == "complex" else ("none",)
    is_moving = node.op.moves_only and getattr(node.op, "reduction", "none") in combined and not is_indexed
    return is_moving or (node.op.takes_complex_as_pairs if dtype.kind == "complex" else node.op.takes_narrow_apart)


Translation = Callable[[Node, Sequence[Expr]], Expr]
TRANSLATIONS: dict[str, Translation] = {}
"""What each elementwise operator computes, by its ONNX name."""

_TYPES: dict[str, frozenset[str]] = {}
"""The scalar types that an operator's inputs may have, where not all."""


def can_translate(node: Node) -> bool:
    """Whether the node is elementwise and its types are ones that can be computed."""
    if node.op.name not in TRANSLATIONS or node.op.domain != "" or len(node.outputs) != 1:
        return False
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    if not all(hasattr(v.type, "dtype") and v.tensor.shape is not None and handles(node, v.dtype) for v in values):
        return False
    allowed = _TYPES.get(node.op.name)
    inputs = [value for value in node.inputs if value is not None]
    if allowed is not None and not all(number_type(v.dtype) in allowed for v in inputs):
        return False
    guard = _GUARDS.get(node.op.name)
    return guard is None or guard(node)


def translate(node: Node, arguments: Sequence[Expr]) -> Expr:
    """What an elementwise node computes, rounded as the nodes that read it must see it."""
    return rounded(TRANSLATIONS[node.op.name](node, arguments), node)


def rounded(value: Expr, node: Node) -> Expr:
    """A node's result, rounded to its element type where that must be."""
    format = rounding(node)
    return Apply("round", (value,), value.type, (format,)) if format and value.type in FLOATS else value


def rounding(node: Node) -> str:
    """The format to which a node's result is rounded before other nodes read it, if any.

    Operators that one ONNX node was expanded to round to float16 and bfloat16 once, at their end, as that node's
    reference does, and where the expansion has a cast.
    """
    dtype, producers = node.output.dtype.name, [value.producer for value in node.inputs if value is not None]
    is_exact = node.op.is_exact and not any(_is_one_node(producer, node) for producer in producers)
    if dtype not in HALVES or is_exact:
        return ""
    if node.op.name != "Cast" and all(_is_one_node(node, reader) for reader in node.output.readers):
        return ""
    return HALVES[dtype]


def _is_one_node(left: Node | None, right: Node) -> bool:
    """Whether two nodes came from one ONNX node."""
    return left is not None and left.origin.is_same_node(right.origin)


def _translates(*names: str, types: frozenset[str] | None = None) -> Callable[[Translation], Translation]:
    def register(function: Translation) -> Translation:
        for name in names:
            TRANSLATIONS[name] = function
            if types is not None:
                _TYPES[name] = types
        return function

    return register


def same(function: str, *arguments: Expr, options: tuple[str, ...] = ()) -> Apply:
    """A function whose result has the type of its operands."""
    return Apply(function, arguments, arguments[0].type, options)


def compared(function: str, left: Expr, right: Expr | float) -> Apply:
    """A comparison with another value or a number."""
    other = Number(right, left.type) if isinstance(right, (int, float)) else right
    return Apply(function, (left, other), "bool")


def selected(condition: Expr, yes: Expr, no: Expr) -> Apply:
    """One value where a condition holds, another elsewhere."""
    return Apply("select", (condition, yes, no), yes.type)


def converted(value: Expr, type: str) -> Expr:
    """A number in another type."""
    return value if value.type == type else Apply("cast", (value,), type)


def decoded(value: Expr, dtype: DType) -> Expr:
    """The numbers behind the bits of a narrow type; what is of another type is returned as it is."""
    if dtype.name in NARROW_FLOATS:
        return Apply("decode", (value,), "f32", (NARROW_FLOATS[dtype.name],))
    if dtype.name not in NARROW_INTEGERS:
        return value
    return Apply("decode", (value,), "i8", (dtype.name,)) if dtype.kind == "int" else _low_bits(value, dtype)


def _low_bits(value: Expr, dtype: DType) -> Expr:
    """The bits that an integer of few bits has."""
    return same("low_bits", value, options=(str(NARROW_INTEGERS[dtype.name]),))


_UNARY = {
    "Ceil": "ceil", "Floor": "floor", "Round": "rint", "Sqrt": "sqrt", "Exp": "exp", "Log": "log",
    "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan",
    "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh",
    "Sigmoid": "sigmoid",
}  # fmt: skip


@_translates(*_UNARY, types=FLOATS)
def _unary(node: Node, arguments: Sequence[Expr]) -> Expr:
    return same(_UNARY[node.op.name], *arguments)


@_translates("Erf")
def _erf(node: Node, arguments: Sequence[Expr]) -> Expr:
    """Cut towards zero, it is 0 for integers up to 5 and rounds to 1 from 6 on."""
    (x,) = arguments
    if x.type in FLOATS:
        return same("erf", x)
    zero: Expr = Number(0, x.type)
    if x.type[0] == "i":
        zero = selected(compared("le", x, -6), Number(-1, x.type), zero)
    return selected(compared("ge", x, 6), Number(1, x.type), zero)


_SIMPLE = {"Abs": "abs", "Neg": "neg", "Sign": "sign", "BitwiseNot": "bit_not"}


@_translates(*_SIMPLE)
def _simple(node: Node, arguments: Sequence[Expr]) -> Expr:
    (x,) = arguments
    return x if x.type == "bool" else same(_SIMPLE[node.op.name], x)


@_translates("Identity")
def _identity(node: Node, arguments: Sequence[Expr]) -> Expr:
    return arguments[0]


@_translates("Reciprocal")
def _reciprocal(node: Node, arguments: Sequence[Expr]) -> Expr:
    return same("div", Number(1, arguments[0].type), arguments[0])


@_translates("Relu")
def _relu(node: Node, arguments: Sequence[Expr]) -> Expr:
    (x,) = arguments
    return same("relu", x) if x.type in FLOATS else same("max", x, Number(0, x.type))


_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div",
    "BitwiseAnd": "bit_and", "BitwiseOr": "bit_or", "BitwiseXor": "bit_xor",
}  # fmt: skip


@_translates(*_BINARY)
def _binary(node: Node, arguments: Sequence[Expr]) -> Expr:
    return same(_BINARY[node.op.name], *arguments)


@_translates("Pow")
def _pow(node: Node, arguments: Sequence[Expr]) -> Expr:
    """Small constant powers as products; an exponent of another type in double precision, which holds both."""
    x, y = arguments
    is_exact = x.type not in FLOATS and y.type not in FLOATS
    exponent = node.inputs[1].constant if node.inputs[1] is not None else None
    if exponent is not None and exponent.size == 1 and (is_exact or x.type in FLOATS):
        number = float(exponent.reshape(()))
        if number in (1.0, 2.0, 3.0):
            square = same("mul", x, x)
            return {1.0: x, 2.0: square, 3.0: same("mul", square, x)}[number]
    if is_exact:
        return _integer_power(x, y)
    if x.type == y.type:
        return same("pow", x, y)
    return converted(same("pow", converted(x, "f64"), converted(y, "f64")), x.type)


def _integer_power(x: Expr, y: Expr) -> Expr:
    """A power modulo 2**64, cut to the width of the base."""
    exponent = converted(y, "u64") if y.type[0] == "u" else Apply("magnitude", (converted(y, "i64"),), "u64")
    result = converted(Apply("power", (converted(x, "u64"), exponent), "u64"), x.type)
    if y.type[0] == "u":
        return result
    units: Expr = compared("eq", x, 1)  # only units have a reciprocal that is not 0
    if x.type[0] == "i":
        units = Apply("or", (units, compared("eq", x, -1)), "bool")
    return selected(compared("lt", y, 0), selected(units, result, Number(0, x.type)), result)


@_translates("Min", "Max", "Sum")
def _many(node: Node, arguments: Sequence[Expr]) -> Expr:
    function = {"Min": "min", "Max": "max", "Sum": "add"}[node.op.name]
    value = arguments[0]
    for other in arguments[1:]:
        value = same(function, value, other)
    return value


@_translates("Clip")
def _clip(node: Node, arguments: Sequence[Expr]) -> Expr:
    present = iter(arguments)
    value = next(present)
    for bound, function in zip(node.inputs[1:], ("max", "min"), strict=False):
        if bound is not None:
            value = same(function, value, next(present))
    return value


@_translates("Mod")
def _mod(node: Node, arguments: Sequence[Expr]) -> Expr:
    return same("fmod" if node.op.fmod else "mod", *arguments)


@_translates("LeakyRelu", types=FLOATS)
def _leaky_relu(node: Node, arguments: Sequence[Expr]) -> Expr:
    (x,) = arguments
    return selected(compared("lt", x, 0), same("mul", x, Number(node.op.alpha, x.type)), x)


@_translates("Elu", "Selu", types=FLOATS)
def _exponential_unit(node: Node, arguments: Sequence[Expr]) -> Expr:
    (x,) = arguments
    below = same("mul", same("expm1", x), Number(node.op.alpha, x.type))
    result = selected(compared("lt", x, 0), below, x)
    return result if node.op.name == "Elu" else same("mul", result, Number(node.op.gamma, x.type))


@_translates("Celu", types=FLOATS)
def _continuous_exponential_unit(node: Node, arguments: Sequence[Expr]) -> Expr:
    """As the reference writes it, for alpha below zero too: max(0, x) + min(0, alpha (exp(min(0, x) / alpha) - 1))."""
    (x,) = arguments
    zero, alpha = Number(0, x.type), Number(node.op.alpha, x.type)
    below = same("mul", same("expm1", same("div", same("min", x, zero), alpha)), alpha)
    return same("add", same("max", x, zero), same("min", below, zero))


_COMPARISONS = {"Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge"}


@_translates(*_COMPARISONS)
def _compare(node: Node, arguments: Sequence[Expr]) -> Expr:
    return Apply(_COMPARISONS[node.op.name], tuple(arguments), "bool")


@_translates("And", "Or", "Xor", "Not")
def _logic(node: Node, arguments: Sequence[Expr]) -> Expr:
    return Apply(node.op.name.lower(), tuple(arguments), "bool")


@_translates("IsNaN", types=FLOATS)
def _is_nan(node: Node, arguments: Sequence[Expr]) -> Expr:
    return Apply("is_nan", (decoded(arguments[0], node.input.dtype),), "bool")


@_translates("IsInf", types=FLOATS)
def _is_inf(node: Node, arguments: Sequence[Expr]) -> Expr:
    x = decoded(arguments[0], node.input.dtype)
    tests = [(node.op.detect_positive, np.inf), (node.op.detect_negative, -np.inf)]
    wanted = [compared("eq", x, number) for is_wanted, number in tests if is_wanted]
    if len(wanted) < 2:
        return wanted[0] if wanted else Number(0, "bool")
    return Apply("or", tuple(wanted), "bool")


@_translates("Where")
def _where(node: Node, arguments: Sequence[Expr]) -> Expr:
    return selected(*arguments)


@_translates("BitShift")
def _bit_shift(node: Node, arguments: Sequence[Expr]) -> Expr:
    return same("shift_left" if node.op.direction == "LEFT" else "shift_right", *arguments)


@_translates("BitCast")
def _bit_cast(node: Node, arguments: Sequence[Expr]) -> Expr:
    """Truth values from bytes of any bits; between other types a copy serves."""
    (x,) = arguments
    return x if x.type == "bool" else compared("ne", x, 0)


@_translates("Cast", "CastLike")
def _cast(node: Node, arguments: Sequence[Expr]) -> Expr:
    given, to = node.input.dtype, node.output.dtype
    if given == to:
        return arguments[0]
    if given.name == "float8e8m0" and to.name in ("bool", "float64"):
        return _cast_power(arguments[0], to)
    x = decoded(arguments[0], given)
    if to.name == "bool":
        return compared("ne", x, 0)
    if x.type == "bool":
        x = Apply("cast", (x,), "u8")
    if to.name in NARROW_INTEGERS:
        return _low_bits(converted(x, "u8"), to)
    if to.name in NARROW_FLOATS:
        return _encoded(node, x)
    return _narrowed(x, to) or converted(x, scalar_type(to))


def _cast_power(x: Expr, to: DType) -> Expr:
    """A power of two, of which the least is a denormal float32: it must not be computed with in single precision."""
    if to.name == "bool":
        return Number(1, "bool")  # none of them is zero
    return Apply("decode", (x,), "f64", ("e8m0",))


def _encoded(node: Node, x: Expr) -> Expr:
    """Numbers as the bits of a narrow float, rounded once."""
    name = NARROW_FLOATS[node.output.dtype.name]
    saturate = "saturate" if node.op.saturate else "overflow"
    if name == "e8m0":
        wide = "f32" if x.type == "f32" or BITS[x.type] < 32 else "f64"
        return Apply("encode", (converted(x, wide),), "u8", (name, saturate, node.op.round_mode))
    single = Apply("round_to_odd", (x,), "f32") if x.type == "f64" else converted(x, "f32")
    return Apply("encode", (single,), "u8", (name, saturate))


def _narrowed(x: Expr, to: DType) -> Expr | None:
    """The casts in which single precision on the way to 16 bits would round twice."""
    if to.name in HALVES and x.type == "f64":
        return Apply("round_to_odd", (x,), "f32")
    if to.name == "bfloat16" and x.type in ("i32", "u32", "i64", "u64"):
        return Apply("round_to_odd", (converted(x, "f64"),), "f32")
    return None


@_translates("QuantizeLinear")
def _quantize(node: Node, arguments: Sequence[Expr]) -> Expr:
    """Bytes with one scale and zero point."""
    x, scale, *zero = arguments
    type, known = scalar_type(node.output.dtype), node.needed(1).constant
    quotient = x if known is not None and np.all(known == 1) else same("div", x, scale)
    return Apply("quantize", (quotient, zero[0] if zero else Number(0, type)), type)


def _is_byte_quantization(node: Node) -> bool:
    floats = [value for value in node.inputs[:2] if value is not None]
    parameters = [value for value in node.inputs[1:] if value is not None]
    is_single = all(value.tensor.shape in ((), (1,)) for value in parameters)
    is_float = all(value.dtype.name == "float32" for value in floats) and node.op.precision in (0, FLOAT32.number)
    return is_single and is_float and node.output.dtype.name in ("int8", "uint8")


_GUARDS: dict[str, Callable[[Node], bool]] = {
    "BitCast": lambda node: node.output.dtype.kind == "bool",
    "BitShift": lambda node: node.output.dtype.is_integer,
    "Neg": lambda node: node.output.dtype.kind != "bool",
    "QuantizeLinear": _is_byte_quantization,
    "Reciprocal": lambda node: node.output.dtype.is_float,
    "Relu": lambda node: node.output.dtype.kind != "uint",
}


def scalar_constant(value: Value) -> float | None:
    """The number that a literal may stand for: constants that a compiler can make use of."""
    if value.constant is None or value.constant.size != 1 or value.constant.dtype.kind not in "fiu":
        return None
    if value.dtype.name in OPAQUE:
        return None
    number = float(value.constant.reshape(()))
    return number if number in (0.0, 1.0, -1.0, 2.0, 0.5) and not (number == 0 and np.signbit(number)) else None
