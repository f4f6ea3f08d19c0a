"""Elementwise operators, conversions, products and reductions in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from intaglio.emit.python.words import (
    PRINTERS,
    is_narrow,
    prints,
    rounded,
    short,
    wide,
)
from intaglio.emit.pythonic.block import (
    Printer,
    Site,
    UnprintableError,
    is_plain,
    literal,
    quoted,
)
from intaglio.emit.pythonic.infix import INFIX
from intaglio.ir.dtype import BOOL, FLOAT8E8M0, FLOAT32, STRING, DType
from intaglio.ops.shared.indices import numbered_dtype


def _template(template: str) -> Printer:
    def printer(site: Site) -> str:
        return template.format(*site.terms())

    return printer


for _name, _text in {
    "Abs": "xp.abs({})",
    "Neg": "-{}",
    "Ceil": "xp.ceil({})",
    "Floor": "xp.floor({})",
    "Round": "xp.rint({})",
    "Sign": "xp.sign({})",
    "Sqrt": "xp.sqrt({})",
    "Exp": "xp.exp({})",
    "Log": "xp.log({})",
    "Sin": "xp.sin({})",
    "Cos": "xp.cos({})",
    "Tan": "xp.tan({})",
    "Asin": "xp.arcsin({})",
    "Acos": "xp.arccos({})",
    "Atan": "xp.arctan({})",
    "Sinh": "xp.sinh({})",
    "Cosh": "xp.cosh({})",
    "Tanh": "xp.tanh({})",
    "Asinh": "xp.arcsinh({})",
    "Acosh": "xp.arccosh({})",
    "Atanh": "xp.arctanh({})",
    "Relu": "xp.maximum({}, 0)",
    "Erf": "erf(xp, {})",
    "Sigmoid": "sigmoid(xp, {})",
    "Softplus": "softplus(xp, {})",
    "IsNaN": "xp.isnan({})",
    **INFIX,
}.items():
    PRINTERS["", _name] = _template(_text)


def _called(name: str) -> Printer:
    plain = PRINTERS["", name]

    def printer(site: Site) -> str | None:
        site.writer.used.add(name.lower())
        return plain(site)

    return printer


for _name in ("Erf", "Sigmoid", "Softplus"):
    PRINTERS["", _name] = _called(_name)


@prints("Relu")
def _relu(site: Site) -> str:
    dtype = site.value(0).dtype
    zero = f"xp.zeros((), dtype={site.dtype(dtype)})" if dtype.is_narrow else "0"
    return f"xp.maximum({site.x(0)}, {zero})"


@prints("Sigmoid", "Softplus", "Erf")
def _smooth(site: Site) -> str:
    return rounded(site, site.call(site.op.name.lower(), "xp", wide(site, 0)))


@prints("Div")
def _div(site: Site) -> str:
    left, right = site.terms()
    dtype = site.node.output.dtype
    if dtype.kind == "uint":
        return f"{left} // {right}"
    if dtype.kind == "int":
        return site.call("truncated_divide", "xp", site.x(0), site.x(1))
    return f"{left} / {right}"


@prints("Mod")
def _mod(site: Site) -> str:
    left, right = site.terms()
    return f"xp.fmod({left}, {right})" if site.op.fmod else f"xp.mod({left}, {right})"


@prints("Pow")
def _pow(site: Site) -> str:
    exponent, base = site.value(1), site.value(0)
    if exponent.constant is not None and exponent.constant.size == 1 and base.dtype == FLOAT32:
        power = float(exponent.constant.reshape(()))
        if power in (2.0, 3.0) and len(exponent.shape) <= len(base.tensor.shape or ()):
            return f"{site.x(0)} ** {int(power)}"
    return site.call("power", "xp", site.x(0), site.x(1))


def _fold(function: str, operator: str) -> Printer:
    def printer(site: Site) -> str:
        terms = site.terms()
        if len(terms) == 1:
            return terms[0]
        if operator:
            return f" {operator} ".join(terms)
        found = terms[0]
        for term in terms[1:]:
            found = f"{function}({found}, {term})"
        return found

    return printer


PRINTERS["", "Max"] = _fold("xp.maximum", "")


PRINTERS["", "Min"] = _fold("xp.minimum", "")


@prints("Sum")
def _sum(site: Site) -> str:
    if is_narrow(site.node.output):
        raise UnprintableError("sums of narrow floats are rounded once")
    return " + ".join(site.terms())


@prints("Where")
def _where(site: Site) -> str:
    return f"xp.where({site.x(0)}, {site.x(1)}, {site.x(2)})"


@prints("Clip")
def _clip(site: Site) -> str:
    if is_narrow(site.value(0)):
        raise UnprintableError("bounds of narrow floats")
    result = site.x(0)
    if site.has(1):
        result = f"xp.maximum({result}, {_bound(site, 1)})"
    return f"xp.minimum({result}, {_bound(site, 2)})" if site.has(2) else result


def _bound(site: Site, position: int) -> str:
    constant = site.value(position).constant
    if constant is not None and is_plain(constant):
        return literal(constant.reshape(()))
    return f"{site.x(position)}.reshape(())"


@prints("IsInf")
def _is_inf(site: Site) -> str:
    x, op = site.x(0), site.op
    if op.detect_negative and op.detect_positive:
        return f"xp.isinf({x})"
    sign = ">" if op.detect_positive else "<"
    return (
        f"xp.isinf({x}) & ({x} {sign} 0)"
        if op.detect_positive or op.detect_negative
        else f"xp.zeros_like({x}, dtype=bool)"
    )


@prints("BitShift")
def _bit_shift(site: Site) -> str:
    return site.call("shift_bits", "xp", site.x(0), site.x(1), str(site.op.direction == "LEFT"))


@prints("Gelu")
def _gelu(site: Site) -> str:
    return rounded(site, site.call("gelu_tanh" if site.op.approximate == "tanh" else "gelu", "xp", wide(site, 0)))


@prints("LeakyRelu")
def _leaky_relu(site: Site) -> str:
    x = wide(site, 0)
    return rounded(site, f"xp.where({x} < 0, {short(site.node, site.op.alpha)} * {x}, {x})")


@prints("Elu", "Selu")
def _elu(site: Site) -> str:
    x, alpha = wide(site, 0), short(site.node, site.op.alpha)
    below = f"xp.expm1(xp.minimum({x}, 0))"
    text = f"xp.where({x} < 0, {below if alpha == '1.0' else f'{alpha} * {below}'}, {x})"
    return rounded(site, text if site.op.name == "Elu" else f"{short(site.node, site.op.gamma)} * {text}")


@prints("Celu")
def _celu(site: Site) -> str:
    x, alpha = wide(site, 0), short(site.node, site.op.alpha)
    below = f"xp.expm1(xp.minimum({x}, 0))" if alpha == "1.0" else f"{alpha} * xp.expm1(xp.minimum({x}, 0) / {alpha})"
    return rounded(site, f"xp.maximum({x}, 0) + xp.minimum({below}, 0)")


@prints("HardSwish")
def _hard_swish(site: Site) -> str:
    x = wide(site, 0)
    return rounded(site, f"{x} * xp.clip({x} / 6 + 0.5, 0, 1)")


@prints("HardSigmoid")
def _hard_sigmoid(site: Site) -> str:
    alpha, beta = (short(site.node, number) for number in (site.op.alpha, site.op.beta))
    return rounded(site, f"xp.clip({wide(site, 0)} * {alpha} + {beta}, 0, 1)")


@prints("Swish")
def _swish(site: Site) -> str:
    x, alpha = wide(site, 0), short(site.node, site.op.alpha)
    return rounded(site, f"{x} * {site.call('sigmoid', 'xp', x if alpha == '1.0' else f'{alpha} * {x}')}")


@prints("Cast")
def _cast(site: Site) -> str:
    given, wanted, x = site.value(0).dtype, site.node.output.dtype, site.x(0)
    text = site.dtype(wanted)
    if given == wanted:
        return x
    if given == STRING:
        return site.call("from_text", x, text)
    if wanted == STRING:
        return site.call("to_text", f"{x}.astype(xp.float32)" if given.is_narrow else x)
    source = f"{x}.astype(xp.float32)" if given.is_narrow and given.is_float else x
    source = f"{x}.astype(xp.int8)" if given.is_narrow and not given.is_float else source
    if wanted == BOOL:
        return f"{source} != 0"
    if wanted == FLOAT8E8M0:
        flags = [str(bool(site.op.saturate)), quoted(site.op.round_mode)]
        return site.call("convert_power_of_two", "xp", source, text, *flags)
    if wanted.is_integer and wanted.bits < 8:
        return site.call("convert_narrow_int", "xp", source, text, str(wanted.bits), str(wanted.kind == "int"))
    if wanted.is_narrow:
        return _cast_narrow(site, source, wanted)
    if wanted.is_integer and given.is_float:
        return site.call("convert", "xp", source, text)
    return f"{source}.astype({text})"


def _cast_narrow(site: Site, source: str, wanted: DType) -> str:
    limit = "None"
    is_finite = wanted.name in ("float6e2m3", "float6e3m2", "float4e2m1")
    if is_finite or (site.op.saturate and wanted.name.startswith("float8")):
        limit = repr(float(ml_dtypes.finfo(wanted.numpy).max))
    return site.call("convert_narrow_float", "xp", source, site.dtype(wanted), limit)


@prints("BitCast")
def _bit_cast(site: Site) -> str:
    wanted = numbered_dtype(site.op.to)
    bits = f"xp.ascontiguousarray({site.x(0)}).reshape({site.x(0)}.shape)"
    return f"{bits}.view(xp.uint8) != 0" if wanted == BOOL else f"{bits}.view({site.dtype(wanted)})"


@prints("MatMul")
def _matmul(site: Site) -> str:
    return rounded(site, f"{wide(site, 0)} @ {wide(site, 1)}")


@prints("Gemm")
def _gemm(site: Site) -> str:
    op = site.op
    if is_narrow(site.value(0)) or not site.value(0).dtype.is_float:
        raise UnprintableError("a product of a narrow type")
    left = f"{site.x(0)}.T" if op.transA else site.x(0)
    right = f"{site.x(1)}.T" if op.transB else site.x(1)
    result = f"{left} @ {right}"
    result = result if op.alpha == 1 else f"{short(site.node, op.alpha)} * ({result})"
    if not site.has(2):
        return result
    return f"{result} + {site.x(2) if op.beta == 1 else f'{short(site.node, op.beta)} * {site.x(2)}'}"


@prints("Einsum")
def _einsum(site: Site) -> str:
    dtype = site.node.output.dtype
    if dtype.is_narrow or not (dtype.is_float or dtype.is_integer):
        raise UnprintableError("a sum of products of a narrow type")
    operands = ", ".join(wide(site, position) for position in range(len(site.node.inputs)))
    equation = site.op.equation.replace(" ", "")
    given, arrow, wanted = equation.partition("->")
    if not arrow or "..." not in given or "..." in wanted:
        return rounded(site, f"xp.einsum({equation!a}, {operands})")
    axes = tuple(range(_ellipsis_rank(site, given.split(","))))  # which NumPy keeps
    kind = f", dtype={site.dtype(dtype)}" if dtype.is_integer else ""
    return rounded(site, f"xp.einsum({f'{given}->...{wanted}'!a}, {operands}).sum(axis={axes}{kind})")


def _ellipsis_rank(site: Site, terms: Sequence[str]) -> int:
    """For how many axes the dots of an equation stand."""
    places = [place for place, term in enumerate(terms) if "..." in term]
    if any(site.value(place).tensor.shape is None for place in places):
        raise UnprintableError("a sum over an unknown number of axes")
    return max(site.rank(place) - len(terms[place].replace("...", "")) for place in places)


@prints("CumSum", "CumProd")
def _running(site: Site) -> str:
    op = site.op
    flags = [str(bool(op.exclusive)), str(bool(op.reverse))]
    axis = f"int({site.x(1)}.reshape(()))" if site.dims(1) is None else str(site.ints(1)[0])
    return rounded(site, site.call("running", "xp", wide(site, 0), quoted(op.name.lower()), axis, *flags))


@prints("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
def _reduce(site: Site) -> str:
    op = site.op
    function = op.name.removeprefix("Reduce").lower()
    keep = ", keepdims=True" if op.keepdims else ""
    if site.value(0).dtype == BOOL:
        function = {"max": "any", "min": "all"}[function]
    if site.has(1) and site.dims(1) is None:
        flags = [str(bool(op.keepdims)), str(bool(op.noop_with_empty_axes))]
        if function in ("max", "min"):
            flags.append(f"initial={_lowest(site.value(0).dtype, function)}")
        if function in ("sum", "prod") and site.value(0).dtype.is_integer:
            flags.append(f"dtype={site.dtype(site.value(0).dtype)}")
        return rounded(site, site.call("reduce", wide(site, 0), quoted(function), site.x(1), *flags))
    if site.has(1):
        axes = site.ints(1)
        if not axes and op.noop_with_empty_axes:
            return site.x(0)
        axis = f"axis={tuple(axes)}" if axes else "axis=None"
    elif op.noop_with_empty_axes:
        return site.x(0)
    else:
        axis = "axis=None"
    dtype = site.value(0).dtype
    if function in ("sum", "prod") and dtype.is_integer:
        keep += f", dtype={site.dtype(dtype)}"
    if function in ("max", "min"):
        keep += f", initial={_lowest(dtype, function)}"
    if function == "mean" and dtype.is_integer:
        raise UnprintableError("a mean of integers")
    x = wide(site, 0)
    return rounded(site, f"{x}.{function}({axis}{keep})")


def _lowest(dtype: DType, function: str) -> str:
    if dtype.is_float:
        return "-xp.inf" if function == "max" else "xp.inf"
    limits = np.iinfo(dtype.numpy)
    return str(int(limits.min if function == "max" else limits.max))


@prints("Softmax", "LogSoftmax")
def _softmax(site: Site) -> str:
    if site.rank() == 0:
        raise UnprintableError("a scalar")
    function = "softmax" if site.op.name == "Softmax" else "log_softmax"
    return rounded(site, site.call(function, "xp", wide(site, 0), str(site.op.axis)))
