"""The gradients of operators against PyTorch's, where it has the same operator, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.autodiff.problems import IMAGE, INSIDE, MIXED, POSITIVE, SPREAD, M, apart, ints, numbers

import intaglio
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT64
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType

torch: Any = pytest.importorskip("torch", reason="PyTorch judges these, and it is not a part of `dev`")
F: Any = torch.nn.functional

Case = tuple[str, Callable[..., Any], Callable[..., Any], list[Any]]


def plain(name: str, *arrays: Any, function: Any = None, **attributes: Any) -> Case:
    """An operator and the function of PyTorch that is named like it."""
    other = function or getattr(torch, name.lower(), None) or getattr(F, name.lower())
    return name, lambda b, *x: getattr(b, name)(*x, **attributes), other, list(arrays)


GRID = numbers(1, 3, 2, 2) * 0.9 + 0.013
CASES: list[Case] = [
    *(plain(n, M) for n in ("Exp", "Sin", "Cos", "Tan", "Tanh", "Sigmoid", "Erf", "Softplus", "Atan", "Sinh", "Cosh")),
    *(plain(n, M * 0.8) for n in ("Asin", "Acos", "Atanh", "Asinh")),
    *(plain(n, MIXED) for n in ("Abs", "Neg", "Relu", "Gelu", "Elu", "Selu", "Mish", "Celu", "Softsign", "HardSwish")),
    plain("Swish", MIXED, function=F.silu),
    *(plain(n, POSITIVE) for n in ("Log", "Sqrt", "Reciprocal")),
    plain("Pow", POSITIVE, M),
    plain("PRelu", MIXED, np.array([0.3]), function=F.prelu),
    plain("MatMul", numbers(2, 3, 4), numbers(4, 2)),
    plain("Softmax", M, function=lambda x: F.softmax(x, -1)),
    plain("LogSoftmax", M, function=lambda x: F.log_softmax(x, -1)),
    plain("Det", numbers(2, 4, 4)),
    ("CumSum", lambda b, x: b.CumSum(x, b.constant(np.int64(1))), lambda x: torch.cumsum(x, 1), [M]),
    ("CumProd", lambda b, x: b.CumProd(x, b.constant(np.int64(1))), lambda x: torch.cumprod(x, 1), [M * ints(1, 0, 1)]),
    ("ReduceProd", lambda b, x: b.ReduceProd(x, [1], keepdims=0), lambda x: torch.prod(x, 1), [M * ints(1, 0, 1)]),
    ("ReduceLogSumExp", lambda b, x: b.ReduceLogSumExp(x, [1], keepdims=0), lambda x: torch.logsumexp(x, 1), [M]),
    ("ReduceL2", lambda b, x: b.ReduceL2(x, [1], keepdims=0), lambda x: torch.linalg.norm(x, dim=1), [M]),
    ("Conv", lambda b, *x: b.Conv(*x, strides=(2, 1), pads=(1, 1, 1, 1), group=2),
     lambda *x: F.conv2d(*x, stride=(2, 1), padding=1, groups=2), [IMAGE, numbers(4, 1, 3, 3), numbers(4)]),
    ("ConvTranspose", lambda b, *x: b.ConvTranspose(*x, strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1)),
     lambda *x: F.conv_transpose2d(*x, stride=2, padding=1, output_padding=1),
     [IMAGE, numbers(2, 3, 3, 3), numbers(3)]),
    ("MaxPool", lambda b, x: b.MaxPool(x, kernel_shape=(2, 3), strides=(1, 2)),
     lambda x: F.max_pool2d(x, (2, 3), (1, 2)), [SPREAD]),
    ("AveragePool", lambda b, x: b.AveragePool(x, kernel_shape=(2, 2), pads=(1, 1, 1, 1), count_include_pad=1),
     lambda x: F.avg_pool2d(x, 2, stride=1, padding=1), [IMAGE]),
    ("LayerNormalization", lambda b, *x: b.LayerNormalization(*x), lambda *x: F.layer_norm(x[0], (3,), x[1], x[2]),
     [M, numbers(3), numbers(3)]),
    ("GroupNormalization", lambda b, *x: b.GroupNormalization(*x, num_groups=2),
     lambda *x: F.group_norm(x[0], 2, *x[1:]), [numbers(2, 4, 3), numbers(4), numbers(4)]),
    ("InstanceNormalization", lambda b, *x: b.InstanceNormalization(*x),
     lambda *x: F.instance_norm(x[0], weight=x[1], bias=x[2]), [numbers(2, 3, 4), numbers(3), numbers(3)]),
    ("Attention", lambda b, *x: b.Attention(*x), F.scaled_dot_product_attention,
     [numbers(1, 2, 3, 4), numbers(1, 2, 5, 4), numbers(1, 2, 5, 4)]),
    ("Gather", lambda b, x: b.Gather(x, b.constant(ints(1, 1, 0)), axis=0), lambda x: x[[1, 1, 0]], [M]),
    ("TopK", lambda b, x: b.TopK(x, b.constant(ints(2)), outputs=2)[0], lambda x: torch.topk(x, 2).values, [MIXED]),
    ("SoftmaxCrossEntropyLoss", lambda b, x: b.SoftmaxCrossEntropyLoss(x, b.constant(ints(2, 0))),
     lambda x: F.cross_entropy(x, torch.tensor([2, 0])), [M]),
    *(
        (f"Pad {mode}", lambda b, x, mode=mode: b.Pad(x, b.constant(ints(0, 0, 0, 2, 0, 0, 0, 1)), mode=mode),
         lambda x, other=other: F.pad(x, (2, 1, 0, 0), mode=other), [IMAGE])
        for mode, other in (("reflect", "reflect"), ("edge", "replicate"), ("wrap", "circular"))
    ),
    *(
        (f"GridSample {mode} {padding} {corners}",
         lambda b, *x, mode=mode, padding=padding, corners=corners: b.GridSample(
             *x, mode=mode, padding_mode=padding, align_corners=corners),
         lambda *x, other=other, padding=padding, corners=corners: F.grid_sample(
             *x, mode=other, padding_mode=padding, align_corners=bool(corners)), [IMAGE, GRID])
        for mode, other in (("linear", "bilinear"), ("cubic", "bicubic"))
        for padding in ("zeros", "border", "reflection")
        for corners in (0, 1)
    ),
    *(
        (f"Resize {mode} {how}",
         lambda b, x, mode=mode, how=how: b.Resize(
             x, None, None, [1, 2, 7, 3], mode=mode, coordinate_transformation_mode=how),
         lambda x, other=other, how=how: F.interpolate(
             x, (7, 3), mode=other, align_corners=how == "align_corners"), [IMAGE])
        for mode, other in (("linear", "bilinear"), ("cubic", "bicubic"))
        for how in ("half_pixel", "align_corners")
    ),
    ("DFT", lambda b, x: b.DFT(x, None, b.constant(np.int64(1)), onesided=1),
     lambda x: torch.view_as_real(torch.fft.rfft(x[..., 0], dim=1)), [numbers(2, 5, 1)]),
    ("inverse DFT", lambda b, x: b.DFT(x, None, b.constant(np.int64(1)), inverse=1),
     lambda x: torch.view_as_real(torch.fft.ifft(torch.view_as_complex(x), dim=1)), [numbers(2, 5, 2)]),
    ("STFT", lambda b, x, w: b.STFT(x, b.constant(np.int64(2)), w),
     lambda x, w: torch.view_as_real(
         torch.stft(x[..., 0], 4, 2, window=w, center=False, return_complex=True).transpose(1, 2)),
     [numbers(1, 9, 1), INSIDE.ravel()[:4]]),
    ("ScatterElements",
     lambda b, x, y: b.ScatterElements(x, b.constant(ints([0, 2], [1, 1])), y, axis=1, reduction="mul"),
     lambda x, y: torch.scatter_reduce(x, 1, torch.tensor([[0, 2], [1, 1]]), y, "prod"), [MIXED, apart(2, 2)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "build", "function", "arrays"), CASES, ids=[case[0] for case in CASES])
def test_gradients(name: str, build: Any, function: Any, arrays: list[Any]) -> None:
    graph = Graph(name)
    inputs = [graph.add_input(f"x{i}", TensorType(FLOAT64, array.shape)) for i, array in enumerate(arrays)]
    builder = Builder(graph)
    with builder.active():
        graph.set_outputs([build(builder, *inputs)])
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    expected = function(*tensors)
    weights = torch.rand(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
    (expected * weights).sum().backward()
    found = intaglio.vjp(graph, wrt=[value.name for value in inputs], engine="reference")(*arrays, weights.numpy())
    for array, tensor in zip(found if isinstance(found, tuple) else (found,), tensors, strict=True):
        np.testing.assert_allclose(array, tensor.grad.numpy(), rtol=2e-5, atol=1e-6)
