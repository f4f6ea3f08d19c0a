"""From a node of the file to the lines of C that compute it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from intaglio.ir.graph import Node
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.plan import Call, HostNode, Plan, walk
from intaglio.record import Record
from intaglio.targets.c.source_file import function_lines, function_names


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


def lineage_of(plan: Plan, source: str) -> list[Lineage]:
    """The lineage of each node of the file that something is left of, in the order in which the plan runs them.

    `source` is the C of the plan as one file.
    """
    names = dict(zip(plan.kernels, function_names(plan.kernels), strict=True))
    lines = dict(function_lines(source))
    nodes: dict[tuple[str, int], dict[Node, None]] = {}
    code: dict[tuple[str, int], dict[CodePlace, None]] = {}
    hosted = {host.node for host in plan.host_nodes}
    for number, (served, function) in enumerate(_actions(plan, names)):
        for node in served:
            nodes.setdefault(node.origin.place, {})[node] = None
            if function in lines:
                place = CodePlace(number, function, *lines[function])
                code.setdefault(node.origin.place, {})[place] = None
    return [
        _lineage(list(found), tuple(code.get(key, ())), any(node in hosted for node in found))
        for key, found in nodes.items()
    ]


def _lineage(nodes: Sequence[Node], code: tuple[CodePlace, ...], is_hosted: bool) -> Lineage:
    origin = nodes[0].origin
    return Lineage(origin.path, origin.operator, tuple(node.id for node in nodes), code, is_hosted)


def _actions(plan: Plan, names: Mapping[Kernel, str]) -> Iterator[tuple[Sequence[Node], str]]:
    """The nodes that each action of a plan serves, and the function that it calls; a host node is an action too."""
    for part in plan.parts:
        if isinstance(part, HostNode):
            yield (part.node,), ""
            continue
        for action in walk(part.actions):
            yield action.nodes, names[action.kernel] if isinstance(action, Call) else ""
