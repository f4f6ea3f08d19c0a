"""Which nodes of a graph stand in one group: the modules of their names, else blocks that come again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from intaglio.ir.origin import Origin
from intaglio.tools.document import Node

Signature = tuple[object, ...]


@dataclass(eq=False)
class Scope:
    """Nodes and smaller scopes in the order of the file."""

    name: str
    members: list[Node | Scope] = field(default_factory=list["Node | Scope"])

    def nodes(self) -> Iterator[Node]:
        """All nodes inside."""
        for member in self.members:
            if isinstance(member, Scope):
                yield from member.nodes()
            else:
                yield member


def scopes_of(nodes: Sequence[Node]) -> Scope:
    """The nodes of a graph as a tree of scopes; a scope that would read its own results is cut into parts."""
    root, known = Scope(""), dict[tuple[str, ...], Scope]()
    for node in ordered(nodes):
        scope, path = root, ()
        for name in _names(node):
            path = (*path, name)
            if path not in known:
                known[path] = Scope(name)
                scope.members.append(known[path])
            scope = known[path]
        scope.members.append(node)
    if not known:
        root.members = list(_repeated(list(root.nodes())))
    _cut_cycles(root)
    return _flattened(root)


def ordered(nodes: Sequence[Node]) -> list[Node]:
    """Nodes so that producers come first, as far as there are no cycles; else in the order of the file."""
    makers = {name: node for node in nodes for name in node.shell.output if name}
    waiting = {node.number: 0 for node in nodes}
    readers: dict[int, list[Node]] = {}
    for node in nodes:
        for maker in {makers[name].number for name in reads(node) if name in makers and makers[name] is not node}:
            waiting[node.number] += 1
            readers.setdefault(maker, []).append(node)
    done = [node for node in nodes if waiting[node.number] == 0]
    if len(done) == len(nodes) or _is_ordered(nodes, makers):
        return list(nodes)
    for node in done:
        for reader in readers.get(node.number, ()):
            waiting[reader.number] -= 1
            if waiting[reader.number] == 0:
                done.append(reader)
    return done if len(done) == len(nodes) else list(nodes)


def _is_ordered(nodes: Sequence[Node], makers: dict[str, Node]) -> bool:
    seen: set[int] = set()
    for node in nodes:
        if any(name in makers and makers[name].number not in seen for name in reads(node)):
            return False
        seen.add(node.number)
    return True


def reads(node: Node) -> Iterator[str]:
    """The names that a node reads, those that its bodies take from outside included."""
    yield from (name for name in node.shell.input if name)
    for body in node.bodies():
        own = {info.name for info in body.inputs} | {tensor.name for tensor in body.initializers}
        own |= {name for inner in body.nodes for name in inner.shell.output}
        yield from (name for inner in body.nodes for name in reads(inner) if name not in own)
        yield from (info.name for info in body.outputs if info.name not in own)


def _names(node: Node) -> list[str]:
    metadata = {entry.key: entry.value for entry in node.shell.metadata_props}
    return [scope.name for scope in Origin(node.name, node.operator, metadata=metadata).scopes][:12]


def _flattened(scope: Scope) -> Scope:
    """A scope without scopes of one member."""
    members = [_flattened(member) if isinstance(member, Scope) else member for member in scope.members]
    scope.members = [
        member.members[0] if isinstance(member, Scope) and len(member.members) == 1 else member for member in members
    ]
    return scope


def _cut_cycles(scope: Scope) -> None:
    """Cut scopes that read results of one another in a cycle into runs of the file's order."""
    tangled = _tangled(scope)
    if tangled:
        runs: list[Node | Scope] = []
        for node, holder in _in_file_order(scope):
            if holder not in tangled:
                if holder not in runs:
                    runs.append(holder)
                continue
            last = runs[-1] if runs else None
            if isinstance(holder, Scope):
                if not (isinstance(last, Scope) and last.name == holder.name):
                    runs.append(last := Scope(holder.name))
                last.members.append(node)
            else:
                runs.append(node)
        scope.members = runs
    for member in scope.members:
        if isinstance(member, Scope):
            _cut_cycles(member)


def _in_file_order(scope: Scope) -> list[tuple[Node, Node | Scope]]:
    pairs = [
        (node, member)
        for member in scope.members
        for node in (member.nodes() if isinstance(member, Scope) else (member,))
    ]
    return sorted(pairs, key=lambda pair: pair[0].number)


def _tangled(scope: Scope) -> set[Node | Scope]:
    """The members that are part of a cycle, when each member is taken as a whole."""
    maker = {
        name: position
        for position, member in enumerate(scope.members)
        for node in (member.nodes() if isinstance(member, Scope) else (member,))
        for name in node.shell.output
        if name
    }
    after: list[set[int]] = [set() for _ in scope.members]
    for position, member in enumerate(scope.members):
        for node in member.nodes() if isinstance(member, Scope) else (member,):
            for name in reads(node):
                if name in maker and maker[name] != position:
                    after[maker[name]].add(position)
    return {scope.members[position] for position in cycles(after)}


def cycles(after: Sequence[set[int]]) -> set[int]:
    """The vertices that lie on a cycle; what is left when vertices without followers or predecessors are taken off.

    >>> sorted(cycles([{1}, {2}, {1, 3}, set()]))
    [1, 2]
    """
    before: list[set[int]] = [set() for _ in after]
    for vertex, others in enumerate(after):
        for other in others:
            before[other].add(vertex)
    left = set(range(len(after)))
    for near, far in ((after, before), (before, after)):
        is_whole = len(left) == len(after)
        degree = {vertex: len(near[vertex] if is_whole else near[vertex] & left) for vertex in left}
        free = [vertex for vertex in left if degree[vertex] == 0]
        while free:
            vertex = free.pop()
            left.discard(vertex)
            for other in far[vertex]:
                if other in left:
                    degree[other] -= 1
                    if degree[other] == 0:
                        free.append(other)
    return left


def signature(nodes: Sequence[Node]) -> Signature:
    """What is equal for two blocks of the same operators, attributes and wiring inside; what comes in is one kind."""
    places = {name: place for place, node in enumerate(nodes) for name in node.shell.output if name}
    return tuple((_kind(node), tuple([places.get(name, -1) for name in node.shell.input])) for node in nodes)


def _kind(node: Node) -> Signature:
    attributes = sorted(each.shell.SerializeToString(deterministic=True) for each in node.attributes)
    return node.operator, tuple(attributes), len(node.shell.input), len(node.shell.output)


LEAST_BLOCK = 4
LONGEST_BLOCK = 400
FAR = 1 << 40
"""The place of what is made by no node of the row."""
MOST_COMPARED = 20_000_000
"""So many pairs of nodes are compared in the search for blocks; after that no more blocks are found."""


def _repeated(nodes: list[Node]) -> Iterator[Node | Scope]:
    """Nodes with the blocks that follow one another several times as scopes."""
    rows, place, number = _Rows(nodes), 0, 0
    while place < len(nodes):
        period, times = rows.tandem(place)
        if not period:
            yield nodes[place]
            place += 1
            continue
        for _ in range(times):
            number += 1
            yield Scope(f"block {number}", list(nodes[place : place + period]))
            place += period


class _Rows:
    """Nodes in a row: of what kind each is, and how far before it what it reads is made."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        known: dict[Signature, int] = {}
        places = {name: place for place, node in enumerate(nodes) for name in node.shell.output if name}
        self._kinds = [known.setdefault(_kind(node), len(known)) for node in nodes]
        self._distances = [
            tuple([place - places.get(name, FAR) for name in node.shell.input]) for place, node in enumerate(nodes)
        ]
        self._left = MOST_COMPARED
        self._places: dict[tuple[int, int], list[int]] = {}
        for place, pair in enumerate(pairwise(self._kinds)):
            self._places.setdefault(pair, []).append(place)

    def tandem(self, start: int) -> tuple[int, int]:
        """The length of a block that begins here and follows itself, and how often it is there; (0, 0) for none."""
        kinds = self._kinds
        for period in self._periods(start):
            times, block = 1, kinds[start : start + period]
            while block == kinds[start + times * period : start + (times + 1) * period]:
                if not self._is_wired_alike(start, start + times * period, period):
                    break
                times += 1
            if times > 1:
                return period, times
        return 0, 0

    def _periods(self, start: int) -> Iterator[int]:
        """How far behind a place the same two kinds stand again, as far as a block may be long."""
        if start + 2 * LEAST_BLOCK > len(self._kinds):
            return
        places = self._places[self._kinds[start], self._kinds[start + 1]]
        last = start + min(LONGEST_BLOCK, (len(self._kinds) - start) // 2)
        for at in range(bisect_left(places, start + LEAST_BLOCK), len(places)):
            if places[at] > last:
                return
            yield places[at] - start

    def _is_wired_alike(self, one: int, other: int, period: int) -> bool:
        """Whether nodes of two blocks read from one another in the same way; what comes from outside is one kind."""
        for place in range(period):
            self._left -= 1
            first, second = self._distances[one + place], self._distances[other + place]
            if self._left < 0:
                return False
            if first != second and any(
                (a if 0 <= place - a < period else FAR) != (b if 0 <= place - b < period else FAR)
                for a, b in zip(first, second, strict=True)
            ):
                return False
        return True
