"""Nodes that change nothing, and chains of data movement that are one movement."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node
from intaglio.ops.shared.indices import known
from intaglio.passes.driver import Result, rule
from intaglio.passes.match import axes_of, integers, produced, rank_of, same_type
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


@rule("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
def reduction_of_one(b: Builder, node: Node) -> Result:
    """reduce(x, axes of size 1) -> x, or squeeze(x)"""
    axes = axes_of(node)
    if axes is None or any(node.input.shape[axis] != 1 for axis in axes):
        return None
    return node.input if node.op.keepdims else b.Squeeze(node.input, axes)


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


@rule(*VIEWS)
def split_transpose_merge(b: Builder, node: Node) -> Result:
    """reshape(transpose(reshape(x, a), p), c) -> reshape(transpose(reshape(x, b), q), c), where b splits axes of x

    Of strided data nothing but the last one makes a copy: heads that were merged with a batch to be moved, for one.
    """
    transpose = produced(node.input, "Transpose")
    inner = produced(transpose.input, *VIEWS) if transpose is not None else None
    order = permutation(transpose) if transpose is not None else None
    if transpose is None or inner is None or order is None or rank_of(node.output) is None:
        return None
    parts = _parts(transpose.output.shape, node.output.shape)
    if parts is None or rank_of(inner.input) is None:
        return None
    middle = [parts[order.index(axis)] for axis in range(len(order))]
    split = [size for part in middle for size in part]
    found = _parts(inner.input.shape, split)
    if found is None or [size for part in found for size in part] != split or split == list(inner.output.shape):
        return None
    starts = [sum(map(len, middle[:axis])) for axis in range(len(middle))]
    moved = tuple(place for axis in order for place in range(starts[axis], starts[axis] + len(middle[axis])))
    first = reshape_target(inner.input, split)
    if first is None:
        return None
    result = b.Transpose(b.Reshape(inner.input, b.constant(first, name="shape")), perm=moved)
    last = reshape_target(result, node.output.shape)
    return None if last is None else b.Reshape(result, b.constant(last, name="shape"))


def _parts(shape: Sequence[Dim], other: Sequence[Dim]) -> list[list[Dim]] | None:
    """The axes of a shape split until each axis of the other, apart from ones, is made of whole parts.

    None where they cannot be split so.

    >>> _parts((128, 64, 32), (128, 8, 256))
    [[128], [8, 8], [32]]
    >>> _parts((1, 6), (4, 3)) is None
    True
    """
    wanted, parts = [size for size in other if size != 1], list[list[Dim]]()
    for size in shape:
        left, part = size, list[Dim]()
        while left != 1:
            step = _step(left, wanted[0]) if wanted else None
            if step is None:
                return None
            left, wanted[0] = (1 if each == step else int(each) // int(step) for each in (left, wanted[0]))
            part.append(step)
            if wanted[0] == 1:
                wanted.pop(0)
        parts.append(part)
    return None if wanted else parts


def _step(left: Dim, right: Dim) -> Dim | None:
    """The smaller of two sizes that one is a multiple of, or an open size that both are."""
    if left == right:
        return left
    if not isinstance(left, int) or not isinstance(right, int) or min(left, right) < 1:
        return None
    return None if max(left, right) % min(left, right) else min(left, right)


@rule("Transpose")
def transpose_of_concat(b: Builder, node: Node) -> Result:
    """transpose(concat(x, y, ...)) -> concat(transpose(x), transpose(y), ...), where rows stay rows

    One copy puts the parts where they belong.
    """
    concat, order = produced(node.input, "Concat"), permutation(node)
    if concat is None or order is None or len(concat.output.readers) != 1 or concat.output.is_output:
        return None
    axis = concat.op.axis % len(order)
    if order[-1] != len(order) - 1 or axis == order[-1]:
        return None
    parts = [b.Transpose(part, perm=tuple(order)) for part in concat.inputs if part is not None]
    return b.Concat(*parts, axis=order.index(axis))


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
