"""Functions at their kinks, ties, bounds and zeros, with the functions of PyTorch whose conventions decide there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import intaglio
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT64
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import TensorType

F: Any = torch.nn.functional
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Kink:
    """A function in both vocabularies, the shapes of its arguments, and the numbers at which it is tried."""

    name: str
    build: Callable[..., Any]
    function: Callable[..., Any]
    shapes: Sequence[Shape] = ((24,),)
    points: Sequence[float] = (-1.0, 0.0, -0.0, 1.0, 0.5)
    order: int = 2

    def __str__(self) -> str:
        return self.name

    def arrays(self, random: np.random.Generator) -> list[Any]:
        """Arguments of which most elements are among the points."""
        return [_drawn(random, shape, self.points) for shape in self.shapes]

    def graph(self) -> Graph:
        """The function as a graph of inputs x0, x1, ..."""
        graph = Graph(self.name)
        inputs = [graph.add_input(f"x{i}", TensorType(FLOAT64, shape)) for i, shape in enumerate(self.shapes)]
        builder = Builder(graph)
        with builder.active():
            graph.set_outputs([self.build(builder, *inputs)])
        return graph


def _drawn(random: np.random.Generator, shape: Shape, points: Sequence[float]) -> Any:
    chosen = random.choice(np.array(points), shape)
    return np.where(random.random(shape) < 0.8, chosen, random.uniform(-1.5, 1.5, shape))


@dataclass(frozen=True)
class Difference:
    """Where a gradient is not PyTorch's."""

    kink: str
    order: int
    input: str
    arrays: list[Any]
    weights: list[Any]
    ours: Any
    expected: Any

    def __str__(self) -> str:
        wrong = _wrong(self.ours, self.expected)
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        told = ", ".join(f"{np.array2string(array, threshold=64)}" for array in self.arrays)
        return (
            f"{self.kink}, order {self.order}, by {self.input}: {int(wrong.sum())} of {wrong.size} elements, at "
            f"{list(place)} {self.ours[place]!r} instead of {self.expected[place]!r} for {told}"
        )


@dataclass
class Compared:
    """What came of one function at some arguments; `open` counts elements for which PyTorch gives NaN."""

    differences: list[Difference]
    elements: int = 0
    open: int = 0


def compare(kink: Kink, random: np.random.Generator, engine: str = "reference") -> Compared:
    """The gradients of a function at drawn arguments against PyTorch's, to its order."""
    arrays = kink.arrays(random)
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    graph, target = kink.graph(), ""
    names, values = [value.name for value in graph.inputs], [kink.function(*tensors)]
    feeds: dict[str, Any] = dict(zip(names, arrays, strict=True))
    result, weights = Compared([]), list[Any]()
    for order in range(1, kink.order + 1):
        model = intaglio.vjp(graph, of=target or graph.outputs[0].name, wrt=names, engine=engine)
        weights.append(random.uniform(0.5, 1.5, values[0].shape))
        feeds[model.graph.inputs[-1].name] = weights[-1]
        total = (values[0] * torch.tensor(weights[-1])).sum()
        values = _torch_gradients(total, tensors, order < kink.order)
        found = model.run(feeds)
        for name, array, value in zip(names, found.values(), values, strict=True):
            expected = value.detach().numpy(force=True)
            result.elements += expected.size
            result.open += int(np.isnan(expected).sum())
            if _wrong(array, expected).any():
                result.differences.append(Difference(kink.name, order, name, arrays, weights, array, expected))
        graph, target = model.graph, next(iter(found))
        if not values[0].requires_grad or result.differences:
            break
    return result


def _torch_gradients(total: Any, tensors: Sequence[Any], again: bool) -> list[Any]:
    found = torch.autograd.grad(total, tensors, create_graph=again, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, found, strict=True)]


def _wrong(ours: Any, expected: Any) -> Any:
    """Which elements differ; where PyTorch gives NaN, nothing is expected."""
    with np.errstate(all="ignore"):
        is_near = np.isclose(ours, expected, rtol=1e-6, atol=1e-9)
    return ~is_near & ~np.isnan(expected)


def plain(name: str, function: Any, *points: float, order: int = 2, **attributes: Any) -> Kink:
    """An operator of one argument."""
    label = ", ".join([name, *(f"{key}={value}" for key, value in attributes.items())])
    more: dict[str, Any] = {"points": points} if points else {}
    return Kink(label, lambda b, x: getattr(b, name)(x, **attributes), function, order=order, **more)


THREE = (-3.0, 3.0, 0.0, 2.9, -3.1)
ACTIVATIONS = [
    plain("Relu", F.relu),
    plain("Abs", torch.abs),
    plain("LeakyRelu", lambda x: F.leaky_relu(x, 0.25), alpha=0.25),
    *(plain("Elu", lambda x, a=a: F.elu(x, a), alpha=a) for a in (0.5, 1.0, 2.0)),
    *(plain("Celu", lambda x, a=a: F.celu(x, a), alpha=a) for a in (0.5, 1.0, 2.0)),
    plain("Selu", lambda x: F.elu(x, 2.0) * 1.5, alpha=2.0, gamma=1.5),
    plain("ThresholdedRelu", lambda x: F.threshold(x, 0.5, 0.0), alpha=0.5),
    plain("HardSigmoid", lambda x: F.hardsigmoid(1.5 * x), -2.0, 2.0, 0.0, 3.0, -3.0, order=1, alpha=0.25),
    plain("HardSwish", F.hardswish, *THREE),
    plain("Shrink", lambda x: F.softshrink(x, 0.5), 0.5, -0.5, 0.0, 1.0, bias=0.5, lambd=0.5),
    plain("Shrink", lambda x: F.hardshrink(x, 0.5), 0.5, -0.5, 0.0, 1.0, lambd=0.5),
    plain("Softsign", F.softsign),
    plain("Softplus", F.softplus),
    plain("Gelu", F.gelu),
    plain("Mish", F.mish),
    plain("Swish", F.silu),
    *(plain(n, getattr(torch, n.lower())) for n in ("Floor", "Ceil", "Round", "Sign")),
    *(plain(n, getattr(torch, n.lower()), 0.0, 1.0, 0.5) for n in ("Sqrt", "Log", "Reciprocal")),
    *(plain(n, getattr(torch, n.lower()), 0.0, 1.0, -1.0, 0.5) for n in ("Asin", "Acos", "Atanh")),
    plain("Acosh", torch.acosh, 1.0, 1.5, 2.0),
    # the second derivative of PyTorch's prelu takes the other side of 0 than the first
    Kink("PRelu", lambda b, x, s: b.PRelu(x, s), F.prelu, ((2, 3, 4), (1,)), order=1),
]


def _axis(name: str, axis: int, keepdims: int = 0) -> Callable[..., Any]:
    return lambda b, x: getattr(b, name)(x, [axis], keepdims=keepdims)


M = ((3, 4),)
TIES = (0.0, 1.0, -1.0)
REDUCTIONS = [
    Kink("ReduceMax", _axis("ReduceMax", 1), lambda x: torch.amax(x, 1), M, TIES),
    Kink("ReduceMin", _axis("ReduceMin", 0, 1), lambda x: torch.amin(x, 0, keepdim=True), M, TIES),
    Kink("ReduceL1", _axis("ReduceL1", 1), lambda x: torch.linalg.vector_norm(x, 1, dim=1), M, (0.0, -0.0, 1.0)),
    Kink("ReduceL2", _axis("ReduceL2", 1), lambda x: torch.linalg.vector_norm(x, 2, dim=1), ((8, 2),), (0.0, 0.0, 1.0)),
    Kink("ReduceProd", _axis("ReduceProd", 1), lambda x: torch.prod(x, 1), M, (0.0, 1.0, 2.0)),
    Kink("ReduceLogSum", _axis("ReduceLogSum", 1), lambda x: torch.log(torch.sum(x, 1)), M, TIES),
    Kink("ReduceLogSumExp", _axis("ReduceLogSumExp", 1), lambda x: torch.logsumexp(x, 1), M, TIES),
    Kink("ReduceSumSquare", _axis("ReduceSumSquare", 1), lambda x: torch.sum(x * x, 1), M, TIES),
    Kink("CumProd", lambda b, x: b.CumProd(x, b.constant(np.int64(1))), lambda x: torch.cumprod(x, 1), M, TIES),
    *(
        Kink(f"LpNormalization, p={p}", lambda b, x, p=p: b.LpNormalization(x, axis=1, p=p),
             lambda x, p=p: normalized(x, p), ((8, 2),), (0.0, 0.0, 1.0))
        for p in (1, 2)
    ),
]  # fmt: skip


def pooled(x: Any, p: int) -> Any:
    """The norm of each window, which is a norm and not a power of a sum as in PyTorch's own function."""
    windows = F.unfold(x.transpose(0, 1), 2).transpose(1, 2)
    return torch.linalg.vector_norm(windows, p, dim=2).reshape(1, x.shape[1], x.shape[2] - 1, -1)


def distances(x: Any, y: Any) -> Any:
    """Euclidean distances of rows."""
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


def without_spread(x: Any) -> Any:
    """Deviations from the mean by the standard deviation."""
    return (x - x.mean(1, keepdim=True)) / (x.std(1, correction=0, keepdim=True) + 1e-9)


def normalized(x: Any, p: int) -> Any:
    """x by its norm, and zeros where the norm is zero."""
    norm = torch.linalg.vector_norm(x, p, dim=1, keepdim=True)
    return torch.where(norm == 0, torch.zeros_like(x), x / torch.where(norm == 0, torch.ones_like(norm), norm))


BOUNDS = (-0.5, 0.5, 0.0, 1.0, -1.0)
PAIRS = [
    Kink("Max", lambda b, x, y: b.Max(x, y), torch.maximum, ((24,), (24,)), TIES),
    Kink("Min", lambda b, x, y: b.Min(x, y), torch.minimum, ((4, 3), (3,)), TIES),
    Kink("Max of three", lambda b, *x: b.Max(*x), lambda *x: torch.amax(torch.stack(x), 0), ((24,),) * 3, TIES),
    Kink("Clip", lambda b, x: b.Clip(x, -0.5, 0.5), lambda x: torch.clamp(x, -0.5, 0.5), points=BOUNDS),
    Kink("Clip, low", lambda b, x: b.Clip(x, -0.5), lambda x: torch.clamp(x, min=-0.5), points=BOUNDS),
    Kink("Clip, high", lambda b, x: b.Clip(x, None, 0.5), lambda x: torch.clamp(x, max=0.5), points=BOUNDS),
    Kink("Clip, crossed", lambda b, x: b.Clip(x, 0.5, -0.5), lambda x: torch.clamp(x, 0.5, -0.5), points=BOUNDS),
    Kink(
        "Clip, bounds", lambda b, x, m, n: b.Clip(x, m, n), lambda x, m, n: torch.clamp(x, m, n), ((24,), (), ()), TIES
    ),
    # PyTorch has 0 for the second derivative where the exponent is 0, which is 1 / x for every x but 0
    Kink("Pow", lambda b, x, y: b.Pow(x, y), torch.pow, ((24,), (24,)), (0.0, 1.0, 2.0, 3.0), order=1),
    Kink("Pow, negative", lambda b, x, y: b.Pow(x, y), torch.pow, ((24,), (24,)), (0.0, -1.0, -2.0, 1.0, 2.0), order=1),
    *(
        Kink(f"Pow {p}", lambda b, x, p=p: b.Pow(x, b.constant(np.array(p))), lambda x, p=p: torch.pow(x, p),
             points=(0.0, 1.0, 2.0, -1.0))
        for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, -1.0)
    ),
    Kink("Mod", lambda b, x, y: b.Mod(x, y, fmod=1), torch.fmod, ((24,), (24,)), (1.0, -1.0, 0.5, 2.0, 3.0)),
    Kink("Div", lambda b, x, y: b.Div(x, y), torch.div, ((24,), (24,)), TIES),
    Kink("Where", lambda b, x, y: b.Where(b.Greater(x, y), x, y * 2.0),
         lambda x, y: torch.where(x > y, x, y * 2), ((24,), (24,)), TIES),
]  # fmt: skip


def attended(q: Any, k: Any, v: Any, cap: float, seen: Any = None) -> Any:
    """Attention of which some rows see nothing, and give zeros."""
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    scores = scores if cap == 0 else cap * torch.tanh(scores / cap)
    is_seen = torch.tensor(SEEN if seen is None else seen).expand(scores.shape)
    is_empty = ~is_seen.any(-1, keepdim=True)
    weight = torch.softmax(scores.masked_fill(~is_seen & ~is_empty, -torch.inf), -1)
    return weight.masked_fill(is_empty, 0.0) @ v


IMAGE = ((1, 2, 5, 5),)
ZEROS = (0.0, 0.0, 0.0, 1.0)
SEEN = np.array([[True, False, True], [False, False, False], [True, True, True]])
WINDOWS = [
    Kink("MaxPool", lambda b, x: b.MaxPool(x, kernel_shape=(2, 2)), lambda x: F.max_pool2d(x, 2, 1), IMAGE, TIES),
    Kink("MaxPool, pads", lambda b, x: b.MaxPool(x, kernel_shape=(3, 3), pads=(1, 1, 1, 1), strides=(2, 2)),
         lambda x: F.max_pool2d(x, 3, 2, 1), IMAGE, TIES),
    Kink("GlobalMaxPool", lambda b, x: b.GlobalMaxPool(x), lambda x: torch.amax(x, (2, 3), keepdim=True), IMAGE, TIES),
    *(
        Kink(f"LpPool, p={p}", lambda b, x, p=p: b.LpPool(x, kernel_shape=(2, 2), p=p),
             lambda x, p=p: pooled(x, p), IMAGE, ZEROS, order=1)
        for p in (1, 2, 3)
    ),
    Kink("GlobalLpPool", lambda b, x: b.GlobalLpPool(x), lambda x: torch.linalg.vector_norm(x, 2, (2, 3), keepdim=True),
         ((4, 2, 1, 2),), ZEROS, order=1),
    Kink("CDist", lambda b, x, y: b.apply(OPERATORS["com.microsoft", "CDist"], x, y, metric="euclidean"), distances,
         ((4, 2), (3, 2)), TIES, order=1),
    Kink("MeanVarianceNormalization", lambda b, x: b.MeanVarianceNormalization(x, axes=[1]), without_spread,
         ((8, 2),), TIES, order=1),
    Kink("Softmax", lambda b, x: b.Softmax(x, axis=1), lambda x: F.softmax(x, 1), M, TIES),
    Kink("TopK", lambda b, x: b.TopK(x, b.constant(np.array([3])), outputs=2)[0],
         lambda x: torch.sort(x, descending=True, stable=True).values[:, :3], M, (0.0, 1.0)),
    *(
        Kink(f"Attention {options}",
             lambda b, q, k, v, options=options: b.Attention(q, k, v, b.constant(SEEN), **options),
             lambda q, k, v, options=options: attended(q, k, v, options.get("softcap", 0.0)),
             ((1, 2, 3, 4),) * 3, TIES)
        for options in ({}, {"softcap": 2.0}, {"left_window_size": 5}, {"softmax_precision": 11})
    ),
    Kink("Attention lengths", lambda b, q, k, v: b.Attention(
             q, k, v, None, None, None, b.constant(np.array([3, 0, 1]))),
         lambda q, k, v: attended(q, k, v, 0.0, np.arange(3) < np.array([3, 0, 1]).reshape(3, 1, 1, 1)),
         ((3, 1, 3, 4),) * 3, TIES),
    *(
        Kink(f"GridSample {mode} {padding} {corners}",
             lambda b, x, g, m=mode, p=padding, c=corners: b.GridSample(x, g, mode=m, padding_mode=p, align_corners=c),
             lambda x, g, m=other, p=padding, c=corners: F.grid_sample(x, g, m, p, bool(c)),
             ((1, 1, 3, 3), (1, 3, 4, 2)), (-1.0, 1.0, 0.0, 0.5, 1.25, -1.25), order=1)
        for mode, other in (("linear", "bilinear"), ("cubic", "bicubic"), ("nearest", "nearest"))
        for padding in ("zeros", "border", "reflection")
        for corners in (0, 1)
    ),
    *(
        Kink(f"ScatterElements {how}",
             lambda b, x, y, how=how: b.ScatterElements(x, b.constant(PLACES), y, axis=1, reduction=how),
             lambda x, y, other=other: torch.scatter_reduce(x, 1, torch.tensor(PLACES), y, other),
             ((3, 4), (3, 3)), TIES)
        for how, other in (("max", "amax"), ("min", "amin"), ("mul", "prod"), ("add", "sum"))
    ),
]  # fmt: skip
PLACES = np.array([[0, 2, 2], [1, 1, 1], [0, 1, 3]])

KINKS: list[Kink] = [*ACTIVATIONS, *REDUCTIONS, *PAIRS, *WINDOWS]
