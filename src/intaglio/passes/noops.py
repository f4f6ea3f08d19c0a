"""Nodes that change nothing, and chains of data movement that are one movement."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node
from intaglio.ops.indices import known
from intaglio.passes.driver import Result, rule
from intaglio.passes.match import integers, produced, rank_of, same_type
from intaglio.passes.shapes import is_of_same_size, reshape_target

VIEWS = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")
"""Operators that keep all elements in their order."""


@rule("Identity")
def identity(b: Builder, node: Node) -> Result:
    """identity(x) -> x"""
    del b
    return node.input


@rule("Sum", "Max", "Min", "Mean", "Concat")
def single_operand(b: Builder, node: Node) -> Result:
    """sum(x), max(x), min(x), mean(x), concat(x) -> x"""
    del b
    return node.input if len(node.inputs) == 1 else None


@rule("Dropout")
def dropout(b: Builder, node: Node) -> Result:
    """dropout(x) -> x, outside training and where nobody reads the mask"""
    del b
    training = node.optional(2)
    is_training = training is not None and (training.constant is None or bool(training.constant.any()))
    if is_training or any(value.uses for value in node.outputs[1:]):
        return None
    return node.input


@rule("Cast", "CastLike")
def same_cast(b: Builder, node: Node) -> Result:
    """cast(x: t, t) -> x"""
    del b
    x = node.input
    return x if x.dtype == node.output.dtype else None


@rule("Cast")
def cast_back(b: Builder, node: Node) -> Result:
    """cast(cast(x: t, wider), t) -> x"""
    del b
    inner = produced(node.input, "Cast")
    if inner is None:
        return None
    x = inner.input
    return x if x.dtype == node.output.dtype and _holds(inner.output.dtype, x.dtype) else None


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of one element type can be told apart in the other."""
    if wide.is_float and narrow.is_float:
        return wide.name in ("float32", "float64") and wide.bits > narrow.bits
    return wide.kind == narrow.kind and wide.is_integer and wide.bits > narrow.bits


@rule("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand")
def same_shape(b: Builder, node: Node) -> Result:
    """reshape(x, shape of x), expand(x, shape of x) -> x

    A shape to expand to of which a size is known only at run time stays, for it may not fit.
    """
    del b
    x = node.input
    if not same_type(x, node.output):
        return None
    return x if node.op.name != "Expand" or _surely_fits(known(node.inputs[1]), x.shape) else None


def _surely_fits(target: list[Dim] | None, shape: Sequence[Dim]) -> bool:
    """Whether each size to expand to is 1 or the size that is there, in every run."""
    pairs = zip(reversed(target or ()), reversed(shape), strict=False)
    return target is not None and all(wanted in (1, size) for wanted, size in pairs)


@rule(*VIEWS)
def view_of_view(b: Builder, node: Node) -> Result:
    """reshape(reshape(x, a), b) -> reshape(x, b); squeeze, unsqueeze and flatten are reshapes

    An inner one that the sizes of a run may not fit stays.
    """
    inner = produced(node.input, *VIEWS)
    if inner is None or not is_of_same_size(inner.input, inner.output):
        return None
    x = inner.input
    if same_type(x, node.output):
        return x
    target = reshape_target(x, node.output.shape) if rank_of(node.output) is not None else None
    return None if target is None else b.Reshape(x, b.constant(target, name="shape"))


@rule("Transpose")
def same_order(b: Builder, node: Node) -> Result:
    """transpose(x, (0, 1, 2, ...)) -> x"""
    del b
    x = node.input
    order = permutation(node)
    return x if order is not None and order == list(range(len(order))) else None


@rule("Transpose")
def transpose_of_transpose(b: Builder, node: Node) -> Result:
    """transpose(transpose(x, p), q) -> transpose(x, p[q])"""
    inner = produced(node.input, "Transpose")
    outer_order = permutation(node)
    inner_order = permutation(inner) if inner is not None else None
    if inner is None or outer_order is None or inner_order is None:
        return None
    return b.Transpose(inner.input, perm=tuple(inner_order[axis] for axis in outer_order))


def permutation(node: Node) -> list[int] | None:
    """The order of axes that a Transpose gives, None where the rank is not known."""
    perm, rank = getattr(node.op, "perm", None), rank_of(node.input)
    if perm is not None:
        return [int(axis) for axis in perm]
    return None if rank is None else list(range(rank))[::-1]


@rule("Pad")
def empty_pad(b: Builder, node: Node) -> Result:
    """pad(x, zeros) -> x"""
    del b
    pads = integers(node.optional(1))
    return node.input if pads is not None and not any(pads) else None


@rule("Slice")
def whole_slice(b: Builder, node: Node) -> Result:
    """slice(x) of the whole of x -> x; with a step of 1 an equal shape means that nothing is cut"""
    del b
    x, steps = node.input, node.optional(4)
    known = [1] if steps is None else integers(steps)
    return x if known is not None and all(step == 1 for step in known) and same_type(x, node.output) else None


@rule("Tile")
def tile_once(b: Builder, node: Node) -> Result:
    """tile(x, ones) -> x"""
    del b
    repeats = integers(node.optional(1))
    return node.input if repeats is not None and all(count == 1 for count in repeats) else None


@rule("Clip")
def clip_without_bounds(b: Builder, node: Node) -> Result:
    """clip(x) -> x"""
    del b
    return node.input if node.optional(1) is None and node.optional(2) is None else None
