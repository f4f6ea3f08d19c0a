"""Which nodes are computed together.

Nodes are visited in order and joined to the group of one of their producers where the kernel can hold them. A group
runs where its last node stood, so nothing outside may read its values before that point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.elementwise import can_translate, handles
from intaglio.kernels.epilogue import rows_and_columns
from intaglio.kernels.faults import Faults
from intaglio.kernels.fused import REDUCTIONS, reads
from intaglio.kernels.target_rules import TargetRules
from intaglio.kernels.view import Buffer, whole
from intaglio.ops.shared.indices import known_integers, resolve_axes

Kind = Literal["fill", "view", "loop", "anchor", "control", "host"]

GROUP_LIMIT = 48
"""Nodes in one kernel at most: beyond that registers spill and the compiler slows down."""


@dataclass(eq=False)
class Group:
    """Nodes that become one kernel, one view or one host step."""

    kind: Kind
    nodes: list[Node]
    position: int
    not_fused: str = ""
    """Why the first node was not computed together with what it reads."""
    shape: tuple[Dim, ...] = ()
    reduced: tuple[int, ...] = ()
    values: set[Value] = field(default_factory=set[Value])
    fuses: bool = False
    """Whether the structured kernel takes an epilogue."""
    takes: Callable[[Sequence[Node], Node], bool] = lambda nodes, node: True
    """Whether the epilogue takes a node behind those of the group."""

    def add(self, node: Node, position: int) -> None:
        """Take a node in; the group then runs at its position."""
        self.nodes.append(node)
        self.values.update(node.outputs)
        self.position = position


def reduction_axes(node: Node) -> tuple[int, ...] | None:
    """The axes of a reduction that a loop kernel can compute, at least one; None otherwise."""
    if node.op.name not in REDUCTIONS or node.op.domain:
        return None
    data, axes = node.inputs[0], node.optional(1)
    if data is None or data.tensor.shape is None or not node.op.keepdims:
        return None
    chosen = [] if axes is None else known_integers(axes)
    if chosen is None:
        return None
    given = tuple(sorted(resolve_axes(chosen, data.rank)))
    if given or node.op.noop_with_empty_axes:
        return given or None
    return tuple(range(data.rank)) or None


def form_groups(nodes: list[Node], kind_of: dict[Node, Kind], faults: Faults, rules: TargetRules) -> list[Group]:
    """The groups of all nodes in the order in which they run."""
    order = _Order(nodes)
    group_of: dict[Value, Group] = {}
    groups: list[Group] = []
    for place, node in enumerate(nodes):
        is_apart = faults.is_apart(node)
        candidates = _candidates(node, group_of) if kind_of[node] == "loop" and not is_apart else []
        group = next((g for g in candidates if _can_join(g, node) and order.is_unread(g.nodes, place)), None)
        if group is None:
            group = _new_group(node, place, kind_of[node], rules)
            group.not_fused = _why_not_fused(candidates, node, order, place)
            groups.append(group)
        else:
            if node.op.name in REDUCTIONS:
                group.reduced = reduction_axes(node) or ()
            group.add(node, place)
            for other in (each for each in candidates if each is not group and _can_merge(group, each)):
                if not order.feeds(other, group) and order.is_unread(group.nodes + other.nodes, place):
                    _merge(group, other, order)
                    groups.remove(other)
        if not is_apart:
            group_of.update((value, group) for value in group.values)
    return sorted(groups, key=lambda group: group.position)


class _Order:
    """Where nodes stand, and which ones read a value: themselves or from within their subgraphs."""

    def __init__(self, nodes: list[Node]) -> None:
        self.place = {node: place for place, node in enumerate(nodes)}
        self.readers: dict[Value, list[Node]] = {}
        for node in nodes:
            for value in dict.fromkeys((*node.inputs, *node.captures())):
                if value is not None:
                    self.readers.setdefault(value, []).append(node)

    def is_unread(self, nodes: list[Node], place: int) -> bool:
        """Whether no other node before `place` reads what these nodes compute."""
        members = set(nodes)
        values = (value for node in nodes for value in node.outputs)
        outside = (reader for value in values for reader in self.readers.get(value, ()) if reader not in members)
        return all(self.place[reader] >= place for reader in outside)

    def feeds(self, group: Group, other: Group) -> bool:
        """Whether the structured kernel of another group reads what this one computes, which must be in memory then."""
        if other.kind != "anchor":
            return False
        return any(other.nodes[0] in self.readers.get(value, ()) for value in group.values)


def _candidates(node: Node, group_of: dict[Value, Group]) -> list[Group]:
    """The groups that compute what the node reads: structured kernels first, and the latest of each kind first."""
    found = dict.fromkeys(group_of[value] for value in reads(node) if value in group_of)
    return sorted(found, key=lambda group: (group.kind != "anchor", -group.position))


def _can_merge(group: Group, other: Group) -> bool:
    """Whether two groups that a node has joined can be one kernel."""
    if group.kind == "anchor" and other.kind == "loop" and len(group.nodes) + len(other.nodes) <= GROUP_LIMIT:
        fits = all(group.takes(group.nodes, node) and _fits_epilogue(group, node, other) for node in other.nodes)
        return not other.reduced and fits
    if group.kind != "loop" or other.kind != "loop" or len(group.nodes) + len(other.nodes) > GROUP_LIMIT:
        return False
    reduced = group.reduced or other.reduced
    is_along_rows = not reduced or len(group.shape) - 1 in reduced
    return group.shape == other.shape and {group.reduced, other.reduced} <= {(), reduced} and is_along_rows


def _merge(group: Group, other: Group, order: _Order) -> None:
    kept = 1 if group.kind == "anchor" else 0
    group.nodes[kept:] = sorted(group.nodes[kept:] + other.nodes, key=lambda node: order.place[node])
    group.values |= other.values
    group.reduced = group.reduced or other.reduced


def _new_group(node: Node, place: int, kind: Kind, rules: TargetRules) -> Group:
    group = Group(kind, [node], place, values=set(node.outputs))
    if kind == "loop":
        is_reduction = node.op.name in REDUCTIONS
        group.shape = reads(node)[0].shape if is_reduction else node.output.shape
        group.reduced = (reduction_axes(node) or ()) if is_reduction else ()
    elif kind == "anchor" and rules.anchors[node.op.name].fuses(node):
        group.shape, group.fuses, group.takes = node.output.shape, True, rules.anchors[node.op.name].takes
    return group


def _can_join(group: Group, node: Node) -> bool:
    if len(group.nodes) >= GROUP_LIMIT:
        return False
    if group.kind == "anchor":
        return group.fuses and group.takes(group.nodes, node) and _fits_epilogue(group, node)
    return group.kind == "loop" and _fits_loop(group, node)


NARROW = 4
"""The channels of an image that leave at least half of a vector empty."""


def _wastes_lanes(group: Group, node: Node) -> bool:
    """Whether a kernel would compute a dear function of images with few channels, mostly on lanes that hold nothing."""
    channels = group.shape[-1]
    is_narrow = isinstance(channels, int) and 1 < channels <= NARROW
    return is_narrow and len(group.shape) > 2 and not node.op.is_cheap


def _why_not_fused(candidates: list[Group], node: Node, order: _Order, place: int) -> str:
    """Why a node is not computed in the latest of the groups whose results it reads; nothing where it reads none."""
    if not candidates:
        return ""
    group = candidates[0]
    first = group.nodes[0]
    name = f"{first.op.name} -> {first.outputs[0].name}"
    if group.kind not in ("loop", "anchor"):
        return ""
    if group.kind == "anchor" and not group.fuses:
        return f"the kernel of {name} takes no epilogue"
    if len(group.nodes) >= GROUP_LIMIT:
        return f"the kernel of {name} holds {GROUP_LIMIT} nodes already"
    if not _can_join(group, node):
        return _why_not_join(group, node, name)
    if not order.is_unread(group.nodes, place):
        return f"another node reads the result of {name} before"
    return ""


def _why_not_join(group: Group, node: Node, name: str) -> str:
    if node.op.name in REDUCTIONS:
        if group.kind == "anchor":
            return f"the kernel of {name} cannot reduce its result"
        return f"it reduces along other axes than the kernel of {name} can"
    if node.output.shape != group.shape:
        return f"{name} is computed over {_text(group.shape)} and this over {_text(node.output.shape)}"
    if group.kind == "anchor" and _wastes_lanes(group, node):
        return f"the vectors of {name} hold few channels, and this function is dear"
    if group.kind == "anchor":
        return f"an operand does not advance evenly along rows and columns of {name}"
    return f"{name} reduces along axes that are not the last"


def _text(shape: tuple[Dim, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _fits_loop(group: Group, node: Node) -> bool:
    axes = reduction_axes(node)
    if node.op.name in REDUCTIONS:
        data = reads(node)[0]
        is_last = axes is not None and data.rank - 1 in axes
        return is_last and data.shape == group.shape and group.reduced in ((), axes) and data in group.values
    if node.output.shape == group.shape:
        return not (group.reduced and len(group.shape) - 1 not in group.reduced)
    return bool(group.reduced) and node.output.shape == _row_shape(group) and _reads_rows(group, node)


def _row_shape(group: Group) -> tuple[Dim, ...]:
    return tuple(1 if axis in group.reduced else dim for axis, dim in enumerate(group.shape))


def _reads_rows(group: Group, node: Node) -> bool:
    row_shape = _row_shape(group)
    return all(value not in group.values or value.shape == row_shape for value in reads(node))


def _fits_epilogue(group: Group, node: Node, other: Group | None = None) -> bool:
    """Whether the node has the result's shape, its other operands advance evenly along rows and columns, and it pays.

    `other` is a group that is to become a part of this one.
    """
    if node.op.name in REDUCTIONS or node.output.shape != group.shape or not group.shape:
        return False
    if _wastes_lanes(group, node):
        return False
    for value in reads(node):
        if value in group.values or (other is not None and value in other.values):
            if value.shape != group.shape:
                return False
        elif not _is_even(value, group.shape):
            return False
    return True


def _is_even(value: Value, shape: tuple[Dim, ...]) -> bool:
    if value.rank > len(shape) or open_axes(value.shape, shape):
        return False
    view = whole(Buffer("test", value.dtype, value.tensor.size), value.shape).broadcast(shape)
    strides = rows_and_columns(view)
    return strides is not None and strides[1] in (0, 1)


def is_loop_node(node: Node) -> bool:
    """Whether a loop kernel can compute the node."""
    if node.op.name in REDUCTIONS:
        axes = reduction_axes(node)
        return axes is not None and can_reduce(node)
    return can_translate(node) and all(value.rank <= node.output.rank for value in reads(node))


def can_reduce(node: Node) -> bool:
    """Whether the reduction's element type can be computed: truth values have extremes and no sums."""
    dtype = node.output.dtype
    return handles(node, dtype) and (dtype.kind != "bool" or node.op.name in ("ReduceMax", "ReduceMin"))


def open_axes(shape: Sequence[Dim], wanted: Sequence[Dim]) -> list[int]:
    """The axes of a shape along which only the run tells if it is repeated to become another one."""
    missing = len(wanted) - len(shape)
    return [axis for axis, dim in enumerate(shape) if dim not in (1, wanted[missing + axis])]
