"""Recurrent layers against ONNX Runtime: every attribute in every direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.present import operator

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, from_numpy
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import evaluate
from intaglio.ops.recurrent import GRU, LSTM, RNN

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
STEPS, BATCH, SIZE, HIDDEN = 5, 3, 4, 2


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def operands(name: str, direction: str) -> list[Any]:
    """All inputs of a layer, optional ones included."""
    count, rows = DIRECTIONS[direction], GATES[name] * HIDDEN
    lengths = np.array([5, 3, 1], np.int32)
    weights = [numbers(count, rows, SIZE), numbers(count, rows, HIDDEN), numbers(count, 2 * rows)]
    inputs = [numbers(STEPS, BATCH, SIZE), *weights, lengths, numbers(count, BATCH, HIDDEN)]
    return inputs + ([numbers(count, BATCH, HIDDEN), numbers(count, 3 * HIDDEN)] if name == "LSTM" else [])


def check(agree: Any, name: str, direction: str, inputs: list[Any], **options: Any) -> None:
    """Compare with ONNX Runtime, and the expansion with that."""
    outputs = 3 if name == "LSTM" else 2
    expected = agree(name, *inputs, opset=14, outputs=outputs, hidden_size=HIDDEN, direction=direction, **options)
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    results = expanded(operator(name, direction=direction, **fields), inputs)
    for result, theirs in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, theirs, rtol=1e-5, atol=1e-6)


def expanded(op: Any, arrays: list[Any]) -> list[Any]:
    """The outputs of the operator's expansion, for symbolic sizes."""
    graph = Graph()
    builder = Builder(graph)
    values = [
        graph.add_input("x", TensorType(from_numpy(a.dtype), tuple(dim.symbol(f"x{i}_{j}") for j in range(a.ndim))))
        for i, a in enumerate(arrays)
    ]
    with builder.active():
        graph.set_outputs(op.expand(builder, *values))
    return evaluate(graph, arrays)


pytestmark = pytest.mark.parametrize("direction", DIRECTIONS)


@pytest.mark.parametrize("name", GATES)
def test_all_inputs(agree: Any, name: str, direction: str) -> None:
    check(agree, name, direction, operands(name, direction))


@pytest.mark.parametrize("name", GATES)
def test_required_inputs_only(agree: Any, name: str, direction: str) -> None:
    check(agree, name, direction, operands(name, direction)[:3])


@pytest.mark.parametrize("name", GATES)
def test_clip(agree: Any, name: str, direction: str) -> None:
    check(agree, name, direction, operands(name, direction), clip=0.3)


def test_linear_before_reset(agree: Any, direction: str) -> None:
    check(agree, "GRU", direction, operands("GRU", direction), linear_before_reset=1)


def test_coupled_gates(agree: Any, direction: str) -> None:
    check(agree, "LSTM", direction, operands("LSTM", direction), input_forget=1)


ACTIVATIONS: list[tuple[str, list[str], list[float], list[float]]] = [
    ("RNN", ["Relu"], [], []),
    ("RNN", ["Affine"], [0.5], [0.1]),
    ("RNN", ["LeakyRelu"], [], []),
    ("RNN", ["ThresholdedRelu"], [0.3], []),
    ("GRU", ["HardSigmoid", "Softsign"], [], []),
    ("GRU", ["Sigmoid", "Softplus"], [], []),
    ("GRU", ["HardSigmoid", "ScaledTanh"], [0.3, 0.7], [0.4, 0.6]),
    ("LSTM", ["HardSigmoid", "LeakyRelu", "Tanh"], [], []),
    ("LSTM", ["HardSigmoid", "ScaledTanh", "Elu"], [0.3, 0.7, 0.9], [0.4, 0.6]),
]


@pytest.mark.parametrize(("name", "functions", "alpha", "beta"), ACTIVATIONS)
def test_activations(
    agree: Any, direction: str, name: str, functions: list[str], alpha: list[float], beta: list[float]
) -> None:
    count = DIRECTIONS[direction]
    given = {"activations": functions, "activation_alpha": alpha, "activation_beta": beta}
    options = {key: values * count for key, values in given.items() if values}
    check(agree, name, direction, operands(name, direction), **options)


@pytest.mark.parametrize("op", [RNN, GRU, LSTM])
def test_layout_is_a_transposition(op: Any, direction: str) -> None:
    inputs = operands(op.__name__, direction)
    y, *ends = op(direction=direction).reference(*inputs)
    moved = [inputs[0].swapaxes(0, 1), *inputs[1:5], inputs[5].swapaxes(0, 1)]
    moved += [inputs[6].swapaxes(0, 1), inputs[7]] if op is LSTM else []
    other, *others = op(direction=direction, layout=1).reference(*moved)
    np.testing.assert_array_equal(other, y.transpose(2, 0, 1, 3))
    for end, swapped in zip(ends, others, strict=True):
        np.testing.assert_array_equal(swapped, end.swapaxes(0, 1))
    scanned = expanded(op(direction=direction, layout=1), moved)
    for left, right in zip(scanned, (other, *others), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


def test_lengths_must_fit(direction: str) -> None:
    inputs = operands("RNN", direction)
    inputs[4] = np.array([6, 1, 1], np.int32)
    with pytest.raises(OperatorError, match=r"sequence_lens is \[6, 1, 1\].*\[0, 5\]"):
        RNN(direction=direction).reference(*inputs)


def test_wrong_attributes(direction: str) -> None:
    b = Builder(Graph())
    inputs = [b.graph.add_input("x", TensorType(FLOAT32, array.shape)) for array in operands("RNN", direction)[:3]]
    with pytest.raises(ShapeError, match="direction is 'up'"):
        b.RNN(*inputs, direction="up")
    with pytest.raises(ShapeError, match="'Gelu' is not known"):
        b.RNN(*inputs, direction=direction, activations=("Gelu",) * DIRECTIONS[direction])
    with pytest.raises(ShapeError, match="hidden_size"):
        b.RNN(*inputs, direction=direction, hidden_size=7)
    with pytest.raises(ShapeError, match="gates"):
        b.GRU(*inputs, direction=direction)
