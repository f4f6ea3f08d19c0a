"""A small CNN and a small transformer follow PyTorch's loss curves: same data, same first weights, both engines."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops, train

torch = pytest.importorskip("torch", reason="PyTorch is the judge")
nn, F = torch.nn, torch.nn.functional

STEPS = 50


class Network(nn.Module):
    """Convolutions with normalization, pools and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 12, 3, stride=2, bias=False), nn.BatchNorm2d(12)
        self.head = nn.Linear(12, 4)

    def forward(self, x: Any) -> Any:
        h = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        h = F.relu(self.bn2(self.conv2(h)))
        return self.head(h.mean((2, 3)))


def network_graph(state: dict[str, Any]) -> Any:
    with intaglio.build("network", inputs={"x": "float32[N, 1, 14, 14]"}) as g:
        w = {name: g.constant(array, name) for name, array in state.items() if array.ndim}

        def norm(h: Any, name: str) -> Any:
            parts = [w[f"{name}.{part}"] for part in ("weight", "bias", "running_mean", "running_var")]
            return ops.Relu(ops.BatchNormalization(h, *parts, epsilon=1e-5, momentum=0.9))

        h = norm(ops.Conv(g["x"], w["conv1.weight"], pads=[1, 1, 1, 1]), "bn1")
        h = ops.MaxPool(h, kernel_shape=[2, 2], strides=[2, 2])
        h = norm(ops.Conv(h, w["conv2.weight"], strides=[2, 2]), "bn2")
        pooled = ops.Reshape(ops.GlobalAveragePool(h), [0, -1])
        g.output(y=ops.Gemm(pooled, w["head.weight"], w["head.bias"], transB=1))
    return g.graph


def pictures(step: int) -> tuple[Any, Any]:
    """Bars at places that tell their class, with noise."""
    rng = np.random.default_rng(step)
    label = rng.integers(0, 4, 16)
    x = rng.standard_normal((16, 1, 14, 14)) * 0.5
    for row, kind in enumerate(label):
        x[row, 0, 3 * kind : 3 * kind + 3, :: 1 + kind % 2] += 1
    return x.astype(np.float32), label


class Block(nn.Module):
    """A layer of a transformer, normalized first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Tokens in, the scores of the next token out."""

    def __init__(self, words: int = 11, length: int = 8, width: int = 16) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width) * 0.1)
        self.block0, self.block1 = Block(width, 2), Block(width, 2)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens: Any) -> Any:
        x = self.block1(self.block0(self.embedding(tokens) + self.places))
        return self.head(self.norm(x)).transpose(1, 2)


def transformer_graph(state: dict[str, Any], width: int = 16, heads: int = 2) -> Any:
    with intaglio.build("transformer", inputs={"tokens": "int64[N, 8]"}) as g:
        w = {name: g.constant(array, name) for name, array in state.items()}

        def linear(x: Any, name: str) -> Any:
            return ops.MatMul(x, ops.Transpose(w[f"{name}.weight"], perm=[1, 0])) + w[f"{name}.bias"]

        def norm(x: Any, name: str) -> Any:
            return ops.LayerNormalization(x, w[f"{name}.weight"], w[f"{name}.bias"], epsilon=1e-5)

        def block(x: Any, name: str) -> Any:
            parts = ops.Reshape(linear(norm(x, f"{name}.norm1"), f"{name}.qkv"), [0, 0, 3, heads, width // heads])
            parts = ops.Transpose(parts, perm=[2, 0, 3, 1, 4])
            q, k, v = (ops.Gather(parts, np.int64(place), axis=0) for place in range(3))
            scores = ops.MatMul(q, ops.Transpose(k, perm=[0, 1, 3, 2])) / math.sqrt(width // heads)
            mixed = ops.Transpose(ops.MatMul(ops.Softmax(scores), v), perm=[0, 2, 1, 3])
            x = x + linear(ops.Reshape(mixed, [0, 0, width]), f"{name}.out")
            return x + linear(ops.Gelu(linear(norm(x, f"{name}.norm2"), f"{name}.up")), f"{name}.down")

        x = ops.Gather(w["embedding.weight"], g["tokens"]) + w["places"]
        x = norm(block(block(x, "block0"), "block1"), "norm")
        g.output(y=ops.Transpose(linear(x, "head"), perm=[0, 2, 1]))
    return g.graph


def counting(step: int) -> tuple[Any, Any]:
    """Sequences that count in steps of their own."""
    rng = np.random.default_rng(step)
    start, stride = rng.integers(0, 11, (8, 1)), rng.integers(1, 4, (8, 1))
    tokens = (start + stride * np.arange(9)) % 11
    return tokens[:, :-1].copy(), tokens[:, 1:].copy()


def follow(module: Any, graph: Any, batch: Any, ours: Any, theirs: Any) -> None:
    trainers = [train.Trainer(graph, "cross_entropy", ours, engine=engine) for engine in ("reference", "native")]
    optimizer = theirs(module.parameters())
    curve = []
    for step in range(STEPS):
        x, target = batch(step)
        optimizer.zero_grad()
        loss = F.cross_entropy(module(torch.tensor(x)), torch.tensor(target))
        loss.backward()
        optimizer.step()
        found = [trainer.step(x, target) for trainer in trainers]
        curve.append(loss.item())
        np.testing.assert_allclose(found, loss.item(), rtol=1e-4, err_msg=f"step {step}")
    assert curve[-1] < 0.6 * curve[0], "it learns"


def test_a_cnn_follows_pytorch() -> None:
    torch.manual_seed(0)
    module = Network().train()
    graph = network_graph({name: value.numpy().copy() for name, value in module.state_dict().items()})
    ours, judge = train.SGD(0.1, momentum=0.9, weight_decay=1e-4), {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}
    follow(module, graph, pictures, ours, lambda p: torch.optim.SGD(p, **judge))


def test_a_transformer_follows_pytorch() -> None:
    torch.manual_seed(1)
    module = Transformer().train()
    graph = transformer_graph({name: value.numpy().copy() for name, value in module.state_dict().items()})
    follow(module, graph, counting, train.AdamW(3e-3), lambda p: torch.optim.AdamW(p, 3e-3))
