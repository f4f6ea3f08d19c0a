"""Nodes that no rule handles, written in simpler ones."""

from __future__ import annotations

from intaglio.errors import UnsupportedError
from intaglio.ir.build import Builder, take_place
from intaglio.ir.dtype import INT64
from intaglio.ir.expand import expand_node, expand_until
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.faults import Faults, blaming
from intaglio.kernels.fused import REDUCTIONS
from intaglio.kernels.fusion import is_loop_node
from intaglio.kernels.target_rules import TargetRules, own_rule
from intaglio.kernels.views import VIEWS
from intaglio.ops.activation import Activation, PRelu, Shrink, Softplus, Softsign, SwiGLU
from intaglio.ops.reduce import Reduction, ReductionOrder
from intaglio.ops.shared.indices import known_integers
from intaglio.ops.shared.operand import cast, wide

ROUNDS_ONCE = (Activation, PRelu, Shrink, Softplus, Softsign, SwiGLU)
"""Operators whose reference rounds narrow floats once and whose expansion computes in the type that it is given."""


def legalise(graph: Graph, faults: Faults, rules: TargetRules) -> None:
    """Expand every node that no rule handles, until only handled nodes and leaves without expansion remain."""

    def is_composite(node: Node) -> bool:
        return faults.refusal(node) is None and _must_expand(node, rules)

    def handles(node: Node) -> bool:
        return not (_has_late_axes(node) or is_composite(node) or _drops_known_axes(node))

    def expand(node: Node) -> None:
        if _has_late_axes(node):
            _order_axes(node)
        elif is_composite(node):
            _expand(node)
        else:
            _keep_dims(node)

    for reason in expand_until(graph, handles, expand=expand).values():
        raise UnsupportedError(reason)


def _expand(node: Node) -> None:
    with blaming((node,)):
        if isinstance(node.op, ROUNDS_ONCE) and node.output.dtype.name in ("float16", "bfloat16"):
            _widen(node)
        else:
            expand_node(node)


def _must_expand(node: Node, rules: TargetRules) -> bool:
    if not node.op.has("expand") or (node.op.domain == "" and (is_loop_node(node) or node.op.name in VIEWS)):
        return False
    if is_all_known(node):
        return False
    rule = own_rule(rules, node)
    if rule is not None and rule.refuse(node) is None:
        return False
    return all(isinstance(v.type, TensorType) and v.type.shape is not None for v in node.inputs if v is not None)


def _widen(node: Node) -> None:
    """A node on narrow floats is the same node in single precision, and one rounding: so are its constants exact."""
    assert node.graph is not None
    builder = Builder(node.graph, before=node, origin=node.origin)
    inputs = [None if value is None else wide(builder, value) for value in node.inputs]
    (result,) = builder.add(node.op, inputs)
    node.output.replace_uses(cast(builder, result, node.output.dtype))
    node.graph.remove(node)


def _has_late_axes(node: Node) -> bool:
    """Whether a reduction has a known number of dimensions in and out, and axes that only the run tells."""
    if not isinstance(node.op, Reduction) or len(node.inputs) < 2 or node.inputs[1] is None:
        return False
    shapes = [value.tensor.shape for value in (*node.inputs, *node.outputs) if value is not None]
    return known_integers(node.inputs[1]) is None and all(shape is not None for shape in shapes)


def _order_axes(node: Node) -> None:
    """A reduction along axes that the run tells is one along known axes of the data in another order.

    There are two such orders, by what lies side by side in memory; the one that the run does not choose is empty.
    """
    assert node.graph is not None
    assert isinstance(node.op, Reduction)
    builder = Builder(node.graph, before=node, origin=node.origin)
    order = ReductionOrder(keepdims=node.op.keepdims, noop_with_empty_axes=node.op.noop_with_empty_axes)
    rows, columns, shape = builder.add(order, node.inputs, outputs=3)
    parts: list[Value] = []
    for data, first in ((rows, rows.rank // 2), (columns, rows.rank // 2 - 1)):
        axes = builder.constant(list(range(first, first + rows.rank // 2)), INT64)
        (part,) = builder.add(node.op.changed(keepdims=1), [data, axes])
        parts.append(builder.Reshape(part, [-1]))
    result = builder.Reshape(builder.Concat(*parts, axis=0), shape, allowzero=1)
    take_place(node.output, result)
    node.graph.detach(node)


def _drops_known_axes(node: Node) -> bool:
    if node.op.domain != "" or node.op.name not in REDUCTIONS or node.op.keepdims:
        return False
    axes = node.optional(1)
    return node.input.tensor.shape is not None and (axes is None or known_integers(axes) is not None)


def _keep_dims(node: Node) -> None:
    """A reduction that drops its axes is one that keeps them, and a squeeze."""
    assert node.graph is not None
    axes = node.optional(1)
    chosen = [] if axes is None else known_integers(axes)
    builder = Builder(node.graph, before=node, origin=node.origin)
    (kept,) = builder.add(node.op.changed(keepdims=1), node.inputs)
    dropped = chosen or ([] if node.op.noop_with_empty_axes else list(range(node.input.rank)))
    node.output.replace_uses(builder.Squeeze(kept, dropped) if dropped else kept)
    node.graph.remove(node)


def is_all_known(node: Node) -> bool:
    """Whether the node's results are integers that the driver can write down by itself."""
    return all(value.contents is not None for value in node.outputs) and not node.op.is_random
