"""Builders: what they make of what they are given."""

from __future__ import annotations

from typing import Any

from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType


def test_lists_of_attributes_become_tuples() -> None:
    """Operators with equal attributes are equal, however the attributes were given."""
    graph = Graph("g")
    x = graph.add_input("x", TensorType(FLOAT32, (1, 2, 5, 5)))
    b: Any = Builder(graph)
    first, second = b.Transpose(x, perm=[0, 2, 1, 3]), b.Transpose(x, perm=(0, 2, 1, 3))
    assert first.producer is not None
    assert second.producer is not None
    assert hash(first.producer.op) == hash(second.producer.op)
    assert first.producer.op == second.producer.op
