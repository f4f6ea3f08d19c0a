"""Kernels of the neutral language as plain C11 functions: one loop for each loop, one line for each value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import DType
from intaglio.kernels.elements import HALVES, scalar_type
from intaglio.kernels.language import Definition, Expr, Let, Load, LoopKernel, Parameter, Reduce, Scan
from intaglio.kernels.schedule import Facts, Pass, Schedule, Step, schedule
from intaglio.targets.plain.expression import TYPES, Helpers, expression

INDENT = "    "
FACTS = Facts(has_vectors=False)
"""Loops in plain C are walked one by one, and nothing is cut or kept."""

_COMBINE = {"sum": "+", "mean": "+", "product": "*"}


def plain_function(
    kernel: LoopKernel,
    name: str,
    helpers: Helpers,
    sizes: Mapping[str, int] | None = None,
    names: Mapping[str, str] | None = None,
    spaces: Mapping[int, str] | None = None,
) -> str:
    """A kernel as a C function.

    Its parameters are the kernel's buffers in their order, then the sizes that `sizes` does not tell as numbers.
    `names` gives buffers other names, which must be C identifiers; `spaces` names the memory of buffers, by their
    places, that do not lie where all others do. The small functions that it uses are added to `helpers`. Raises
    UnsupportedError where plain C cannot say what the kernel computes.
    """
    return _Printer(
        kernel, schedule(kernel, FACTS), name, helpers, dict(sizes or {}), dict(names or {}), dict(spaces or {})
    ).text()


def parameter_sizes(kernel: LoopKernel, sizes: Mapping[str, int] | None = None) -> list[str]:
    """The sizes that a printed function is given, in order."""
    return [name for name in kernel.sizes if name not in (sizes or {})]


def memory_type(dtype: DType) -> str:
    """The C type of an element in memory."""
    if dtype.name == "complex128":
        raise UnsupportedError(f"plain C has no {dtype}")
    return "uint16_t" if dtype.name in HALVES else TYPES[scalar_type(dtype)]


def wrapped(head: str, width: int = 110) -> list[str]:
    """A function's head on as many lines as it needs."""
    if len(head) <= width:
        return [head]
    opening = head.index("(") + 1
    lines, line = list[str](), head[:opening]
    for item in head[opening:].split(", "):
        if len(line) + len(item) > width:
            lines.append(line.rstrip())
            line = " " * opening
        line += item + ("" if item.endswith((")", ");")) else ", ")
    return [*lines, line]


@dataclass
class _Printer:
    kernel: LoopKernel
    plan: Schedule
    name: str
    helpers: Helpers
    sizes: dict[str, int]
    names: dict[str, str]
    spaces: dict[int, str]
    lines: list[str] = field(default_factory=list[str])
    depth: int = 1
    used: set[str] = field(default_factory=set[str])
    """The parameters that statements use."""

    def text(self) -> str:
        buffers = [self._declared(place, each) for place, each in enumerate(self.kernel.parameters)]
        self._emit_loops()
        sizes = parameter_sizes(self.kernel, self.sizes)
        given = [f"int64_t {_identifier(name)}" for name in sizes]
        head = f"static void {self.name}({', '.join([*buffers, *given])})"
        names = [self._buffer(each.name) for each in self.kernel.parameters] + [_identifier(name) for name in sizes]
        notes = [f"{INDENT}(void){name};" for name in names if name not in self.used]
        return "\n".join([f"/* {self.kernel.about} */", *wrapped(head), "{", *notes, *self.lines, "}", ""])

    def _declared(self, place: int, parameter: Parameter) -> str:
        constant = "" if parameter.is_written else "const "
        space = f"{self.spaces[place]} " if place in self.spaces else ""
        return f"{constant}{space}{memory_type(parameter.dtype)} *{self._buffer(parameter.name)}"

    def _buffer(self, name: str) -> str:
        return self.names.get(name, name)

    def _size(self, name: str) -> str:
        if name in self.sizes:
            return str(self.sizes[name])
        self.used.add(_identifier(name))
        return _identifier(name)

    def _line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def _emit_loops(self) -> None:
        """The loops of tasks around everything, and the walks in them."""
        depth = len(self.plan.tasks)
        self._open(self.plan.tasks)
        for each in self.plan.body:
            if isinstance(each, Pass):
                self._emit_pass(each, is_alone=len(self.plan.body) == 1)
            else:
                self._emit_step(each)
        self._close(depth)

    def _open(self, names: Sequence[str], *, is_reversed: bool = False) -> None:
        for name in names:
            index, extent = _index(name), self._size(name)
            if is_reversed:
                self._line(f"for (int64_t {index} = {extent} - 1; {index} >= 0; {index}--) {{")
            else:
                self._line(f"for (int64_t {index} = 0; {index} < {extent}; {index}++) {{")
            self.depth += 1

    def _close(self, count: int) -> None:
        for _ in range(count):
            self.depth -= 1
            self._line("}")

    def _emit_pass(self, walk: Pass, *, is_alone: bool) -> None:
        """A walk along the loops that are no tasks, with the totals before it."""
        definitions = self.kernel.definitions
        scans = [each for name in walk.names("scan") if isinstance(each := definitions[name], Scan)]
        has_block = bool(scans) and not self.plan.tasks
        if has_block:
            self._line("{")
            self.depth += 1
        for name in walk.names("add", "scan"):
            self._line(self._total(definitions[name]))
        self._open(self.plan.walk, is_reversed=self.plan.is_reversed)
        is_bare = not self.plan.walk and not is_alone
        if is_bare:
            self._line("{")
            self.depth += 1
        for step in walk.steps:
            self._emit_step(step)
        for each in scans:
            self._line(f"{each.name}_total = {each.name}_next;")
        self._close(len(self.plan.walk) + is_bare + has_block)

    def _emit_step(self, step: Step) -> None:
        if step.action == "store":
            self._line(self._store(step.name))
            return
        each = self.kernel.definitions[step.name]
        name, kind = each.name, f"const {TYPES[each.type]}"
        match each:
            case Load():
                self._line(f"{kind} {name} = {self._load(each)};")
            case Let():
                self._line(f"{kind} {name} = {self._text(each.value)};")
            case Reduce() if step.action == "add":
                self._line(f"{name}_total = {self._combined(each)};")
            case Reduce():
                self._line(f"{kind} {name} = {self._finished(each)};")
            case Scan():
                self._line(f"{kind} {name}_next = {self._next(each)};")
                self._line(f"{kind} {name} = {name}_{'total' if each.is_exclusive else 'next'};")

    def _total(self, each: Definition) -> str:
        """The declaration of what a reduction or scan has so far."""
        if isinstance(each, Reduce):
            return f"{TYPES[each.total]} {each.name}_total = {nothing(each)};"
        assert isinstance(each, Scan)
        return f"{TYPES[each.type]} {each.name}_total = {1 if each.function == 'product' else 0};"

    def _next(self, scan: Scan) -> str:
        """The total of a scan behind this step."""
        total, sign, value = f"{scan.name}_total", _COMBINE[scan.function], self._text(scan.value)
        if scan.type in ("f32", "f64"):
            return f"{total} {sign} {value}"
        return f"({TYPES[scan.type]})((uint64_t){total} {sign} (uint64_t){value})"

    def _text(self, value: Expr) -> str:
        text = expression(value, lambda name: name, self.helpers)
        is_whole = text.startswith("(") and _closing(text) == len(text) - 1
        return text[1:-1] if is_whole else text

    def _element(self, name: str) -> str:
        parameter = next(each for each in self.kernel.parameters if each.name == name)
        terms: list[str] = []
        for loop, step in zip(self.kernel.loops, parameter.steps, strict=True):
            if step != 0:
                terms.append(_index(loop.name) + ("" if step == 1 else f" * {self._size(str(step))}"))
        self.used.add(self._buffer(name))
        return f"{self._buffer(name)}[{' + '.join(terms) or '0'}]"

    def _format(self, name: str, type: str) -> str:
        """The 16-bit format of a buffer, whose elements are to be read or written as numbers; else nothing."""
        dtype = next(each.dtype for each in self.kernel.parameters if each.name == name)
        return HALVES[dtype.name] if dtype.name in HALVES and type == "f32" else ""

    def _load(self, load: Load) -> str:
        element, format = self._element(load.parameter), self._format(load.parameter, load.type)
        if format:
            self.helpers.half(format)
        return f"f32_from_{format}({element})" if format else element

    def _store(self, parameter: str) -> str:
        value = self.kernel.stores[parameter]
        text, format = self._text(value), self._format(parameter, value.type)
        if format:
            self.helpers.half(format)
        return f"{self._element(parameter)} = " + (f"{format}_from_f32({text});" if format else f"{text};")

    def _combined(self, reduction: Reduce) -> str:
        total, type = f"{reduction.name}_total", reduction.total
        value = self._text(reduction.value)
        if type == "bool":
            return f"{total} {'||' if reduction.function == 'max' else '&&'} {value}"
        if reduction.function in ("max", "min"):
            return f"{self.helpers.function(reduction.function, type)}({total}, {value})"
        sign = _COMBINE[reduction.function]
        if type in ("f32", "f64"):
            return f"{total} {sign} {value}"
        return f"({TYPES[type]})((uint64_t){total} {sign} (uint64_t){value})"

    def _finished(self, reduction: Reduce) -> str:
        total = f"{reduction.name}_total"
        if reduction.function == "mean":
            count = " * ".join(self._size(loop.name) for loop in self.kernel.reduced) or "1"
            if reduction.total in ("f32", "f64"):
                total = f"{total} / ({TYPES[reduction.total]})({count})"
            else:
                total = f"{self.helpers.function('div', reduction.total)}({total}, ({TYPES[reduction.total]})({count}))"
        if reduction.type != reduction.total:
            total = f"({TYPES[reduction.type]})({total})"
        if not reduction.round:
            return total
        self.helpers.half(reduction.round)
        return f"f32_from_{reduction.round}({reduction.round}_from_f32({total}))"


def _identifier(size: str) -> str:
    return re.sub(r"\W", "_", size)


def _index(loop: str) -> str:
    return f"i{loop.removeprefix('n')}" if loop.startswith("n") else f"j{loop.removeprefix('m')}"


def _closing(text: str) -> int:
    """Where the parenthesis closes that a text begins with."""
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return place
    return -1


HEADERS = "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n"
"""What printed functions include."""


def nothing(reduction: Reduce) -> str:
    """What a reduction of nothing gives."""
    type, function = reduction.total, reduction.function
    if function in _COMBINE:
        return "1" if function == "product" else "0"
    if type in ("f32", "f64"):
        return "-INFINITY" if function == "max" else "INFINITY"
    if type == "bool":
        return "false" if function == "max" else "true"
    name = TYPES[type].removesuffix("_t").upper()
    return ("0" if type[0] == "u" else f"{name}_MIN") if function == "max" else f"{name}_MAX"
