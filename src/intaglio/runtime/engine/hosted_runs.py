"""Plans with a few host nodes, run again: each host node is a function that was made ready once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.resize import type_symbols
from intaglio.ir.types import TensorType
from intaglio.kernels.plan import HostStep, Plan
from intaglio.ops.control import seen
from intaglio.runtime.engine.segment import LoadedSegment, Ready

_TEXT = frozenset({str})


class _Host:
    """A host node: its function, the places of its operands and of its result."""

    def __init__(self, function: Callable[..., Any], operands: list[int], result: int) -> None:
        self.function = function
        self.operands = operands
        self.result = result


class _Native:
    """A segment: the places of its inputs and where its outputs begin."""

    def __init__(self, inputs: list[int], outputs: list[int]) -> None:
        self.inputs = inputs
        self.outputs = outputs


class QuickRun:
    """The steps of a plan with a few host nodes as functions between places of a list."""

    def __init__(self, plan: Plan, outputs: Sequence[Value]) -> None:
        self._places: dict[Value, int] = {value: place for place, value in enumerate(plan.inputs)}
        self._texts = [place for place, value in enumerate(plan.inputs) if value.dtype.kind == "string"]
        self.parts = [
            self._host(step.node) if isinstance(step, HostStep) else self._native(step) for step in plan.steps
        ]
        self.host_nodes = sum(isinstance(part, _Host) for part in self.parts)
        self._outputs = [(self._places[value], _is_view(value)) for value in outputs]

    def _place(self, value: Value) -> int:
        return self._places.setdefault(value, len(self._places))

    def _host(self, node: Node) -> _Host:
        constants = [None if value is None else value.constant for value in node.inputs]
        operands = [self._places[value] for value in node.inputs if value is not None and value.constant is None]
        return _Host(node.op.prepare(*constants), operands, self._place(node.output))

    def _native(self, step: Any) -> _Native:
        inputs = [self._places[value] for value in step.inputs]
        return _Native(inputs, [self._place(value) for value in step.outputs])

    def run(
        self, inputs: Sequence[Any], segments: Sequence[tuple[LoadedSegment, Ready]], time: int
    ) -> list[Any] | None:
        """The outputs, or None where something failed, of which a run with all checks can tell more."""
        if any(not _TEXT.issuperset(map(type, inputs[place].reshape(-1).tolist())) for place in self._texts):
            return None
        values: list[Any] = [*inputs, *[None] * (len(self._places) - len(inputs))]
        rest = iter(segments)
        try:
            for part in self.parts:
                if isinstance(part, _Host):
                    values[part.result] = part.function(*[values[place] for place in part.operands])
                    continue
                segment, ready = next(rest)
                status, made = segment.call(ready, [values[place] for place in part.inputs], time)
                if status:
                    return None
                for place, array in zip(part.outputs, made, strict=True):
                    values[place] = array
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return None
        return [values[place].copy() if is_view else values[place] for place, is_view in self._outputs]


def _is_view(value: Value) -> bool:
    """Whether a result may be another array in other sizes."""
    return value.producer is not None and value.producer.op.keeps_order


def quick_run(plan: Plan, outputs: Sequence[Value]) -> QuickRun | None:
    """How a plan is run again without checks, where its sizes follow from those of its inputs."""
    if any(not isinstance(value.type, TensorType) for value in plan.inputs) or not plan.host_steps:
        return None
    if not all(_is_plain(step.node) if isinstance(step, HostStep) else not step.late for step in plan.steps):
        return None
    made = {
        value for step in plan.steps for value in ([step.node.output] if isinstance(step, HostStep) else step.outputs)
    }
    is_own = all(value in made for value in outputs) and len(set(outputs)) == len(outputs)
    return QuickRun(plan, outputs) if is_own else None


def _is_plain(node: Node) -> bool:
    """Whether a host node gives one result, which has sizes that follow from its inputs."""
    if not (node.op.keeps_order or node.op.has("prepare")) or len(node.outputs) != 1:
        return False
    values = [value for value in node.inputs if value is not None]
    if any(not isinstance(value.type, TensorType) for value in values):
        return False
    result = node.output.type
    if not isinstance(result, TensorType):
        return node.op.name == "ZipMap"
    return bool(result.shape) and type_symbols(result) <= seen(Graph(), values)
