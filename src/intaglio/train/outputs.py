"""What a loss is of: the outputs of a model that it is given, and the loss that a user names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from intaglio.errors import InputError
from intaglio.ir.clone import clone_with_values
from intaglio.ir.graph import Graph
from intaglio.ir.parse import read_type
from intaglio.ir.types import TensorType
from intaglio.record import Record
from intaglio.train.losses import LOSSES, Loss, named


class Custom(Record):
    """A loss that is a function of the outputs and of targets of these types."""

    function: Callable[..., Any]
    targets: Mapping[str, Any]


def with_outputs(graph: Graph, output: str | Sequence[str] | None) -> tuple[Graph, list[int]]:
    """The graph with all tensors that the loss is given among its outputs, and their places there."""
    if output is None:
        return graph, list(range(len(graph.outputs)))
    whole, _ = clone_with_values(graph)
    known = {value.name: value for value in (*whole.values(), *whole.outputs)}
    wanted = [named(name, known, "tensor") for name in ([output] if isinstance(output, str) else output)]
    whole.set_outputs([*whole.outputs, *(value for value in wanted if value not in whole.outputs)])
    return whole, [whole.outputs.index(value) for value in wanted]


def resolve_loss(graph: Graph, loss: Any, targets: Mapping[str, Any] | None) -> Any:
    """The loss, or the place of the output that is the loss."""
    if isinstance(loss, Loss):
        return loss
    names = [value.name for value in graph.outputs]
    if isinstance(loss, str) and loss not in LOSSES and loss in names:
        if graph.outputs[names.index(loss)].dtype.kind != "float":
            raise InputError(f"the output {loss!r} is {graph.outputs[names.index(loss)].type}, which is no loss")
        return names.index(loss)
    if callable(loss):
        types = {name: read_type(type) if isinstance(type, str) else type for name, type in (targets or {}).items()}
        wrong = [name for name, type in types.items() if not isinstance(type, TensorType)]
        if wrong:
            raise InputError(f"the target {wrong[0]!r} is {types[wrong[0]]}, expected a tensor")
        return Custom(loss, types)
    return named(loss, LOSSES, f"loss, nor an output ({', '.join(names)}),")()
