"""What is wrong with a kernel: names before they are defined, types that do not fit, buffers without steps."""

from __future__ import annotations

from collections.abc import Iterator

from intaglio.errors import GraphError
from intaglio.kernels.elements import FLOATS, SCALARS, scalar_type
from intaglio.kernels.language import FUNCTIONS, Apply, Expr, Load, LoopKernel, Name, Reduce, Store, parts

_REDUCTIONS = ("sum", "mean", "product", "max", "min")
_SCANS = ("sum", "product")
_ARITIES = {"select": 3, "and": 2, "or": 2, "xor": 2, "not": 1, "is_nan": 1}


def check_kernel(kernel: LoopKernel, given: tuple[Name, ...] = ()) -> None:
    """Raise GraphError with everything that is wrong; `given` are names that come from outside."""
    problems = list(_problems(kernel, given))
    if problems:
        raise GraphError(f"the kernel {kernel.name} is broken: " + "; ".join(problems))


def _problems(kernel: LoopKernel, given: tuple[Name, ...]) -> Iterator[str]:
    kinds = [loop.is_reduced for loop in kernel.loops]
    if kinds != sorted(kinds):
        yield "a kept loop stands inside of a reduced one"
    for names in ([loop.name for loop in kernel.loops], [each.name for each in kernel.parameters]):
        yield from (f"{name} is there twice" for name in sorted({name for name in names if names.count(name) > 1}))
    for parameter in kernel.parameters:
        if len(parameter.steps) != len(kernel.loops):
            yield f"{parameter.name} has {len(parameter.steps)} steps for {len(kernel.loops)} loops"
    yield from _scan_problems(kernel)
    yield from _body_problems(kernel, {name.name: name.type for name in given})


def _scan_problems(kernel: LoopKernel) -> Iterator[str]:
    scans, kept = kernel.scans, {loop.name for loop in kernel.kept}
    if len({(each.loop, each.is_reversed) for each in scans}) > 1:
        yield "its scans go along several loops, or both ways"
    if scans and kernel.has_reduction:
        yield "it has scans and reductions"
    for each in scans:
        if each.function not in _SCANS:
            yield f"{each.function} is no scan"
        if each.loop not in kept:
            yield f"{each.loop} is no loop to scan along"
        if each.value.type != each.type:
            yield f"{each.name} is a scan of {each.value.type} giving {each.type}"


def _body_problems(kernel: LoopKernel, types: dict[str, str]) -> Iterator[str]:
    parameters = {each.name: each for each in kernel.parameters}
    for each in kernel.body:
        if isinstance(each, (Load, Store)):
            parameter = parameters.get(each.parameter)
            if parameter is None or parameter.is_written != isinstance(each, Store):
                yield f"{each.parameter} is no buffer to {'write' if isinstance(each, Store) else 'read'}"
        if not isinstance(each, Load):
            yield from _expression_problems(each.value, types)
        if isinstance(each, Store) and each.parameter in parameters:
            wanted = scalar_type(parameters[each.parameter].dtype)
            if each.value.type != wanted and not _are_bits(each.value.type, wanted):
                yield f"{each.parameter} holds {wanted} and is given {each.value.type}"
        if isinstance(each, Reduce) and each.function not in _REDUCTIONS:
            yield f"{each.function} is no reduction"
        if not isinstance(each, Store):
            if each.name in types:
                yield f"{each.name} is defined twice"
            if each.type not in SCALARS:
                yield f"{each.type} is no type of a value"
            types[each.name] = each.type


def _are_bits(type: str, wanted: str) -> bool:
    """Whether a copy moves the bits of 16-bit floats, which are computed in 32 bits."""
    return type == "u16" and wanted == "f32"


def _expression_problems(value: Expr, types: dict[str, str]) -> Iterator[str]:
    for each in parts(value):
        if isinstance(each, Name):
            if each.name not in types:
                yield f"{each.name} is read before it is defined"
            elif types[each.name] != each.type:
                yield f"{each.name} is {types[each.name]} and is read as {each.type}"
        elif isinstance(each, Apply):
            yield from _function_problems(each)


def _function_problems(value: Apply) -> Iterator[str]:
    rule = FUNCTIONS.get(value.function)
    operands = [each.type for each in value.arguments]
    text = f"{value.function} of {', '.join(operands)} giving {value.type}"
    if rule is None:
        yield f"{value.function} is no function"
        return
    if len(operands) != _ARITIES.get(value.function, len(operands)) or not operands:
        yield f"{text}: {len(operands)} operands"
        return
    match rule:
        case "same" | "float":
            is_right = {*operands, value.type} == {value.type} and (rule == "same" or value.type in FLOATS)
        case "compare":
            is_right = value.type == "bool" and len(set(operands)) == 1
        case "logic":
            is_right = {*operands, value.type} == {"bool"}
        case "select":
            is_right = operands[0] == "bool" and operands[1] == operands[2] == value.type
        case _:
            is_right = value.type in SCALARS
    if not is_right:
        yield f"{text} is no such function"
