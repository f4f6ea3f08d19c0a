"""Fewer nodes for whoever reads a graph: what two operators say, said by one that the standard has for it.

Our own kernels gain nothing by these rules, so that `simplify` runs them for files only.
"""

from __future__ import annotations

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.ops.convolution import Conv
from intaglio.passes.driver import Result, rule
from intaglio.passes.match import either, integers, pair, produced, rank_of, same_type, scalar


@rule("Add", changes_rounding=True, fuses=True)
def gemm_of_product(b: Builder, node: Node) -> Result:
    """x @ w + c -> gemm(x, w, c), for matrices"""
    for product, bias in either(node, "MatMul"):
        left, right = pair(product)
        if rank_of(left) != 2 or rank_of(right) != 2 or not same_type(product.output, node.output):
            continue
        if bias.constant is not None and (rank_of(bias) or 0) <= 2 and node.output.dtype.is_float:
            return b.Gemm(left, right, bias)
    return None


@rule("Gemm", "MatMul", fuses=True)
def gemm_of_transposed(b: Builder, node: Node) -> Result:
    """gemm(transpose(x), w) -> gemm(x, w, transA=1); so for w, and for products of matrices"""
    operands = [node.needed(0), node.needed(1)]
    flags = [getattr(node.op, name, 0) for name in ("transA", "transB")]
    turned = [_turned(value) for value in operands]
    if all(each is None for each in turned) or any(rank_of(value) != 2 for value in operands):
        return None
    if not node.output.dtype.is_float:
        return None
    operands = [value if each is None else each for value, each in zip(operands, turned, strict=True)]
    flags = [flag if each is None else 1 - flag for flag, each in zip(flags, turned, strict=True)]
    alpha, beta = getattr(node.op, "alpha", 1.0), getattr(node.op, "beta", 1.0)
    return b.Gemm(*operands, *node.inputs[2:], alpha=alpha, beta=beta, transA=flags[0], transB=flags[1])


def _turned(value: Value) -> Value | None:
    """The matrix that is transposed."""
    node = produced(value, "Transpose")
    if node is None or rank_of(node.input) != 2 or tuple(node.op.perm or (1, 0)) != (1, 0):
        return None
    return node.input


@rule("Conv", fuses=True)
def padded_convolution(b: Builder, node: Node) -> Result:
    """conv(pad(x)) -> conv(x, pads), where zeros are added along the axes of the window"""
    pad = produced(node.input, "Pad")
    if pad is None or not isinstance(node.op, Conv) or node.op.auto_pad not in ("NOTSET", "VALID"):
        return None
    pads, rank = integers(pad.optional(1)), rank_of(pad.input)
    value = pad.optional(2)
    if pads is None or rank is None or pad.op.mode != "constant" or pad.optional(3) is not None:
        return None
    if (value is not None and scalar(value) != 0) or min(pads) < 0 or any(pads[:2] + pads[rank : rank + 2]):
        return None
    own = node.op.pads if node.op.auto_pad == "NOTSET" and node.op.pads else (0,) * (2 * rank - 4)
    added = (*pads[2:rank], *pads[rank + 2 :])
    together = tuple(one + other for one, other in zip(own, added, strict=True))
    return b.add(node.op.changed(pads=together, auto_pad="NOTSET"), [pad.input, *node.inputs[1:]])[0]


@rule("Concat", fuses=True)
def concat_of_concat(b: Builder, node: Node) -> Result:
    """concat(concat(x, y), z) -> concat(x, y, z) along one axis"""
    rank = rank_of(node.output)
    if rank is None:
        return None
    parts = list[Value | None]()
    for value in node.inputs:
        inner = produced(value, "Concat")
        is_same = inner is not None and inner.op.axis % rank == node.op.axis % rank and len(inner.output.uses) == 1
        parts += inner.inputs if inner is not None and is_same else [value]
    return b.Concat(*parts, axis=node.op.axis) if len(parts) > len(node.inputs) else None


@rule("Slice", fuses=True)
def slice_of_slice(b: Builder, node: Node) -> Result:
    """slice(slice(x, axis 2), axis 3) -> slice(x, axes 2 and 3)"""
    inner = produced(node.input, "Slice")
    if inner is None or len(inner.output.uses) != 1:
        return None
    outer_parts, inner_parts = _slice_parts(node), _slice_parts(inner)
    if outer_parts is None or inner_parts is None or {p[0] for p in outer_parts} & {p[0] for p in inner_parts}:
        return None
    axes, starts, ends, steps = (list(column) for column in zip(*inner_parts, *outer_parts, strict=True))
    given = [b.constant(np.array(column, np.int64), name="slice") for column in (starts, ends, axes, steps)]
    return b.Slice(inner.input, *(given if any(step != 1 for step in steps) else given[:3]))


def _slice_parts(node: Node) -> list[tuple[int, int, int, int]] | None:
    """Axis, start, end and step of each cut; None where one is not known before the run."""
    rank = rank_of(node.input)
    starts, ends = integers(node.optional(1)), integers(node.optional(2))
    if rank is None or starts is None or ends is None:
        return None
    axes = list(range(len(starts))) if node.optional(3) is None else integers(node.optional(3))
    steps = [1] * len(starts) if node.optional(4) is None else integers(node.optional(4))
    if axes is None or steps is None or not all(value.constant is not None for value in node.inputs[1:] if value):
        return None
    return list(zip([axis % rank for axis in axes], starts, ends, steps, strict=True))


@rule("Reshape", "Squeeze", "Unsqueeze", "Flatten")
def view_of_elementwise_view(b: Builder, node: Node) -> Result:
    """reshape(f(reshape(x, a)), shape of x) -> f(x), for an elementwise f of one operand"""
    middle = node.input.producer
    if middle is None or not middle.op.is_elementwise or len(middle.inputs) != 1 or len(middle.outputs) != 1:
        return None
    inner = produced(middle.inputs[0], "Reshape", "Squeeze", "Unsqueeze", "Flatten")
    if inner is None or len(middle.output.uses) != 1 or len(inner.output.uses) != 1 or middle.op.is_random:
        return None
    x = inner.input
    if rank_of(x) is None or rank_of(node.output) is None or x.shape != node.output.shape:
        return None
    return b.add(middle.op, [x])[0]


@rule("Reshape")
def plain_reshape(b: Builder, node: Node) -> Result:
    """reshape(x, a, allowzero=1) -> reshape(x, a), where no size is 0: older versions have no such attribute"""
    target = integers(node.optional(1))
    if not node.op.allowzero or target is None or 0 in target:
        return None
    return b.Reshape(node.input, node.needed(1))


@rule("LSTM", "GRU", "RNN")
def zero_states(b: Builder, node: Node) -> Result:
    """lstm(x, initial states of zeros) -> lstm(x), which begins with zeros"""
    operands = list(node.inputs)
    for position in (5, 6):
        if position < len(operands) and operands[position] is not None and _is_zero(operands[position]):
            operands[position] = None
    if operands == list(node.inputs):
        return None
    while operands[-1] is None:
        operands.pop()
    return b.add(node.op, operands, len(node.outputs))


def _is_zero(value: Value | None, depth: int = 6) -> bool:
    """Whether all elements of a value are zero, as far as the nodes above it say."""
    if value is None or depth == 0:
        return False
    if value.constant is not None:
        return value.dtype.is_float and not value.constant.any()
    node = value.producer
    if node is None or node.op.domain:
        return False
    if node.op.name == "ConstantOfShape":
        return node.op.value is None or not node.op.value.array.any()
    if node.op.name == "Concat":
        return all(_is_zero(each, depth - 1) for each in node.inputs)
    is_moved = node.op.name in ("Slice", "Expand", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Tile", "Gather")
    return is_moved and _is_zero(node.inputs[0], depth - 1)


@rule("Resize")
def resize_by_one(b: Builder, node: Node) -> Result:
    """resize(x, scales of 1) -> x"""
    del b
    scales = None if node.optional(2) is None else node.needed(2).constant
    if scales is None or not scales.size or node.op.coordinate_transformation_mode == "tf_crop_and_resize":
        return None
    return node.input if bool((scales == 1).all()) and same_type(node.input, node.output) else None


@rule("Gather", "GatherND")
def gather_of_all(b: Builder, node: Node) -> Result:
    """gather(x, 0, 1, 2, ... n - 1) -> reshape(x): all elements in their order; masks are indexed so"""
    x, indices = node.input, node.needed(1).constant
    if indices is None or rank_of(x) is None or not indices.size:
        return None
    axis, depth = (node.op.axis % x.rank, 1) if node.op.name == "Gather" else (0, indices.shape[-1])
    taken, rest = x.shape[axis : axis + depth], x.shape[axis + depth :]
    if getattr(node.op, "batch_dims", 0) or not all(isinstance(size, int) for size in (*taken, *rest)):
        return None
    shape = indices.shape if node.op.name == "Gather" else indices.shape[:-1]
    sizes = [int(size) for size in taken]
    flat = indices.reshape(-1, depth)
    if len(flat) != np.prod(sizes) or not bool((flat == np.indices(sizes).reshape(depth, -1).T).all()):
        return None
    before = [0] * axis if all(not isinstance(size, int) for size in x.shape[:axis]) else list(x.shape[:axis])
    if not all(isinstance(size, int) for size in before):
        return None
    target = np.array([*before, *shape, *(int(size) for size in rest)], np.int64)
    return b.Reshape(x, b.constant(target, name="shape")) if 0 not in target[axis:] else None
