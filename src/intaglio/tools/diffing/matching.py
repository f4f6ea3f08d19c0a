"""Which node of one graph is which node of another: by names, then by what they compute, then by their neighbours."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from intaglio.tools.document import Graph, Node

MOST_ALIGNED = 4_000
"""So many nodes without a partner are aligned by their order; beyond that they stay without."""


@dataclass
class Side:
    """One of the two graphs: its nodes, who makes each value, who reads it."""

    graph: Graph
    makers: dict[str, tuple[Node, int]] = field(default_factory=dict[str, tuple[Node, int]])
    readers: dict[str, list[tuple[Node, int]]] = field(default_factory=dict[str, list[tuple[Node, int]]])
    tensors: set[str] = field(default_factory=set[str])
    """The names of initializers."""

    def __post_init__(self) -> None:
        self.tensors |= {tensor.name for tensor in self.graph.initializers}
        for node in self.graph.nodes:
            self.makers.update({name: (node, slot) for slot, name in enumerate(node.shell.output) if name})
            for slot, name in enumerate(node.shell.input):
                self.readers.setdefault(name, []).append((node, slot))


@dataclass
class Matching:
    """Pairs of nodes that are the same, in both directions, by their numbers."""

    old: Side
    new: Side
    pairs: dict[int, Node] = field(default_factory=dict[int, Node])
    """The new node of each old node's number."""
    back: dict[int, Node] = field(default_factory=dict[int, Node])

    def add(self, old: Node, new: Node) -> bool:
        """Make a pair of two nodes of one operator; False where one of them has a partner or they differ."""
        if old.number in self.pairs or new.number in self.back or old.operator != new.operator:
            return False
        self.pairs[old.number], self.back[new.number] = new, old
        return True

    def value(self, name: str) -> str | None:
        """The name in the new graph of what a value of the old one is; None where nobody knows."""
        made = self.old.makers.get(name)
        if made is None:
            return name
        partner = self.pairs.get(made[0].number)
        outputs = partner.shell.output if partner is not None else ()
        return outputs[made[1]] if made[1] < len(outputs) else None


def match(old: Graph, new: Graph) -> Matching:
    """Find the partners of nodes. A node has at most one, of its own operator."""
    found = Matching(Side(old), Side(new))
    _unique(found, lambda node: (node.name, node.operator) if node.name else None)
    _unique(found, lambda node: (tuple(node.shell.output), node.operator))
    _spread(found)
    _by_meaning(found)
    _spread(found)
    _by_order(found)
    _spread(found)
    return found


def _unique(found: Matching, key: Callable[[Node], Hashable | None]) -> None:
    """Pair the nodes whose key only one node of each graph has."""
    mine, theirs = (_by_key(_alone(side, known), key) for side, known in _sides(found))
    for name, nodes in mine.items():
        others = theirs.get(name, ())
        if len(nodes) == 1 and len(others) == 1:
            found.add(nodes[0], others[0])


def _sides(found: Matching) -> tuple[tuple[Side, dict[int, Node]], tuple[Side, dict[int, Node]]]:
    return (found.old, found.pairs), (found.new, found.back)


def _alone(side: Side, known: dict[int, Node]) -> list[Node]:
    return [node for node in side.graph.nodes if node.number not in known]


def _by_key(nodes: Iterable[Node], key: Callable[[Node], Hashable | None]) -> dict[Hashable, list[Node]]:
    grouped: dict[Hashable, list[Node]] = defaultdict(list)
    for node in nodes:
        name = key(node)
        if name is not None:
            grouped[name].append(node)
    return grouped


def _spread(found: Matching) -> None:
    """Pair neighbours of pairs, where only one node of the operator stands at the same place on both sides."""
    waiting = deque((node, found.pairs[node.number]) for node in found.old.graph.nodes if node.number in found.pairs)
    while waiting:
        old, new = waiting.popleft()
        for mine, theirs in _neighbours(found, old, new):
            if found.add(mine, theirs):
                waiting.append((mine, theirs))


def _neighbours(found: Matching, old: Node, new: Node) -> Iterable[tuple[Node, Node]]:
    for name, other in zip(old.shell.input, new.shell.input, strict=False):
        above, beside = found.old.makers.get(name), found.new.makers.get(other)
        if above is not None and beside is not None and above[1] == beside[1]:
            yield above[0], beside[0]
    for name, other in zip(old.shell.output, new.shell.output, strict=False):
        below, beside = found.old.readers.get(name, []), found.new.readers.get(other, [])
        mine = _by_key((node for node, _ in below), lambda node: node.operator)
        theirs = _by_key((node for node, _ in beside), lambda node: node.operator)
        for operator, nodes in mine.items():
            if len(nodes) == 1 and len(theirs.get(operator, ())) == 1:
                yield nodes[0], theirs[operator][0]


def _by_meaning(found: Matching) -> None:
    """Pair nodes without a partner that compute the same of the same, whatever they are called."""
    meanings: list[dict[int, int]] = [_meanings(side) for side, _ in _sides(found)]
    mine, theirs = (
        _by_key(_alone(side, known), lambda node, meaning=meaning: meaning[node.number])
        for (side, known), meaning in zip(_sides(found), meanings, strict=True)
    )
    for meaning, nodes in mine.items():
        for old, new in zip(nodes, theirs.get(meaning, ()), strict=False):
            found.add(old, new)


def _meanings(side: Side) -> dict[int, int]:
    """A hash of each node: its operator, its attributes and the hashes of what it reads."""
    values: dict[str, int] = {}
    found: dict[int, int] = {}
    for node in side.graph.nodes:
        attributes = tuple(sorted(each.shell.SerializeToString(deterministic=True) for each in node.attributes))
        reads = tuple(values.get(name, hash(name)) for name in node.shell.input)
        found[node.number] = meaning = hash((node.operator, attributes, reads))
        values.update({name: hash((meaning, slot)) for slot, name in enumerate(node.shell.output) if name})
    return found


def _by_order(found: Matching) -> None:
    """Pair what is left by the longest common runs of operators, in the order of the files."""
    mine, theirs = (_alone(side, known) for side, known in _sides(found))
    if not mine or not theirs or max(len(mine), len(theirs)) > MOST_ALIGNED:
        return
    for old, new in _aligned(mine, theirs):
        found.add(old, new)


def _aligned(mine: Sequence[Node], theirs: Sequence[Node]) -> Iterable[tuple[Node, Node]]:
    matcher = SequenceMatcher(None, [n.operator for n in mine], [n.operator for n in theirs], autojunk=False)
    for block in matcher.get_matching_blocks():
        for step in range(block.size):
            yield mine[block.a + step], theirs[block.b + step]
