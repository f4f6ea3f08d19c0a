"""Programs: the nodes that one loop kernel computes, and what all kernels with elementwise nodes in them share."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cached_property

from intaglio.ir.dim import Dim, compare
from intaglio.ir.graph import Node, Value
from intaglio.kernels.expression import emit, scalar_constant
from intaglio.kernels.register import Register, as_bytes, literal, register_kind
from intaglio.kernels.view import View

REDUCTIONS: dict[str, tuple[str, str]] = {
    "ReduceSum": ("add", "0"),
    "ReduceMean": ("add", "0"),
    "ReduceProd": ("mul", "1"),
    "ReduceMax": ("max", "lowest"),
    "ReduceMin": ("min", "highest"),
}
"""The reductions that loop kernels compute: the combining function and the value of nothing."""


@dataclass
class Program:
    """Nodes to fuse: `shape` is the iteration space, `reduced` its reduced axes.

    `loads` are the values read from memory, each as a view of the whole iteration space; `stores` the values written,
    reduced ones as views with extent 1 along the reduced axes.
    """

    nodes: list[Node]
    shape: tuple[Dim, ...]
    reduced: tuple[int, ...]
    loads: dict[Value, View]
    stores: dict[Value, View]
    title: str = ""

    @cached_property
    def order(self) -> list[int]:
        """The axes as the loops have them: kept ones, then reduced ones."""
        kept = [axis for axis in range(len(self.shape)) if axis not in self.reduced]
        return kept + list(self.reduced)

    @cached_property
    def checks(self) -> bool:
        """Whether it may be asked for the mean of no integers, which is an error."""
        is_mean = any(node.op.name == "ReduceMean" and node.output.dtype.is_integer for node in self.nodes)
        return is_mean and not all(compare(self.shape[axis], 0) == 1 for axis in self.reduced)


class Variables:
    """The C variables of a kernel's values: v0, v1 and so on as they are asked for, behind those that are `given`.

    Constants among the `loads` that a literal can stand for have none.
    """

    def __init__(self, loads: Container[Value], given: Mapping[Value, str] | None = None) -> None:
        self._loads = loads
        self._names = dict(given or {})

    def name(self, value: Value) -> str:
        """The variable of a value."""
        return self._names.setdefault(value, f"v{len(self._names)}")

    def is_literal(self, value: Value) -> bool:
        """Whether a literal stands for the value."""
        return value in self._loads and scalar_constant(value) is not None

    def register(self, value: Value) -> Register:
        """What operators read the value from."""
        kind = register_kind(value.dtype)
        if self.is_literal(value):
            return Register(literal(scalar_constant(value), kind), kind)
        return Register(self.name(value), kind, 0 if value.dtype.name == "bool" else None)

    def assign(self, node: Node) -> str:
        """The statement that computes a node."""
        register = emit(node, [self.register(value) for value in reads(node)])
        kind, text = ("u8", as_bytes(register)) if register.is_bool else (register.kind, register.text)
        return self.declare(node.output, kind, text)

    def declare(self, value: Value, kind: str, text: str) -> str:
        """The statement that makes the variable of a value, in a register of a kind."""
        return f"const ig_{kind} {self.name(value)} = {text};"


def accumulator_kind(node: Node) -> str:
    """The kind of register that a reduction adds up in: the mean of integers is that of their full sum."""
    kind = register_kind(node.output.dtype)
    return f"{kind[0]}64" if node.op.name == "ReduceMean" and kind[0] in "iu" else kind


def reads(node: Node) -> list[Value]:
    """The inputs that an expression reads: of a reduction only its data, of CastLike only its first."""
    if node.op.name in REDUCTIONS or node.op.name == "CastLike":
        return [node.input]
    return [value for value in node.inputs if value is not None]


def identity_of(node: Node, kind: str) -> str:
    """What a reduction of nothing gives, in a register of the kind that it adds up in."""
    _, identity = REDUCTIONS[node.op.name]
    if node.output.dtype.kind == "bool":
        identity = {"lowest": "0", "highest": "1"}[identity]
    if identity in ("lowest", "highest"):
        return f"ig_set_{kind}(ig_{identity}_{kind})"
    return literal(int(identity), kind)
