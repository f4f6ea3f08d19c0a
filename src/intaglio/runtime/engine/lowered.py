"""What lowering made of a graph: the plan as data, its constants, and the nodes that it knows by ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from intaglio.ir.graph import Node, Value
from intaglio.kernels.plan import Described, HostNode, Plan, Segment, walk
from intaglio.kernels.plan_form import PlanForm, form_of
from intaglio.runtime.engine.results import constant_ids
from intaglio.runtime.engine.weights import in_memory, is_large, own_constants


class Lowered:
    """A plan as data, and the side table of what only lowering and explanations need."""

    def __init__(self, plan: Plan) -> None:
        self.form: PlanForm = form_of(plan)
        self._nodes = {node.id: node for node in _nodes(plan)}
        self._read_by_host = list(_read_by_host(plan))
        for value in self._read_by_host:
            if isinstance(value.constant, np.ndarray):
                value.constant = in_memory(value.constant)
        self.constants = own_constants(plan.constants)
        self.given: dict[str, Any] = {value.id: value.constant for value in plan.outputs if value.constant is not None}
        """The outputs that are constants, by id."""

    def node(self, name: str) -> Node:
        """The node with an id."""
        return self._nodes[name]

    def nodes(self, action: Described) -> list[Node]:
        """The nodes that an action serves."""
        return [self._nodes[each.id] for each in action.served]

    def all_nodes(self) -> list[Node]:
        """Every node of the plan, each once."""
        return list(self._nodes.values())

    def constant_ids(self) -> frozenset[int]:
        """The identities of the arrays that the host reads, which a run must not give away."""
        return constant_ids(self._read_by_host)

    def release(self) -> None:
        """Let go of the constants that nodes still hold although kernels read packed ones instead."""
        needed = set(self._read_by_host)
        for value in (value for node in self._nodes.values() for value in node.inputs):
            if value is not None and value not in needed and is_large(value):
                value.constant = None


def _nodes(plan: Plan) -> Iterator[Node]:
    for part in plan.parts:
        if isinstance(part, HostNode):
            yield part.node
        else:
            for action in walk(part.actions):
                yield from action.nodes


def _read_by_host(plan: Plan) -> Iterable[Value]:
    """The constants that the reference engine reads in a run, those inside of subgraphs included, or that come out."""
    nodes = [part.node for part in plan.parts if not isinstance(part, Segment)]
    read = [value for node in nodes for value in (*node.inputs, *node.captures()) if value is not None]
    inner = [value for node in nodes for _, body in node.op.subgraphs() for value in body.constants()]
    return (value for value in (*read, *inner, *plan.outputs) if value.constant is not None)
