"""Mixed precision: the forward pass in a narrow type, from weights that are kept in single precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import BFLOAT16, FLOAT32
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Tensor
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import describe
from intaglio.train.forward import Forward

_KEPT = {"BatchNormalization": (3, 4), "Resize": (1, 2), "Pow": (1,)}
"""Operands that stay in single precision: statistics, which add up small parts, and scales."""

_WIDE = frozenset({"Softmax", "LogSoftmax", "Exp", "Log", "ReduceSum", "ReduceMean", "CumSum", "Pow"})
"""Operators that are computed in single precision, for what they lose otherwise."""


def in_precision(forward: Forward) -> None:
    """Make all nodes of a forward pass compute and keep bfloat16 where they had float32.

    Inputs, weights and outputs of the graph stay what they are; gradients of weights are in single precision.
    """
    work = _Narrowing(forward.graph)
    outputs = [work.wide(value) for value in forward.graph.outputs]
    forward.changed = {name: work.wide(value) for name, value in forward.changed.items()}
    forward.graph.set_outputs(outputs)
    for node in reversed(work.old):
        forward.graph.remove(node)


def _nodes_of_outputs(graph: Graph) -> set[Node]:
    """The nodes that outputs of the graph depend on; others work on running statistics alone."""
    found: set[Node] = set()
    for node in reversed(list(graph.nodes)):
        readers = {reader for value in node.outputs for reader in value.readers}
        if readers & found or any(value.is_output for value in node.outputs):
            found.add(node)
    return found


class _Narrowing:
    """New nodes behind the old ones; `old` are to be removed when nothing reads them any more."""

    def __init__(self, graph: Graph) -> None:
        self.old = list(graph.nodes)
        self._narrowed_nodes = _nodes_of_outputs(graph)
        self._builder = Builder(graph)
        self._made: dict[Value, Value] = {}
        self._narrow: dict[Value, Value] = {}
        self._wide: dict[Value, Value] = {}
        for node in self.old:
            self._copy(node)

    def _copy(self, node: Node) -> None:
        if any(node.op.subgraphs()):
            raise UnsupportedError(f"precision='bfloat16': {describe(node)} has bodies, which stay as they are")
        self._builder.origin = node.origin
        count = len(node.outputs)
        kept = _KEPT.get(node.op.name, ())
        if node not in self._narrowed_nodes:
            self._take(node, self._builder.add(node.op, [self._operand(v, True) for v in node.inputs], count))
            return
        narrow = [self._operand(v, place in kept or node.op.name in _WIDE) for place, v in enumerate(node.inputs)]
        op = _narrow_op(node)
        try:
            results = self._builder.add(op, narrow, count)
        except (ShapeError, TypeError):
            results = self._builder.add(node.op, [self._operand(v, True) for v in node.inputs], count)
        self._take(node, results)

    def _take(self, node: Node, results: Sequence[Value]) -> None:
        self._made.update(zip(node.outputs, results, strict=True))

    def _operand(self, value: Value | None, is_wide: bool) -> Value | None:
        return None if value is None else self.wide(value) if is_wide else self._narrowed(value)

    def wide(self, value: Value) -> Value:
        """The value of the new nodes, of the type that it had."""
        made = self._made.get(value, value)
        if not isinstance(made.type, TensorType) or made.type == value.type or made.dtype != BFLOAT16:
            return made
        if value not in self._wide:
            self._wide[value] = self._builder.Cast(made, to=value.dtype.number)
        return self._wide[value]

    def _narrowed(self, value: Value) -> Value:
        made = self._made.get(value, value)
        if not isinstance(made.type, TensorType) or made.dtype != FLOAT32:
            return made
        if value not in self._narrow:
            self._narrow[value] = self._rounded(made)
        return self._narrow[value]

    def _rounded(self, value: Value) -> Value:
        if value.constant is not None:
            return self._builder.constant(value.constant, BFLOAT16, value.name)
        return self._builder.Cast(value, to=BFLOAT16.number)


def _narrow_op(node: Node) -> Any:
    """The operator with bfloat16 for float32 in its attributes."""
    changes: dict[str, Any] = {}
    for name in ("to", "dtype"):
        if getattr(node.op, name, None) == FLOAT32.number:
            changes[name] = BFLOAT16.number
    value = getattr(node.op, "value", None)
    if isinstance(value, Tensor) and np.asarray(value.array).dtype == np.float32:
        changes["value"] = Tensor(np.asarray(value.array).astype(BFLOAT16.numpy))
    return node.op.changed(**changes) if changes else node.op
