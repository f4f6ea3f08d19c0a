"""Images whose channels a routine reads and writes last, whatever the order in which their neighbours want them."""

from __future__ import annotations

from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.layout import to_first, to_last
from intaglio.kernels.view import View, whole
from intaglio.targets.c.rules.widen import converted


def channels_last(context: Context, value: Value, dtype: DType) -> View:
    """The elements of an image in a type, side by side with the channels last; a copy where they are not so."""
    view = context.view(value).transpose(to_last(value.rank))
    if value.dtype != dtype:
        return converted(context, view, value.dtype, dtype)
    return view if view.is_contiguous else context.copy(value, view)


def result_last(context: Context, node: Node, dtype: DType) -> View:
    """Fresh memory in a type for the node's output with its channels last."""
    output = node.outputs[0]
    shape = tuple(output.shape[axis] for axis in to_last(output.rank))
    return whole(context.temporary(dtype, output.tensor.size, output.name), shape)


def give_last(context: Context, node: Node, result: View) -> None:
    """Let what a routine has written with the channels last be the node's output: converted, and as a view."""
    output, dtype = node.outputs[0], result.buffer.dtype
    if dtype != output.dtype:
        result = converted(context, result, dtype, output.dtype)
    context.views[output] = result.transpose(to_first(output.rank))


MOST_AXES = 6
"""Axes of an image, besides its batch and channels, for which kernels that sample it are printed."""
