"""Modules that the names of weights tell."""

from __future__ import annotations

import numpy as np

from intaglio.emit.torch.weight_scopes import weight_paths
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType


def block_names(names: list[str]) -> dict[str, str]:
    """The modules around the nodes of residual blocks `Add(MatMul(Relu(MatMul(x))), x)`, then Relu, then a mean."""
    graph = Graph("g")
    value = graph.add_input("x", TensorType(FLOAT32, (2, 4)))
    builder = Builder(graph)

    def weight(name: str) -> Value:
        return graph.constant(np.ones((4, 4), np.float32), name)

    with builder.active():
        for name in names:
            inner = builder.Relu(builder.MatMul(value, weight(f"{name}.first.weight")))
            whole = builder.Add(builder.MatMul(inner, weight(f"{name}.second.weight")), value)
            value = builder.Relu(whole)
        mean = builder.ReduceMean(value, builder.constant(np.array([1])), keepdims=0)
        graph.set_outputs([mean])
    nodes = list(graph.nodes)
    paths = weight_paths(nodes, frozenset())
    return {node.output.name: f"{node.op.name} {'.'.join(paths[node])}" for node in nodes}


def test_blocks_hold_their_sums_and_what_all_of_them_end_with() -> None:
    found = list(block_names(["layer.0", "layer.1", "layer.2"]).values())
    own = ["MatMul {}.first", "Relu {}", "MatMul {}.second", "Add {}", "Relu {}"]
    expected = [text.format(f"layer.{number}") for number in range(3) for text in own]
    assert found == [*expected, "ReduceMean "]


def test_weights_without_names_of_modules_tell_nothing() -> None:
    assert {text.rpartition(" ")[2] for text in block_names(["w"]).values()} <= {"", "w", "w.first", "w.second"}
    graph = Graph("g")
    x = graph.add_input("x", TensorType(FLOAT32, (2, 4)))
    builder = Builder(graph)
    with builder.active():
        graph.set_outputs([builder.MatMul(x, graph.constant(np.ones((4, 4), np.float32), "onnx::MatMul_12"))])
    assert set(weight_paths(list(graph.nodes), frozenset()).values()) == {()}
