"""Operators with subgraphs: If, Loop, Scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Array, Op, output_count
from intaglio.ir.types import OptionalType, SequenceType, TensorType, Type
from intaglio.ops.indices import join_types

Run = Callable[[Graph, Sequence[Any]], list[Any]]


class If(Op):
    """The outputs of `then_branch` where `cond` is true, else those of `else_branch`."""

    variadic_outputs: ClassVar[bool] = True
    else_branch: Graph
    then_branch: Graph
    output_count: int = output_count()

    def infer(self, cond: Value) -> tuple[Type, ...]:
        del cond
        branches = (self.then_branch, self.else_branch)
        counts = [len(branch.outputs) for branch in branches]
        if counts != [self.output_count] * 2:
            raise ShapeError(f"branches with {counts[0]} and {counts[1]} outputs, expected {self.output_count}")
        then, otherwise = ([outside(v.type, seen(branch)) for v in branch.outputs] for branch in branches)
        return tuple(join_types(a, b) for a, b in zip(then, otherwise, strict=True))

    def interpret(self, run: Run, cond: Array) -> tuple[Any, ...]:
        if cond.size != 1:
            raise OperatorError(f"the condition has {cond.size} elements, expected 1")
        return tuple(run(self.then_branch if cond.item() else self.else_branch, []))


def seen(graph: Graph, inputs: Iterable[Value | None] = ()) -> set[str]:
    """The symbols that a subgraph shares with the world outside: those of the values that it reads from there."""
    found: set[str] = set()
    for value in (*graph.captures(), *inputs):
        if value is not None:
            found |= type_symbols(value.type)
            for item in value.contents.ravel() if value.contents is not None else ():
                found |= dims.symbols(item)
    return found


def type_symbols(type: Type) -> set[str]:
    """The symbols in the sizes of a type."""
    if isinstance(type, TensorType):
        return set().union(*(dims.symbols(size) for size in type.shape or ()))
    if isinstance(type, (SequenceType, OptionalType)):
        return type_symbols(type.element)
    return set()


def outside(type: Type, shared: set[str]) -> Type:
    """The type as it is known outside of a subgraph: a size that only the inside knows becomes a fresh symbol."""
    if isinstance(type, TensorType) and type.shape is not None:
        sizes = (size if dims.symbols(size) <= shared else dims.fresh() for size in type.shape)
        return type.with_shape(tuple(sizes))
    if isinstance(type, SequenceType):
        return SequenceType(outside(type.element, shared))
    return OptionalType(outside(type.element, shared)) if isinstance(type, OptionalType) else type
