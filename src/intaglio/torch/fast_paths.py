# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""The two fused operators of PyTorch's transformer modules, which these call in evaluation, taken apart.

`nn.TransformerEncoderLayer` and `nn.MultiheadAttention` are single operators there: left whole, they would run in
PyTorch, with nothing around them fused into them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional


def fast_paths() -> dict[Any, Callable[..., Any]]:
    """What each of them is made of."""
    aten = torch.ops.aten
    return {
        aten._transformer_encoder_layer_fwd.default: _encoder_layer,
        aten._native_multi_head_attention.default: _attention,
    }


def _encoder_layer(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """Attention and two linear layers, each added to what goes in, with a normalisation ahead of it or behind."""
    if src.is_nested:
        return NotImplemented

    def normal(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attend(x: torch.Tensor) -> torch.Tensor:
        weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return _attention(x, x, x, embed_dim, num_heads, *weights, mask, False, True, mask_type)[0]

    def feed(x: torch.Tensor) -> torch.Tensor:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        inner = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(inner, ffn_weight_2, ffn_bias_2)

    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    if norm_first:
        x = src + attend(normal(src, *first))
        return x + feed(normal(x, *second))
    x = normal(src + attend(src), *first)
    return normal(x + feed(x), *second)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of several heads with its four linear layers; and the weights of it, where they are wanted."""
    if query.is_nested or key.is_nested:
        return NotImplemented
    projected = _projected((query, key, value), qkv_weight, qkv_bias)
    q, k, v = (each.unflatten(-1, (num_head, -1)).transpose(1, 2) for each in projected)
    if need_weights or mask is not None:  # a row without any score is NaN here, and 0 in the function below
        scores = (q * (q.shape[-1] ** -0.5)) @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(_left_out(mask, mask_type, q.shape[0]), float("-inf"))
        chances = torch.softmax(scores, -1)
        found = chances @ v
        weights = query.new_empty(0) if not need_weights else chances.mean(1) if average_attn_weights else chances
    else:
        found, weights = functional.scaled_dot_product_attention(q, k, v), query.new_empty(0)
    return functional.linear(found.transpose(1, 2).flatten(2), proj_weight, proj_bias), weights


def _projected(
    given: tuple[torch.Tensor, torch.Tensor, torch.Tensor], weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Query, key and value behind their linear layers, by one product where they are one tensor."""
    if given[0] is given[1] and given[1] is given[2]:
        return functional.linear(given[0], weight, bias).chunk(3, -1)
    parts = zip(given, weight.chunk(3), bias.chunk(3), strict=True)
    return tuple(functional.linear(*each) for each in parts)


def _left_out(mask: torch.Tensor, mask_type: int | None, batch: int) -> torch.Tensor:
    """Which scores do not count, in four dimensions; a mask tells them by query and key, by sample and key, or all."""
    out = mask.to(torch.bool)
    if mask_type == 0:
        return out[None, None]
    return out.view(batch, 1, 1, -1) if mask_type == 1 else out
