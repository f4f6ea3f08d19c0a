"""Twenty architectures of the field, written small, with random weights: modules, and inputs for a batch size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Case(NamedTuple):
    """A module, what makes its arguments for a batch size, and whether gradients are compared."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Any, ...]]
    has_gradients: bool = True


def images(channels: int, size: int) -> Callable[[int], tuple[Tensor]]:
    return lambda batch: (torch.randn(batch, channels, size, size),)


def tokens(length: int, count: int = 50) -> Callable[[int], tuple[Tensor]]:
    return lambda batch: (torch.randint(0, count, (batch, length)),)


class ResidualBlock(nn.Module):
    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(width, out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.body = nn.Sequential(ResidualBlock(8, 8, 1), ResidualBlock(8, 16, 2))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.adaptive_avg_pool2d(self.body(self.stem(x)), 1).flatten(1))


class InvertedResidual(nn.Module):
    def __init__(self, width: int, out: int, stride: int, activation: type[nn.Module], has_gate: bool = False) -> None:
        super().__init__()
        wide = width * 4
        self.expand = nn.Sequential(nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), activation())
        self.depthwise = nn.Sequential(
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), activation()
        )
        self.gate = (
            nn.Sequential(nn.Conv2d(wide, 4, 1), nn.SiLU(), nn.Conv2d(4, wide, 1), nn.Sigmoid()) if has_gate else None
        )
        self.project = nn.Sequential(nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out))
        self.has_shortcut = stride == 1 and width == out

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(self.expand(x))
        if self.gate is not None:
            y = y * self.gate(y.mean((2, 3), keepdim=True))
        y = self.project(y)
        return x + y if self.has_shortcut else y


def mobilenet() -> nn.Module:
    body = [InvertedResidual(8, 8, 1, nn.ReLU6), InvertedResidual(8, 12, 2, nn.Hardswish)]
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10))


def efficientnet() -> nn.Module:
    body = [InvertedResidual(8, 8, 1, nn.SiLU, True), InvertedResidual(8, 12, 2, nn.SiLU, True)]
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10))


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, is_causal: bool = False) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.is_causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class TransformerBlock(nn.Module):
    def __init__(self, width: int, heads: int, is_causal: bool = False) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads, is_causal)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.position = nn.Parameter(torch.randn(1, 17, 16))
        self.blocks = nn.ModuleList(TransformerBlock(16, 2) for _ in range(2))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


class Swin(nn.Module):
    def __init__(self, window: int = 4) -> None:
        super().__init__()
        self.window = window
        self.patch = nn.Conv2d(3, 16, 4, 4)
        self.norm = nn.LayerNorm(16)
        self.attention = SelfAttention(16, 2)
        self.bias = nn.Parameter(torch.randn(1, 2, window * window, window * window))
        self.merge = nn.Linear(64, 32)
        self.head = nn.Linear(32, 10)

    def windows(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        w = self.window
        x = x.view(batch, height // w, w, width // w, w, channels).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(-1, w * w, channels)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).permute(0, 2, 3, 1)
        batch, height, width, channels = x.shape
        w = self.window
        shifted = torch.roll(self.norm(x), (-2, -2), (1, 2))
        y = self.attention(self.windows(shifted), self.bias)
        y = y.view(batch, height // w, width // w, w, w, channels).permute(0, 1, 3, 2, 4, 5)
        x = x + torch.roll(y.reshape(batch, height, width, channels), (2, 2), (1, 2))
        parts = [x[:, row::2, column::2] for row in (0, 1) for column in (0, 1)]
        return self.head(self.merge(torch.cat(parts, -1)).mean((1, 2)))


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 4, 4)
        self.depthwise = nn.Conv2d(16, 16, 7, padding=3, groups=16)
        self.norm = nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)
        self.scale = nn.Parameter(torch.full((16,), 0.5))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(F.gelu(self.up(y)))
        return self.head((x + y.permute(0, 3, 1, 2)).mean((2, 3)))


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(12, 16)
        self.norm = nn.LayerNorm(16)
        self.blocks = nn.ModuleList(TransformerBlock(16, 2) for _ in range(2))
        self.pool = nn.Linear(16, 16)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        mask = (ids != 0)[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        return x, torch.tanh(self.pool(x[:, 0]))


class Gpt2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(12, 16)
        self.blocks = nn.ModuleList(TransformerBlock(16, 2, True) for _ in range(2))
        self.norm = nn.LayerNorm(16)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.words.weight.T


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Llama(nn.Module):
    """One step with a cache of keys and values; keys turn with their place, and two heads of queries share one."""

    def __init__(self, width: int = 16, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * self.width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 32, bias=False), nn.Linear(width, 32, bias=False)
        self.down = nn.Linear(32, width, bias=False)

    def turn(self, x: Tensor, start: int) -> Tensor:
        half = self.width // 2
        angles = torch.arange(start, start + x.shape[2])[:, None] / 100 ** (torch.arange(half) / half)
        cos, sin = angles.cos(), angles.sin()
        left, right = x[..., :half], x[..., half:]
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, _ = x.shape
        past = keys.shape[2]
        y = self.norm1(x)
        q = self.q(y).view(batch, length, self.heads, self.width).transpose(1, 2)
        k, v = self.kv(y).view(batch, length, 2, self.groups, self.width).permute(2, 0, 3, 1, 4)
        keys = torch.cat([keys, self.turn(k, past)], 2)
        values = torch.cat([values, v], 2)
        k, v = (each.repeat_interleave(self.heads // self.groups, 1) for each in (keys, values))
        y = F.scaled_dot_product_attention(self.turn(q, past), k, v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, -1))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), keys, values


class CrossAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor | None = None) -> Tensor:
        batch, length, width = x.shape
        q = self.q(x).view(batch, length, self.heads, -1).transpose(1, 2)
        k, v = self.kv(memory).view(batch, memory.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        scores = scores if bias is None else scores + bias
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


class T5(nn.Module):
    """An encoder and a decoder; places enter as a bias from buckets of distances."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.buckets = nn.Embedding(8, 2)
        self.encoder, self.decoder, self.cross = (CrossAttention(16, 2) for _ in range(3))
        self.norms = nn.ModuleList(RmsNorm(16) for _ in range(4))

    def bias(self, length: int) -> Tensor:
        places = torch.arange(length)
        distance = (places[None] - places[:, None]).abs()
        far = 4 + (torch.log(distance.float().clamp(min=1) / 4) / math.log(8) * 4).long()
        return self.buckets(torch.where(distance < 4, distance, far.clamp(0, 7))).permute(2, 0, 1)[None]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x = self.words(source)
        y = self.norms[0](x)
        memory = self.norms[1](x + self.encoder(y, y, self.bias(x.shape[1])))
        x = self.words(target)
        y = self.norms[2](x)
        hidden = torch.full((x.shape[1], x.shape[1]), -1e9).triu(1)
        x = x + self.decoder(y, y, self.bias(x.shape[1]) + hidden)
        x = x + self.cross(self.norms[3](x), memory)
        return x @ self.words.weight.T


class Whisper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(8, 16, 3, padding=1), nn.Conv1d(16, 16, 3, 2, 1)
        self.places: Tensor
        self.register_buffer("places", torch.randn(16, 16))
        self.encoder = TransformerBlock(16, 2)
        self.words = nn.Embedding(50, 16)
        self.decoder = TransformerBlock(16, 2, True)
        self.cross = CrossAttention(16, 2)

    def forward(self, mel: Tensor, ids: Tensor) -> Tensor:
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).transpose(1, 2) + self.places
        memory = self.encoder(x)
        y = self.decoder(self.words(ids))
        return (y + self.cross(y, memory)) @ self.words.weight.T


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(2, 8), nn.GroupNorm(4, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.join, self.out = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = F.silu(self.norm1(self.down1(x)))
        b = F.silu(self.norm2(self.down2(F.max_pool2d(a, 2))))
        y = F.relu(self.join(torch.cat([self.up(b), a], 1)))
        return F.interpolate(self.out(y), scale_factor=2, mode="bilinear", align_corners=False)


class Detr(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.ReLU(), nn.Conv2d(16, 16, 2, 2))
        self.rows, self.columns = nn.Parameter(torch.randn(4, 8)), nn.Parameter(torch.randn(4, 8))
        self.encoder = TransformerBlock(16, 2)
        self.queries = nn.Parameter(torch.randn(5, 16))
        self.cross = nn.MultiheadAttention(16, 2, batch_first=True)
        self.classes, self.boxes = nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.backbone(x)
        places = torch.cat([self.rows[:, None].expand(-1, 4, -1), self.columns[None].expand(4, -1, -1)], -1)
        memory = self.encoder(y.flatten(2).transpose(1, 2) + places.reshape(1, 16, 16))
        queries = self.queries.expand(x.shape[0], -1, -1)
        found, _ = self.cross(queries, memory, memory, need_weights=False)
        return {"classes": self.classes(found).softmax(-1), "boxes": self.boxes(found).sigmoid()}


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.layer: Any = kind(8, 12, batch_first=True)  # pyright: ignore
        self.head = nn.Linear(12, 5)

    def forward(self, ids: Tensor) -> Tensor:
        found, _ = self.layer(self.words(ids))
        return self.head(found[:, -1])


class GraphNet(nn.Module):
    """Messages along edges, added up at the nodes they lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(12, 8), nn.Linear(14, 6)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        messages = F.relu(self.message(torch.cat([nodes[source], nodes[target]], -1)))
        total = torch.zeros(nodes.shape[0], 8).index_add(0, target, messages)
        count = torch.zeros(nodes.shape[0]).scatter_add(0, target, torch.ones(target.shape[0]))
        mean = total / count.clamp(min=1)[:, None]
        return self.update(torch.cat([nodes, mean], -1))


def graph_inputs(batch: int) -> tuple[Any, ...]:
    return torch.randn(4 * batch, 6), torch.randint(0, 4 * batch, (2, 10 * batch))


class WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inlet = nn.Conv1d(1, 8, 1)
        self.filters = nn.ModuleList(nn.Conv1d(8, 8, 2, dilation=2**depth) for depth in range(4))
        self.gates = nn.ModuleList(nn.Conv1d(8, 8, 2, dilation=2**depth) for depth in range(4))
        self.skips = nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(4))
        self.out = nn.Conv1d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inlet(x)
        total = torch.zeros_like(x)
        for depth, (filter, gate, skip) in enumerate(zip(self.filters, self.gates, self.skips, strict=True)):
            padded = F.pad(x, (2**depth, 0))
            y = torch.tanh(filter(padded)) * torch.sigmoid(gate(padded))
            x, total = x + y, total + skip(y)
        return self.out(F.relu(total))


class Vae(nn.Module):
    """The noise is an argument, so that two runs can be compared."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(32, 16), nn.ReLU())
        self.mean, self.deviation = nn.Linear(16, 4), nn.Linear(16, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 32), nn.Sigmoid())

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        y = self.encoder(x)
        mean, deviation = self.mean(y), self.deviation(y)
        loss = -0.5 * (1 + deviation - mean.pow(2) - deviation.exp()).sum(1).mean()
        return self.decoder(mean + noise * torch.exp(0.5 * deviation)), loss


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 8, 8)
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.tokens = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.channels = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norm2(x))
        return self.head(x.mean(1))


class Nerf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(39, 32), nn.Linear(32, 32), nn.Linear(71, 32)
        self.out = nn.Linear(32, 4)

    def forward(self, points: Tensor) -> Tensor:
        angles = points[..., None, :] * 2.0 ** torch.arange(6)[:, None]
        x = torch.cat([points, angles.sin().flatten(-2), angles.cos().flatten(-2)], -1)
        y = F.relu(self.second(F.relu(self.first(x))))
        y = self.out(F.relu(self.third(torch.cat([y, x], -1))))
        return torch.cat([torch.sigmoid(y[..., :3]), F.softplus(y[..., 3:])], -1)


ARCHITECTURES: dict[str, Case] = {
    "resnet": Case(ResNet, images(3, 32)),
    "mobilenet": Case(mobilenet, images(3, 16)),
    "efficientnet": Case(efficientnet, images(3, 16)),
    "vit": Case(ViT, images(3, 32)),
    "swin": Case(Swin, images(3, 32)),
    "convnext": Case(ConvNeXt, images(3, 32)),
    "bert": Case(Bert, tokens(9)),
    "gpt2": Case(Gpt2, tokens(8)),
    "llama": Case(Llama, lambda n: (torch.randn(n, 3, 16), torch.randn(n, 2, 5, 4), torch.randn(n, 2, 5, 4))),
    "t5": Case(T5, lambda n: (*tokens(7)(n), *tokens(6)(n))),
    "whisper": Case(Whisper, lambda n: (torch.randn(n, 8, 32), *tokens(6)(n))),
    "unet": Case(UNet, images(3, 16)),
    "detr": Case(Detr, images(3, 32)),
    "lstm": Case(lambda: Recurrent(nn.LSTM), tokens(6)),
    "gru": Case(lambda: Recurrent(nn.GRU), tokens(6)),
    "graph": Case(GraphNet, graph_inputs),
    "wavenet": Case(WaveNet, lambda n: (torch.randn(n, 1, 40),)),
    "vae": Case(Vae, lambda n: (torch.rand(n, 32), torch.randn(n, 4))),
    "mixer": Case(Mixer, images(3, 32)),
    "nerf": Case(Nerf, lambda n: (torch.randn(n, 10, 3),)),
}
