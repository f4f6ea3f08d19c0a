"""Transformers as their exported graphs look: BERT-base, GPT-2 small and ViT-B/16."""

import math

import numpy as np
import onnx
from onnx import TensorProto

from bench.generate.graph import Dim, GraphWriter

WIDTH = 768
HEADS = 12
HEAD_WIDTH = WIDTH // HEADS
LAYERS = 12
LINEAR_STD = 1 / math.sqrt(WIDTH)
HIDDEN_STD = 1 / math.sqrt(4 * WIDTH)


class TransformerWriter(GraphWriter):
    """Adds the blocks that the three models share."""

    def norm_weights(self, name: str) -> tuple[str, str]:
        scale = self.normal(f"{name}.weight", [WIDTH], 0.1, mean=1.0)
        return scale, self.normal(f"{name}.bias", [WIDTH], 0.05)

    def layer_norm(self, name: str, x: str, epsilon: float) -> str:
        """The LayerNormalization operator of opset 17."""
        return self.op("LayerNormalization", x, *self.norm_weights(name), axis=-1, epsilon=epsilon)

    def decomposed_layer_norm(self, name: str, x: str, epsilon: float) -> str:
        """Layer normalization in the nine nodes that exporters wrote before opset 17."""
        scale, bias = self.norm_weights(name)
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        variance = self.op("ReduceMean", self.op("Pow", centred, self.constant(2.0)), axes=[-1])
        deviation = self.op("Sqrt", self.op("Add", variance, self.constant(epsilon)))
        scaled = self.op("Mul", self.op("Div", centred, deviation), scale)
        return self.op("Add", scaled, bias)

    def erf_gelu(self, x: str) -> str:
        """x * (1 + erf(x / sqrt(2))) * 0.5"""
        erf = self.op("Erf", self.op("Div", x, self.constant(math.sqrt(2))))
        doubled = self.op("Mul", x, self.op("Add", erf, self.constant(1.0)))
        return self.op("Mul", doubled, self.constant(0.5))

    def tanh_gelu(self, x: str) -> str:
        """0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))"""
        cubic = self.op("Mul", self.op("Pow", x, self.constant(3.0)), self.constant(0.044715))
        inner = self.op("Mul", self.op("Add", x, cubic), self.constant(math.sqrt(2 / math.pi)))
        outer = self.op("Add", self.op("Tanh", inner), self.constant(1.0))
        return self.op("Mul", self.op("Mul", x, self.constant(0.5)), outer)

    def heads(self, x: str, perm: list[int]) -> str:
        """Split the last axis of [batch, sequence, width] into heads and transpose."""
        return self.op("Transpose", self.reshape(x, (x, 0), (x, 1), HEADS, HEAD_WIDTH), perm=perm)

    def join_heads(self, x: str) -> str:
        """The inverse of `heads`, to [batch, sequence, width]."""
        x = self.op("Transpose", x, perm=[0, 2, 1, 3])
        return self.reshape(x, (x, 0), (x, 1), WIDTH)

    def scores(self, query: str, key: str) -> str:
        """Products of queries and transposed keys, divided by sqrt(HEAD_WIDTH)."""
        return self.op("Div", self.op("MatMul", query, key), self.constant(math.sqrt(HEAD_WIDTH)))

    def self_attention(self, name: str, x: str, mask: str | None) -> str:
        """Attention with separate query, key and value layers, before the output layer."""
        query = self.heads(self.linear(f"{name}.query", x, WIDTH, WIDTH, LINEAR_STD), [0, 2, 1, 3])
        key = self.heads(self.linear(f"{name}.key", x, WIDTH, WIDTH, LINEAR_STD), [0, 2, 3, 1])
        value = self.heads(self.linear(f"{name}.value", x, WIDTH, WIDTH, LINEAR_STD), [0, 2, 1, 3])
        scores = self.scores(query, key)
        if mask is not None:
            scores = self.op("Add", scores, mask)
        return self.join_heads(self.op("MatMul", self.op("Softmax", scores, axis=-1), value))


def bert_base() -> onnx.ModelProto:
    """BERT-base with its pooler (109.5 million parameters), opset 14: decomposed layer norms, post-norm blocks."""
    g = TransformerWriter("bert_base", opset=14, seed=12)
    axes: list[Dim] = ["batch", "sequence"]
    names = ("input_ids", "attention_mask", "token_type_ids")
    ids, mask, kinds = (g.input(name, axes, TensorProto.INT64) for name in names)
    mask = _padding_mask(g, mask)
    x = g.decomposed_layer_norm("embeddings.norm", _bert_embeddings(g, ids, kinds), 1e-12)
    for layer in range(LAYERS):
        x = _bert_layer(g, f"encoder.layer.{layer}", x, mask)
    first = g.op("Gather", x, g.constant(0, np.int64), axis=1)
    weight = g.normal("pooler.weight", [WIDTH, WIDTH], LINEAR_STD)
    pooled = g.op("Gemm", first, weight, g.normal("pooler.bias", [WIDTH], 0.02), alpha=1.0, beta=1.0, transB=1)
    pooled = g.op("Tanh", pooled)
    g.output(x, "last_hidden_state", [*axes, WIDTH])
    g.output(pooled, "pooler_output", ["batch", WIDTH])
    return g.model()


def _bert_embeddings(g: TransformerWriter, ids: str, kinds: str) -> str:
    positions = g.weight("embeddings.position_ids", np.arange(512, dtype=np.int64)[None])
    zero, one, length = g.constant([0], np.int64), g.constant([1], np.int64), g.extent(ids, 1)
    positions = g.op("Slice", positions, zero, length, one, one)
    words = g.op("Gather", g.normal("embeddings.word", [30522, WIDTH], 0.05), ids)
    types = g.op("Gather", g.normal("embeddings.token_type", [2, WIDTH], 0.02), kinds)
    places = g.op("Gather", g.normal("embeddings.position", [512, WIDTH], 0.02), positions)
    return g.op("Add", g.op("Add", words, types), places)


def _padding_mask(g: TransformerWriter, mask: str) -> str:
    """0 where a token counts and the least float32 where it is padding, as [batch, 1, 1, sequence]."""
    for axis in (1, 2):
        mask = g.op("Unsqueeze", mask, g.constant([axis], np.int64))
    mask = g.op("Cast", mask, to=TensorProto.FLOAT)
    return g.op("Mul", g.op("Sub", g.constant(1.0), mask), g.constant(np.finfo(np.float32).min))


def _bert_layer(g: TransformerWriter, name: str, x: str, mask: str) -> str:
    y = g.self_attention(f"{name}.attention", x, mask)
    y = g.linear(f"{name}.attention.output", y, WIDTH, WIDTH, LINEAR_STD)
    x = g.decomposed_layer_norm(f"{name}.attention.norm", g.op("Add", y, x), 1e-12)
    y = g.erf_gelu(g.linear(f"{name}.intermediate", x, WIDTH, 4 * WIDTH, LINEAR_STD))
    y = g.linear(f"{name}.output", y, 4 * WIDTH, WIDTH, HIDDEN_STD)
    return g.decomposed_layer_norm(f"{name}.norm", g.op("Add", y, x), 1e-12)


def gpt2_small() -> onnx.ModelProto:
    """GPT-2 small with logits over the vocabulary (124.4 million parameters), the head tied to the embeddings."""
    g = TransformerWriter("gpt2_small", seed=124)
    ids = g.input("input_ids", ["batch", "sequence"], TensorProto.INT64)
    embedding = g.normal("wte.weight", [50257, WIDTH], 0.05)
    length = g.op("Squeeze", g.extent(ids, 1), g.constant([0], np.int64))
    positions = g.op("Range", g.constant(0, np.int64), length, g.constant(1, np.int64))
    positions = g.op("Unsqueeze", positions, g.constant([0], np.int64))
    places = g.op("Gather", g.normal("wpe.weight", [1024, WIDTH], 0.02), positions)
    x = g.op("Add", g.op("Gather", embedding, ids), places)
    causal = g.weight("causal", np.tril(np.ones((1024, 1024), bool))[None, None])
    for layer in range(LAYERS):
        x = _gpt2_layer(g, f"h.{layer}", x, causal)
    x = g.layer_norm("ln_f", x, 1e-5)
    logits = g.op("MatMul", x, g.op("Transpose", embedding, perm=[1, 0]))
    g.output(logits, "logits", ["batch", "sequence", 50257])
    return g.model()


def _conv1d(g: TransformerWriter, name: str, x: str, inner: int, outer: int, std: float) -> str:
    """The linear layer of GPT-2's first implementation: Gemm on the flattened tokens."""
    weight, bias = g.normal(f"{name}.weight", [inner, outer], std), g.normal(f"{name}.bias", [outer], 0.02)
    y = g.op("Gemm", g.reshape(x, -1, inner), weight, bias, alpha=1.0, beta=1.0)
    return g.reshape(y, (x, 0), (x, 1), outer)


def _gpt2_layer(g: TransformerWriter, name: str, x: str, causal: str) -> str:
    # Residual branches are scaled down by depth, as GPT-2's initialisation does.
    branch = 1 / math.sqrt(2 * LAYERS)
    y = _conv1d(g, f"{name}.attn.c_attn", g.layer_norm(f"{name}.ln_1", x, 1e-5), WIDTH, 3 * WIDTH, LINEAR_STD)
    query, key, value = g.split_op("Split", y, g.constant([WIDTH] * 3, np.int64), count=3, axis=2)
    scores = g.scores(g.heads(query, [0, 2, 1, 3]), g.heads(key, [0, 2, 3, 1]))
    zero, one, length = g.constant([0], np.int64), g.constant([1], np.int64), g.extent(x, 1)
    for axis in (2, 3):
        causal = g.op("Slice", causal, zero, length, g.constant([axis], np.int64), one)
    scores = g.op("Where", causal, scores, g.constant(np.finfo(np.float32).min))
    y = g.op("MatMul", g.op("Softmax", scores, axis=-1), g.heads(value, [0, 2, 1, 3]))
    y = _conv1d(g, f"{name}.attn.c_proj", g.join_heads(y), WIDTH, WIDTH, LINEAR_STD * branch)
    x = g.op("Add", y, x)
    y = _conv1d(g, f"{name}.mlp.c_fc", g.layer_norm(f"{name}.ln_2", x, 1e-5), WIDTH, 4 * WIDTH, LINEAR_STD)
    y = _conv1d(g, f"{name}.mlp.c_proj", g.tanh_gelu(y), 4 * WIDTH, WIDTH, HIDDEN_STD * branch)
    return g.op("Add", x, y)


def vit_b16() -> onnx.ModelProto:
    """ViT-B/16 at 224 pixels with its classifier (86.6 million parameters), pre-norm blocks."""
    g = TransformerWriter("vit_b16", seed=16)
    pixels = g.input("pixel_values", ["batch", 3, 224, 224])
    kernel = g.normal("embeddings.patch.weight", [WIDTH, 3, 16, 16], 1 / math.sqrt(WIDTH))
    bias = g.normal("embeddings.patch.bias", [WIDTH], 0.02)
    x = g.op("Conv", pixels, kernel, bias, kernel_shape=[16, 16], strides=[16, 16])
    x = g.op("Transpose", g.reshape(x, (x, 0), WIDTH, -1), perm=[0, 2, 1])
    token = g.normal("embeddings.class_token", [1, 1, WIDTH], 0.5)
    token = g.op("Expand", token, g.shape_of((pixels, 0), 1, WIDTH))
    x = g.op("Add", g.op("Concat", token, x, axis=1), g.normal("embeddings.position", [1, 197, WIDTH], 0.2))
    for layer in range(LAYERS):
        x = _vit_layer(g, f"encoder.layer.{layer}", x)
    x = g.op("Gather", g.layer_norm("norm", x, 1e-6), g.constant(0, np.int64), axis=1)
    weight = g.normal("classifier.weight", [1000, WIDTH], 2 / math.sqrt(WIDTH))
    x = g.op("Gemm", x, weight, g.normal("classifier.bias", [1000], 0.05), alpha=1.0, beta=1.0, transB=1)
    g.output(x, "logits", ["batch", 1000])
    return g.model()


def _vit_layer(g: TransformerWriter, name: str, x: str) -> str:
    branch = 1 / math.sqrt(2 * LAYERS)
    y = g.self_attention(f"{name}.attention", g.layer_norm(f"{name}.norm_before", x, 1e-6), None)
    x = g.op("Add", g.linear(f"{name}.attention.output", y, WIDTH, WIDTH, LINEAR_STD * branch), x)
    y = g.linear(f"{name}.intermediate", g.layer_norm(f"{name}.norm_after", x, 1e-6), WIDTH, 4 * WIDTH, LINEAR_STD)
    y = g.linear(f"{name}.output", g.erf_gelu(y), 4 * WIDTH, WIDTH, HIDDEN_STD * branch)
    return g.op("Add", y, x)
