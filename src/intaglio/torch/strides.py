# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""How tensors lie in memory that a forward pass keeps for the backward one.

We write them in the usual order, also where eager would keep a view in another. AOTAutograd is told, and hands the
backward pass examples of what it will really get: code that is made for another order would have to copy them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch._guards import TracingContext
from torch._prims_common import make_contiguous_strides_for
from torch.fx import GraphModule, Node


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


def take_strides(module: GraphModule, examples: Sequence[Any]) -> None:
    """Take the strides of a graph's inputs from examples of them, where they are numbers."""
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, example in zip(inputs, examples, strict=False):
        value: Any = node.meta["val"]
        if _are_numbers(example) and _are_numbers(value) and value.stride() != example.stride():
            node.meta["val"] = example


def _are_numbers(value: Any) -> bool:
    """Whether all sizes and strides of a tensor are numbers, and not symbols."""
    if not isinstance(value, torch.Tensor):
        return False
    told: list[Any] = [*value.shape, *value.stride()]
    return all(isinstance(number, int) for number in told)
