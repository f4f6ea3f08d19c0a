"""Recurrent layers compiled, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intaglio.errors import IntaglioError
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, DType
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.native import NativeEngine

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
T, N = symbol("T"), symbol("N")

CASES: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {}),
    ("LSTM", {"direction": "bidirectional", "layout": 1}),
    ("LSTM", {"direction": "reverse", "input_forget": 1, "clip": 0.5}),
    ("LSTM", {"direction": "bidirectional",
              "activations": ("HardSigmoid", "Relu", "Softsign", "Sigmoid", "Elu", "Tanh")}),
    ("GRU", {"direction": "bidirectional"}),
    ("GRU", {"linear_before_reset": 1, "clip": 0.3, "layout": 1}),
    ("GRU", {"direction": "reverse", "linear_before_reset": 1}),
    ("RNN", {"direction": "bidirectional", "activations": ("ScaledTanh", "Affine"), "activation_alpha": (1.2, 0.4),
             "activation_beta": (0.7, 0.1)}),
    ("RNN", {"activations": ("LeakyRelu",), "activation_alpha": (0.3,)}),
    ("RNN", {"activations": ("ThresholdedRelu",)}),
    ("RNN", {"activations": ("Softplus",)}),
]  # fmt: skip


def weights(kind: str, directions: int, inputs: int, hidden: int) -> list[Any]:
    rng, gates = np.random.default_rng(3), GATES[kind]
    shapes = [
        (directions, gates * hidden, inputs),
        (directions, gates * hidden, hidden),
        (directions, 2 * gates * hidden),
    ]
    return [(rng.standard_normal(shape) * 0.4).astype(np.float32) for shape in shapes]


def layer(
    kind: str,
    attributes: dict[str, Any],
    inputs: int,
    hidden: int,
    *,
    is_constant: bool,
    optional: bool,
    dtype: DType = FLOAT32,
) -> Graph:
    graph = Graph("layer")
    builder = Builder(graph)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    is_batch_first = attributes.get("layout", 0)
    x = graph.add_input("x", TensorType(dtype, (N, T, inputs) if is_batch_first else (T, N, inputs)))
    arrays = [array.astype(dtype.numpy) for array in weights(kind, directions, inputs, hidden)]
    names = ("w", "r", "b")
    if is_constant:
        given = [graph.constant(array, name) for name, array in zip(names, arrays, strict=True)]
    else:
        given = [graph.add_input(n, TensorType(dtype, a.shape)) for n, a in zip(names, arrays, strict=True)]
    values = [x, *given]
    if optional:
        state = TensorType(dtype, (N, directions, hidden) if is_batch_first else (directions, N, hidden))
        values += [graph.add_input("lengths", TensorType(INT32, (N,))), graph.add_input("h", state)]
        if kind == "LSTM":
            values += [graph.add_input("c", state), graph.add_input("p", TensorType(dtype, (directions, 3 * hidden)))]
    count = 3 if kind == "LSTM" else 2
    graph.set_outputs(getattr(builder, kind)(*values, outputs=count, **attributes))
    return graph


def feeds(graph: Graph, kind: str, attributes: dict[str, Any], steps: int, batch: int, hidden: int) -> list[Any]:
    rng = np.random.default_rng(steps * 100 + batch)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    arrays = dict(zip("wrb", weights(kind, directions, int(graph.inputs[0].shape[2]), hidden), strict=True))  # pyright: ignore[reportArgumentType]
    found: list[Any] = []
    for value in graph.inputs:
        shape = [{"T": steps, "N": batch}.get(str(dim), dim) for dim in value.shape]
        if value.name == "lengths":
            found.append(rng.integers(0, steps + 1, batch).astype(np.int32))
        else:
            array: Any = arrays.get(value.name, rng.standard_normal(shape))  # pyright: ignore[reportArgumentType, reportCallIssue]
            found.append(array.astype(value.dtype.numpy))
    return found


@pytest.mark.parametrize(("kind", "attributes"), CASES)
@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("optional", [False, True])
def test_layer(kind: str, attributes: dict[str, Any], is_constant: bool, optional: bool) -> None:
    for hidden in (13, 8):
        graph = layer(kind, attributes, 5, hidden, is_constant=is_constant, optional=optional)
        engine = NativeEngine(graph, 2).load()
        assert not engine.form.hosts
        for steps, batch in ((4, 1), (3, 7), (1, 40), (0, 2), (2, 0)):
            given = feeds(graph, kind, attributes, steps, batch, hidden)
            expected, found = evaluate(graph, given), engine.run(given)
            for wanted, got in zip(expected, found, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("kind", "attributes"), [("LSTM", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("RNN", {})]
)
def test_any_number_of_threads_gives_the_same_bits(kind: str, attributes: dict[str, Any]) -> None:
    graph = layer(kind, attributes, 5, 48, is_constant=True, optional=False)
    engines = [NativeEngine(graph, threads).load() for threads in (1, 2, 3)]
    for batch in range(1, 15):
        given = feeds(graph, kind, attributes, 6, batch, 48)
        one, *others = (engine.run(given) for engine in engines)
        for other in others:
            for wanted, got in zip(one, other, strict=True):
                np.testing.assert_array_equal(got, wanted, err_msg=f"batch {batch}")


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_inputs_that_do_not_fit_the_weights(kind: str) -> None:
    graph, hidden, gates = Graph("g"), 3, GATES[kind]
    steps, batch, size = map(symbol, "tbi")
    x = graph.add_input("x", TensorType(FLOAT32, (steps, batch, size)))
    state = graph.add_input("state", TensorType(FLOAT32, (1, symbol("n"), hidden)))
    b = Builder(graph)
    weights = [b.constant(np.ones((1, gates * hidden, depth), np.float32)) for depth in (5, hidden)]
    graph.set_outputs([getattr(b, kind)(x, *weights, None, None, state, hidden_size=hidden)])
    engine = NativeEngine(graph, 2).load()
    assert not engine.form.hosts
    assert engine.run([np.ones((2, 4, 5), np.float32), np.ones((1, 4, hidden), np.float32)])[0].shape == (2, 1, 4, 3)
    for shape, count in (((2, 4, 900), 4), ((2, 4, 4), 4), ((2, 400, 5), 4)):
        with pytest.raises(IntaglioError):
            engine.run([np.ones(shape, np.float32), np.ones((1, count, hidden), np.float32)])


@pytest.mark.parametrize(("kind", "attributes"), CASES)
@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16, FLOAT64], ids=str)
@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("optional", [False, True])
def test_layer_in_other_element_types(
    kind: str, attributes: dict[str, Any], dtype: DType, is_constant: bool, optional: bool
) -> None:
    graph = layer(kind, attributes, 5, 13, is_constant=is_constant, optional=optional, dtype=dtype)
    engine = NativeEngine(graph, 2).load()
    assert not engine.form.hosts
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-12}[dtype.name]  # one unit in the last place
    for steps, batch in ((4, 1), (3, 7), (0, 2), (2, 0)):
        given = feeds(graph, kind, attributes, steps, batch, 13)
        for wanted, got in zip(evaluate(graph, given), engine.run(given), strict=True):
            assert got.dtype == wanted.dtype == dtype.numpy
            np.testing.assert_allclose(got.astype(float), wanted.astype(float), rtol=tolerance, atol=tolerance / 10)
