"""Operators of ONNX Runtime (domain com.microsoft) for models with linear attention, gates and several positions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Value
from intaglio.ir.op import Op
from intaglio.ops.contrib.fused import DOMAIN
from intaglio.ops.shared.operand import EPSILON, cast, wide


class LinearAttention(Op):
    """ONNX's LinearAttention."""

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("output", "present_state")
    chunk_size: int = 64
    kv_num_heads: int
    q_num_heads: int
    scale: float = 0.0
    state_window: int = 0
    update_rule: str = "gated_delta"

    def expand(
        self,
        b: Builder,
        query: Value,
        key: Value,
        value: Value,
        past_state: Value | None = None,
        decay: Value | None = None,
        beta: Value | None = None,
    ) -> tuple[Value, ...]:
        if self.state_window:
            raise UnsupportedError("LinearAttention with the states of several steps (state_window)")
        names = ("chunk_size", "kv_num_heads", "q_num_heads", "scale", "update_rule")
        given = {name: getattr(self, name) for name in names}
        return b.LinearAttention(query, key, value, past_state, decay, beta, **given, outputs=2)


class CausalConvWithState(Op):
    """A convolution of each channel by itself over the present and past places, which are kept for the next call."""

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("output", "present_state")
    activation: str = "none"
    channels_last: int = 0
    dilation: int = 1
    ndim: int = 1
    state_window: int = 0

    def expand(
        self, b: Builder, input: Value, weight: Value, bias: Value | None = None, past_state: Value | None = None
    ) -> tuple[Value, ...]:
        if self.state_window or self.ndim != 1:
            raise UnsupportedError("CausalConvWithState over several axes (ndim) or with several states (state_window)")
        if self.activation not in ("none", "silu", "swish") or self.dilation < 1:
            raise ShapeError(f"activation={self.activation!r} and dilation={self.dilation} are not known")
        x = self._channels_first(b, input)
        held = b.Mul(b.Shape(weight, start=2) - 1, self.dilation)
        shape = b.Concat(b.Shape(x, start=0, end=2), held, axis=0)
        past = b.Expand(b.constant(0, x.dtype), shape) if past_state is None else self._channels_first(b, past_state)
        both = b.Concat(past, x, axis=2)
        y = b.Conv(both, weight, bias, group=_channels(weight), dilations=(self.dilation,))
        y = y if self.activation == "none" else b.Swish(y)
        present = b.Slice(both, b.Shape(x, start=2), b.Shape(both, start=2), [2])
        return self._channels_last(b, y, input), self._channels_last(b, present, input)

    def _channels_first(self, b: Builder, x: Value) -> Value:
        return b.Transpose(b.Reshape(x, [0, 0, -1]), perm=(0, 2, 1)) if self.channels_last else x

    def _channels_last(self, b: Builder, x: Value, like: Value) -> Value:
        if not self.channels_last:
            return x
        turned = b.Transpose(x, perm=(0, 2, 1))
        return b.Reshape(turned, b.Concat(b.Shape(turned, start=0, end=2), b.Shape(like, start=2), axis=0))


def _channels(weight: Value) -> int:
    count = weight.shape[0]
    if not isinstance(count, int):
        raise ShapeError(f"the number of channels of {weight.type} is not known")
    return count


class MRotaryEmbedding(Op):
    """RotaryEmbedding by three positions for each place, which take turns or have parts of each head in sections.

    `scale` and `is_packed_batching` have no effect.
    """

    domain: ClassVar[str] = DOMAIN
    interleaved: int = 0
    is_packed_batching: int = 0
    mrope_layout: int = 0
    mrope_section: tuple[int, ...]
    num_heads: int = 0
    rotary_embedding_dim: int = 0
    scale: float = 1.0

    def expand(self, b: Builder, input: Value, position_ids: Value, cos_cache: Value, sin_cache: Value) -> Value:
        stream = b.constant(self._streams())
        caches = [self._chosen(b, cache, position_ids, stream) for cache in (cos_cache, sin_cache)]
        if input.rank == 3 and self.num_heads < 1:
            raise ShapeError(f"num_heads is {self.num_heads}, it must be at least 1 for {input.type}")
        options = {"interleaved": self.interleaved, "rotary_embedding_dim": self.rotary_embedding_dim}
        return b.RotaryEmbedding(input, *caches, num_heads=self.num_heads or None, **options)

    def _streams(self) -> np.ndarray[Any, Any]:
        """Which of the three positions turns each pair of elements."""
        if len(self.mrope_section) != 3 or min(self.mrope_section) < 0:
            raise ShapeError(f"mrope_section is {list(self.mrope_section)}, three numbers are needed")
        if self.mrope_layout == 0:
            return np.repeat(np.arange(3), self.mrope_section)
        streams = np.zeros(sum(self.mrope_section), np.int64)
        for stream in (1, 2):
            streams[stream : 3 * self.mrope_section[stream] : 3] = stream
        return streams

    def _chosen(self, b: Builder, cache: Value, position_ids: Value, stream: Value) -> Value:
        """The cache's rows for all places, [batch, places, pairs], each column by its own stream of positions."""
        rows = b.Transpose(b.Gather(cache, position_ids, axis=0), perm=(1, 2, 3, 0))
        shape = b.Concat(b.Shape(rows, start=0, end=3), b.constant([1]), axis=0)
        return b.Squeeze(b.GatherElements(rows, b.Expand(b.Unsqueeze(stream, [1]), shape), axis=3), [3])


class GatedRMSNorm(Op):
    """X divided by the root mean square of groups of its last axis, scaled, times an activation of the gate."""

    domain: ClassVar[str] = DOMAIN
    activation: str = "silu"
    epsilon: float = EPSILON

    def expand(self, b: Builder, X: Value, scale: Value, gate: Value) -> Value:
        if self.activation not in ("silu", "swish", "sigmoid"):
            raise ShapeError(f"activation is {self.activation!r}, expected silu, swish or sigmoid")
        size = b.Shape(scale, start=0, end=1)
        shape = b.Concat(b.Shape(X, start=0, end=-1), b.constant([-1]), size, axis=0)
        normal = b.RMSNormalization(b.Reshape(wide(b, X), shape), wide(b, scale), axis=-1, epsilon=self.epsilon)
        wide_gate = wide(b, gate)
        opened = b.Sigmoid(wide_gate) if self.activation == "sigmoid" else b.Swish(wide_gate)
        return cast(b, b.Reshape(normal, b.Shape(X)) * opened, X.dtype)


class ScaledSiLU(Op):
    """z * sigmoid(z) of z = scale * X, rounded after each step."""

    domain: ClassVar[str] = DOMAIN
    alpha: float = 1.0

    def expand(self, b: Builder, X: Value, scale: Value | None = None) -> Value:
        factor = b.constant(self.alpha, FLOAT32) if scale is None else cast(b, scale, FLOAT32)
        z = cast(b, cast(b, X, FLOAT32) * b.Reshape(factor, np.zeros(0, np.int64)), X.dtype)
        return z * b.Sigmoid(z)


class GatedAdd(Op):
    """X + Y * gate."""

    domain: ClassVar[str] = DOMAIN

    def expand(self, b: Builder, X: Value, Y: Value, gate: Value) -> Value:
        return X + Y * gate


class LinearAttentionGate(Op):
    """decay_scale * softplus(a + dt_bias), and the sigmoid of b."""

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("decay", "beta")

    def expand(
        self, builder: Any, a: Value, dt_bias: Value, decay_scale: Value, b: Value | None = None
    ) -> tuple[Value, ...]:
        step = builder.Softplus(cast(builder, a, FLOAT32) + dt_bias)
        decay = cast(builder, decay_scale * step, a.dtype)
        return (decay,) if b is None else (decay, cast(builder, builder.Sigmoid(cast(builder, b, FLOAT32)), b.dtype))


class BranchwiseRMSNorm(Op):
    """Each branch divided by its root mean square and scaled; branches have an axis or are parts of the last one."""

    domain: ClassVar[str] = DOMAIN
    epsilon: float = EPSILON
    num_branches: int = 0

    def expand(self, b: Builder, X: Value, scale: Value | None = None) -> Value:
        x = cast(b, X, FLOAT32)
        if self.num_branches:
            x = b.Reshape(x, [*([0] * (X.rank - 1)), self.num_branches, -1])
        mean = b.ReduceMean(x * x, [-1], keepdims=1)
        y = x / b.Sqrt(mean + self.epsilon)
        if scale is not None:
            factor = cast(b, scale, FLOAT32)
            is_flat = scale.rank == 1 and dims.compare(scale.shape[0], x.shape[-1]) != 0
            y = y * (b.Reshape(factor, b.Shape(y, start=-2)) if is_flat else factor)
        return cast(b, b.Reshape(y, b.Shape(X)) if self.num_branches else y, X.dtype)
