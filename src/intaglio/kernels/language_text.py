r"""Kernels as text, and text as kernels.

>>> from intaglio.kernels.language_text import format_kernel, parse_kernel
>>> text = '''
... kernel softmax
... about ReduceMax, Sub, Exp, ReduceSum, Div
... loops n0, m0 reduced
... in x0: float32[n0: x0.n0, m0: 1]
... out x1: float32[n0: x1.n0, m0: 1]
...   v0: f32 = load x0
...   v1: f32 = reduce max v0
...   v2: f32 = exp(sub(v0, v1))
...   v3: f32 = reduce sum v2
...   store x1, div(v2, v3)
... '''.lstrip()
>>> format_kernel(parse_kernel(text)) == text
True
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from intaglio.errors import GraphError
from intaglio.ir.dtype import DTYPES
from intaglio.kernels.language import (
    FUNCTIONS,
    Apply,
    Expr,
    Let,
    Load,
    Loop,
    LoopKernel,
    Name,
    Number,
    Parameter,
    Reduce,
    Scan,
    Statement,
    Store,
    Stride,
)


def format_kernel(kernel: LoopKernel) -> str:
    """A kernel as text: a line for each parameter and each statement. Equal kernels have equal text."""
    lines = [f"kernel {kernel.name}", f"about {kernel.about}"]
    if kernel.loops:
        lines.append("loops " + ", ".join(loop.name + (" reduced" if loop.is_reduced else "") for loop in kernel.loops))
    if kernel.checks:
        lines.append("checks that something is reduced")
    for each in kernel.parameters:
        steps = ", ".join(f"{loop.name}: {step}" for loop, step in zip(kernel.loops, each.steps, strict=True))
        lines.append(f"{'out' if each.is_written else 'in'} {each.name}: {each.dtype}[{steps}]")
    return "\n".join([*lines, *(f"  {_statement_text(each)}" for each in kernel.body), ""])


def _statement_text(statement: Statement) -> str:
    match statement:
        case Store():
            return f"store {statement.parameter}, {format_expression(statement.value)}"
        case Load():
            return f"{statement.name}: {statement.type} = load {statement.parameter}"
        case Let():
            return f"{statement.name}: {statement.type} = {format_expression(statement.value)}"
        case Reduce():
            total = "" if statement.total == statement.type else f" in {statement.total}"
            rounded = f" round {statement.round}" if statement.round else ""
            value = format_expression(statement.value)
            return f"{statement.name}: {statement.type} = reduce {statement.function} {value}{total}{rounded}"
        case Scan():
            how = " exclusive" * statement.is_exclusive + " reversed" * statement.is_reversed
            value = format_expression(statement.value)
            return f"{statement.name}: {statement.type} = scan {statement.function} {value} along {statement.loop}{how}"


def format_expression(value: Expr) -> str:
    """An expression as text: functions with their operands behind, conversions with the type that they give.

    >>> format_expression(Apply("max", (Name("v0", "f32"), Number(0.5, "f32")), "f32"))
    'max(v0, 0.5:f32)'
    >>> format_expression(Apply("cast", (Name("v0", "f32"),), "i32"))
    'cast.i32(v0)'
    """
    if isinstance(value, Name):
        return value.name
    if isinstance(value, Number):
        return f"{value.value!r}:{value.type}"
    type = f".{value.type}" if FUNCTIONS[value.function] == "convert" else ""
    options = f"[{', '.join(value.options)}]" if value.options else ""
    return f"{value.function}{type}{options}({', '.join(map(format_expression, value.arguments))})"


def parse_kernel(text: str, given: Mapping[str, str] | None = None) -> LoopKernel:
    """The kernel that `format_kernel` wrote; `given` has the types of names that come from outside.

    Raises GraphError with the line that is none of its lines.
    """
    return _Reading(text, given or {}).kernel()


_PARAMETER = re.compile(r"(in|out) (\w+): (\w+)\[(.*)\]")
_DEFINITION = re.compile(r"(\w+): (\w+) = (.+)")
_REDUCTION = re.compile(r"reduce (\w+) (.+?)(?: in (\w+))?(?: round (\w+))?")
_SCAN = re.compile(r"scan (\w+) (.+) along (\w+)( exclusive)?( reversed)?")
_TOKEN = re.compile(r"\s*(-?(?:\d[\w.+-]*|inf|nan):\w+|\w+(?:\.\w+)?(?:\[[^\]]*\])?|[(),])")


class _Reading:
    def __init__(self, text: str, given: Mapping[str, str]) -> None:
        self.lines = [line for line in text.splitlines() if line.strip()]
        self.types: dict[str, str] = dict(given)

    def kernel(self) -> LoopKernel:
        name = about = ""
        loops: list[Loop] = []
        parameters: list[Parameter] = []
        body: list[Statement] = []
        checks = False
        for line in self.lines:
            word, _, rest = line.strip().partition(" ")
            if word == "kernel":
                name = rest
            elif word == "about":
                about = rest
            elif word == "loops":
                loops = [Loop(each.split()[0], each.endswith(" reduced")) for each in rest.split(", ")]
            elif word == "checks":
                checks = True
            elif word in ("in", "out"):
                parameters.append(self._parameter(line.strip()))
            else:
                body.append(self._statement(line.strip()))
        return LoopKernel(name, about, tuple(loops), tuple(parameters), tuple(body), checks)

    def _parameter(self, line: str) -> Parameter:
        found = _PARAMETER.fullmatch(line)
        if found is None or found[3] not in DTYPES:
            _refuse(line)
        steps: list[Stride] = []
        for item in filter(None, found[4].split(", ")):
            step = item.partition(": ")[2]
            steps.append(int(step) if step.isdigit() else step)
        return Parameter(found[2], DTYPES[found[3]], tuple(steps), found[1] == "out")

    def _statement(self, line: str) -> Statement:
        if line.startswith("store "):
            parameter, _, value = line.removeprefix("store ").partition(", ")
            return Store(parameter, parse_expression(value, self.types))
        found = _DEFINITION.fullmatch(line)
        if found is None:
            _refuse(line)
        name, type, text = found.groups()
        self.types[name] = type
        if text.startswith("load "):
            return Load(name, type, text.removeprefix("load "))
        reduction = _REDUCTION.fullmatch(text)
        if reduction is not None:
            value = parse_expression(reduction[2], self.types)
            return Reduce(name, type, reduction[1], value, reduction[3] or type, reduction[4] or "")
        scan = _SCAN.fullmatch(text)
        if scan is not None:
            value = parse_expression(scan[2], self.types)
            return Scan(name, type, scan[1], value, scan[3], scan[4] is not None, scan[5] is not None)
        return Let(name, parse_expression(text, self.types))


def parse_expression(text: str, types: Mapping[str, str]) -> Expr:
    """The expression that `format_expression` wrote; `types` has those of the names in it."""
    tokens: list[str] = []
    place = 0
    while place < len(text.rstrip()):
        found = _TOKEN.match(text, place)
        if found is None:
            _refuse(text)
        tokens.append(found[1])
        place = found.end()
    value, rest = _expression(tokens, types, text)
    if rest:
        _refuse(text)
    return value


def _expression(tokens: list[str], types: Mapping[str, str], text: str) -> tuple[Expr, list[str]]:
    if not tokens or tokens[0] in "(),":
        _refuse(text)
    first, rest = tokens[0], tokens[1:]
    if ":" in first:
        number, _, type = first.rpartition(":")
        return _number(number, type, text), rest
    if rest[:1] != ["("]:
        if first not in types:
            _refuse(text)
        return Name(first, types[first]), rest
    arguments: list[Expr] = []
    while rest and rest[0] != ")":
        value, rest = _expression(rest[1:], types, text)
        arguments.append(value)
    if not rest:
        _refuse(text)
    return _applied(first, tuple(arguments), text), rest[1:]


def _number(number: str, type: str, text: str) -> Number:
    try:
        return Number(float(number) if type in ("f32", "f64") else int(number), type)
    except ValueError:
        _refuse(text)


def _applied(head: str, arguments: tuple[Expr, ...], text: str) -> Apply:
    head, _, options = head.removesuffix("]").partition("[")
    function, _, type = head.partition(".")
    rule = FUNCTIONS.get(function)
    if rule is None or not arguments:
        _refuse(text)
    if rule in ("compare", "logic"):
        type = "bool"
    elif rule != "convert":
        type = arguments[-1].type if rule == "select" else arguments[0].type
    return Apply(function, arguments, type, tuple(options.split(", ")) if options else ())


def _refuse(line: str) -> NoReturn:
    raise GraphError(f"this is no line of a kernel: {line!r}")
