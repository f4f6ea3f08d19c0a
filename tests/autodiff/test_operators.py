"""Every operator's gradient, to second order: differences in double precision, both engines, ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplementedInOnnxRuntime
from tests.autodiff.problems import PROBLEMS, Problem, numbers

import intaglio
from intaglio.autodiff import gradients
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT64, from_numpy
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.ir.verify import verify
from intaglio.onnx.writer import write_model
from intaglio.ops.evaluate import evaluate_values

STEP, SINGLE_STEP = 1e-6, 3e-3


class Function:
    """The scalar sum(weights * f(arrays)) in a graph, where the weights make every element count otherwise."""

    def __init__(self, problem: Problem) -> None:
        self.graph = Graph("problem")
        self.builder = Builder(self.graph)
        self.arrays = [array for array in problem.arrays if array.dtype == np.float64]
        self.inputs = [self.graph.add_input("x", TensorType(FLOAT64, array.shape)) for array in self.arrays]
        smooth = iter(self.inputs)
        operands = [next(smooth) if a.dtype == np.float64 else self.builder.constant(a) for a in problem.arrays]
        self.outputs: list[Value] = []
        with self.builder.active():
            result = problem.build(self.builder, *operands)
            self.value = self.weighted(result[0] if isinstance(result, tuple) else result)

    def weighted(self, value: Value) -> Value:
        (array,) = evaluate_values(self.graph, self.arrays, [value])
        weights = numbers(*array.shape, low=0.5, high=1.5)
        double = value if value.dtype == FLOAT64 else self.builder.Cast(value, to=FLOAT64.number)
        known = self.builder.Reshape(double, self.builder.constant(np.array(array.shape, np.int64)))
        return self.builder.ReduceSum(self.builder.Mul(known, self.builder.constant(weights)), keepdims=0)

    def differentiated(self) -> list[Value]:
        """The gradients; the function becomes the weighted sum of them all."""
        found = gradients(self.graph, self.value, self.inputs)
        self.outputs += [self.value, *found]
        with self.builder.active():
            total = self.weighted(found[0])
            for gradient in found[1:]:
                total = total + self.weighted(gradient)
        self.value = total
        return found

    def __call__(self, arrays: Sequence[Any], wanted: Sequence[Value]) -> list[Any]:
        return evaluate_values(self.graph, arrays, wanted)


def differences(function: Function, value: Value, position: int, step: float = STEP) -> Any:
    result = np.zeros_like(function.arrays[position])
    for index in np.ndindex(result.shape):
        ends: list[Any] = []
        for sign in (1, -1):
            moved = [array.copy() for array in function.arrays]
            moved[position][index] += sign * step
            ends += function(moved, [value])
        result[index] = (ends[0] - ends[1]) / (2 * step)
    return result


@pytest.mark.parametrize("problem", PROBLEMS, ids=map(str, PROBLEMS))
def test_gradients(problem: Problem) -> None:
    function = Function(problem)
    for _ in range(problem.order):
        value = function.value
        found = function.differentiated()
        for position, gradient in enumerate(found):
            (array,) = function(function.arrays, [gradient])
            expected = differences(function, value, position, SINGLE_STEP if problem.is_single else STEP)
            rtol, atol = (2e-3, 5e-4) if problem.is_single else (1e-5, 1e-6)
            np.testing.assert_allclose(array, expected, rtol=rtol, atol=atol)
    function.graph.set_outputs(function.outputs)
    verify(function.graph)
    expected = function(function.arrays, function.outputs)
    _judge_natively(function, expected, 1e-4 if problem.is_single else problem.tolerance)
    if problem.in_onnx_runtime:
        _judge_in_onnx_runtime(function, expected)


def _judge_natively(function: Function, expected: Sequence[Any], tolerance: float) -> None:
    found = intaglio.load(function.graph, engine="native")(*function.arrays)
    for array, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, other, rtol=tolerance, atol=tolerance / 100)


def _judge_in_onnx_runtime(function: Function, expected: Sequence[Any]) -> None:
    try:
        session = onnxruntime.InferenceSession(write_model(function.graph).SerializeToString())
    except NotImplementedInOnnxRuntime:  # it has no kernel of some operator for double precision
        return
    feeds = {value.name: array for value, array in zip(function.inputs, function.arrays, strict=True)}
    for array, other in zip(map(np.asarray, session.run(None, feeds)), expected, strict=True):
        np.testing.assert_allclose(array, other, rtol=1e-6, atol=1e-8)  # it computes some of it in single precision


def test_types_of_arrays_are_as_the_table_says() -> None:
    for problem in PROBLEMS:
        assert any(array.dtype == np.float64 for array in problem.arrays), problem
        assert all(from_numpy(array.dtype) is not None for array in problem.arrays)
