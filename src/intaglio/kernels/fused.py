"""Fused nodes: the nodes that one loop kernel computes and where their operands lie, and the kernel that this makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from intaglio.ir.dim import Dim, compare
from intaglio.ir.graph import Node, Value
from intaglio.kernels.elements import HALVES, scalar_type
from intaglio.kernels.elementwise import rounding, scalar_constant, translate
from intaglio.kernels.faults import is_raising
from intaglio.kernels.language import (
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
from intaglio.kernels.language_check import check_kernel
from intaglio.kernels.view import Loops, View, collapse_strides

REDUCTIONS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceProd": "product",
    "ReduceMax": "max",
    "ReduceMin": "min",
}
"""The reductions that loop kernels compute."""

SCANS = {"CumSum": "sum", "CumProd": "product"}
"""The operators that loop kernels compute as running sums and products."""


@dataclass
class FusedNodes:
    """Nodes to fuse: `shape` is the iteration space, `reduced` its reduced axes, `scanned` the one that scans go along.

    `loads` are the values read from memory, each as a view of the whole iteration space; `stores` the values written,
    reduced ones as views with extent 1 along the reduced axes.
    """

    nodes: list[Node]
    shape: tuple[Dim, ...]
    reduced: tuple[int, ...]
    loads: dict[Value, View]
    stores: dict[Value, View]
    title: str = ""
    scanned: int | None = None

    @cached_property
    def reads(self) -> list[tuple[Value, View]]:
        """The values that are read from memory: all loads but the constants for which a literal stands."""
        return [(value, view) for value, view in self.loads.items() if scalar_constant(value) is None]

    @cached_property
    def operands(self) -> list[tuple[Value, View]]:
        """All values in memory, those that are read first."""
        return [*self.reads, *self.stores.items()]

    @cached_property
    def checks(self) -> bool:
        """Whether it may be asked for the mean of no integers, which is an error."""
        is_mean = any(node.op.name == "ReduceMean" and node.output.dtype.is_integer for node in self.nodes)
        return is_mean and not all(compare(self.shape[axis], 0) == 1 for axis in self.reduced)

    def kernel(self) -> tuple[LoopKernel, dict[str, Dim]]:
        """The kernel, and its sizes by name. Its parameters are the operands in their order."""
        kept, reduced = self._kept_loops(), self._loops(self.reduced)
        names = [f"n{place}" for place in range(kept.rank)], [f"m{place}" for place in range(reduced.rank)]
        sizes: dict[str, Dim] = dict(zip(names[0], kept.extents, strict=True))
        sizes |= dict(zip(names[1], reduced.extents, strict=True))
        parameters: list[Parameter] = []
        for place, (value, _) in enumerate(self.operands):
            strides = [*kept.strides[place], *reduced.strides[place]]
            steps = tuple(
                _step(f"x{place}.{loop}", stride, sizes)
                for loop, stride in zip([*names[0], *names[1]], strides, strict=True)
            )
            parameters.append(Parameter(f"x{place}", value.dtype, steps, place >= len(self.reads)))
        loops = *(Loop(name) for name in names[0]), *(Loop(name, True) for name in names[1])
        operators = [node.op.name for node in self.nodes] or ["copy"]
        kernel = LoopKernel(
            _short(operators), ", ".join(operators), loops, tuple(parameters), self._body(), self.checks
        )
        if is_raising():
            check_kernel(kernel)
        return kernel, sizes

    def _kept_loops(self) -> Loops:
        """The loops that are not reduced; one that is scanned stays by itself, be it of one step."""
        axes = [axis for axis in range(len(self.shape)) if axis not in self.reduced]
        if self.scanned is None:
            return self._loops(axes)
        before, behind = self._loops(axes[: self.scanned]), self._loops(axes[self.scanned + 1 :])
        steps = [(view.strides[self.scanned],) for _, view in self.operands]
        parts = zip(before.strides, steps, behind.strides, strict=True)
        extents = (*before.extents, self.shape[self.scanned], *behind.extents)
        return Loops(extents, tuple((*front, *step, *back) for front, step, back in parts))

    def _scanned_loop(self) -> str:
        assert self.scanned is not None, "a fused with scans names their axis"
        return f"n{self._loops(range(self.scanned)).rank}"

    def _loops(self, axes: Sequence[int]) -> Loops:
        strides = [[view.strides[axis] for axis in axes] for _, view in self.operands]
        return collapse_strides([self.shape[axis] for axis in axes], strides)

    def _body(self) -> tuple[Statement, ...]:
        values = Values()
        body: list[Statement] = []
        for value in self.loads:
            values.add_literal(value)
        for place, (value, _) in enumerate(self.reads):
            is_copy = not self.nodes and value.dtype.name in HALVES
            type = "u16" if is_copy else scalar_type(value.dtype)
            body.append(Load(values.add(value, type).name, type, f"x{place}"))
        body += [self._scan(values, node) if node.op.name in SCANS else values.statement(node) for node in self.nodes]
        first = len(self.reads)
        body += [Store(f"x{first + place}", values[value]) for place, value in enumerate(self.stores)]
        return tuple(body)

    def _scan(self, values: Values, node: Node) -> Scan:
        value, function = values[node.input], SCANS[node.op.name]
        name = values.add(node.output, value.type).name
        is_exclusive, is_reversed = bool(node.op.exclusive), bool(node.op.reverse)
        return Scan(name, value.type, function, value, self._scanned_loop(), is_exclusive, is_reversed)


class Values:
    """What stands for each value of a graph in a kernel: v0, v1 and so on as they are added, or a literal."""

    def __init__(self) -> None:
        self._known: dict[Value, Expr] = {}
        self._count = 0

    def __getitem__(self, value: Value) -> Expr:
        return self._known[value]

    def add_given(self, value: Value, expression: Expr) -> None:
        """Let an expression stand for a value."""
        self._known[value] = expression

    def add(self, value: Value, type: str) -> Name:
        """A name for a value that is loaded or computed."""
        name = Name(f"v{self._count}", type)
        self._count += 1
        self._known[value] = name
        return name

    def add_literal(self, value: Value) -> Number | None:
        """A literal for a constant that one can stand for."""
        number = scalar_constant(value)
        if number is None:
            return None
        literal = Number(number, scalar_type(value.dtype))
        self._known[value] = literal
        return literal

    def statement(self, node: Node) -> Statement:
        """What computes a node."""
        arguments = [self[value] for value in reads(node)]
        if node.op.name in REDUCTIONS:
            type = scalar_type(node.output.dtype)
            is_wide = node.op.name == "ReduceMean" and type[0] in "iu"  # the mean of integers is that of their full sum
            total = f"{type[0]}64" if is_wide else type
            name = self.add(node.output, type).name
            return Reduce(name, type, REDUCTIONS[node.op.name], arguments[0], total, rounding(node))
        value = translate(node, arguments)
        return Let(self.add(node.output, value.type).name, value)


def reads(node: Node) -> list[Value]:
    """The inputs that an expression reads: of a reduction only its data, of CastLike only its first."""
    if node.op.name in REDUCTIONS or node.op.name == "CastLike":
        return [node.input]
    return [value for value in node.inputs if value is not None]


def _step(name: str, stride: Dim, sizes: dict[str, Dim]) -> Stride:
    if stride == 0 or stride == 1:
        return 0 if stride == 0 else 1
    sizes[name] = stride
    return name


def _short(operators: Sequence[str]) -> str:
    names = [name.lower() for name in operators]
    text = "_".join(names[:4]) + (f"_and_{len(names) - 4}_more" if len(names) > 4 else "")
    return "".join(c if c.isalnum() else "_" for c in text)
