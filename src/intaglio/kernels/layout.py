"""Channels last: convolutions and pools work on NHWC, and the layout spreads through what surrounds them.

Each such operator becomes a `ChannelsLast` between two transposes. Walking forward, every value that has a twin with
its channels last passes it on through elementwise operators, concatenations, pads and reductions, so that transposes
remain only where the layout begins and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import TensorType
from intaglio.kernels.elementwise import TRANSLATIONS
from intaglio.kernels.fused import REDUCTIONS
from intaglio.kernels.fusion import reduction_axes
from intaglio.kernels.target_rules import TargetRules
from intaglio.ops.convolution import ConvWeightGradient
from intaglio.ops.pooling import MaxPoolGradient
from intaglio.ops.shared.indices import known_integers, resolve_axis

DOMAIN = "intaglio"

FEW_CHANNELS = 4
"""A convolution of at most so many channels reads its input with the channels first."""


def to_last(rank: int) -> tuple[int, ...]:
    """The permutation from channels first to channels last.

    >>> to_last(4)
    (0, 2, 3, 1)
    """
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    """The permutation from channels last to channels first.

    >>> to_first(4)
    (0, 3, 1, 2)
    """
    return (0, rank - 1, *range(1, rank - 1))


class ChannelsLast(Op):
    """`inner`, a convolution or pool, on an input and an output whose channels are the last axis.

    With `input_first` only the output has them last.
    """

    domain = DOMAIN
    inner: Op
    input_first: bool = False

    def infer(
        self, X: Value, W: Value | None = None, B: Value | None = None, w_zero_point: Value | None = None
    ) -> TensorType:
        """The inner operator's type with the channels moved."""
        data = Value(X.name, self.first_type(X))
        result = self.inner.infer(data, *_trimmed((W, B, w_zero_point)))
        found = result[0] if isinstance(result, tuple) else result
        return found.with_shape(tuple(found.dims[axis] for axis in to_last(found.rank)))

    def reference(
        self, X: Array, W: Array | None = None, B: Array | None = None, w_zero_point: Array | None = None
    ) -> Array:
        """The inner operator between two transposes."""
        data = X if self.input_first else np.transpose(X, to_first(X.ndim))
        result = self.inner.reference(data, *_trimmed((W, B, w_zero_point)))
        found = result[0] if isinstance(result, tuple) else result
        return np.transpose(found, to_last(found.ndim))

    def first_type(self, x: Value) -> TensorType:
        """The input's type with the channels first."""
        shape = x.shape if self.input_first else tuple(x.shape[axis] for axis in to_first(x.rank))
        return x.tensor.with_shape(shape)


def choose_layouts(graph: Graph, rules: TargetRules) -> None:
    """Rewrite the graph so that convolutions and pools have their channels last."""
    _Layout(graph, rules).run()


class _Layout:
    def __init__(self, graph: Graph, rules: TargetRules) -> None:
        self.graph, self.rules = graph, rules
        self.twins: dict[Value, Value] = {}

    def run(self) -> None:
        for node in self.graph.nodes:
            if isinstance(node.op, ConvWeightGradient):
                self._convert_weight_gradient(node, node.op)
            elif isinstance(node.op, MaxPoolGradient):
                self._convert_pool_gradient(node, node.op)
            elif node.op.domain == "" and len(node.outputs) >= 1:
                self._visit(node)

    def _visit(self, node: Node) -> None:
        if self.rules.is_channels_last(node):
            self._convert_spatial(node)
        elif any(value in self.twins for value in node.inputs if value is not None):
            if node.op.name in _MOVERS:
                _MOVERS[node.op.name](self, node)
            elif node.op.name in REDUCTIONS:
                self._convert_reduction(node)
            elif node.op.name in TRANSLATIONS and len(node.outputs) == 1:
                self._convert_elementwise(node)

    def builder(self, node: Node) -> Builder:
        """A builder in front of a node, with its source."""
        return Builder(self.graph, before=node, origin=node.origin)

    def twin(self, value: Value, before: Node) -> Value:
        """The value with its channels last; a transpose is added where it has none yet."""
        if value not in self.twins:
            builder = Builder(self.graph, before=before, origin=before.origin)
            self.twins[value] = builder.Transpose(value, perm=to_last(value.rank))
        return self.twins[value]

    def replace(self, node: Node, last: Value) -> None:
        """Put a transpose of `last` in the place of the node's output, and remember its twin."""
        result = self.builder(node).Transpose(last, perm=to_first(last.rank))
        self.twins[result] = last
        node.output.replace_uses(result)
        self.graph.remove(node)

    def _convert_spatial(self, node: Node) -> None:
        data = node.input
        channels = data.shape[1]
        is_few = node.op.name == "Conv" and data not in self.twins and isinstance(channels, int)
        is_few = is_few and node.needed(1).constant is not None
        input_first = bool(is_few and 0 < channels <= FEW_CHANNELS and node.op.group == 1)
        x = data if input_first else self.twin(data, node)
        op = ChannelsLast(inner=node.op, input_first=input_first)
        (last,) = self.builder(node).add(op, (x, *node.inputs[1:]), names=[node.output.name + ".last"])
        self.replace(node, last)

    def _convert_weight_gradient(self, node: Node, op: ConvWeightGradient) -> None:
        """Both operands with their channels last; the result has an order of its own."""
        if op.channels_last or not self.rules.is_channels_last(node):
            return
        operands = [self.twin(node.needed(place), node) for place in (0, 1)]
        (result,) = self.builder(node).add(op.changed(channels_last=1), operands)
        node.output.replace_uses(result)
        self.graph.remove(node)

    def _convert_pool_gradient(self, node: Node, op: MaxPoolGradient) -> None:
        """All operands and the result with their channels last."""
        if op.channels_last or not self.rules.is_channels_last(node):
            return
        operands = [self.twin(node.needed(place), node) for place in range(3)]
        (last,) = self.builder(node).add(op.changed(channels_last=1), operands, names=[node.output.name + ".last"])
        self.replace(node, last)

    def _convert_elementwise(self, node: Node) -> None:
        rank = node.output.rank
        if rank < 3 or not any(v in self.twins and v.rank == rank for v in node.inputs if v is not None):
            return
        inputs = [None if value is None else self._operand(value, rank, node) for value in node.inputs]
        (last,) = self.builder(node).add(node.op, inputs, names=[node.output.name + ".last"])
        self.replace(node, last)

    def _operand(self, value: Value, rank: int, node: Node) -> Value:
        """An operand in the channels-last space of the given rank."""
        if value.rank == 0 or all(dim == 1 for dim in value.shape):
            return value
        if value.rank == rank:
            if value.constant is not None:
                moved = np.ascontiguousarray(np.transpose(value.constant, to_last(rank)))
                return self.graph.constant(moved, value.name + ".last")
            return self.twin(value, node)
        shape = (1,) * (rank - value.rank) + value.shape
        if value.constant is not None:
            moved = np.ascontiguousarray(np.transpose(value.constant.reshape(shape), to_last(rank)))
            return self.graph.constant(moved, value.name + ".last")
        builder = self.builder(node)
        raised = builder.Unsqueeze(value, list(range(rank - value.rank)))
        return builder.Transpose(raised, perm=to_last(rank))

    def _convert_reduction(self, node: Node) -> None:
        axes, data = reduction_axes(node), node.inputs[0]
        if axes is None or data is None or data not in self.twins:
            return
        order = to_last(data.rank)
        moved = sorted(order.index(axis) for axis in axes)
        builder = self.builder(node)
        (last,) = builder.add(node.op, (self.twins[data], builder.constant(np.array(moved, np.int64))))
        self.replace(node, last)

    def convert_concat(self, node: Node) -> None:
        """Concatenate the twins, where most of the inputs have one."""
        inputs = [value for value in node.inputs if value is not None]
        known = sum(value in self.twins for value in inputs)
        if 2 * known < len(inputs) or node.output.rank < 3:
            return
        axis = to_last(node.output.rank).index(resolve_axis(node.op.axis, node.output.rank))
        last = self.builder(node).Concat(*(self.twin(value, node) for value in inputs), axis=axis)
        self.replace(node, last)

    def convert_pad(self, node: Node) -> None:
        """Pad the twin with the pads in its order."""
        data, inputs = node.inputs[0], list(node.inputs) + [None] * 3
        pads = known_integers(inputs[1])
        if data is None or data not in self.twins or pads is None or inputs[3] is not None:
            return
        order = to_last(data.rank)
        moved = [pads[axis] for axis in order] + [pads[data.rank + axis] for axis in order]
        builder = self.builder(node)
        (last,) = builder.add(node.op, (self.twins[data], builder.constant(np.array(moved, np.int64)), inputs[2]))
        self.replace(node, last)

    def convert_resize(self, node: Node) -> None:
        """Resize the twin with scales or sizes in its order."""
        inputs = list(node.inputs) + [None] * (4 - len(node.inputs))
        data, scales, sizes = inputs[0], inputs[2], inputs[3]
        plain = (node.op.axes is None and inputs[1] is None) or inputs[1] is None
        if data is None or data not in self.twins or not plain or node.op.axes is not None:
            return
        order, builder = to_last(data.rank), self.builder(node)
        given = [None if v is None else v.constant for v in (scales, sizes)]
        if any(v is not None and a is None for v, a in zip((scales, sizes), given, strict=True)):
            return
        moved = [None if a is None else builder.constant(a[list(order)] if a.size else a) for a in given]
        last_inputs: Sequence[Value | None] = (self.twins[data], None, *moved)
        (last,) = builder.add(node.op, _trimmed(last_inputs))
        last.type = node.output.tensor.with_shape(tuple(node.output.shape[axis] for axis in order))
        self.replace(node, last)

    def convert_transpose(self, node: Node) -> None:
        """A transpose of a value with a twin is a transpose of the twin: often none at all."""
        data = node.inputs[0]
        if data is None or data not in self.twins:
            return
        order = node.op.perm or tuple(reversed(range(data.rank)))
        back = to_first(data.rank)
        composed = tuple(back[axis] for axis in order)
        last = self.twins[data]
        is_identity = composed == tuple(range(data.rank))
        result = last if is_identity else self.builder(node).Transpose(last, perm=composed)
        node.output.replace_uses(result)
        self.graph.remove(node)


def _trimmed(inputs: Sequence[Any]) -> list[Any]:
    kept: list[Any] = list(inputs)
    while kept and kept[-1] is None:
        kept.pop()
    return kept


_MOVERS: dict[str, Callable[[_Layout, Node], None]] = {
    "Concat": _Layout.convert_concat,
    "Pad": _Layout.convert_pad,
    "Resize": _Layout.convert_resize,
    "Transpose": _Layout.convert_transpose,
}
