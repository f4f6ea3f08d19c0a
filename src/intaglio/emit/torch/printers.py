"""Elementwise operators, reductions and movement in PyTorch."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from intaglio.emit.python.words import has_defaults, is_double, short
from intaglio.emit.pythonic.block import Printer, Site, UnprintableError, is_plain, literal, quoted
from intaglio.emit.pythonic.infix import INFIX
from intaglio.emit.pythonic.movement import library_calls, print_slice, reshaped, sliced_shape
from intaglio.emit.torch.words import PRINTERS, checked, prints
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import BOOL, FLOAT32, INT64
from intaglio.ir.graph import Value
from intaglio.ops.shared.indices import numbered_dtype

SOFTPLUS_THRESHOLD = 40
"""Above this, x and log(1 + exp(x)) are one number of double precision."""


def _template(template: str) -> Printer:
    return checked(lambda site: template.format(*site.terms()))


for _name, _text in {
    "Abs": "{}.abs()",
    "Neg": "-{}",
    "Ceil": "{}.ceil()",
    "Floor": "{}.floor()",
    "Round": "{}.round()",
    "Sqrt": "{}.sqrt()",
    "Exp": "{}.exp()",
    "Log": "{}.log()",
    "Sin": "{}.sin()",
    "Cos": "{}.cos()",
    "Tan": "{}.tan()",
    "Asin": "{}.asin()",
    "Acos": "{}.acos()",
    "Atan": "{}.atan()",
    "Sinh": "{}.sinh()",
    "Cosh": "{}.cosh()",
    "Tanh": "torch.tanh({})",
    "Asinh": "{}.asinh()",
    "Acosh": "{}.acosh()",
    "Atanh": "{}.atanh()",
    "Relu": "functional.relu({})",
    "Erf": "{}.erf()",
    "Sigmoid": "torch.sigmoid({})",
    "Softsign": "functional.softsign({})",
    "HardSwish": "functional.hardswish({})",
    "Mish": "functional.mish({})",
    "IsNaN": "{}.isnan()",
    **INFIX,
}.items():
    PRINTERS["", _name] = _template(_text)

prints("Slice")(print_slice)
for _name, _printer in library_calls().items():
    prints(_name)(_printer)


@prints("Sign")
def _sign(site: Site) -> str:
    x = site.x(0)
    return f"torch.where({x}.isnan(), {x}, {x}.sign())" if site.value(0).dtype.is_float else f"{x}.sign()"


@prints("LeakyRelu")
def _leaky_relu(site: Site) -> str:
    slope = short(site.node, site.op.alpha)
    return f"functional.leaky_relu({site.x(0)}{'' if slope == '0.01' else f', {slope}'})"


@prints("Softplus")
def _softplus(site: Site) -> str:
    """PyTorch takes x for its softplus above a threshold, which is too low for double precision."""
    threshold = f", threshold={SOFTPLUS_THRESHOLD}" if is_double(site.node) else ""
    return f"functional.softplus({site.x(0)}{threshold})"


@prints("Elu", "Celu")
def _elu(site: Site) -> str:
    alpha = "" if site.op.alpha == 1 else f", alpha={short(site.node, site.op.alpha)}"
    return f"functional.{site.op.name.lower()}({site.x(0)}{alpha})"


@prints("Selu")
def _selu(site: Site) -> str:
    x, node = site.x(0), site.node
    if has_defaults(site.op) and not is_double(node):
        return f"functional.selu({x})"
    alpha, gamma = (short(node, number) for number in (site.op.alpha, site.op.gamma))
    return f"{gamma} * torch.where({x} > 0, {x}, {alpha} * torch.expm1({x}.clamp(max=0)))"


@prints("Gelu")
def _gelu(site: Site) -> str:
    return f"functional.gelu({site.x(0)}{', approximate=' + quoted('tanh') if site.op.approximate == 'tanh' else ''})"


@prints("Swish")
def _swish(site: Site) -> str:
    x, alpha = site.x(0), site.op.alpha
    return f"functional.silu({x})" if alpha == 1 else f"{x} * torch.sigmoid({short(site.node, alpha)} * {x})"


@prints("HardSigmoid")
def _hard_sigmoid(site: Site) -> str:
    return f"({site.x(0)} * {short(site.node, site.op.alpha)} + {short(site.node, site.op.beta)}).clamp(0, 1)"


@prints("Div")
def _div(site: Site) -> str:
    left, right = site.terms()
    if site.node.output.dtype.is_integer:
        return f'torch.div({left}, {right}, rounding_mode="trunc")'
    return f"{left} / {right}"


@prints("Mod")
def _mod(site: Site) -> str:
    left, right = (site.x(0), site.x(1))
    return f"torch.{'fmod' if site.op.fmod else 'remainder'}({left}, {right})"


@prints("Pow")
def _pow(site: Site) -> str:
    base, exponent = site.value(0), site.value(1)
    if base.dtype.is_float and exponent.constant is not None and exponent.constant.size == 1:
        power = float(exponent.constant.reshape(()))
        if len(exponent.shape) <= len(base.tensor.shape or ()):
            return f"{site.x(0)} ** {int(power) if power.is_integer() else repr(power)}"
    if base.dtype == exponent.dtype and base.dtype.is_float:
        return f"{site.x(0)} ** {site.x(1)}"
    return site.call("power", site.x(0), site.x(1))


@prints("Max", "Min")
def _extreme(site: Site) -> str:
    function = "maximum" if site.op.name == "Max" else "minimum"
    found = site.x(0)
    for position in range(1, len(site.node.inputs)):
        found = f"torch.{function}({found}, {site.x(position)})"
    return found


@prints("Sum")
def _sum(site: Site) -> str:
    if site.node.output.dtype.bits <= 16:
        raise UnprintableError("sums of narrow floats are rounded once")
    return " + ".join(site.terms())


@prints("Where")
def _where(site: Site) -> str:
    condition, left, right = site.terms() if len(site.node.inputs) == 3 else ("", "", "")
    are_numbers = all(value.constant is not None for value in site.node.inputs[1:] if value is not None)
    if are_numbers and site.node.output.dtype != FLOAT32:
        left, right = site.x(1), site.x(2)
    return (
        f"torch.where({condition}, {left.strip('()')}, {right.strip('()')})"
        if _are_plain(left, right)
        else (f"torch.where({condition}, {left}, {right})")
    )


def _are_plain(*texts: str) -> bool:
    return all(re.fullmatch(r"\(?-?[\w.+-]+\)?", text) is not None for text in texts)


@prints("Clip")
def _clip(site: Site) -> str:
    bounds = {name: site.value(place) for name, place in (("min", 1), ("max", 2)) if site.has(place)}
    numbers = {name: _number(value) for name, value in bounds.items()}
    if all(number is not None for number in numbers.values()):
        return (
            f"{site.x(0)}.clamp({', '.join(f'{name}={number}' for name, number in numbers.items())})"
            if numbers
            else site.x(0)
        )
    texts = [f"{name}={site.writer.read(value)}.reshape(())" for name, value in bounds.items()]
    return f"{site.x(0)}.clamp({', '.join(texts)})"


def _number(value: Value) -> str | None:
    constant = value.constant
    return literal(constant.reshape(())) if constant is not None and is_plain(constant) else None


@prints("IsInf")
def _is_inf(site: Site) -> str:
    op, x = site.op, site.x(0)
    if op.detect_negative and op.detect_positive:
        return f"{x}.isinf()"
    if not (op.detect_negative or op.detect_positive):
        return f"torch.zeros_like({x}, dtype=torch.bool)"
    return f"torch.{'isposinf' if op.detect_positive else 'isneginf'}({x})"


@prints("BitShift")
def _bit_shift(site: Site) -> str:
    return site.call("shift_bits", site.x(0), site.x(1), str(site.op.direction == "LEFT"))


@prints("Cast")
def _cast(site: Site) -> str:
    given, wanted = site.value(0).dtype, site.node.output.dtype
    if given == wanted:
        return site.x(0)
    if given.is_float and wanted.is_integer:
        return site.call("to_integer", site.x(0), site.dtype(wanted))
    return f"{site.x(0)}.to({site.dtype(wanted)})"


@prints("BitCast")
def _bit_cast(site: Site) -> str:
    wanted = numbered_dtype(site.op.to)
    return f"{site.x(0)}.view(torch.uint8) != 0" if wanted == BOOL else f"{site.x(0)}.view({site.dtype(wanted)})"


@prints("MatMul")
def _matmul(site: Site) -> str:
    return f"{site.x(0)} @ {site.x(1)}"


@prints("Gemm")
def _gemm(site: Site) -> str:
    op = site.op
    if not site.value(0).dtype.is_float or site.value(0).dtype.bits <= 16:
        raise UnprintableError("a product of integers or narrow floats")
    left = f"{site.x(0)}.T" if op.transA else site.x(0)
    right = f"{site.x(1)}.T" if op.transB else site.x(1)
    result = f"{left} @ {right}"
    result = result if op.alpha == 1 else f"{short(site.node, op.alpha)} * ({result})"
    if not site.has(2):
        return result
    return f"{result} + {site.x(2) if op.beta == 1 else f'{short(site.node, op.beta)} * {site.x(2)}'}"


@prints("Einsum")
def _einsum(site: Site) -> str:
    if not site.node.output.dtype.is_float:
        raise UnprintableError("a sum of products of integers")
    operands = ", ".join(site.x(position) for position in range(len(site.node.inputs)))
    return f"torch.einsum({quoted(site.op.equation.replace(' ', ''))}, {operands})"


@prints("Transpose")
def _transpose(site: Site) -> str:
    perm = site.op.perm or tuple(range(site.rank()))[::-1]
    moved = [axis for axis, place in enumerate(perm) if axis != place]
    if len(moved) == 2:
        return f"{site.x(0)}.transpose({moved[0]}, {moved[1]})"
    return f"{site.x(0)}.permute({', '.join(map(str, perm))})" if moved else site.x(0)


@prints("Reshape")
def _reshape(site: Site) -> str:
    return _reshaped(site, site.node.output.tensor.shape) or site.call(
        "reshape", site.x(0), site.x(1), allow_zero=True if site.op.allowzero else None
    )


def _reshaped(site: Site, shape: Sequence[Dim] | None) -> str | None:
    given = site.value(0).tensor.shape
    if shape and given is not None and len(shape) < len(given):
        flat = _flattened(site, given, shape)
        if flat is not None:
            return flat
    return _batched(site, given, shape) or reshaped(site, shape)


def _batched(site: Site, given: Sequence[Dim] | None, shape: Sequence[Dim] | None) -> str | None:
    """A reshape of known sizes whose first axis is 1, said so that a batch of another size goes through too.

    It stays the first axis, or is merged with the second, or comes apart from it.
    """
    if not given or not shape or not all(isinstance(size, int) and size > 0 for size in (*given, *shape)):
        return None
    x, old, new = site.x(0), tuple(given), tuple(shape)
    if old[0] == new[0] == 1:
        is_flat = len(new) == 2 and len(old) > 2
        return f"{x}.flatten(1)" if is_flat else f"{x}.reshape({', '.join([f'{x}.shape[0]', *map(str, new[1:])])})"
    if old[0] == 1 and old[1:] == new:
        return f"{x}.flatten(0, 1)"
    return f"{x}.unflatten(0, (-1, {new[1]}))" if new[0] == 1 and new[1:] == old else None


def _flattened(site: Site, given: Sequence[Dim], shape: Sequence[Dim]) -> str | None:
    """x.flatten(i), where the last axes become one."""
    place = len(shape) - 1
    if place and tuple(given[:place]) == tuple(shape[:place]) and any(not isinstance(size, int) for size in shape):
        return f"{site.x(0)}.flatten({place})"
    return None


@prints("Flatten")
def _flatten(site: Site) -> str:
    if site.op.axis == 1 and (site.value(0).tensor.shape is None or site.rank() >= 2):
        return f"{site.x(0)}.flatten(1)"
    found = _reshaped(site, site.node.output.tensor.shape)
    if found is None:
        raise UnprintableError("the sizes are not known")
    return found


@prints("Squeeze")
def _squeeze(site: Site) -> str:
    if not site.has(1):
        return f"{site.x(0)}.squeeze()"
    if site.dims(1) is None:
        return f"{site.x(0)}.squeeze(tuple({site.x(1)}.tolist()))"
    axes = site.ints(1)
    return f"{site.x(0)}.squeeze({axes[0] if len(axes) == 1 else tuple(axes)})"


@prints("Unsqueeze")
def _unsqueeze(site: Site) -> str:
    if site.dims(1) is None or site.value(0).tensor.shape is None:
        return site.call("unsqueeze", site.x(0), site.listing(1))
    axes = site.ints(1)
    rank = site.rank() + len(axes)
    return site.x(0) + "".join(f".unsqueeze({axis})" for axis in sorted(axis % rank for axis in axes))


@prints("Shape")
def _shape(site: Site) -> str:
    return f"torch.tensor({sliced_shape(site)}, dtype=torch.int64)"


@prints("Size")
def _size(site: Site) -> str:
    return f"torch.tensor({site.x(0)}.numel(), dtype=torch.int64)"


@prints("Expand")
def _expand(site: Site) -> str:
    try:
        return f"{site.x(0)}.broadcast_to({site.shape(site.node.output)})"
    except UnprintableError:
        return site.call("expand", site.x(0), site.listing(1))


@prints("Tile")
def _tile(site: Site) -> str:
    return f"{site.x(0)}.tile({site.listing(1)})"


@prints("ConstantOfShape")
def _constant_of_shape(site: Site) -> str:
    fill = np.zeros(1, np.float32) if site.op.value is None else site.op.value.array
    if not is_plain(fill):
        raise UnprintableError("a constant of a narrow type")
    value, dtype = literal(fill.reshape(())), site.dtype(site.node.output.dtype)
    if value in ("0", "0.0", "False"):
        return f"torch.zeros({site.listing(0)}, dtype={dtype})"
    return f"torch.full({site.listing(0)}, {value}, dtype={dtype})"


@prints("Range")
def _range(site: Site) -> str:
    dtype = site.node.output.dtype
    if dtype == INT64:
        ends = [site.dims(position) for position in range(3)]
        if all(end is not None for end in ends):
            try:
                first, last, step = (site.writer.size(end[0]) for end in ends if end)
                numbers = (
                    [last] if (first, step) == ("0", "1") else [first, last] if step == "1" else [first, last, step]
                )
                return f"torch.arange({', '.join(numbers)}{_device(site)})"
            except UnprintableError:
                pass
    compute = FLOAT32 if dtype.is_float and dtype.bits == 16 and site.op.stash_type == 1 else dtype
    return site.call("count_range", site.x(0), site.x(1), site.x(2), site.dtype(compute))


def _device(site: Site) -> str:
    """The device of a value whose size was just read."""
    found = next(iter(site.writer.reads), None)
    return "" if found is None or found not in site.writer.texts else f", device={site.writer.texts[found]}.device"


@prints("EyeLike")
def _eye_like(site: Site) -> str:
    rows, columns = (site.writer.size(size) for size in site.value(0).shape)
    offset = f"torch.arange({columns}) - torch.arange({rows})[:, None]"
    return f"({offset} == {site.op.k}).to({site.dtype(site.node.output.dtype)})"


@prints("Concat")
def _concat(site: Site) -> str:
    parts = ", ".join(site.x(position) for position in range(len(site.node.inputs)))
    return f"torch.cat([{parts}], dim={site.op.axis})"


@prints("Split")
def _split(site: Site) -> str:
    x, axis, count = site.x(0), site.op.axis, len(site.node.outputs)
    if count == 1:
        return x
    if site.has(1):
        return f"torch.split({x}, {site.listing(1)}, dim={axis})"
    if any(value.tensor.shape is None for value in site.node.outputs):
        return f"{x}.chunk({count}, dim={axis})"
    sizes = [value.shape[axis] for value in site.node.outputs]
    if len(set(sizes)) == 1:
        return f"{x}.chunk({count}, dim={axis})"
    return f"torch.split({x}, {site.writer.sizes(sizes)}, dim={axis})"


@prints("Pad")
def _pad(site: Site) -> str:
    constant = site.value(2).constant if site.has(2) else None
    value = literal(constant.reshape(())) if constant is not None and is_plain(constant) else "0"
    value = site.x(2) if site.has(2) and constant is None else value
    axes = site.listing(3) if site.has(3) else "None"
    mode = {"constant": None}.get(site.op.mode, site.op.mode)
    given = [] if (value, axes) == ("0", "None") else [value] if axes == "None" else [value, axes]
    return site.call("pad", site.x(0), site.listing(1), *given, mode=mode)


@prints("Gather")
def print_gather(site: Site) -> str:
    """x[:, indices], as many axes in front as the operator says."""
    axis = site.op.axis if site.op.axis >= 0 else site.op.axis + site.rank()
    indices = site.value(1)
    before = ":, " * axis
    if indices.constant is not None and indices.constant.ndim == 0:
        return f"{site.x(0)}[{before}{int(indices.constant)}]"
    index = site.x(1) if indices.dtype == INT64 else f"{site.x(1)}.to(torch.int64)"
    return f"{site.x(0)}[{before}{index}]"


@prints("NonZero")
def _non_zero(site: Site) -> str:
    return f"{site.x(0)}.nonzero().T"


@prints("Compress")
def _compress(site: Site) -> str:
    axis = site.op.axis
    x = f"{site.x(0)}.reshape(-1)" if axis is None else site.x(0)
    return f"{x}.index_select({axis or 0}, {site.x(1)}.nonzero().reshape(-1))"


@prints("TopK")
def _top_k(site: Site) -> str:
    count = f"int({site.x(1)}.item())" if site.dims(1) is None else site.writer.size((site.dims(1) or [0])[0])
    found = site.call("top_k", site.x(0), count, str(site.op.axis), str(bool(site.op.largest)))
    return found if len(site.node.outputs) == 2 else f"{found}[0]"


@prints("ArgMax", "ArgMin")
def _arg_extreme(site: Site) -> str:
    op = site.op
    if not op.select_last_index:
        keep = ", keepdim=True" if op.keepdims else ""
        return f"{site.x(0)}.{op.name.lower()}(dim={op.axis}{keep})"
    flags = [str(op.axis), str(bool(op.keepdims)), "True"]
    return site.call("arg_extreme", site.x(0), str(op.name == "ArgMax"), *flags)


@prints("OneHot")
def _one_hot(site: Site) -> str:
    return site.call("one_hot", site.x(0), f"int({site.x(1)}.item())", site.x(2), str(site.op.axis))


@prints("CumSum", "CumProd")
def _running(site: Site) -> str:
    op = site.op
    axis = f"int({site.x(1)}.item())" if site.dims(1) is None else str(site.ints(1)[0])
    flags = [str(bool(op.exclusive)), str(bool(op.reverse))]
    return site.call("running", site.x(0), quoted(op.name.lower()), axis, *flags)


@prints("Trilu")
def _trilu(site: Site) -> str:
    known = site.dims(1) if site.has(1) else [0]
    k = f"int({site.x(1)}.item())" if known is None else site.writer.size(known[0])
    return f"{site.x(0)}.{'triu' if site.op.upper else 'tril'}({'' if k == '0' else k})"


@prints("NonMaxSuppression")
def _suppress(site: Site) -> str:
    def scalar(position: int, kind: str, default: str) -> str:
        return f"{kind}({site.x(position)}.item())" if site.has(position) else default

    limits = [scalar(2, "int", "0"), scalar(3, "float", "0.0"), scalar(4, "float", "None")]
    return site.call("suppress", site.x(0), site.x(1), *limits, str(bool(site.op.center_point_box)))


@prints("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
def _reduce(site: Site) -> str:
    op, dtype = site.op, site.value(0).dtype
    function = {"ReduceMax": "amax", "ReduceMin": "amin"}.get(op.name, op.name.removeprefix("Reduce").lower())
    if dtype == BOOL:
        function = {"amax": "any", "amin": "all"}[function]
    if function == "mean" and dtype.is_integer:
        raise UnprintableError("a mean of integers")
    flags = [str(bool(op.keepdims)), str(bool(op.noop_with_empty_axes))]
    if site.has(1) and site.dims(1) is None:
        return site.call("reduce", site.x(0), quoted(function), site.x(1), *flags)
    axes = site.ints(1) if site.has(1) else []
    if not axes and op.noop_with_empty_axes:
        return site.x(0)
    chosen = axes or list(range(site.rank()))
    if not chosen:
        return site.x(0)
    shape = site.value(0).tensor.shape
    sizes = [] if shape is None else [shape[axis] for axis in chosen]
    if function == "prod" or (
        function in ("amax", "amin", "any", "all") and (0 in sizes or (len(chosen) > 1 and function in ("any", "all")))
    ):
        return site.call("reduce", site.x(0), quoted(function), f"torch.tensor({chosen})", *flags)
    keep = ", keepdim=True" if op.keepdims else ""
    keep += f", dtype={site.dtype(dtype)}" if function == "sum" and dtype.is_integer else ""
    return f"{site.x(0)}.{function}(dim={chosen[0] if len(chosen) == 1 else tuple(chosen)}{keep})"


@prints("SequenceLength")
def _sequence_length(site: Site) -> str:
    return f"torch.tensor(len({site.x(0)}), dtype=torch.int64)"


@prints("OptionalHasElement")
def _has_element(site: Site) -> str:
    return f"torch.tensor({site.optional(0)} is not None)"


@prints("ConcatFromSequence")
def _concat_from_sequence(site: Site) -> str:
    return f"torch.{'stack' if site.op.new_axis else 'cat'}({site.x(0)}, dim={site.op.axis})"
