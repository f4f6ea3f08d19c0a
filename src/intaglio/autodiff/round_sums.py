"""Sums over the rounds of a loop that need not be made in the loop: one product of what all rounds have, stacked.

The gradient of a weight that each round multiplies with is the sum of a product of each round. It is the product of
all rows of all rounds, which is one large product behind the loop instead of a small one in each round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph, Value
from intaglio.ir.resize import type_symbols
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import known_integers

Made = dict[Value, Value]
Stack = Callable[[Made], Value]
"""A value of a body in all rounds, from what the loop gives."""

Sum = Callable[[Builder, Callable[[Value], Value]], Value]
"""Builds the sum over all rounds behind the loop, from stacks of values of the body."""


class RoundSums:
    """Gradients of what bodies read from outside: those that are sums of products, or of what is stacked anyway.

    `stacks` are the values of the body that are stacked anyway; `stacked` are further ones that must be. Sizes with
    symbols that are not `fixed` may differ between rounds.
    """

    def __init__(self, body: Graph, stacks: Mapping[Value, Stack], fixed: set[str]) -> None:
        self._body, self._stacks, self._fixed = body, stacks, fixed
        self._sums: dict[Value, Sum] = {}
        self.stacked: list[Value] = []

    @property
    def taken(self) -> list[Value]:
        """The values whose gradients are summed behind the loop."""
        return list(self._sums)

    def has(self, value: Value) -> bool:
        """Whether the gradient of a value is summed behind the loop."""
        return value in self._sums

    def take(self, value: Value, bar: Value | None) -> None:
        """Sum the gradient of a value, which is `bar` in each round, behind the loop if that can be."""
        needed: list[Value] = []
        built = None if bar is None else self._sum(bar, needed)
        if built is not None:
            self._sums[value] = built
            self.stacked += [each for each in dict.fromkeys(needed) if each not in self.stacked]

    def built(self, b: Builder, made: Made) -> Iterator[tuple[Value, Value]]:
        """The values with their gradients; `made` are the stacks that the loop gives."""

        def stack(value: Value) -> Value:
            return self._stacks[value](made) if value in self._stacks else made[value]

        for value, build in self._sums.items():
            yield value, build(b, stack)

    def _sum(self, value: Value, needed: list[Value]) -> Sum | None:
        node = value.producer
        if node is None or not isinstance(value.type, TensorType) or node.op.domain:
            return None
        match node.op.name:
            case "Transpose":
                inner = self._sum(node.input, needed)
                return inner and (lambda b, stack: b.Transpose(inner(b, stack), perm=node.op.perm))
            case "Reshape" if node.input.type == value.type:
                return self._sum(node.input, needed)
            case "Add" if node.input.type == node.needed(1).type == value.type:
                left, right = self._sum(node.input, needed), self._sum(node.needed(1), needed)
                return left and right and (lambda b, stack: left(b, stack) + right(b, stack))
            case "MatMul":
                return self._product(node.input, node.needed(1), needed)
            case "ReduceSum" if node.input in self._stacks:
                return _reduction(node.input, known_integers(node.optional(1)), bool(node.op.keepdims))
            case _:
                return None

    def _product(self, left: Value, right: Value, needed: list[Value]) -> Sum | None:
        turned = left.producer
        if turned is None or turned.op.name != "Transpose" or left.rank != 2 or right.rank != 2:
            return None
        rows = turned.input
        for each in (rows, right):
            if each not in self._stacks:
                if not self._is_inside(each) or not type_symbols(each.type) <= self._fixed:
                    return None
                needed.append(each)

        def build(b: Builder, stack: Callable[[Value], Value]) -> Value:
            all_rows, all_right = (b.Flatten(stack(each), axis=2) for each in (rows, right))
            return b.Transpose(all_rows, perm=(1, 0)) @ all_right

        return build

    def _is_inside(self, value: Value) -> bool:
        return value in self._body.inputs if value.producer is None else value.producer.graph is self._body


def _reduction(value: Value, axes: list[int] | None, keepdims: bool) -> Sum | None:
    if axes is None or not axes:
        return None
    moved = [axis % value.rank + 1 for axis in axes]

    def build(b: Builder, stack: Callable[[Value], Value]) -> Value:
        if not keepdims:
            return b.ReduceSum(stack(value), [0, *moved], keepdims=0)
        return b.ReduceSum(b.ReduceSum(stack(value), moved, keepdims=1), [0], keepdims=0)

    return build
