"""Models written by PyTorch's own exporter, so that its graphs are raced too."""

import itertools

import onnx
import torch
from torch import nn

WIDTH = 256
SEQUENCE = 128


class Block(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outer)
        self.shortcut = nn.Identity() if inner == outer and stride == 1 else nn.Conv2d(inner, outer, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18 for 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        widths = [64, 64, 128, 256, 512]
        blocks = []
        for stage, (inner, outer) in enumerate(itertools.pairwise(widths)):
            blocks += [Block(inner, outer, 1 if stage == 0 else 2), Block(outer, outer, 1)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)))


class Encoder(nn.Module):
    """Four layers of PyTorch's own transformer encoder over token embeddings, with a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8192, WIDTH)
        self.position = nn.Parameter(torch.randn(1, SEQUENCE, WIDTH) * 0.1)
        layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embedding(tokens) + self.position))


def resnet18() -> onnx.ModelProto:
    """ResNet-18 through `torch.onnx.export`."""
    torch.manual_seed(18)
    module = ResNet18()
    with torch.no_grad():  # a few training steps' worth of statistics, so that the normalisations do something
        for norm in (m for m in module.modules() if isinstance(m, nn.BatchNorm2d)):
            norm.momentum = None
        module.train()(torch.randn(8, 3, 128, 128))
    return _export(module, torch.randn(2, 3, 224, 224), "image", "logits")


def encoder() -> onnx.ModelProto:
    """A transformer encoder through `torch.onnx.export`."""
    torch.manual_seed(4)
    return _export(Encoder(), torch.randint(0, 8192, (2, SEQUENCE)), "tokens", "logits")


def _export(module: nn.Module, example: torch.Tensor, input_name: str, output_name: str) -> onnx.ModelProto:
    program = torch.onnx.export(
        module.eval(),
        (example,),
        input_names=[input_name],
        output_names=[output_name],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    return program.model_proto
