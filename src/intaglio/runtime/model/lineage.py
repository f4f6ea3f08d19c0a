"""From a node of the file to the lines of C that compute it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from intaglio.ir.graph import Node
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.plan import Call, NodeForm, walk
from intaglio.kernels.plan_form import HostForm, PlanForm
from intaglio.record import Record
from intaglio.runtime.engine.native import NativeEngine


class CodePlace(Record):
    """A call that computes a node: its action (counted over the segments), and the C function that it calls."""

    action: int
    function: str
    first_line: int
    """The first line of the function in `Model.c_source`, counted from 1."""
    last_line: int


class Lineage(Record):
    """What became of one node of a file: the ids of the nodes that are run for it, and the code of each."""

    path: str
    operator: str
    nodes: tuple[str, ...]
    code: tuple[CodePlace, ...]
    is_hosted: bool = False
    """Whether the reference engine runs one of the nodes."""


def lineage_of(engine: NativeEngine, source: str) -> list[Lineage]:
    """The lineage of each node of the file that something is left of, in the order in which the plan runs them.

    `source` is the C of the plan as one file.
    """
    lines = engine.executor.function_lines(source, engine.form.kernels)
    nodes: dict[tuple[str, int], dict[Node, None]] = {}
    code: dict[tuple[str, int], dict[CodePlace, None]] = {}
    hosted = {host.node.id for host in engine.form.hosts}
    for number, (served, kernel) in enumerate(_actions(engine.form)):
        for node in (engine.lowered.node(each.id) for each in served):
            nodes.setdefault(node.origin.place, {})[node] = None
            if kernel is not None and kernel in lines:
                code.setdefault(node.origin.place, {})[CodePlace(number, *lines[kernel])] = None
    return [
        _lineage(list(found), tuple(code.get(key, ())), any(node.id in hosted for node in found))
        for key, found in nodes.items()
    ]


def _lineage(nodes: Sequence[Node], code: tuple[CodePlace, ...], is_hosted: bool) -> Lineage:
    origin = nodes[0].origin
    return Lineage(origin.path, origin.operator, tuple(node.id for node in nodes), code, is_hosted)


def _actions(form: PlanForm) -> Iterator[tuple[Sequence[NodeForm], Kernel | None]]:
    """The nodes that each action of a plan serves, and the kernel that it calls; a host node is an action too."""
    for part in form.parts:
        if isinstance(part, HostForm):
            yield (part.node,), None
            continue
        for action in walk(part.actions):
            yield action.served, action.kernel if isinstance(action, Call) else None
