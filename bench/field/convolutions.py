"""Networks for pictures written here, which need nothing but PyTorch: mobile blocks, segmentation, pyramids."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F


def conv_norm(
    inner: int, outer: int, kernel: int = 1, stride: int = 1, groups: int = 1, dilation: int = 1
) -> nn.Module:
    """A convolution of the same size, with normalisation."""
    pad = dilation * (kernel // 2)
    conv = nn.Conv2d(inner, outer, kernel, stride, pad, dilation, groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outer))


class ShuffleUnit(nn.Module):
    """ShuffleNetV2's unit: half of the channels pass, then all are shuffled."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        half = outer // 2
        first = inner if stride > 1 else inner // 2
        self.stride = stride
        self.right = nn.Sequential(
            conv_norm(first, half), nn.ReLU(), conv_norm(half, half, 3, stride, half), conv_norm(half, half), nn.ReLU()
        )
        self.left = nn.Sequential(conv_norm(inner, inner, 3, stride, inner), conv_norm(inner, half), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.stride == 1:
            left, right = x.chunk(2, 1)
            found = torch.cat([left, self.right(right)], 1)
        else:
            found = torch.cat([self.left(x), self.right(x)], 1)
        batch, channels, height, width = found.shape
        return found.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, -1, height, width)


def shufflenet() -> nn.Module:
    """ShuffleNetV2 1.0x."""
    layers: list[nn.Module] = [conv_norm(3, 24, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inner = 24
    for outer, repeats in ((116, 4), (232, 8), (464, 4)):
        layers += [ShuffleUnit(inner, outer, 2), *(ShuffleUnit(outer, outer, 1) for _ in range(repeats - 1))]
        inner = outer
    return nn.Sequential(*layers, conv_norm(464, 1024), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(1024, 100))  # fmt: skip


class Backbone(nn.Module):
    """A small residual network whose last stage is dilated."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_norm(3, 32, 3, 2), nn.ReLU(), conv_norm(32, 32, 3, 2), nn.ReLU())
        self.low = nn.Sequential(conv_norm(32, 64, 3, 2), nn.ReLU(), conv_norm(64, 64, 3), nn.ReLU())
        self.high = nn.Sequential(conv_norm(64, 128, 3, dilation=2), nn.ReLU(), conv_norm(128, 128, 3, dilation=4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        low = self.low(self.stem(x))
        return low, F.relu(self.high(low))


class DeepLab(nn.Module):
    """Atrous pooling with dilations beyond the map, scaled back to the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        branches = [conv_norm(128, 64, 1), *(conv_norm(128, 64, 3, dilation=d) for d in (12, 24, 36))]
        self.branches = nn.ModuleList(branches)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(128, 64, 1), nn.ReLU())
        self.head = nn.Sequential(conv_norm(5 * 64, 64), nn.ReLU(), nn.Conv2d(64, 21, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, high = self.backbone(x)
        parts = [F.relu(branch(high)) for branch in self.branches]
        parts.append(F.interpolate(self.pool(high), size=high.shape[2:], mode="bilinear", align_corners=False))
        return F.interpolate(self.head(torch.cat(parts, 1)), size=x.shape[2:], mode="bilinear", align_corners=False)


class LrAspp(nn.Module):
    """Lite reduced atrous pooling: a gate of pooled features."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.main = nn.Sequential(conv_norm(128, 64), nn.ReLU())
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(128, 64, 1, bias=False), nn.Sigmoid())
        self.low, self.high = nn.Conv2d(64, 21, 1), nn.Conv2d(64, 21, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low, high = self.backbone(x)
        y = self.main(high) * self.gate(high)
        y = F.interpolate(y, size=low.shape[2:], mode="bilinear", align_corners=False)
        return F.interpolate(self.low(low) + self.high(y), size=x.shape[2:], mode="bilinear", align_corners=False)


class UNet(nn.Module):
    """Down, up, and across; sizes that are not multiples of 8 are padded to fit."""

    def __init__(self) -> None:
        super().__init__()
        widths = (16, 32, 64)
        self.down = nn.ModuleList(self._double(a, b) for a, b in itertools.pairwise((3, *widths)))
        self.middle = self._double(64, 128)
        self.rise = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths))
        self.up = nn.ModuleList(self._double(2 * w, w) for w in reversed(widths))
        self.head = nn.Conv2d(16, 2, 1)

    def _double(self, inner: int, outer: int) -> nn.Module:
        return nn.Sequential(conv_norm(inner, outer, 3), nn.ReLU(), conv_norm(outer, outer, 3), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for rise, block in zip(self.rise, self.up, strict=True):
            across = kept.pop()
            x = rise(x)
            high, wide = across.shape[2] - x.shape[2], across.shape[3] - x.shape[3]
            x = F.pad(x, [wide // 2, wide - wide // 2, high // 2, high - high // 2])
            x = block(torch.cat([across, x], 1))
        return self.head(x)


class Pyramid(nn.Module):
    """A feature pyramid with an anchor-free head that answers boxes, scores and the best ones: a small detector."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Sequential(conv_norm(a, b, 3, 2), nn.SiLU()) for a, b in
                                    itertools.pairwise((3, 16, 32, 64, 64)))  # fmt: skip
        self.across = nn.ModuleList(nn.Conv2d(c, 32, 1) for c in (32, 64, 64))
        self.smooth = nn.ModuleList(nn.Conv2d(32, 32, 3, padding=1) for _ in range(3))
        self.scores, self.boxes = nn.Conv2d(32, 4, 3, padding=1), nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        found = [across(m) for across, m in zip(self.across, maps[1:], strict=True)]
        for place in (1, 0):
            found[place] = found[place] + F.interpolate(found[place + 1], size=found[place].shape[2:], mode="nearest")
        scores, boxes = [], []
        for level, (smooth, m) in enumerate(zip(self.smooth, found, strict=True)):
            y = F.silu(smooth(m))
            scores.append(self.scores(y).flatten(2))
            boxes.append(self._boxes(self.boxes(y), 4 * 2**level))
        best, where = torch.cat(scores, 2).sigmoid().amax(1).topk(20, 1)
        picked = torch.cat(boxes, 1).gather(1, where[:, :, None].expand(-1, -1, 4))
        return picked, best, where

    def _boxes(self, distances: torch.Tensor, stride: int) -> torch.Tensor:
        height, width = distances.shape[2:]
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centres = (torch.stack([x, y], -1).reshape(1, -1, 2) + 0.5) * stride
        left, right = (distances.flatten(2).transpose(1, 2).exp() * stride).chunk(2, -1)
        return torch.cat([centres - left, centres + right], -1)


class ScaledConv(nn.Conv2d):
    """A convolution whose weights are standardised in the graph, as NFNets have it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = self.weight.flatten(1)
        variance, mean = torch.var_mean(flat, 1, keepdim=True)
        scale = torch.rsqrt(torch.clamp(variance * flat.shape[1], min=1e-4))
        weight = ((flat - mean) * scale).view_as(self.weight)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


def standardised() -> nn.Module:
    """A network without normalisation."""
    layers: list[nn.Module] = []
    for inner, outer, stride in ((3, 32, 2), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)):
        layers += [ScaledConv(inner, outer, 3, stride, 1), nn.GELU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100))


class InceptionMixer(nn.Module):
    """InceptionNeXt's token mixer: a part stays, a part gets a square, a row and a column kernel."""

    def __init__(self, width: int = 40) -> None:
        super().__init__()
        part = width // 4
        self.sizes = [width - 3 * part, part, part, part]
        self.square = nn.Conv2d(part, part, 3, padding=1, groups=part)
        self.row = nn.Conv2d(part, part, (1, 11), padding=(0, 5), groups=part)
        self.column = nn.Conv2d(part, part, (11, 1), padding=(5, 0), groups=part)
        self.norm = nn.BatchNorm2d(width)
        self.mix = nn.Sequential(nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1))
        self.gamma = nn.Parameter(torch.full((width, 1, 1), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stay, square, row, column = x.split(self.sizes, 1)
        y = torch.cat([stay, self.square(square), self.row(row), self.column(column)], 1)
        return x + self.gamma * self.mix(self.norm(y))


class LargeKernel(nn.Module):
    """A depthwise 7 x 7 that doubles the channels, as FastViT's embeddings do."""

    def __init__(self) -> None:
        super().__init__()
        self.large = nn.Sequential(nn.Conv2d(48, 96, 7, 2, 3, groups=48), nn.BatchNorm2d(96), nn.GELU())
        self.small = nn.Conv2d(48, 96, 3, 2, 1, groups=48)
        self.point = nn.Conv2d(96, 96, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.point(self.large(x) + self.small(x))


def inception_next() -> nn.Module:
    """Two stages of mixers."""
    return nn.Sequential(nn.Conv2d(3, 40, 4, 4), InceptionMixer(), InceptionMixer(), nn.Conv2d(40, 80, 2, 2),
                         InceptionMixer(80), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(80, 10))  # fmt: skip


def fast_embedding() -> nn.Module:
    """FastViT's way to embed patches."""
    return nn.Sequential(nn.Conv2d(3, 48, 3, 2, 1), nn.GELU(), LargeKernel(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(96, 10))  # fmt: skip


class CrossCovariance(nn.Module):
    """Attention over channels, as EdgeNeXt and XCiT have it, with a split depthwise cascade."""

    def __init__(self, width: int = 48, heads: int = 4) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.cascade = nn.ModuleList(
            nn.Conv2d(width // 4, width // 4, 3, padding=1, groups=width // 4) for _ in range(3)
        )
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.heads, self.temperature = heads, nn.Parameter(torch.ones(heads, 1, 1))
        self.out, self.head = nn.Linear(width, width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        parts = list(x.chunk(4, 1))
        carried = parts[0]
        found = []
        for conv, part in zip(self.cascade, parts[1:], strict=True):
            carried = conv(carried + part)
            found.append(carried)
        x = torch.cat([*found, parts[0]], 1)
        batch, width, high, wide = x.shape
        y = self.norm(x.reshape(batch, width, high * wide).permute(0, 2, 1))
        q, k, v = self.qkv(y).reshape(batch, high * wide, 3, self.heads, -1).permute(2, 0, 3, 4, 1)
        attention = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)) * self.temperature
        y = y + self.out((attention.softmax(-1) @ v).permute(0, 3, 1, 2).reshape(batch, high * wide, width))
        return self.head(y.mean(1))


class SpatialTransformer(nn.Module):
    """Grid sampling by a learned flow: a spatial transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.flow = nn.Sequential(nn.Conv2d(3, 8, 5, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
                                  nn.Linear(128, 6))  # fmt: skip
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
                                  nn.Linear(16, 10))  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        theta = self.flow(x).reshape(-1, 2, 3) * 0.1 + torch.eye(2, 3)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return self.body(F.grid_sample(x, grid, align_corners=False))


class SuperResolution(nn.Module):
    """Dense blocks, then pixels out of channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 24, 3, padding=1)
        self.dense = nn.ModuleList(nn.Conv2d(24 + 8 * i, 8, 3, padding=1) for i in range(4))
        self.fuse, self.last = nn.Conv2d(56, 24, 1), nn.Conv2d(24, 12, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = y = self.first(x)
        for conv in self.dense:
            y = torch.cat([y, F.leaky_relu(conv(y), 0.2)], 1)
        y = self.fuse(y) * 0.2 + first
        return F.pixel_shuffle(self.last(y), 2) + F.interpolate(x, scale_factor=2.0, mode="bicubic")


class Style(nn.Module):
    """Instance normalisation, reflection pads and nearest scaling: style transfer."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.ReflectionPad2d(4), nn.Conv2d(3, 16, 9), nn.InstanceNorm2d(16, affine=True),
                                  nn.ReLU(), nn.ReflectionPad2d(1), nn.Conv2d(16, 32, 3, 2),
                                  nn.InstanceNorm2d(32, affine=True), nn.ReLU())  # fmt: skip
        self.up = nn.Sequential(nn.Upsample(scale_factor=2), nn.ReflectionPad2d(1), nn.Conv2d(32, 16, 3),
                                nn.InstanceNorm2d(16, affine=True), nn.ReLU(), nn.ReflectionPad2d(4),
                                nn.Conv2d(16, 3, 9))  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(self.down(x))


class Generator(nn.Module):
    """Pictures out of noise by transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.ConvTranspose2d(32, 64, 4), nn.BatchNorm2d(64), nn.ReLU()]
        for inner, outer in ((64, 32), (32, 16)):
            layers += [nn.ConvTranspose2d(inner, outer, 4, 2, 1), nn.BatchNorm2d(outer), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x[:, :, None, None])
