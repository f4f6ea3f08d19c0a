# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""Operators whose results lie in memory otherwise in eager mode than PyTorch's traces of them say.

What PyTorch takes apart keeps the order of its operands, where the operator itself writes in the usual order or with
channels last. A trace that says otherwise than eager gives users other strides, and all that follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import torch
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm as order_of_elements
from torch._prims_common import suggest_memory_format
from torch.utils import _pytree as pytree

Layout = Callable[..., torch.Tensor]
"""Lays a result, given before the tensors among the operands, as eager has it."""


def usual(result: torch.Tensor, *operands: torch.Tensor) -> torch.Tensor:
    """The result in the usual order."""
    return result.contiguous()


def suggested(result: torch.Tensor, *operands: torch.Tensor) -> torch.Tensor:
    """The result with channels last where the first operand has them so, else in the usual order."""
    return result.contiguous(memory_format=suggest_memory_format(operands[0]))


def elementwise(result: torch.Tensor, *operands: torch.Tensor) -> torch.Tensor:
    """The result in the order of its operands, of which the first counts most and those without axes not at all."""
    whole = [each.expand(result.shape) for each in operands if each.ndim]
    order, _ = order_of_elements(*whole)
    back = sorted(range(result.ndim), key=lambda axis: order[axis])
    return result.permute(order).contiguous().permute(back)


_LAYOUTS: dict[str, Layout] = {
    **dict.fromkeys(("log_sigmoid_forward", "rrelu_with_noise", "rrelu_with_noise_functional"), usual),
    **dict.fromkeys(("channel_shuffle", "native_channel_shuffle", "max_unpool2d", "max_unpool3d"), suggested),
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"), suggested),
    **dict.fromkeys(("_native_batch_norm_legit_functional", "_batch_norm_with_update_functional"), suggested),
    "isin": usual,
    "_native_batch_norm_legit_no_training": suggested,
    **dict.fromkeys(("copysign", "div", "floor_divide"), elementwise),
}


def layouts(known: Mapping[Any, Callable[..., Any]], ours: Mapping[str, Any]) -> dict[Any, Callable[..., Any]]:
    """How these operators are taken apart: as PyTorch does it where we do not have them, with the layout of eager."""
    found: dict[Any, Callable[..., Any]] = {}
    for name, layout in _LAYOUTS.items():
        packet = getattr(torch.ops.aten, name)
        for each in (getattr(packet, overload) for overload in packet.overloads()):
            if _is_functional(each) and (each in known or str(each) in ours or "rrelu" in name):
                found[each] = _laid(each, layout, None if str(each) in ours else known.get(each))
    return found


def _is_functional(operator: Any) -> bool:
    """Whether an operator of ATen takes tensors and writes to none."""
    arguments = operator._schema.arguments
    return not operator._schema.is_mutable and bool(arguments) and "Tensor" in str(arguments[0].type)


def _laid(operator: Any, layout: Layout, apart: Callable[..., Any] | None) -> Callable[..., Any]:
    """A decomposition that lays the first result. An operator that is not taken apart is called from inside of it."""
    is_inside = False

    @wraps(apart or operator)
    def run(*arguments: Any, **named: Any) -> Any:
        nonlocal is_inside
        tensors = [each for each in pytree.tree_leaves((arguments, named)) if isinstance(each, torch.Tensor)]
        if is_inside or all(each.is_contiguous() for each in tensors):
            return NotImplemented if apart is None else apart(*arguments, **named)
        try:
            is_inside = True
            result = (apart or operator)(*arguments, **named)
        finally:
            is_inside = False
        if result is NotImplemented:
            return result
        if isinstance(result, torch.Tensor):
            return layout(result, *tensors)
        return (layout(result[0], *tensors), *result[1:])

    return run
