"""How far rounding may carry the results of a PyTorch program: eager, run again with every rounding moved.

A dispatch mode sees each ATen operator under autograd, so backward passes are shaken too. The result of each operator
moves by up to a unit in the last place of its type, and so do the operands of operators that sum. Operators that only
move, choose or compare elements are not shaken: programs of nothing else must agree in every bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


MOVES = _names(
    "clone copy copy_ cat stack index index_put index_put_ _index_put_impl_ _unsafe_index _unsafe_index_put gather "
    "scatter scatter_ masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select where fill fill_ zero "
    "zero_ zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full empty empty_like new_empty "
    "empty_strided new_empty_strided arange eye tril tril_ triu triu_ roll flip repeat constant_pad_nd "
    "reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d sort topk max min amax amin argmax argmin "
    "maximum minimum abs abs_ neg neg_ sign sign_ relu relu_ ceil ceil_ floor floor_ trunc trunc_ round round_ clamp "
    "clamp_ clamp_min clamp_min_ clamp_max clamp_max_ kthvalue median nanmedian mode cummax cummin unique "
    "_unique2 nonzero eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isfinite any all "
    "bitwise_and bitwise_or bitwise_xor bitwise_not embedding index_select index_copy index_copy_ index_fill "
    "index_fill_ slice_scatter select_scatter diagonal_scatter as_strided_scatter slice_backward select_backward "
    "diagonal_backward nan_to_num fmax fmin max_pool2d_with_indices max_pool2d_with_indices_backward "
    "adaptive_max_pool2d threshold threshold_backward hardtanh hardtanh_ rand randn randint randperm rand_like "
    "randn_like bernoulli bernoulli_ uniform_ normal_ exponential_ multinomial normal resize_ set_ lift_fresh "
    "_local_scalar_dense diag_embed repeat_interleave take put unfold_backward max_unpool2d bucketize searchsorted "
    "histc bincount fill_diagonal_ detach alias view as_strided expand permute transpose"
)
"""Operators whose results are elements of their operands, random numbers, or no floats."""
POINTS = _names(
    "add add_ sub sub_ rsub mul mul_ div div_ reciprocal reciprocal_ sqrt sqrt_ rsqrt rsqrt_ exp exp_ exp2 expm1 "
    "expm1_ log log_ log2 log10 log1p log1p_ sin sin_ cos cos_ tan tanh tanh_ sigmoid sigmoid_ erf erf_ erfc asin "
    "acos atan sinh cosh asinh acosh atanh pow pow_ _to_copy atan2 leaky_relu leaky_relu_ sigmoid_backward "
    "tanh_backward"
)
"""Elementwise operators: their results are rounded, their operands are not touched."""
COMPARES = _names(
    "eq ne lt le gt ge sign sign_ logical_and logical_or logical_xor logical_not any all ceil ceil_ argmax argmin sort "
    "topk maximum minimum nonzero _to_copy isin bucketize searchsorted"
)
"""Operators that may see a denormal number in another way than a zero; compiled code may take the one for the other."""
CANCELLING = _names(
    "gelu gelu_backward elu elu_ elu_backward celu selu hardswish hardswish_ hardswish_backward silu silu_ "
    "silu_backward mish mish_backward softplus softplus_backward log_sigmoid_forward log_sigmoid_backward erfc"
)
"""Functions of the form x * (1 + f(x)) or f(x) + 1: what is rounded in them is as large as the operand, or as 1."""


TWO_WAYS = _names("gelu gelu_backward hardtanh_backward logit_backward")
"""Functions for which eager has two answers where numbers are not finite: one of its code for vectors, one of its code
for single elements, which it takes for the last elements of a tensor and for those that do not lie side by side.
`gelu(inf)` is NaN in the one and infinity in the other, the gradient of `hardtanh(nan)` 0 in the one and 1 in the
other."""


class Shaking(TorchDispatchMode):
    """Moves the roundings of all operators that are called inside; may take denormal operands for zeros.

    The sign of NaN means nothing: each NaN that an operator returns may get another.
    """

    def __init__(self, seed: int, is_flushing: bool = False) -> None:
        super().__init__()
        self.dice = torch.Generator().manual_seed(seed)
        self.is_flushing = is_flushing

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        named = kwargs or {}
        if func.is_view:
            return func(*args, **named)
        if self.is_flushing and (name in COMPARES or name not in MOVES):
            args = _flush(args, func._schema.is_mutable)
        if name in MOVES:
            return func(*args, **named)
        is_fused = "alpha" in named  # eager rounds such a product and its sum once
        if (name not in POINTS or is_fused) and not func._schema.is_mutable:
            args = tree_map(self.moved, args)
        result = func(*args, **named)
        if name in TWO_WAYS:
            self._mix(result, func(*tree_map(_apart, args), **named))
        if name in CANCELLING and _is_float(result):
            self.move(result, max(1.0, *(_greatest(each) for each in args)))
        tree_map(self.move, result)
        return result

    def _mix(self, result: Any, other: Any) -> None:
        """Take half of the elements from the other result."""
        is_other = torch.rand(result.shape, generator=self.dice) < 0.5
        result.copy_(torch.where(is_other, other, result))

    def moved(self, value: Any) -> Any:
        """A copy of a tensor of floats, a rounding off."""
        if not _is_float(value):
            return value
        return self.move(value.clone())

    def move(self, value: Any, size: float = 0.0) -> Any:
        """Move the elements of a tensor by up to a unit in the last place: of their own, or of a number."""
        if not _is_float(value) or not value.numel():
            return value
        step = torch.finfo(value.dtype).eps
        noise = step * (2 * torch.rand(value.shape, generator=self.dice, dtype=torch.float64) - 1)
        wide = value.double()
        is_turned = wide.isnan() & (torch.rand(value.shape, generator=self.dice) < 0.5)
        wide = torch.where(is_turned, -wide, wide)
        value.copy_((wide + size * noise if size else wide * (1 + noise)).to(value.dtype))
        return value


def _flush(arguments: Any, is_written: bool) -> Any:
    """Arguments with zeros for denormal numbers; the first one itself where the operator writes to it."""
    if is_written and arguments and _is_float(arguments[0]):
        arguments[0].copy_(_without_denormals(arguments[0]))
        return arguments[0], *tree_map(_without_denormals, arguments[1:])
    return tree_map(_without_denormals, arguments)


def _without_denormals(value: Any) -> Any:
    """A tensor of floats with zeros for denormal numbers."""
    if not _is_float(value):
        return value
    is_denormal = (value != 0) & (value.abs() < torch.finfo(value.dtype).tiny)
    return torch.where(is_denormal, 0.0, value) if is_denormal.any() else value


def _apart(value: Any) -> Any:
    """A tensor of floats whose elements do not lie side by side."""
    return torch.stack((value, value), -1)[..., 0] if _is_float(value) else value


def _greatest(value: Any) -> float:
    """The largest finite magnitude among the elements of a tensor."""
    if not _is_float(value) or not value.numel():
        return 0.0
    return float(value.double().abs().nan_to_num(0.0, 0.0, 0.0).max())


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point
