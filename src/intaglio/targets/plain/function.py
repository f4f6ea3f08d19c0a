"""Functions of plain C that are written by hand: a body over named buffers and sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node
from intaglio.kernels.kernel import Kernel, SourceBuffer, SourceKernel
from intaglio.kernels.plan import Call, Operand
from intaglio.kernels.view import View

INDENT = "    "


@dataclass(frozen=True)
class Argument:
    """A buffer of a function: its name, the C type of its elements, and whether it is written."""

    name: str
    element: str
    is_written: bool = False


@dataclass(frozen=True)
class PlainFunction:
    """A function: what it computes, its parameters, and its statements."""

    name: str
    about: str
    buffers: tuple[Argument, ...]
    sizes: tuple[str, ...]
    body: str

    @property
    def kernel(self) -> SourceKernel:
        """The function as a kernel."""
        buffers = tuple(SourceBuffer(each.name, each.element, each.is_written) for each in self.buffers)
        return SourceKernel("plain", self.about, buffers, self.sizes, self.body)

    def text(self, name: str, known: Mapping[str, int], spaces: Mapping[int, str] | None = None) -> str:
        """The C function under a name; sizes that are known stand in it as numbers.

        `spaces` names the memory of buffers, by their places, that do not lie where all others do.
        """
        body = self.body
        for size, number in known.items():
            body = re.sub(rf"\b{size}\b", str(number), body)
        given = [_declared(each, (spaces or {}).get(place, "")) for place, each in enumerate(self.buffers)]
        given += [f"int64_t {size}" for size in self.sizes if size not in known]
        head = f"static void {name}({', '.join(given)})"
        return "\n".join([f"/* {self.about} */", *wrapped(head), "{", *simplified(body), "}", ""])


def function_text(
    kernel: SourceKernel, name: str, known: Mapping[str, int], spaces: Mapping[int, str] | None = None
) -> str:
    """The C function of a kernel that is a function; see `PlainFunction.text`."""
    buffers = tuple(Argument(each.name, each.element, each.is_written) for each in kernel.buffers)
    return PlainFunction(name, kernel.about, buffers, kernel.sizes, kernel.text).text(name, known, spaces)


def _declared(argument: Argument, space: str) -> str:
    kind = "" if argument.is_written else "const "
    return f"{kind}{f'{space} ' if space else ''}{argument.element} *{argument.name}"


def simplified(body: str) -> list[str]:
    """The lines of a body without what numbers have made empty: a stride of 1, a pad of 0."""
    for pattern, text in ((r" \* 1\b(?!\.)", ""), (r" - 0\b(?!\.)", ""), (r" \+ 0\b(?!\.)", "")):
        body = re.sub(pattern, text, body)
    return [INDENT + line if line else line for line in body.strip("\n").split("\n")]


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
class Lines:
    """Statements under construction, with blocks that are open."""

    items: list[str]
    depth: int = 0

    def add(self, *lines: str) -> None:
        """Statements at the depth of now."""
        self.items += [INDENT * self.depth + line for line in lines]

    def open(self, *heads: str) -> None:
        """Begin blocks, one inside the other."""
        for head in heads:
            self.add(f"{head} {{")
            self.depth += 1

    def close(self, count: int = 1) -> None:
        """End blocks."""
        for _ in range(count):
            self.depth -= 1
            self.add("}")

    def loop(self, *pairs: tuple[str, str]) -> None:
        """Loops of an index below a limit."""
        self.open(*(f"for (int64_t {index} = 0; {index} < {limit}; {index}++)" for index, limit in pairs))

    @property
    def text(self) -> str:
        """All of them, with every block closed."""
        self.close(self.depth)
        return "\n".join(self.items)


def function_call(
    function: PlainFunction, views: Sequence[View], sizes: Mapping[str, Dim], node: Node, flops: Dim = 0
) -> Call:
    """The call of a function for a node; `views` are its buffers in their order."""
    operands = [
        Operand(view.buffer, view.offset, each.is_written) for view, each in zip(views, function.buffers, strict=True)
    ]
    output = node.outputs[0]
    return Call(
        Kernel(function.name, function.kernel),
        operands,
        [(name, sizes[name]) for name in function.sizes],
        tasks=1,
        cost=1,
        flops=flops,
        nodes=(node,),
        title=f"{node.op.name} -> {output.name}: {output.type}" + (f" from {node.origin}" if node.origin else ""),
    )
