"""Functions of plain C that are written by hand: buffers and sizes, and statements that are made when these are known."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node
from intaglio.kernels.kernel import Kernel, LibraryCall
from intaglio.kernels.plan import Call, Operand
from intaglio.kernels.view import View

INDENT = "    "


@dataclass(frozen=True)
class Argument:
    """A buffer of a function: its name, the C type of its elements, and whether it is written."""

    name: str
    element: str
    is_written: bool = False


class Body:
    """Statements under construction; `sizes` has what each size is called: its name, or its number where that is known."""

    def __init__(self, sizes: Mapping[str, str]) -> None:
        self.sizes = sizes
        self.lines: list[str] = []
        self._depth = 1

    def add(self, *lines: str) -> None:
        """Add statements at the depth of now."""
        self.lines += [INDENT * self._depth + line for line in lines]

    @contextmanager
    def block(self, *heads: str) -> Iterator[None]:
        """Blocks, one inside the other, around what is added meanwhile."""
        for head in heads:
            self.add(f"{head} {{")
            self._depth += 1
        yield
        for _ in heads:
            self._depth -= 1
            self.add("}")

    def loops(self, **limits: str) -> Any:
        """Loops of indices below sizes, or numbers, one inside the other."""
        sizes = ((index, self.sizes.get(limit, limit)) for index, limit in limits.items())
        return self.block(*(f"for (int64_t {index} = 0; {index} < {limit}; {index}++)" for index, limit in sizes))

    def place(self, first: str, *steps: tuple[str, str]) -> str:
        """The index of an element: each step multiplies by the size of an axis and adds the place along it."""
        for size, index in steps:
            if self.sizes.get(size, size) != "1":
                first = self.times(f"({first})" if " " in first else first, size)
            first = f"{first} + {index}"
        return first

    def times(self, text: str, size: str) -> str:
        """A product with a size, which is left out where it is 1."""
        number = self.sizes.get(size, size)
        return text if number == "1" else f"{text} * {number}"

    def plus(self, text: str, size: str, sign: str = "+") -> str:
        """A sum with a size, which is left out where it is 0."""
        number = self.sizes.get(size, size)
        return text if number == "0" else f"{text} {sign} {number}"


@dataclass(frozen=True)
class PlainFunction:
    """A function: what it computes, its parameters, and what writes its statements."""

    about: str
    buffers: tuple[Argument, ...]
    sizes: tuple[str, ...]
    write: Callable[[Body], None]

    def text(self, name: str, known: Mapping[str, int], spaces: Mapping[int, str] | None = None) -> str:
        """The C function under a name; sizes that are known stand in it as numbers.

        `spaces` names the memory of buffers, by their places, that do not lie where all others do.
        """
        body = Body({size: str(known.get(size, size)) for size in self.sizes})
        self.write(body)
        given = [_declared(each, (spaces or {}).get(place, "")) for place, each in enumerate(self.buffers)]
        given += [f"int64_t {size}" for size in self.sizes if size not in known]
        head = f"static void {name}({', '.join(given)})"
        return "\n".join([f"/* {self.about} */", *wrapped(head), "{", *body.lines, "}", ""])


FUNCTIONS: dict[str, Callable[..., PlainFunction]] = {}
"""What makes the functions of each name, of the parameters of a `LibraryCall`."""


@functools.lru_cache(maxsize=512)
def function_of(call: LibraryCall) -> PlainFunction:
    """The function that a kernel of plain C names."""
    return FUNCTIONS[call.name](**dict(call.parameters))


def _declared(argument: Argument, space: str) -> str:
    kind = "" if argument.is_written else "const "
    return f"{kind}{f'{space} ' if space else ''}{argument.element} *{argument.name}"


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


def function_call(
    name: str, settings: Mapping[str, str | int], views: Sequence[View], sizes: Mapping[str, Dim], node: Node, flops: Dim = 0
) -> Call:
    """The call of a function for a node; `views` are its buffers in their order."""
    kernel = LibraryCall(name, tuple(sorted(settings.items())))
    function = function_of(kernel)
    operands = [
        Operand(view.buffer, view.offset, each.is_written) for view, each in zip(views, function.buffers, strict=True)
    ]
    output = node.outputs[0]
    return Call(
        Kernel(name, kernel),
        operands,
        [(name, sizes[name]) for name in function.sizes],
        tasks=1,
        cost=1,
        flops=flops,
        nodes=(node,),
        title=f"{node.op.name} -> {output.name}: {output.type}" + (f" from {node.origin}" if node.origin else ""),
    )
