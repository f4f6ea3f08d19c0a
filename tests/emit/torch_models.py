"""Networks as people write them, exported by PyTorch."""

from __future__ import annotations

import io
import logging
import warnings
from functools import cache
from typing import Any, cast

import onnx
import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.down = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.down is None else self.down(x)))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.layer1 = nn.Sequential(Block(8, 8), Block(8, 8))
        self.layer2 = nn.Sequential(Block(8, 16, 2), Block(16, 16))
        self.fc = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layer2(self.layer1(self.stem(x))).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
        self.out = nn.Linear(size, size)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, time, size = x.shape
        parts = [f(x).view(batch, time, self.heads, size // self.heads) for f in (self.query, self.key, self.value)]
        query, key, value = (part.transpose(1, 2) for part in parts)
        y = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.out(y.transpose(1, 2).reshape(batch, time, size))


class Layer(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(size, heads)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.fc1, self.fc2 = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.fc2(nn.functional.gelu(self.fc1(x))))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.layers = nn.ModuleList([Layer(16, 2) for _ in range(3)])
        self.head = nn.Linear(16, 3)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 6)
        self.lstm = nn.LSTM(6, 7, bidirectional=True, batch_first=True)
        self.out = nn.Linear(14, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.lstm(self.embed(ids))[0][:, -1])


NETWORKS = {
    "residual": (Residual, lambda: [torch.randn(2, 3, 16, 16)]),
    "transformer": (Transformer, lambda: [torch.randint(0, 30, (2, 5))]),
    "recurrent": (Recurrent, lambda: [torch.randint(0, 30, (2, 5))]),
}


@cache
def exported_network(name: str, is_dynamo: bool) -> tuple[nn.Module, list[Tensor], onnx.ModelProto]:
    """A network with random weights, inputs for it, and what PyTorch's exporter makes of it."""
    torch.manual_seed(7)
    make, draw = NETWORKS[name]
    network, inputs = make(), draw()
    for each in network.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.running_mean.normal_()  # pyright: ignore
            each.running_var.uniform_(0.5, 2)  # pyright: ignore
        if isinstance(each, nn.LayerNorm):
            nn.init.normal_(each.weight)
            nn.init.normal_(each.bias)
    network.eval()
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            return network, inputs, _exported(network, tuple(inputs), is_dynamo)
    finally:
        logging.disable(logging.NOTSET)


def _exported(network: nn.Module, inputs: tuple[Tensor, ...], is_dynamo: bool) -> onnx.ModelProto:
    if is_dynamo:
        sizes = {0: torch.export.Dim("batch", min=1)}
        program = torch.onnx.export(
            network, inputs, dynamo=True, dynamic_shapes=(sizes,), input_names=["x"], verbose=False
        )
        assert program is not None
        return program.model_proto
    file = io.BytesIO()
    target = cast("Any", file)  # its type knows paths only
    torch.onnx.export(network, inputs, target, dynamo=False, dynamic_axes={"x": {0: "batch"}}, input_names=["x"])
    return onnx.load_from_string(file.getvalue())
