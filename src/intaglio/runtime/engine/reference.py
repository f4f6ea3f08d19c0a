"""The reference engine: every node in NumPy, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.binding import bind
from intaglio.runtime.engine.deadline import Deadline
from intaglio.runtime.engine.limits import Watcher
from intaglio.runtime.engine.repeated_runs import Shapes
from intaglio.runtime.engine.results import constant_ids, owned
from intaglio.targets.step import Into


class ReferenceEngine:
    """A graph that is evaluated as it stands."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._constants = constant_ids(graph.constants())

    host_runs = 0
    """Nodes that run beside compiled ones; here none is compiled."""

    def forget_sizes(self) -> None:
        """This engine plans nothing."""

    def host_reasons(self) -> list[str]:
        """No node runs beside compiled ones."""
        return []

    def direct(self, shapes: Shapes) -> None:
        """This engine has no code that could be called."""

    def prepare(self, shapes: Shapes) -> None:
        """This engine plans nothing."""

    def run_again(self, inputs: Sequence[Any], time: int = 0, into: Into | None = None) -> None:
        """Every run of this engine does all of its work."""

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None, into: Into | None = None) -> list[Any]:
        """The graph's outputs for arrays in the order of its inputs, always in new arrays."""
        bindings: dict[str, int] = {}
        for value, array in zip(self.graph.inputs, inputs, strict=True):
            if isinstance(value.type, TensorType) and array is not None:
                bind(value.type.shape, array.shape, bindings, f"input {value.name!r}")
        outputs = evaluate(self.graph, inputs, watch=Watcher(bindings, deadline))
        return owned(outputs, inputs, self._constants)
