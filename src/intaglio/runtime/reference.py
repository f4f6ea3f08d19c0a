"""The reference engine: every node in NumPy, one after another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from intaglio.errors import RunTimeoutError
from intaglio.ir.graph import Graph, Node
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.arrays import constant_ids, owned
from intaglio.runtime.binding import bind


class ReferenceEngine:
    """A graph that is evaluated as it stands."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._constants = constant_ids(graph.constants())

    def run(self, inputs: Sequence[Any], timeout: float | None = None) -> list[Any]:
        """The graph's outputs for arrays in the order of its inputs."""
        bindings: dict[str, int] = {}
        for value, array in zip(self.graph.inputs, inputs, strict=True):
            if isinstance(value.type, TensorType) and array is not None:
                bind(value.type.shape, array.shape, bindings, f"input {value.name!r}")
        outputs = evaluate(self.graph, inputs, watch=None if timeout is None else _deadline(timeout))
        return owned(outputs, inputs, self._constants)


def _deadline(timeout: float) -> Any:
    end = time.monotonic() + timeout

    def watch(node: Node) -> None:
        if time.monotonic() > end:
            raise RunTimeoutError(f"the run took longer than its timeout of {timeout:g} s")

    return watch
