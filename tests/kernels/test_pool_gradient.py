"""Gradients of MaxPool: sampled, many to a model, against a naive formula, ONNX Runtime and PyTorch."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnxruntime
import pytest

import intaglio
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import from_numpy
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.pooling import MaxPool, MaxPoolGradient

Array = np.ndarray[Any, Any]
Generator = np.random.Generator
CASES = 10
"""Gradients of one model."""


class Case:
    """A pool with the shape of its data, and numbers of which many are equal."""

    def __init__(self, rng: Generator, axes: int, dtype: Any) -> None:
        kernel, strides, dilations = (tuple(int(n) for n in rng.integers(1, most, axes)) for most in (5, 4, 3))
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        pads = tuple(int(rng.integers(0, k)) for k in (*kernel, *kernel))
        sizes = [int(rng.integers(r, r + (17 if axes < 3 else 5))) for r in reach]
        named: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}
        named["ceil_mode"] = int(rng.integers(0, 2))
        self.pool, self.op = MaxPool(**named), MaxPoolGradient(**named)
        self.x = rng.integers(-3, 4, (int(rng.integers(0, 4)), int(rng.integers(1, 40)), *sizes)).astype(dtype)
        self.y = self.pool.reference(self.x)[0]
        self.y_bar = rng.integers(-8, 9, self.y.shape).astype(dtype)

    def naive(self) -> Array:
        """Window by window, each to the first of its greatest elements."""
        windows, result = self.op.windows(self.x.shape[2:]), np.zeros(self.x.shape)
        for output in product(*(range(int(w.output)) for w in windows)):
            taps = (_at(output, place, windows) for place in product(*(range(int(w.kernel)) for w in windows)))
            inside = [at for at in taps if all(0 <= i < n for i, n in zip(at, self.x.shape[2:], strict=True))]
            first = np.argmax([self.x[(..., *at)] for at in inside], axis=0) if inside else None
            for i, at in enumerate(inside):
                result[(..., *at)] += np.where(first == i, self.y_bar[(..., *output)], 0)
        return result


def _at(output: tuple[int, ...], place: tuple[int, ...], windows: Any) -> tuple[int, ...]:
    return tuple(o * w.stride + k * w.dilation - int(w.begin) for o, k, w in zip(output, place, windows, strict=True))


def model_of(cases: list[Case]) -> tuple[Graph, dict[str, Array]]:
    """All cases in one graph, and what it is fed; batches are symbols."""
    graph, feeds = Graph("gradients"), dict[str, Array]()
    builder, outputs = Builder(graph), []
    for i, case in enumerate(cases):
        arrays = {f"x{i}": case.x, f"y{i}": case.y, f"bar{i}": case.y_bar}
        values = [
            graph.add_input(name, TensorType(from_numpy(array.dtype), (symbol(f"n{i}"), *array.shape[1:])))
            for name, array in arrays.items()
        ]
        outputs += builder.add(case.op, values, names=[f"g{i}"])
        feeds |= arrays
    graph.set_outputs(outputs)
    return graph, feeds


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sampled_gradients(axes: int, dtype: Any) -> None:
    rng = np.random.default_rng([axes, np.dtype(dtype).itemsize])
    cases = [Case(rng, axes, dtype) for _ in range(CASES)]
    for case in cases[::3]:
        case.x[rng.random(case.x.shape) < 0.03] = np.nan
        case.x[rng.random(case.x.shape) < 0.1] = -np.inf
        case.y = case.pool.reference(case.x)[0]
    graph, feeds = model_of(cases)
    options: list[dict[str, Any]] = [{"engine": "reference"}, {"strict": True}, {"strict": True, "threads": 3}]
    for each in options:
        found = intaglio.load(graph, **each).run(feeds)
        for i, case in enumerate(cases):
            np.testing.assert_array_equal(found[f"g{i}"], case.naive(), err_msg=f"{case.op} {case.x.shape} {each}")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_numbers_are_summed_in_single_precision(dtype: str) -> None:
    from ml_dtypes import bfloat16

    rng = np.random.default_rng(5)
    graph, feeds = model_of([Case(rng, 2, bfloat16 if dtype == "bfloat16" else np.float16) for _ in range(4)])
    found = intaglio.load(graph, strict=True).run(feeds)
    for name, array in intaglio.load(graph, engine="reference").run(feeds).items():
        np.testing.assert_array_equal(found[name].astype(np.float32), array.astype(np.float32))


def test_saved_gradients_run_in_onnx_runtime() -> None:
    rng = np.random.default_rng(6)
    cases = [case for _ in range(12) if (case := Case(rng, 2, np.float32)).x.size and not case.pool.ceil_mode]
    assert len(cases) > 3
    graph, feeds = model_of(cases)
    model = intaglio.load(graph, engine="reference")
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    names = [value.name for value in session.get_inputs()]
    for case, array in zip(cases, session.run(None, {name: feeds[name] for name in names}), strict=True):
        np.testing.assert_array_equal(np.asarray(array), case.naive(), err_msg=f"{case.op} {case.x.shape}")


def test_gradient_of_a_layer_is_one_kernel_and_the_same_bits_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(7)
    graph = Graph("pooled")
    x = graph.add_input("x", TensorType(from_numpy(np.dtype(np.float32)), (2, 20, 31, 29)))
    graph.set_outputs([Builder(graph).MaxPool(x, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))])
    model = intaglio.vjp(graph, strict=True)
    assert "ScatterElements" not in str(model.simplified)
    assert "MaxPoolGradient" in str(model.simplified)
    image = np.maximum(rng.standard_normal(x.shape), 0).astype(np.float32)
    bar = rng.standard_normal(graph.outputs[0].shape).astype(np.float32)
    expected = model(image, bar)
    for threads in (2, 3, 8):
        np.testing.assert_array_equal(intaglio.vjp(graph, threads=threads)(image, bar), expected)


def test_gradients_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(8)
    for _ in range(4):
        kernel, stride = (int(n) for n in rng.integers(1, 5, 2))
        pad = int(rng.integers(0, kernel // 2 + 1))
        graph = Graph("pooled")
        x = graph.add_input("x", TensorType(from_numpy(np.dtype(np.float32)), (2, 5, 14, 13)))
        named: dict[str, Any] = {"kernel_shape": (kernel,) * 2, "strides": (stride,) * 2, "pads": (pad,) * 4}
        graph.set_outputs([Builder(graph).MaxPool(x, **named)])
        image = torch.tensor(rng.integers(-2, 3, x.shape).astype(np.float32), requires_grad=True)
        result = torch.nn.functional.max_pool2d(image, kernel, stride, pad)
        bar = torch.tensor(rng.standard_normal(tuple(result.shape)).astype(np.float32))
        result.backward(bar)
        found = intaglio.vjp(graph, strict=True)(image.detach().numpy(), bar.numpy())
        np.testing.assert_allclose(found, image.grad.numpy(), rtol=1e-6, atol=1e-6)
