"""Lowering that does not fail by faults of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from intaglio.errors import GraphError, ShapeError
from intaglio.ir.graph import Graph, Node, Value
from intaglio.kernels.faults import Faults, LoweringError, is_fault
from intaglio.kernels.lower import lower
from intaglio.kernels.plan import NOTHING, Donation, HostNode, Plan, Segment
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.segment_sizes import unbound_uses
from intaglio.kernels.target_rules import TargetRules


def lower_safely(
    make: Callable[[], Graph],
    rules: TargetRules,
    faults: Faults,
    *,
    assume: bool = True,
    exact: bool = False,
    donation: Donation = NOTHING,
) -> Plan:
    """The plan of the graph that `make` gives, each time a fresh one; what `faults` knows of runs in a simpler way.

    Sizes that fit no operator may be those of an assumption, such as a window that is longer than its axis: then
    nothing is assumed.
    """
    while not faults.is_hosted:
        try:
            plan = lower(make(), rules, assume=assume, exact=exact, faults=faults, donation=donation)
            check_plan(plan)
            plan.faults = faults.met
            return plan
        except LoweringError as error:
            if assume and isinstance(error.error, ShapeError):
                assume = False
            elif not error.is_ours:
                raise error.error from error.error.__cause__
            else:
                faults.add(error.error, error.nodes)
        except Exception as error:
            if assume and isinstance(error, ShapeError):
                assume = False
            elif not is_fault(error):
                raise
            else:
                faults.add(error)
    return _hosted_plan(make(), faults)


def check_plan(plan: Plan) -> None:
    """Raise LoweringError where a part reads what no part before it gives, or a driver a size that it does not know."""
    known: set[Value] = set(plan.inputs)
    for part in plan.parts:
        _check_known(part.inputs if isinstance(part, Segment) else _read_by_host(part.node), known)
        known.update(part.outputs if isinstance(part, Segment) else part.node.outputs)
        for action, names in unbound_uses(part) if isinstance(part, Segment) else ():
            error = GraphError(f"{action.title or 'a part'} needs {', '.join(sorted(names))} before it is known")
            raise LoweringError(action.nodes, error)
    _check_known(plan.outputs, known)


def _check_known(values: Iterable[Value | None], known: set[Value]) -> None:
    for value in values:
        if value is not None and value.constant is None and value not in known:
            nodes = dict.fromkeys(filter(None, (value.producer, *value.readers)))
            raise LoweringError(tuple(nodes), GraphError(f"%{value.name} is read before it is computed"))


def _read_by_host(node: Node) -> Iterable[Value | None]:
    return (*node.inputs, *node.captures())


def _hosted_plan(graph: Graph, faults: Faults) -> Plan:
    """The plan in which the host runs every node."""
    refusal = Refusal(Cause.FAULT, f"a bug in Intaglio: {faults.met[-1].error}")
    parts = [HostNode(node, refusal) for node in graph.nodes]
    return Plan([*parts], [], list(graph.inputs), list(graph.outputs), faults=faults.met)
