"""Attention by a recurrent state, the causal convolution beside it, and attention with modifier subgraphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder, Runner
from intaglio.ir.dtype import from_numpy
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Array, Op
from intaglio.ir.requirements import need_multiple, need_stretch
from intaglio.ir.types import TensorType
from intaglio.ops.attention import check_heads, group_size, guarded_softmax, precision_of, repeat_heads
from intaglio.ops.control import Scan
from intaglio.ops.shared.indices import same_dtype
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.operand import cast, known_shape, like, require_equal, require_float, require_shape, wide
from intaglio.ops.shared.products import matrix_product

UPDATE_RULES = ("linear", "gated", "delta", "gated_delta")


class LinearAttention(Op):
    """Attention by a state that each token decays, corrects and reads, by `update_rule`."""

    output_names = ("output", "present_state")
    chunk_size: int = 64
    kv_num_heads: int
    q_num_heads: int
    scale: float = 0.0
    update_rule: str = "gated_delta"

    def infer(
        self,
        query: Value,
        key: Value,
        value: Value,
        past_state: Value | None = None,
        decay: Value | None = None,
        beta: Value | None = None,
    ) -> tuple[TensorType, TensorType]:
        require_float(query, key, value, past_state, decay, beta)
        same_dtype(query, key, value, decay, beta)
        self._check(decay, beta)
        q, k, v = (known_shape(operand, rank=3) for operand in (query, key, value))
        state_dtype = query.dtype if past_state is None else past_state.dtype
        if q is None or k is None or v is None:
            return TensorType(query.dtype, None), TensorType(state_dtype, None)
        for operand, heads in ((query, self.q_num_heads), (key, self.kv_num_heads), (value, self.kv_num_heads)):
            message = f"the last axis of {operand.name} is {operand.shape[2]}, it cannot be split into {heads} heads"
            need_multiple(operand.shape[2], heads, message)
        size = dims.floordiv(k[2], self.kv_num_heads)
        width = dims.floordiv(v[2], self.kv_num_heads)
        require_equal(dims.floordiv(q[2], self.q_num_heads), size, "the head sizes of query and key")
        for axis, what in enumerate(("batches", "lengths")):
            require_equal(q[axis], k[axis], f"the {what} of query and key")
            require_equal(k[axis], v[axis], f"the {what} of key and value")
        for operand in (decay, beta):
            shape = None if operand is None else known_shape(operand, rank=3)
            for axis, dim in enumerate(() if shape is None else shape[:2]):
                require_equal(dim, q[axis], f"axis {axis} of {operand and operand.name} and of query")
        self._check_gates(decay, beta, size)
        state = (q[0], self.kv_num_heads, size, width)
        require_shape(past_state, state)
        return TensorType(query.dtype, (q[0], q[1], self.q_num_heads * width)), TensorType(state_dtype, state)

    def _check_gates(self, decay: Value | None, beta: Value | None, size: dims.Dim) -> None:
        """Raise ShapeError where decay is not for each head or element of one, or beta not for each head or all."""
        heads = self.kv_num_heads
        if decay is not None and known_shape(decay) is not None:
            message = f"the last axis of decay is {decay.shape[2]}, expected {heads} or {heads * size}"
            need_multiple(decay.shape[2], heads, message)
            need_stretch(dims.floordiv(decay.shape[2], heads), size, message)
        if beta is not None and known_shape(beta) is not None:
            need_stretch(beta.shape[2], heads, f"the last axis of beta is {beta.shape[2]}, expected 1 or {heads}")

    def _check(self, decay: Value | None, beta: Value | None) -> None:
        if self.update_rule not in UPDATE_RULES:
            raise ShapeError(f"update_rule is {self.update_rule!r}, it must be one of {', '.join(UPDATE_RULES)}")
        if "gated" in self.update_rule and decay is None:
            raise ShapeError(f"the update rule {self.update_rule} needs the input decay")
        if "delta" in self.update_rule and beta is None:
            raise ShapeError(f"the update rule {self.update_rule} needs the input beta")
        group_size(self.q_num_heads, self.kv_num_heads)

    def reference(
        self,
        query: Array,
        key: Array,
        value: Array,
        past_state: Array | None = None,
        decay: Array | None = None,
        beta: Array | None = None,
    ) -> tuple[Array, Array]:
        q, k, v = _heads(query, self.q_num_heads), _heads(key, self.kv_num_heads), _heads(value, self.kv_num_heads)
        length, size = q.shape[1], q.shape[3]
        scale = q.dtype.type(self.scale or 1 / np.sqrt(size))
        count = int(group_size(self.q_num_heads, self.kv_num_heads))
        shape = (q.shape[0], self.kv_num_heads, size, v.shape[3])
        state = np.zeros(shape, q.dtype) if past_state is None else widen(past_state)
        gates = None if decay is None or "gated" not in self.update_rule else np.exp(_heads(decay, self.kv_num_heads))
        rates = None if beta is None or "delta" not in self.update_rule else widen(beta)
        output = np.empty((*q.shape[:3], v.shape[3]), q.dtype)
        for t in range(length):
            state = state if gates is None else state * gates[:, t, :, :, None]
            update = v[:, t]
            if rates is not None:
                recalled = np.einsum("bhkv,bhk->bhv", state, k[:, t])
                update = (update - recalled) * rates[:, t, :, None]
            state = state + k[:, t, :, :, None] * update[:, :, None, :]
            seen = np.repeat(state, count, axis=1)
            output[:, t] = scale * np.einsum("bhkv,bhk->bhv", seen, q[:, t])
        state_like = query if past_state is None else past_state
        return like(output.reshape(*query.shape[:2], -1), query), like(state, state_like)

    def expand(
        self,
        b: Builder,
        query: Value,
        key: Value,
        value: Value,
        past_state: Value | None = None,
        decay: Value | None = None,
        beta: Value | None = None,
    ) -> tuple[Value, Value]:
        count = int(group_size(self.q_num_heads, self.kv_num_heads))
        q = b.Reshape(wide(b, query), [0, 0, self.kv_num_heads, count, -1])
        k, v = _split(b, key, self.kv_num_heads), _split(b, value, self.kv_num_heads)
        scale = _root(b, k) if self.scale == 0 else b.constant(self.scale, q.dtype)
        scanned: dict[str, Value] = {"q": q * scale, "k": k, "v": v}
        if decay is not None and "gated" in self.update_rule:
            scanned["gate"] = b.Unsqueeze(b.Exp(_split(b, decay, self.kv_num_heads)), [4])
        if beta is not None and "delta" in self.update_rule:
            scanned["rate"] = b.Unsqueeze(wide(b, beta), [3])
        state = self._zeros(b, k, v) if past_state is None else wide(b, past_state)
        end, output = self._scan(b, state, scanned)
        output = b.Reshape(output, b.Concat(b.Shape(query, start=0, end=2), [-1], axis=0))
        state_dtype = query.dtype if past_state is None else past_state.dtype
        return cast(b, output, query.dtype), cast(b, end, state_dtype)

    def _zeros(self, b: Builder, k: Value, v: Value) -> Value:
        parts = (b.Shape(k, start=0, end=1), [self.kv_num_heads], b.Shape(k, start=3), b.Shape(v, start=3))
        return b.Expand(b.constant(0, k.dtype), b.Concat(*parts, axis=0))

    def _scan(self, b: Builder, state: Value, scanned: dict[str, Value]) -> tuple[Value, Value]:
        """The state after all tokens and the output [batch, token, head, shared head, size]."""
        body = Graph("token", outer=b.graph)
        inner = Builder(body, origin=b.origin)
        now = body.add_input("state", state.type)
        step = {name: body.add_input(name, _without_time(value)) for name, value in scanned.items()}
        with inner.active():
            kept = now if "gate" not in step else now * step["gate"]
            update, column = inner.Unsqueeze(step["v"], [2]), inner.Unsqueeze(step["k"], [3])
            if "rate" in step:
                recalled = inner.ReduceSum(kept * column, [2])
                update = (update - recalled) * inner.Unsqueeze(step["rate"], [3])
            after = kept + column * update
            body.set_outputs([after, inner.MatMul(step["q"], after)])
        count = len(scanned)
        options = {"num_scan_inputs": count, "scan_input_axes": (1,) * count, "scan_output_axes": (1,)}
        return b.apply(Scan, state, *scanned.values(), body=body, outputs=2, **options)


def _split(b: Builder, x: Value, heads: int) -> Value:
    """[batch, time, heads * size] as [batch, time, heads, size], in a type to compute in."""
    return b.Reshape(wide(b, x), [0, 0, heads, -1])


def _root(b: Builder, key: Value) -> Value:
    return b.Pow(cast(b, b.Shape(key, start=3), key.dtype), -0.5)


def _without_time(value: Value) -> TensorType:
    return value.tensor.with_shape((value.shape[0], *value.shape[2:]))


def _heads(x: Array, heads: int) -> Array:
    """[batch, time, heads * size] as [batch, time, heads, size], in a type to compute in."""
    return widen(x).reshape(*x.shape[:2], heads, x.shape[2] // heads)


class CausalConvWithState(Op):
    """Depthwise convolution that looks back only, with the last elements carried over from call to call."""

    output_names = ("output", "present_state")
    activation: str = "none"

    def infer(
        self, input: Value, weight: Value, bias: Value | None = None, past_state: Value | None = None
    ) -> tuple[TensorType, TensorType]:
        require_float(input, weight, bias, past_state)
        dtype = same_dtype(input, weight, bias, past_state)
        if self.activation not in ("none", "silu", "swish"):
            raise ShapeError(f"activation is {self.activation!r}, it must be none, silu or swish")
        data, kernel = known_shape(input, rank=3), known_shape(weight, rank=3)
        if data is None or kernel is None:
            return input.tensor, TensorType(dtype, None)
        require_equal(data[1], kernel[0], "the channels of input and weight")
        require_equal(kernel[1], 1, "the second axis of the weight and one channel a group")
        require_shape(bias, (kernel[0],))
        require_shape(past_state, (data[0], data[1], kernel[2] - 1))
        return input.tensor, TensorType(dtype, (data[0], data[1], kernel[2] - 1))

    def expand(
        self, b: Builder, input: Value, weight: Value, bias: Value | None = None, past_state: Value | None = None
    ) -> tuple[Value, Value]:
        kernel, channels = weight.shape[2], weight.shape[0]
        if not isinstance(kernel, int) or not isinstance(channels, int):
            raise ShapeError(f"the shape {list(weight.shape)} of the weight must be known before the run")
        whole = b.Pad(input, [0, 0, kernel - 1, 0, 0, 0]) if past_state is None else b.Concat(past_state, input, axis=2)
        bias_wide = None if bias is None else wide(b, bias)
        output = b.Conv(wide(b, whole), wide(b, weight), bias_wide, group=channels)
        if self.activation != "none":
            output = output * b.Sigmoid(output)
        end = b.Shape(whole, start=2)
        return cast(b, output, input.dtype), b.Slice(whole, end - (kernel - 1), end, [2])


class FlexAttention(Op):
    """softmax(Q @ K' * scale) @ V per head, with subgraphs that change scores and probabilities."""

    domain: ClassVar[str] = "ai.onnx.preview"
    prob_mod: Graph | None = None
    scale: float | None = None
    score_mod: Graph | None = None
    softmax_precision: int | None = None

    def infer(self, Q: Value, K: Value, V: Value) -> TensorType:
        require_float(Q, K, V)
        dtype = same_dtype(Q, K, V)
        q, k, v = (known_shape(operand, rank=4) for operand in (Q, K, V))
        if q is None or k is None or v is None:
            return TensorType(dtype, None)
        check_heads(q, k, v)
        group_size(q[1], k[1])
        return TensorType(dtype, (*q[:3], v[3]))

    def interpret(self, run: Runner, Q: Array, K: Array, V: Array) -> Array:
        check_heads(Q.shape, K.shape, V.shape)
        count = int(group_size(Q.shape[1], K.shape[1]))
        k, v = np.repeat(widen(K), count, axis=1), np.repeat(widen(V), count, axis=1)
        dtype = precision_of(from_numpy(Q.dtype), self.softmax_precision)
        scale = 1 / np.sqrt(Q.shape[3]) if self.scale is None else self.scale
        scores = (matrix_product(widen(Q), k.swapaxes(-1, -2)) * k.dtype.type(scale)).astype(dtype.numpy)
        scores = scores if self.score_mod is None else run(self.score_mod, [scores])[0]
        weight = guarded_softmax(scores, dtype).astype(dtype.numpy)
        weight = weight if self.prob_mod is None else run(self.prob_mod, [weight])[0]
        return like(matrix_product(widen(weight).astype(v.dtype), v), Q)

    def expand(self, b: Builder, Q: Value, K: Value, V: Value) -> Value:
        dtype = precision_of(Q.dtype, self.softmax_precision)
        q = wide(b, Q)
        keys, values = repeat_heads(b, wide(b, K), q), repeat_heads(b, wide(b, V), q)
        scale = _root(b, q) if self.scale is None else b.constant(self.scale, q.dtype)
        scores = cast(b, b.MatMul(q, b.Transpose(keys, perm=(0, 1, 3, 2))) * scale, dtype)
        scores = scores if self.score_mod is None else inline(b, self.score_mod, [scores])[0]
        is_empty = b.Equal(b.ReduceMax(scores, [-1]), b.constant(-np.inf, dtype))
        zero = b.constant(0, dtype)
        shown = b.Where(is_empty, zero, scores)  # the softmax of -inf alone is NaN, and so is its gradient
        weight = b.Where(is_empty, zero, b.Softmax(shown, axis=-1))
        weight = weight if self.prob_mod is None else inline(b, self.prob_mod, [weight])[0]
        return cast(b, b.MatMul(cast(b, weight, q.dtype), values), Q.dtype)


def inline(b: Builder, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
    """The outputs of a subgraph whose nodes are added to the builder's graph; it may not hold subgraphs itself."""
    known = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        if any(True for _ in node.op.subgraphs()):
            raise UnsupportedError(f"{node.op.name} inside of a modifier of attention has no expansion")
        operands = [None if value is None else known.get(value, value) for value in node.inputs]
        known.update(zip(node.outputs, b.add(node.op, operands, len(node.outputs)), strict=True))
    return [known.get(value, value) for value in graph.outputs]
