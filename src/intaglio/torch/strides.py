# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""How tensors lie in memory: those that PyTorch sees, and those that a forward pass keeps for the backward one.

We write the latter in the usual order, also where eager would keep a view in another. AOTAutograd is told, and hands
the backward pass examples of what it will really get: code that is made for another order would have to copy them.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any

import torch
from sympy import expand
from torch._guards import TracingContext
from torch._prims_common import make_contiguous_strides_for
from torch.fx import GraphModule, Node
from torch.utils._sympy.functions import Max


def memory_order(tensor: Any) -> tuple[int, ...] | None:
    """The order of axes in which a tensor lies in memory without gaps; None for the usual order, and where gaps are."""
    usual = tuple(range(tensor.ndim))
    if tensor.ndim < 2 or 0 in _numbers(tensor.shape) or _is_dense(tensor, usual):
        return None
    hints = [_hint(stride) for stride in tensor.stride()]
    if None in hints:
        return None
    order = tuple(sorted(usual, key=lambda axis: (-(hints[axis] or 0), axis)))
    return order if _is_dense(tensor, order) else None


def is_gapless(tensor: Any) -> bool:
    """Whether a tensor is known to lie in memory without gaps, in any order of its axes."""
    if 0 in _numbers(tensor.shape):
        return True
    return memory_order(tensor) is not None or _is_dense(tensor, tuple(range(tensor.ndim)))


def is_overlapping(tensor: Any) -> bool:
    """Whether elements of a tensor share memory because an axis has no stride."""
    pairs = zip(_numbers(tensor.shape), _numbers(tensor.stride()), strict=True)
    return any(stride == 0 and size != 1 for size, stride in pairs)


def may_share_memory(node: Node) -> bool:
    """Whether elements of a node's tensor may share memory, as those of `as_strided` and `expand` do."""
    value: Any = node.meta["val"]
    if isinstance(value, torch.Tensor) and (is_gapless(value) or _is_spread(value)):
        return False
    source = viewed(node)
    target: Any = node.target
    return source is None or getattr(target, "_opname", "") in _SHARING or may_share_memory(source)


_SHARING = {"as_strided", "expand", "unfold"}
"""Views whose elements may share memory where those of the tensor do not."""


def _is_spread(tensor: Any) -> bool:
    """Whether each axis is known to step over all that lies within the axes of smaller steps."""
    pairs = [(s, d) for s, d in zip(_numbers(tensor.shape), _numbers(tensor.stride()), strict=True) if s != 1]
    if any(size is None or stride is None for size, stride in pairs):
        return False
    last = 0
    for size, stride in sorted(pairs, key=lambda pair: pair[1] or 0):
        if (stride or 0) <= last:
            return False
        last += ((size or 0) - 1) * (stride or 0)
    return True


def viewed(node: Node) -> Node | None:
    """The node whose memory a node's result lies in; None where it has memory of its own."""
    if node.op != "call_function" or not node.args:
        return None
    source = node.args[0]
    if not isinstance(source, Node):
        return None
    if node.target is operator.getitem:
        return source if viewed(source) is not None else None
    return source if is_view(node.target) else None


def is_view(target: Any) -> bool:
    """Whether the result of an operator shares memory with its first operand; `_unsafe_view` does without saying so."""
    return isinstance(target, torch._ops.OpOverload) and (target.is_view or target._opname == "_unsafe_view")


def _is_dense(tensor: Any, order: Sequence[int]) -> bool:
    """Whether strides are those of a tensor without gaps whose axes lie in this order, for all sizes."""
    expected: Any = 1
    for axis in reversed(order):
        size, stride = _expression(tensor.shape[axis]), _expression(tensor.stride()[axis])
        if size == 1:
            continue
        if stride != expected and expand(stride - expected) != 0:
            return False
        expected = expected * size
    return True


def _expression(size: Any) -> Any:
    """A size as a number or an expression of SymPy, without the least value of 1 that empty tensors need."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return expression.replace(_is_at_least_one, lambda found: Max(*[each for each in found.args if each != 1]))


def _is_at_least_one(expression: Any) -> bool:
    return isinstance(expression, Max) and 1 in expression.args


def _numbers(sizes: Sequence[Any]) -> list[int | None]:
    return [size if isinstance(size, int) else None for size in sizes]


def _hint(size: Any) -> int | None:
    return size if isinstance(size, int) else size.node.hint


def tell_strides(returned: Sequence[Any], plain: Collection[Node]) -> None:
    """Tell AOTAutograd the strides of what a forward graph returns, as far as we choose them and they are numbers.

    It counts them behind the tokens, which stand for effects and come first.
    """
    context = TracingContext.try_get()
    if context is None or context.output_strides is None or context.fw_metadata is None:
        return
    behind = returned[len(context.fw_metadata.tokens) :]
    context.output_strides.extend(_strides(each) if each in plain else None for each in behind)


def _strides(node: Node) -> tuple[int, ...] | None:
    value: Any = node.meta["val"]
    if not _are_numbers(value):
        return None
    return tuple(make_contiguous_strides_for(value.shape))


def take_strides(module: GraphModule, examples: Sequence[Any], seen: Collection[Node]) -> None:
    """Take the strides of inputs from examples of them, where they are numbers and PyTorch does not see the input."""
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, example in zip(inputs, examples, strict=False):
        value: Any = node.meta["val"]
        if node not in seen and _are_numbers(example) and _are_numbers(value) and value.stride() != example.stride():
            node.meta["val"] = example


def _are_numbers(value: Any) -> bool:
    """Whether all sizes and strides of a tensor are numbers, and not symbols."""
    if not isinstance(value, torch.Tensor):
        return False
    told: list[Any] = [*value.shape, *value.stride()]
    return all(isinstance(number, int) for number in told)
