# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""Which operators PyTorch takes apart before we see them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm
from torch.fx.experimental.symbolic_shapes import guard_or_false

from intaglio.torch.aten import TABLE
from intaglio.torch.fast_paths import fast_paths
from intaglio.torch.layouts import layouts

_MORE = (
    *("addcdiv", "aminmax", "bucketize", "count_nonzero", "cumsum", "dist", "elu_backward"),
    *(
        "_softmax_backward_data",
        "_log_softmax_backward_data",
        "gelu_backward",
        "hardtanh_backward",
        "hardswish_backward",
    ),
    *(
        "hardsigmoid_backward",
        "leaky_relu_backward",
        "mish_backward",
        "mse_loss",
        "mse_loss_backward",
        "nll_loss_forward",
    ),
    *("nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward", "native_layer_norm_backward"),
    *("native_group_norm_backward", "native_batch_norm_backward", "_native_batch_norm_legit_functional"),
    *("_native_batch_norm_legit", "native_batch_norm", "batch_norm_backward", "sigmoid_backward", "silu_backward"),
    *("softplus_backward", "tanh_backward", "threshold_backward", "smooth_l1_loss", "smooth_l1_loss_backward"),
    *("huber_loss", "huber_loss_backward", "binary_cross_entropy", "binary_cross_entropy_backward"),
    *("binary_cross_entropy_with_logits", "soft_margin_loss", "im2col", "col2im", "linalg_vector_norm", "norm"),
    *(
        "logaddexp",
        "logaddexp2",
        "logsumexp",
        "masked_fill",
        "native_dropout_backward",
        "pixel_unshuffle",
        "select_backward",
    ),
    *("slice_backward", "split", "std", "std_mean", "var_mean", "squeeze", "t", "unbind", "unfold_backward", "xlogy"),
    *("grid_sampler_2d", "rrelu_with_noise", "glu", "glu_backward", "logit_backward", "log_sigmoid_forward"),
    *("log_sigmoid_backward", "hardshrink", "softshrink", "celu", "selu", "threshold", "special_entr", "rot90"),
    *("index_add", "index_copy", "masked_scatter", "adaptive_max_pool2d", "addmv", "addr", "diag_embed"),
    *("nan_to_num", "linspace", "logspace", "lerp", "heaviside", "frac", "deg2rad", "rad2deg", "sinc", "hypot"),
    *("reflection_pad1d_backward", "reflection_pad2d_backward", "replication_pad2d_backward", "_fused_rms_norm"),
    *(
        "_batch_norm_with_update",
        "_batch_norm_with_update_functional",
        "ldexp",
        "narrow_copy",
        "permute_copy",
        "unbind_copy",
        "tril_indices",
        "triu_indices",
    ),
    *("_fused_rms_norm_backward", "isfinite", "isneginf", "isposinf", "baddbmm", "diagonal_backward"),
)

_MEAN = 1
"""How ATen says that a loss is the mean of its elements."""


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's own table for what we do not say ourselves."""
    found = dict(core_aten_decompositions())
    for name in _MORE:
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            each = getattr(packet, overload)
            if each in decomposition_table:
                found[each] = decomposition_table[each]
    del found[torch.ops.aten.bernoulli.default]  # it would draw single numbers for probabilities in double precision
    found[torch.ops.aten.native_dropout.default] = _native_dropout
    found[torch.ops.aten.smooth_l1_loss_backward.default] = _smooth_l1_loss_backward
    found[torch.ops.aten.huber_loss_backward.default] = _huber_loss_backward
    found[torch.ops.aten.std.correction] = _std
    found[torch.ops.aten.std_mean.correction] = _std_mean
    found[torch.ops.aten.bucketize.Tensor] = _bucketize
    found[torch.ops.aten.celu.default] = _celu
    found[torch.ops.aten.channel_shuffle.default] = _channel_shuffle
    found[torch.ops.aten.pixel_unshuffle.default] = _pixel_unshuffle
    found |= fast_paths()
    found = {each: how for each, how in found.items() if str(each) not in TABLE}
    return found | layouts(found, TABLE)


def _native_dropout(x: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Dropout with a mask that depends on sizes and strides alone, so that PyTorch can draw it before all else runs."""
    if x.numel() == 0:
        return x, torch.ones_like(x, dtype=torch.bool)  # x itself, as eager does
    if train is False:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        return x * torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)  # signs and NaN stay, as in eager
    mask = _mask(x, 1 - p)
    return x * mask * (1 / (1 - p)), mask


def _mask(x: torch.Tensor, share: float) -> torch.Tensor:
    """Random truth values for a tensor, drawn in the order in which eager's mask lies in memory."""
    order, _ = compute_elementwise_output_logical_to_physical_perm(x)
    ordered = torch.empty([x.shape[axis] for axis in order], dtype=torch.bool, device=x.device)
    drawn = torch.ops.aten.bernoulli.p(ordered, share)
    if order == list(range(x.ndim)):
        return drawn
    return drawn.permute(sorted(range(x.ndim), key=lambda place: order[place]))


def _channel_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    """The channels in another order: a tensor of its own also where the order is the old one, as in eager."""
    found = decomposition_table[torch.ops.aten.channel_shuffle.default](x, groups)
    is_same = groups == 1 or groups == x.shape[1]
    return found.clone() if is_same and x.numel() else found


def _pixel_unshuffle(x: torch.Tensor, factor: int) -> torch.Tensor:
    """The parts of pixels as channels; nothing keeps its shape, as in eager."""
    if guard_or_false(x.numel() == 0):
        return x.clone()
    return decomposition_table[torch.ops.aten.pixel_unshuffle.default](x, factor)


def _bucketize(x: torch.Tensor, boundaries: torch.Tensor, **options: Any) -> torch.Tensor:
    """The intervals of numbers; PyTorch's form reads data where the tensor has no axes."""
    found = decomposition_table[torch.ops.aten.bucketize.Tensor](
        x.reshape(-1) if x.ndim == 0 else x, boundaries, **options
    )
    return found.reshape(x.shape) if x.ndim == 0 else found


def _celu(x: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    """As in eager, where 0 is no part of what alpha bends: that counts where alpha is not finite."""
    return torch.ops.aten.elu(x, alpha, 1.0, 1.0 / alpha)


def _std(x: torch.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> torch.Tensor:
    """The standard deviation by a variance in double precision, as eager has it: squares of 1e-30 are no 0."""
    found = torch.var(x.double(), dim, correction=correction, keepdim=keepdim)
    return found.sqrt().to(x.dtype)


def _std_mean(
    x: torch.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The standard deviation as above, and the mean."""
    mean = x.mean(tuple(range(x.ndim)) if dim is None else dim, keepdim)
    return _std(x, dim, correction=correction, keepdim=keepdim), mean


def _smooth_l1_loss_backward(
    gradient: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int, beta: float
) -> torch.Tensor:
    """The gradient of smooth_l1_loss. PyTorch's own form takes the sign of NaN, which is 0; eager keeps NaN."""
    apart = x - target
    share = gradient / apart.numel() if reduction == _MEAN else gradient
    return _within(apart, beta, share * apart / beta if beta else share * apart, share)


def _huber_loss_backward(
    gradient: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int, delta: float
) -> torch.Tensor:
    """The gradient of huber_loss, which keeps NaN as eager does."""
    apart = x - target
    share = gradient / apart.numel() if reduction == _MEAN else gradient
    return _within(apart, delta, share * apart, share * delta)


def _within(apart: torch.Tensor, limit: float, inside: torch.Tensor, outside: torch.Tensor) -> torch.Tensor:
    return torch.where(apart <= -limit, -outside, torch.where(apart >= limit, outside, inside))
