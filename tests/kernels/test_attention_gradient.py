"""Gradients of attention that keep no scores: sampled, against finite differences, PyTorch and ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import pytest

import intaglio
from intaglio import ops
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import BOOL, from_numpy
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.attention import Attention, AttentionGradient

Array = np.ndarray[Any, Any]
Generator = np.random.Generator


@dataclass(frozen=True)
class Case:
    """An attention with its operands: q, k, v, the gradient of the output, and a mask or None."""

    op: AttentionGradient
    arrays: tuple[Array, ...]
    mask: Array | None

    def value(self, *operands: Array) -> float:
        """The output, weighted by its gradient."""
        q, k, v = operands
        y = self.op.attention.reference(q, k, v, self.mask)[0]
        return float((y * self.arrays[3]).sum())


def sampled(rng: Generator, dtype: Any, most: int = 40) -> Case:
    heads, group, batch = (int(n) for n in rng.integers(1, 4, 3))
    queries, keys, size, width = (int(n) for n in rng.integers(1, most, 4))
    shapes = (batch, heads * group, queries, size), (batch, heads, keys, size), (batch, heads, keys, width)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in (*shapes, (batch, heads * group, queries, width))]
    scale = None if rng.random() < 0.5 else float(rng.uniform(0.1, 1.5))
    mask = None
    kind = int(rng.integers(0, 4))
    if kind:
        shape = [(batch, heads * group, queries, keys), (queries, keys), (batch, 1, 1, keys)][kind - 1]
        is_seen = rng.random(shape) < 0.8
        mask = is_seen if rng.random() < 0.5 else np.where(is_seen, rng.standard_normal(shape), -np.inf).astype(dtype)
    return Case(AttentionGradient(is_causal=int(rng.integers(0, 2)), scale=scale), tuple(arrays), mask)


def model_of(cases: list[Case]) -> tuple[Graph, dict[str, Array]]:
    """All cases in one graph, and what it is fed; batches are symbols."""
    graph, feeds = Graph("gradients"), dict[str, Array]()
    builder, outputs = Builder(graph), []
    for i, case in enumerate(cases):
        values = []
        for name, array in zip(("q", "k", "v", "bar"), case.arrays, strict=True):
            shape = (symbol(f"n{i}"), *array.shape[1:])
            values.append(graph.add_input(f"{name}{i}", TensorType(from_numpy(array.dtype), shape)))
            feeds[f"{name}{i}"] = array
        if case.mask is not None:
            dtype = BOOL if case.mask.dtype == np.bool_ else from_numpy(case.mask.dtype)
            shape = (symbol(f"n{i}"), *case.mask.shape[1:]) if case.mask.ndim == 4 else case.mask.shape
            values.append(graph.add_input(f"mask{i}", TensorType(dtype, shape)))
            feeds[f"mask{i}"] = case.mask
        outputs += builder.add(case.op, values, 3, names=[f"{name}{i}.gradient" for name in "qkv"])
    graph.set_outputs(outputs)
    return graph, feeds


def test_reference_is_what_finite_differences_tell() -> None:
    rng = np.random.default_rng(0)
    for _ in range(8):
        case = sampled(rng, np.float64, most=5)
        q, k, v, bar = case.arrays
        found = case.op.reference(q, k, v, bar, case.mask)
        for place in range(3):
            for _ in range(4):
                at = tuple(int(rng.integers(0, n)) for n in case.arrays[place].shape)
                moved = []
                for step in (1e-6, -1e-6):
                    operands = [array.copy() for array in case.arrays[:3]]
                    operands[place][at] += step
                    moved.append(case.value(*operands))
                slope = (moved[0] - moved[1]) / 2e-6
                np.testing.assert_allclose(found[place][at], slope, rtol=1e-5, atol=1e-7, err_msg=f"{case.op}")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sampled_gradients(dtype: Any) -> None:
    rng = np.random.default_rng([1, np.dtype(dtype).itemsize])
    cases = [sampled(rng, dtype) for _ in range(12)]
    if dtype == np.float32:
        cases += [sampled(rng, dtype, 150) for _ in range(3)]
    graph, feeds = model_of(cases)
    results = {threads: intaglio.load(graph, strict=True, threads=threads).run(feeds) for threads in (1, 3)}
    for i, case in enumerate(cases):
        q, k, v, bar = (array.astype(np.float64) for array in case.arrays)
        mask = case.mask if case.mask is None or case.mask.dtype == np.bool_ else case.mask.astype(np.float64)
        for name, expected in zip("qkv", case.op.reference(q, k, v, bar, mask), strict=True):
            found = results[1][f"{name}{i}.gradient"]
            most = np.abs(expected).max(initial=1e-3)
            tolerance = 2e-6 if dtype == np.float32 else 1e-13
            message = f"{case.op} {[array.shape for array in case.arrays]}"
            np.testing.assert_allclose(found / most, expected / most, rtol=0, atol=tolerance, err_msg=message)
            np.testing.assert_array_equal(results[3][f"{name}{i}.gradient"], found)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_numbers(dtype: str) -> None:
    from ml_dtypes import bfloat16

    rng = np.random.default_rng(2)
    cases = [sampled(rng, bfloat16 if dtype == "bfloat16" else np.float16) for _ in range(3)]
    cases = [Case(case.op, case.arrays, None) for case in cases]
    graph, feeds = model_of(cases)
    expected = intaglio.load(graph, engine="reference").run(feeds)
    for name, array in intaglio.load(graph, strict=True).run(feeds).items():
        found, wanted = array.astype(np.float32), expected[name].astype(np.float32)
        np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=2e-2 * np.abs(wanted).max())


def test_saved_gradients_run_in_onnx_runtime() -> None:
    rng = np.random.default_rng(3)
    cases = [sampled(rng, np.float32) for _ in range(6)]
    graph, feeds = model_of(cases)
    model = intaglio.load(graph, engine="reference")
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    found = session.run(None, {value.name: feeds[value.name] for value in session.get_inputs()})
    for (name, expected), array in zip(model.run(feeds).items(), found, strict=True):
        np.testing.assert_allclose(np.asarray(array), expected, rtol=1e-4, atol=1e-4, err_msg=name)


def _spelled_out(packed: bool) -> Graph:
    """Attention as exporters write it, of queries, keys and values from one product."""
    with intaglio.build("spelled", inputs={"x": "float32[B, 9, 24]"}) as g:
        weight = g.constant(np.random.default_rng(4).standard_normal((24, 72)).astype(np.float32) / 5, "w")
        parts = ops.Split(ops.MatMul(g["x"], weight), num_outputs=3, axis=2, outputs=3)
        if packed:
            y = ops.Attention(*parts, q_num_heads=4, kv_num_heads=4)
        else:
            q, k, v = (ops.Transpose(ops.Reshape(part, [0, 0, 4, 6]), perm=[0, 2, 1, 3]) for part in parts)
            scores = ops.MatMul(q * 0.5, ops.Transpose(k, perm=[0, 1, 3, 2])) * 0.25
            y = ops.Transpose(ops.MatMul(ops.Softmax(scores), v), perm=[0, 2, 1, 3])
        g.output(loss=ops.ReduceSum(y * y * y, keepdims=0))
    return g.graph


@pytest.mark.parametrize("packed", [True, False])
def test_attention_that_is_spelled_out_is_recognised_before_it_is_differentiated(packed: bool) -> None:
    graph, x = _spelled_out(packed), np.random.default_rng(5).standard_normal((3, 9, 24)).astype(np.float32)
    model = intaglio.grad(graph, wrt=["w", "x"], strict=True)
    names = {node.op.name for node in model.simplified.nodes}
    assert {"Attention", "AttentionGradient"} <= names
    assert "Softmax" not in names
    plain = intaglio.grad(graph, wrt=["w", "x"], engine="reference", simplify=False)
    assert packed or "Attention" not in {node.op.name for node in plain.graph.nodes}
    for found, expected in zip(model(x), plain(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_parts_that_are_taken_one_by_one_are_put_together_by_one_concatenation() -> None:
    with intaglio.build("taken", inputs={"x": "float32[3, 5, 4]"}) as g:
        q, k, v = (ops.Gather(g["x"], np.int64(place)) for place in (0, 1, -1))
        g.output(y=ops.Tanh(q) * k + ops.Exp(v), z=ops.Gather(g["x"], np.int64(1), axis=1))
    x = np.random.default_rng(11).standard_normal((3, 5, 4)).astype(np.float32)
    model = intaglio.vjp(g.graph, of="y", wrt="x")
    names = [node.op.name for node in model.simplified.nodes]
    assert names.count("Concat") == 1
    assert not {"ScatterND", "Gather"} & set(names)
    bar = np.random.default_rng(12).standard_normal((5, 4)).astype(np.float32)
    expected = np.stack([bar * x[1] / np.cosh(x[0]) ** 2, bar * np.tanh(x[0]), bar * np.exp(x[2])])
    np.testing.assert_allclose(model.run({"x": x, "y.bar": bar})["x.gradient"], expected, rtol=1e-5, atol=1e-6)


def test_what_is_named_inside_of_a_pattern_is_differentiated_by() -> None:
    with intaglio.build("named", inputs={"x": "float32[2, 3, 5, 4]"}) as g:
        scores = ops.MatMul(g["x"], ops.Transpose(g["x"], perm=[0, 1, 3, 2]))
        scores.name = "scores"
        g.output(y=ops.MatMul(ops.Softmax(scores), g["x"]))
    x = np.random.default_rng(6).standard_normal((2, 3, 5, 4)).astype(np.float32)
    found = intaglio.grad(g.graph, of="y", wrt=["scores", "x"])(x)
    expected = intaglio.grad(g.graph, of="y", wrt=["scores", "x"], simplify=False, engine="reference")(x)
    assert np.abs(expected[0]).max() > 0.01
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_constants_that_a_gradient_is_of_are_not_folded() -> None:
    with intaglio.build("folded", inputs={"x": "float32[3, 4]"}) as g:
        weight = g.constant(np.random.default_rng(7).standard_normal((5, 4)).astype(np.float32), "w")
        g.output(y=ops.MatMul(g["x"], ops.Transpose(weight, perm=[1, 0]) * 2.0))
    x = np.random.default_rng(8).standard_normal((3, 4)).astype(np.float32)
    found = intaglio.grad(g.graph, wrt="w")(x)
    np.testing.assert_allclose(found, np.tile(2 * x.sum(axis=0), (5, 1)), rtol=1e-5)


def test_other_forms_are_differentiated_in_their_expansion() -> None:
    rng = np.random.default_rng(9)
    forms: list[dict[str, Any]] = [{"softcap": 2.0}, {"left_window_size": 2}, {"softmax_precision": 1}]
    for named in forms:
        assert not Attention(**named).takes_pullback([None] * 3, [])
        with intaglio.build("other", inputs={"q": "float32[1, 2, 5, 4]"}) as g:
            g.output(y=ops.Attention(g["q"], g["q"], g["q"], **named))
        q = rng.standard_normal((1, 2, 5, 4)).astype(np.float32)
        native, reference = intaglio.grad(g.graph)(q), intaglio.grad(g.graph, engine="reference")(q)
        np.testing.assert_allclose(native, reference, rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(10)
    for is_causal in (False, True):
        arrays = [rng.standard_normal((2, 3, 17, 8)).astype(np.float32) for _ in range(4)]
        tensors = [torch.tensor(array, requires_grad=True) for array in arrays[:3]]
        result = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=is_causal)
        result.backward(torch.tensor(arrays[3]))
        graph, feeds = model_of([Case(AttentionGradient(is_causal=int(is_causal)), tuple(arrays), None)])
        for tensor, found in zip(tensors, intaglio.load(graph, strict=True).run(feeds).values(), strict=True):
            np.testing.assert_allclose(found, tensor.grad.numpy(), rtol=1e-4, atol=1e-5)
