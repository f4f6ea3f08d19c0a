"""Operators that compute nothing: their result is a view of their input."""

from __future__ import annotations

from collections.abc import Callable

from intaglio.ir.dim import Dim, Symbol, bounds, compare, lone_atom, maximum, minimum, symbols
from intaglio.ir.graph import Node, Value
from intaglio.kernels.fused import REDUCTIONS
from intaglio.kernels.view import View
from intaglio.ops.movement import slice_size
from intaglio.ops.shared.indices import known, known_integers, resolve_axis

ViewRule = Callable[[Node, View], "list[View] | None"]
"""The outputs as views of the input's view, or None where that cannot be (a copy is then made first)."""

VIEWS: dict[str, ViewRule] = {}
"""The view operators by name; each reads its first input only."""


def _views(*names: str) -> Callable[[ViewRule], ViewRule]:
    def register(rule: ViewRule) -> ViewRule:
        VIEWS.update(dict.fromkeys(names, rule))
        return rule

    return register


def is_view(node: Node) -> bool:
    """Whether the node is a view operator whose parameters are known before the run."""
    if node.op.name not in VIEWS or node.op.domain:
        return False
    if node.op.name == "Slice":
        return slice_windows(node) is not None and _has_known_ends(node)
    if node.op.name == "Expand":
        source, wanted = node.input.shape, node.output.shape
        missing = len(wanted) - len(source)
        return known(node.inputs[1]) is not None and all(
            dim in (1, wanted[missing + axis]) for axis, dim in enumerate(source)
        )
    if node.op.name in ("Squeeze", "Unsqueeze"):
        return len(node.inputs) < 2 or node.inputs[1] is None or known_integers(node.inputs[1]) is not None
    return node.op.name not in REDUCTIONS or _reduces_nothing(node)


def _reduces_nothing(node: Node) -> bool:
    """Whether a reduction has no axis to reduce along: its data has none, or none are given and that means none."""
    axes = node.optional(1)
    is_empty = axes is None or known_integers(axes) == []
    return node.input.rank == 0 or (is_empty and bool(node.op.noop_with_empty_axes))


@_views("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", *REDUCTIONS)
def _reshape(node: Node, view: View) -> list[View] | None:
    reshaped = view.reshape(node.output.shape)
    return None if reshaped is None else [reshaped]


@_views("Transpose")
def _transpose(node: Node, view: View) -> list[View] | None:
    order = node.op.perm or tuple(reversed(range(len(view.shape))))
    return [view.transpose(order)]


@_views("Expand")
def _expand(node: Node, view: View) -> list[View] | None:
    return [view.broadcast(node.output.shape)]


@_views("Slice")
def _slice(node: Node, view: View) -> list[View] | None:
    for axis, start, step in slice_windows(node) or ():
        view = view.window(axis, start, step, node.output.shape[axis])
    return [view]


@_views("Split")
def _split(node: Node, view: View) -> list[View] | None:
    axis = resolve_axis(node.op.axis, len(view.shape))
    start: Dim = 0
    parts: list[View] = []
    for value in node.outputs:
        parts.append(view.window(axis, start, 1, value.shape[axis]))
        start = value.shape[axis] + start
    return parts


def slice_windows(node: Node) -> list[tuple[int, Dim, int]] | None:
    """Axis, first index and step of each sliced axis; None where they are not known before the run."""
    inputs = list(node.inputs) + [None] * (5 - len(node.inputs))
    data, starts, steps = node.input, known(inputs[1]), known_integers(inputs[4])
    axes = known_integers(inputs[3])
    if starts is None or (inputs[4] is not None and steps is None) or (inputs[3] is not None and axes is None):
        return None
    axes = list(range(len(starts))) if axes is None else axes
    windows: list[tuple[int, Dim, int]] = []
    for position, start in enumerate(starts):
        axis = resolve_axis(axes[position], data.rank)
        step = 1 if steps is None else steps[position]
        first = first_index(start, data.shape[axis], step)
        if first is None:
            return None
        windows.append((axis, first, step))
    return windows


def _has_known_ends(node: Node) -> bool:
    """Whether the number of elements along each sliced axis follows from sizes: the sign of each end must be known."""
    starts, ends, data = known(node.inputs[1]), known(node.inputs[2]), node.input
    if starts is None or ends is None or len(starts) != len(ends):
        return False
    for (axis, _, step), start, end in zip(slice_windows(node) or (), starts, ends, strict=True):
        extent = data.shape[axis]
        if not symbols(slice_size(extent, start, end, step)) <= symbols(extent) | symbols(start) | symbols(end):
            return False
        if _is_own_symbol(node.output, axis):
            return False
    return True


def _is_own_symbol(value: Value, axis: int) -> bool:
    """Whether a size has a symbol that inferring the value made up.

    Sizes that are assumed later may settle what stood for it, but the symbol stays in the shapes that came of it.
    """
    atom = lone_atom(value.shape[axis])
    return isinstance(atom, Symbol) and atom.name.startswith(f"{value.name}.")


def first_index(start: Dim, extent: Dim, step: int) -> Dim | None:
    """The first index of a slice after counting from the end and clamping; None where its sign is not known."""
    sign = compare(start, 0)
    if sign is None and not isinstance(start, int):
        low, high = bounds(start)
        sign = 1 if low is not None and low >= 0 else -1 if high is not None and high < 0 else None
    if sign is None:
        return None
    index = start + extent if sign < 0 else start
    last = extent if step > 0 else extent - 1
    return maximum(0, minimum(index, last))
