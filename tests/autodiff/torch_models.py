"""Small models of the kinds that people train, in PyTorch: what gradients of whole models are judged by."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """A residual block with normalisation."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.short = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.second(torch.relu(self.norm(self.first(x))))
        return torch.relu(h + self.short(x))


class ResNet(nn.Module):
    """A stem, two blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 7, 2, 3)
        self.blocks = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2))
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = functional.max_pool2d(torch.relu(self.stem(x)), 3, 2, 1)
        return self.head(self.blocks(h).mean(dim=(2, 3)))


class Layer(nn.Module):
    """A transformer's layer: attention and a feed-forward part, each behind a normalisation or ahead of one."""

    def __init__(self, width: int, heads: int, is_first: bool) -> None:
        super().__init__()
        self.heads, self.is_first = heads, is_first
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = torch.softmax(q @ k.transpose(2, 3) / (width // self.heads) ** 0.5, dim=-1)
        return self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))

    def feed(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(functional.gelu(self.wide(x)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_first:
            x = x + self.attend(self.norms[0](x))
            return x + self.feed(self.norms[1](x))
        x = self.norms[0](x + self.attend(x))
        return self.norms[1](x + self.feed(x))


class Bert(nn.Module):
    """Embeddings, two layers that normalise behind, and a pooled head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 12), nn.Embedding(6, 12)
        self.layers = nn.Sequential(Layer(12, 3, False), Layer(12, 3, False))
        self.head = nn.Linear(12, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        return self.head(torch.tanh(self.layers(x)[:, 0]))


class Recurrent(nn.Module):
    """An LSTM in both directions, and a head on its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 5, num_layers=2, bidirectional=True)
        self.head = nn.Linear(10, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x)[0][-1])


class VisionTransformer(nn.Module):
    """Patches, a class token, and layers that normalise ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 12, 4, 4)
        self.token, self.places = nn.Parameter(torch.randn(1, 1, 12)), nn.Parameter(torch.randn(1, 10, 12))
        self.layers = nn.Sequential(Layer(12, 2, True), Layer(12, 2, True))
        self.head = nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), patches], dim=1)
        return self.head(self.layers(tokens + self.places)[:, 0])


class UNet(nn.Module):
    """Down and up again with a bridge; the way up is resampled."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode
        self.down, self.deep = nn.Conv2d(2, 6, 3, 1, 1), nn.Conv2d(6, 6, 3, 1, 1)
        self.up, self.out = nn.Conv2d(12, 6, 3, 1, 1), nn.Conv2d(6, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = functional.silu(self.down(x))
        deep = functional.silu(self.deep(functional.avg_pool2d(first, 2)))
        corners = None if self.mode == "nearest" else False
        wide = functional.interpolate(deep, scale_factor=2.0, mode=self.mode, align_corners=corners)
        return self.out(functional.silu(self.up(torch.cat([first, wide], dim=1))))


class Repeated(nn.Module):
    """A step that is repeated as often as an input says, with a branch in it."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        for i in range(int(count)):
            if i % 2 == 0:
                x = x + 0.3 * torch.tanh(self.step(x))
            else:
                x = x * torch.sigmoid(self.step(x))
        return x


def repeated() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and still the way to a Loop
        return torch.jit.script(Repeated())


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "resnet": (ResNet, lambda: (torch.randn(2, 3, 32, 32),)),
    "bert": (Bert, lambda: (torch.randint(0, 20, (2, 6)),)),
    "lstm": (Recurrent, lambda: (torch.randn(6, 2, 4),)),
    "vit": (VisionTransformer, lambda: (torch.randn(2, 3, 12, 12),)),
    "unet, linear": (lambda: UNet("bilinear"), lambda: (torch.randn(1, 2, 8, 8),)),
    "unet, nearest": (lambda: UNet("nearest"), lambda: (torch.randn(1, 2, 8, 8),)),
    "loop": (repeated, lambda: (torch.randn(2, 4), torch.tensor(5))),
}


def exported(module: Any, inputs: tuple[torch.Tensor, ...]) -> bytes:
    """The module as ONNX, with its parameters under their own names."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own deprecation
        torch.onnx.export(
            module,
            inputs,
            cast("Any", file),  # its type knows paths only
            input_names=["x", "count"][: len(inputs)],
            output_names=["y"],
            opset_version=17,
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
            dynamo=False,
        )
    return file.getvalue()
