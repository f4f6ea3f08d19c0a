# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""Operators whose results lie in memory otherwise in eager mode than PyTorch's traces of them say.

What PyTorch takes apart keeps the order of its operands, where the operator itself writes in the usual order or with
channels last. A trace that says otherwise than eager gives users other strides, and all that follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import torch
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm as order_of_elements
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import guard_or_false
from torch.utils import _pytree as pytree

Layout = Callable[..., torch.Tensor]
"""Lays a result, given before the tensors among the operands (`indexed`: before all arguments), as eager has it."""


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


def like_the_first(result: torch.Tensor, *operands: torch.Tensor) -> torch.Tensor:
    """The result in the order of the first operand."""
    return elementwise(result, operands[0])


def scaled(result: torch.Tensor, x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """The result in the order of a product with powers of two, which lie in the usual order."""
    return elementwise(result, x, exponent.contiguous())


def indexed(result: torch.Tensor, x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """The result in the order of the axes that stay, and for those of the indices in the order in which these lie."""
    given = [each for each in indices if each is not None]
    if any(each.dtype in (torch.bool, torch.uint8) for each in given) or all(each.ndim < 2 for each in given):
        return result  # the order of the axes that stay is in the trace
    if guard_or_false(result.numel() == 0):
        return result
    given = list(torch.broadcast_tensors(*given))
    taken = [place for place, each in enumerate(indices) if each is not None]
    front = taken[0] if taken[-1] - taken[0] + 1 == len(taken) else 0
    kept = [stride for place, stride in enumerate(x.stride()) if place not in taken]
    rank = given[0].ndim
    strides = [[*kept[:front], *[0] * rank, *kept[front:]]]
    strides += [[*[0] * front, *each.stride(), *[0] * (len(kept) - front)] for each in given]
    return elementwise(result, *(result.as_strided(result.shape, each) for each in strides))


def of_lines(result: torch.Tensor, *operands: torch.Tensor) -> torch.Tensor:
    """The result in the usual order where it is a batch of lines, as all that PyTorch makes of `_unsafe_index` is."""
    return result.contiguous() if result.ndim == 3 else result


_LAYOUTS: dict[str, Layout] = {
    **dict.fromkeys(("log_sigmoid_forward", "rrelu_with_noise", "rrelu_with_noise_functional"), usual),
    **dict.fromkeys(("_upsample_nearest_exact1d", "max_unpool3d", "isin", "nll_loss2d_forward"), usual),
    **dict.fromkeys(("channel_shuffle", "native_channel_shuffle", "max_unpool2d"), suggested),
    **dict.fromkeys(("reflection_pad3d", "replication_pad3d"), suggested),
    **dict.fromkeys(("logaddexp", "logaddexp2", "heaviside", "special_xlog1py"), elementwise),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), elementwise),
    "binary_cross_entropy": like_the_first,
    "ldexp": scaled,
    "index": indexed,
    "_unsafe_index": of_lines,
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"), suggested),
    **dict.fromkeys(("_native_batch_norm_legit_functional", "_batch_norm_with_update_functional"), suggested),
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
        given = arguments if layout is indexed else tensors
        if isinstance(result, torch.Tensor):
            return layout(result, *given)
        return (layout(result[0], *given), *result[1:])

    return run
