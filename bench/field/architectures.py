"""Networks written here, which need nothing but PyTorch: pictures, recurrences, graphs, diffusion, series."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from bench.field import convolutions
from bench.field.convolutions import conv_norm
from bench.field.exporting import Subject, Tensors, export, normal, picture, tokens
from bench.field.specimen import Made


class DiffusionUNet(nn.Module):
    """A UNet of a diffusion model: time embedding, group norms, self and cross attention."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))
        self.first = nn.Conv2d(4, 32, 3, padding=1)
        self.blocks = nn.ModuleList([ResBlock(32, 32), ResBlock(32, 64), ResBlock(64, 64), ResBlock(128, 64),
                                     ResBlock(96, 32)])  # fmt: skip
        self.attention = nn.ModuleList([CrossBlock(64), CrossBlock(64)])
        self.down = nn.Conv2d(32, 32, 3, 2, 1)
        self.up = nn.Conv2d(64, 64, 3, padding=1)
        self.norm, self.last = nn.GroupNorm(8, 32), nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, sample: torch.Tensor, timestep: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        steps = torch.exp(-math.log(10000) * torch.arange(16, dtype=torch.float32) / 16)
        angle = timestep[:, None].float() * steps[None]
        time = self.time(torch.cat([angle.cos(), angle.sin()], -1))
        x = first = self.blocks[0](self.first(sample), time)
        x = middle = self.attention[0](self.blocks[1](self.down(x), time), text)
        x = self.attention[1](self.blocks[2](x, time), text)
        x = self.blocks[3](torch.cat([x, middle], 1), time)
        x = self.up(F.interpolate(x, size=first.shape[2:], mode="nearest"))
        return self.last(F.silu(self.norm(self.blocks[4](torch.cat([x, first], 1), time))))


class ResBlock(nn.Module):
    """Two convolutions with the time between."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, outer), nn.Conv2d(outer, outer, 3, padding=1)
        self.time = nn.Linear(64, outer)
        self.short = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.short(x) + self.conv2(F.silu(self.norm2(y)))


class CrossBlock(nn.Module):
    """Attention over the places of a map and over a text, with a gated layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.start, self.end = nn.GroupNorm(8, width), nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own = nn.MultiheadAttention(width, 4, batch_first=True)
        self.cross = nn.MultiheadAttention(width, 4, kdim=24, vdim=24, batch_first=True)
        self.wide, self.narrow = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        batch, width, high, wide = x.shape
        y = self.start(self.norm(x)).permute(0, 2, 3, 1).reshape(batch, high * wide, width)
        z = self.norms[0](y)
        y = y + self.own(z, z, z, need_weights=False)[0]
        y = y + self.cross(self.norms[1](y), text, text, need_weights=False)[0]
        value, gate = self.wide(self.norms[2](y)).chunk(2, -1)
        y = y + self.narrow(value * F.gelu(gate))
        return x + self.end(y.reshape(batch, high, wide, width).permute(0, 3, 1, 2))


class GraphConv(nn.Module):
    """Messages along edges, summed and averaged by scatter, attention over the neighbours by scattered maxima."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 32)
        self.score = nn.Linear(64, 1)
        self.head = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges[0], edges[1]
        ones = torch.ones_like(source, dtype=torch.float32)
        degree = torch.zeros(x.shape[0]).scatter_add(0, target, ones)
        h = self.first(x)
        message = h[source] / degree.clamp(min=1.0)[target][:, None]
        h = torch.relu(torch.zeros_like(h).index_add(0, target, message) + h)
        score = F.leaky_relu(self.score(torch.cat([h[source], h[target]], 1)), 0.2).squeeze(1)
        top = torch.full((x.shape[0],), -1e9).scatter_reduce(0, target, score, "amax", include_self=True)
        weight = (score - top[target]).exp()
        total = torch.zeros(x.shape[0]).scatter_add(0, target, weight)
        weight = weight / total[target].clamp(min=1e-9)
        message = self.second(h)[source] * weight[:, None]
        h = torch.zeros_like(h).scatter_add(0, target[:, None].expand_as(message), message)
        return self.head(F.elu(h))


class Points(nn.Module):
    """A point cloud's nearest neighbours and edge convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(6, 32, 1), nn.BatchNorm2d(32), nn.LeakyReLU(0.2))
        self.head = nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, _, count = x.shape
        inner = -2 * x.transpose(2, 1) @ x
        square = x.square().sum(1, keepdim=True)
        near = (-square - inner - square.transpose(2, 1)).topk(4, -1)[1]
        near = (near + torch.arange(batch)[:, None, None] * count).reshape(-1)
        rows = x.transpose(2, 1).reshape(batch * count, -1)
        around = rows[near].reshape(batch, count, 4, -1)
        centre = rows.reshape(batch, count, 1, -1).expand(-1, -1, 4, -1)
        y = self.first(torch.cat([around - centre, centre], 3).permute(0, 3, 1, 2)).amax(-1)
        return self.head(torch.cat([y.amax(-1), y.mean(-1)], 1))


class Recurrent(nn.Module):
    """An embedding, a bidirectional LSTM and a conditional tagger."""

    def __init__(self, kind: str = "LSTM") -> None:
        super().__init__()
        self.embed = nn.Embedding(200, 32)
        self.body = getattr(nn, kind)(32, 48, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(96, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embed(x))[0]).log_softmax(-1)


class CharRecogniser(nn.Module):
    """Columns of a line of text through convolutions and a recurrence."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv_norm(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), conv_norm(16, 32, 3), nn.ReLU(),
                                  nn.MaxPool2d((2, 1)), conv_norm(32, 32, 3), nn.ReLU(),
                                  nn.MaxPool2d((2, 1)))  # fmt: skip
        self.recurrent, self.head = nn.LSTM(128, 48, bidirectional=True, batch_first=True), nn.Linear(96, 60)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x).flatten(1, 2).transpose(1, 2)
        return self.head(self.recurrent(y)[0]).softmax(-1)


class Temporal(nn.Module):
    """A temporal convolutional network for series, with a reversible normalisation of each one."""

    def __init__(self) -> None:
        super().__init__()
        self.convs: Any = nn.ModuleList(nn.utils.parametrizations.weight_norm(nn.Conv1d(a, 16, 3, dilation=d))
                                   for a, d in ((4, 1), (16, 2), (16, 4)))  # fmt: skip
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, std = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False).add(1e-5).sqrt()
        y = ((x - mean) / std).transpose(1, 2)
        for conv in self.convs:
            pad = 2 * conv.dilation[0]
            z = torch.relu(conv(F.pad(y, (pad, 0))))
            y = z + y if z.shape[1] == y.shape[1] else z
        return self.head(y.transpose(1, 2)) * std + mean


class Patches(nn.Module):
    """PatchTST: a series cut by unfold, through an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(16, 32), nn.Linear(32, 8)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.embed(F.pad(x, (0, 8), mode="replicate").unfold(-1, 16, 8))
        batch, channels, count, width = y.shape
        y = self.encoder(y.reshape(batch * channels, count, width)).mean(1)
        return self.head(y).reshape(batch, channels, -1)


class Recommender(nn.Module):
    """Wide, deep and factorised: embeddings of columns, their products, a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 16)
        self.offsets: torch.Tensor
        self.register_buffer("offsets", torch.arange(10) * 100)
        self.wide = nn.Embedding(1000, 1)
        self.deep = nn.Sequential(nn.Linear(160 + 13, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64),
                                  nn.ReLU(), nn.Linear(64, 1))  # fmt: skip

    def forward(self, columns: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        where = columns + self.offsets
        found = self.embed(where)
        crossed = 0.5 * (found.sum(1).square() - found.square().sum(1)).sum(1, keepdim=True)
        deep = self.deep(torch.cat([found.flatten(1), numbers], 1))
        return torch.sigmoid(self.wide(where).sum(1) + crossed + deep)


class Bags(nn.Module):
    """Sums of embeddings, which the older exporter writes as a loop over the bags."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(300, 24, mode="mean")
        self.head = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 5))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.bag(words))


class Translator(nn.Module):
    """PyTorch's own transformer with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(200, 32)
        self.body = nn.Transformer(32, 4, 1, 1, 64, batch_first=True)
        self.head = nn.Linear(32, 200)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        count = target.shape[1]
        mask = torch.triu(torch.full((count, count), float("-inf")), diagonal=1)
        return self.head(self.body(self.embed(source), self.embed(target), tgt_mask=mask))


class Experts(nn.Module):
    """A mixture of experts, each over all tokens, weighed by the two best gates."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(32, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, where = self.gate(x).softmax(-1).topk(2, -1)
        gates = torch.zeros(*x.shape[:2], 4).scatter(-1, where, weight / weight.sum(-1, keepdim=True))
        return sum(gates[..., i : i + 1] * expert(x) for i, expert in enumerate(self.experts)) + x


class SelectiveScan(nn.Module):
    """A state space model in its parallel form: cumulated sums of logarithms."""

    def __init__(self) -> None:
        super().__init__()
        self.rates, self.gates, self.out = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.conv = nn.Conv1d(16, 16, 4, groups=16, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.silu(self.conv(x.transpose(1, 2))[:, :, : x.shape[1]].transpose(1, 2))
        decay = torch.cumsum(-F.softplus(self.rates(x)) * 0.1, 1)
        state = torch.exp(decay) * torch.cumsum(y * torch.exp(-decay), 1)
        return self.out(state * F.silu(self.gates(x)))


class Video(nn.Module):
    """Factorised convolutions in space and time."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv3d(3, 16, (1, 3, 3), (1, 2, 2), (0, 1, 1)), nn.BatchNorm3d(16), nn.ReLU(),
                                  nn.Conv3d(16, 16, (3, 1, 1), 1, (1, 0, 0)), nn.BatchNorm3d(16), nn.ReLU(),
                                  nn.MaxPool3d((1, 2, 2)), nn.Conv3d(16, 32, 3, 2, 1), nn.ReLU(),
                                  nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(32, 10))  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Dueling(nn.Module):
    """A policy and a value for a game, with a mask of legal moves and the chosen move."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.moves, self.value = nn.Linear(64, 6), nn.Linear(64, 1)

    def forward(self, state: torch.Tensor, legal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = self.body(state)
        scores = self.moves(y).masked_fill(~legal, float("-inf"))
        return scores.softmax(-1), self.value(y), scores.argmax(-1)


class Flow(nn.Module):
    """A correlation volume and warping: optical flow of two pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.LeakyReLU(0.1), nn.Conv2d(16, 16, 3, 2, 1))
        self.estimate = nn.Sequential(
            nn.Conv2d(9 + 16, 32, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv2d(32, 2, 3, padding=1)
        )

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        a, b = self.features(first), self.features(second)
        high, wide = a.shape[2:]
        padded = F.pad(b, (1, 1, 1, 1))
        costs = [
            (a * padded[:, :, y : y + high, x : x + wide]).mean(1, keepdim=True) for y in range(3) for x in range(3)
        ]
        flow = self.estimate(torch.cat([*costs, a], 1))
        ys, xs = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
        place = torch.stack([xs, ys], 0)[None].float() + flow
        grid = torch.stack([2 * place[:, 0] / max(wide - 1, 1) - 1, 2 * place[:, 1] / max(high - 1, 1) - 1], -1)
        return flow + F.grid_sample(b, grid, align_corners=True)[:, :2]


Inputs = Callable[..., Tensors]
PICTURE = (
    {"x": {0: "batch", 2: "height", 3: "width"}},
    lambda batch, height, width: {"x": picture(batch, height, width)},
)
SIDES = [{"batch": 2, "height": 96, "width": 64}, {"batch": 1, "height": 64, "width": 64},
         {"batch": 1, "height": 80, "width": 112}]  # fmt: skip
LARGE_SIDES = [{"batch": 2, "height": 192, "width": 160}, {"batch": 1, "height": 224, "width": 224},
               {"batch": 1, "height": 128, "width": 256}]  # fmt: skip
ODD_SIDES = [*SIDES, {"batch": 1, "height": 75, "width": 93}]
SERIES = [{"batch": 2, "length": 40}, {"batch": 1, "length": 64}, {"batch": 3, "length": 33}]
BATCHES = [{"batch": 2}, {"batch": 1}, {"batch": 7}]


def _graph_inputs(nodes: int, edges: int) -> Tensors:
    pairs = torch.stack([tokens(nodes, edges), tokens(nodes, edges, seed=8)])
    return {"x": normal(nodes, 16), "edges": pairs % nodes}


def _diffusion_inputs(batch: int, height: int, width: int, sequence: int) -> Tensors:
    return {"sample": normal(batch, 4, height, width), "timestep": torch.arange(batch) * 17 + 3,
            "text": normal(batch, sequence, 24, seed=8)}  # fmt: skip


def _line_inputs(batch: int, width: int) -> Tensors:
    return {"x": picture(batch, 32, width, 1)}


def _move_inputs(batch: int) -> Tensors:
    legal = torch.ones(batch, 6, dtype=torch.bool)
    legal[:, 2] = False
    return {"state": normal(batch, 20), "legal": legal}


# The module, the open axes with the inputs, and the cases.
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[dict[str, dict[int, str]], Inputs], list[dict[str, int]]]] = {
    "shufflenet": (lambda: _Named(convolutions.shufflenet()), PICTURE, LARGE_SIDES),
    "deeplab": (convolutions.DeepLab, PICTURE, LARGE_SIDES),
    "lr-aspp": (convolutions.LrAspp, PICTURE, ODD_SIDES),
    "unet": (convolutions.UNet, PICTURE, ODD_SIDES),
    "pyramid": (convolutions.Pyramid, PICTURE, SIDES),
    "standardised": (lambda: _Named(convolutions.standardised()), PICTURE, SIDES),
    "inception-mixer": (lambda: _Named(convolutions.inception_next()), PICTURE, LARGE_SIDES),
    "fast-embedding": (lambda: _Named(convolutions.fast_embedding()), PICTURE, LARGE_SIDES),
    "cross-covariance": (convolutions.CrossCovariance, PICTURE, SIDES),
    "spatial-transformer": (convolutions.SpatialTransformer, PICTURE, SIDES),
    "super-resolution": (convolutions.SuperResolution, PICTURE, ODD_SIDES),
    "style": (convolutions.Style, PICTURE, SIDES),
    "generator": (convolutions.Generator, ({"x": {0: "batch"}}, lambda batch: {"x": normal(batch, 32)}), BATCHES),
    "diffusion": (DiffusionUNet, ({"sample": {0: "batch", 2: "height", 3: "width"}, "timestep": {0: "batch"},
                                   "text": {0: "batch", 1: "sequence"}}, _diffusion_inputs),
                  [{"batch": 2, "height": 16, "width": 24, "sequence": 7},
                   {"batch": 1, "height": 32, "width": 32, "sequence": 12},
                   {"batch": 1, "height": 14, "width": 18, "sequence": 5}]),
    "graph": (GraphConv, ({"x": {0: "nodes"}, "edges": {1: "edges"}}, _graph_inputs),
              [{"nodes": 12, "edges": 30}, {"nodes": 200, "edges": 900}, {"nodes": 9, "edges": 5}]),
    "points": (Points, ({"x": {0: "batch", 2: "points"}}, lambda batch, points: {"x": normal(batch, 3, points)}),
               [{"batch": 2, "points": 20}, {"batch": 1, "points": 256}, {"batch": 3, "points": 33}]),
    "lstm-tagger": (Recurrent, ({"x": {0: "batch", 1: "length"}},
                                lambda batch, length: {"x": tokens(200, batch, length)}),
                    SERIES),
    "gru-tagger": (lambda: Recurrent("GRU"), ({"x": {0: "batch", 1: "length"}},
                                              lambda batch, length: {"x": tokens(200, batch, length)}), SERIES),
    "text-line": (CharRecogniser, ({"x": {0: "batch", 3: "width"}}, _line_inputs),
                  [{"batch": 2, "width": 64}, {"batch": 1, "width": 160}, {"batch": 3, "width": 50}]),
    "temporal": (Temporal, ({"x": {0: "batch", 1: "length"}}, lambda batch, length: {"x": normal(batch, length, 4)}),
                 SERIES),
    "patches": (Patches, ({"x": {0: "batch", 2: "length"}}, lambda batch, length: {"x": normal(batch, 3, length)}),
                SERIES),
    "recommender": (Recommender, ({"columns": {0: "batch"}, "numbers": {0: "batch"}},
                                  lambda batch: {"columns": tokens(100, batch, 10), "numbers": normal(batch, 13)}),
                    BATCHES),
    "bags": (Bags, ({"words": {0: "batch", 1: "length"}}, lambda batch, length: {"words": tokens(300, batch, length)}),
             SERIES),
    "translator": (Translator, ({"source": {0: "batch", 1: "length"}, "target": {0: "batch", 1: "written"}},
                                lambda batch, length, written: {"source": tokens(200, batch, length),
                                                                "target": tokens(200, batch, written, seed=8)}),
                   [{"batch": 2, "length": 9, "written": 5}, {"batch": 1, "length": 20, "written": 11},
                    {"batch": 3, "length": 6, "written": 1}]),
    "experts": (Experts, ({"x": {0: "batch", 1: "length"}}, lambda batch, length: {"x": normal(batch, length, 32)}),
                SERIES),
    "selective-scan": (SelectiveScan, ({"x": {0: "batch", 1: "length"}},
                                       lambda batch, length: {"x": normal(batch, length, 16)}), SERIES),
    "video": (Video, ({"x": {0: "batch", 2: "frames"}}, lambda batch, frames: {"x": normal(batch, 3, frames, 48, 48)}),
              [{"batch": 2, "frames": 6}, {"batch": 1, "frames": 8}, {"batch": 1, "frames": 5}]),
    "policy": (Dueling, ({"state": {0: "batch"}, "legal": {0: "batch"}}, _move_inputs), BATCHES),
    "flow": (Flow, ({"first": {0: "batch", 2: "height", 3: "width"}, "second": {0: "batch", 2: "height", 3: "width"}},
                    lambda batch, height, width: {"first": picture(batch, height, width),
                                                  "second": picture(batch, height, width).roll(2, 3)}), SIDES),
}  # fmt: skip


class _Named(nn.Module):
    """Takes its input as `x`."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def network(name: str, exporter: str) -> Made:
    """One of the networks of this file."""
    torch.manual_seed(0)
    build, (axes, inputs), cases = MODELS[name]
    made = export(Subject(build(), inputs, axes, cases), exporter)
    order = [1, 0, *range(2, len(cases))]
    return Made(made.model, [made.cases[place] for place in order])
