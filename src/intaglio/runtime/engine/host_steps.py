"""Host nodes as steps of a plan, run with all checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from intaglio.errors import ShapeError
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.plan_form import HostForm
from intaglio.ops.evaluate import run_node
from intaglio.runtime.engine.binding import bind
from intaglio.runtime.engine.bodies import Bodies
from intaglio.runtime.engine.deadline import Deadline


class MismatchError(Exception):
    """A result has other sizes than the plan takes it to have."""

    def __init__(self, reason: ShapeError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class HostStep:
    """A node that the reference engine runs. `make` builds engines for the bodies of control flow."""

    MismatchError = MismatchError

    def __init__(self, form: HostForm, node: Node, make: Callable[[Graph], Any]) -> None:
        self.form, self.node = form, node
        self.bodies = Bodies(node, make) if node.op.has("interpret") else None
        read = [value for value in (*node.inputs, *node.captures()) if value is not None]
        self._read: list[Value] = [value for value in dict.fromkeys(read) if value.constant is None]

    def run(self, known: dict[str, Any], bindings: dict[str, int], deadline: Deadline | None) -> None:
        """Add the results to what is known by id, and their sizes to the bindings.

        Raises MismatchError where a result has other sizes than the plan takes it to have.
        """
        values: Mapping[Value, Any] = {value: known[value.id] for value in self._read}
        run_body = None if self.bodies is None else self.bodies.runner(values, deadline)
        results = run_node(self.node, values, None if deadline is None else deadline.check, run_body)
        for value, result in zip(self.node.outputs, results, strict=False):
            known[value.id] = result
            if isinstance(value.type, TensorType) and result is not None:
                self._bind(value, value.type, result, bindings)

    def _bind(self, value: Value, type: TensorType, result: Any, bindings: dict[str, int]) -> None:
        inferred = self.form.inferred.get(value.id)
        try:
            bind(type.shape, result.shape, bindings, value.name)
            if inferred is not None and type.shape is not None:
                bind(inferred, result.shape, bindings, value.name)
        except ShapeError as error:
            raise MismatchError(error) from None
