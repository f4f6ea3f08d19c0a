"""Which nodes make up which module: the scopes that an exporter recorded, as far as each can be called as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import takewhile
from typing import TypeAlias

from intaglio.emit.torch.vocabulary import PRODUCTS, RECURRENT
from intaglio.ir.graph import Graph, Node, Value

Path: TypeAlias = tuple[str, ...]


@dataclass
class Group:
    """Nodes that are called as a module, and the order of what is in it."""

    path: Path
    nodes: list[Node]
    items: list[Node | Group] = field(default_factory=list)
    free: frozenset[Value] = frozenset()

    @property
    def inputs(self) -> list[Value]:
        """The values that the group reads from outside, constants left out."""
        own = {value for node in self.nodes for value in node.outputs}
        reads = (value for node in self.nodes for value in operands(node, self.free))
        return list(dict.fromkeys(value for value in reads if value not in own))

    @property
    def outputs(self) -> list[Value]:
        """The values that others read."""
        own = set(self.nodes)
        return [value for node in self.nodes for value in node.outputs if _is_read_outside(value, own, self.free)]


Item: TypeAlias = Node | Group


def operands(node: Node, free: frozenset[Value]) -> list[Value]:
    """What a node reads, in its bodies too, without constants and sizes that are written where they are read."""
    found = (value for value in (*node.inputs, *node.captures()) if value is not None)
    return [value for value in dict.fromkeys(found) if value.constant is None and value not in free]


def _is_read_outside(value: Value, own: set[Node], free: frozenset[Value]) -> bool:
    users = [user for user, _ in value.uses]
    others = [user for user in users if isinstance(user, Graph) or not free.issuperset(user.outputs)]
    return any(isinstance(user, Graph) or _holder(user, own) not in own for user in others)


def _holder(user: Node, own: set[Node]) -> Node:
    """The node itself, or the one among these whose body it stands in."""
    if user in own:
        return user
    for node in own:
        for _, body in node.op.subgraphs():
            if user in set(body.all_nodes()):
                return node
    return user


HOISTED = 8
"""At most so many nodes are computed outside of the module that has them first."""

_LAYERS = PRODUCTS | RECURRENT | {"Attention", "MatMul", "Gather", "QLinearAdd"}


def hoist(nodes: Sequence[Node], paths: dict[Node, Path], free: frozenset[Value]) -> None:
    """Take what several modules read out of the one that happens to compute it, where that needs nothing of it."""
    for node in reversed(nodes):
        readers = [paths[user] for value in node.outputs for user in value.readers if user in paths]
        own = paths[node]
        target = own
        for path in readers:
            target = target[
                : next(
                    (i for i, (a, b) in enumerate(zip(target, path, strict=False)) if a != b),
                    min(len(target), len(path)),
                )
            ]
        while target and len(own) > len(target) and own[len(target)].isdigit():
            target = target[:-1]
        if len(target) == len(own):
            continue
        needed = _needed_inside(node, own[: len(target) + 1], paths, free)
        if needed is not None:
            for each in needed:
                paths[each] = target


def adopt(nodes: Sequence[Node], paths: dict[Node, Path], free: frozenset[Value]) -> None:
    """Put nodes without a module, which tools add that change a model, where all around them stand in one block."""
    for node in nodes:
        if paths[node]:
            continue
        makers = [paths[value.producer] for value in operands(node, free) if value.producer in paths]
        readers = [paths[user] for value in node.outputs for user in value.readers if user in paths]
        if makers and readers and len({block_of(path) for path in makers + readers}) == 1:
            shared = takewhile(lambda names: len(set(names)) == 1, zip(*makers, *readers, strict=False))
            paths[node] = tuple(names[0] for names in shared) if block_of(makers[0]) else ()


def block_of(path: Path) -> Path:
    """The innermost numbered module of a path, such as `layer1.0`; nothing where there is none."""
    numbered = [place for place, name in enumerate(path) if name.isdigit()]
    return path[: numbered[-1] + 1] if numbered else ()


def _needed_inside(node: Node, scope: Path, paths: Mapping[Node, Path], free: frozenset[Value]) -> set[Node] | None:
    """The nodes of a scope that a node stands on; None where they are many or have weights."""
    found: set[Node] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each in found or paths.get(each, ())[: len(scope)] != scope:
            continue
        found.add(each)
        if len(found) > HOISTED or each.op.name in _LAYERS:
            return None
        waiting += [value.producer for value in operands(each, free) if value.producer is not None]
    return found


def arrange(
    nodes: Sequence[Node], prefix: Path, paths: Mapping[Node, Path], dissolved: set[Path], free: frozenset[Value]
) -> list[Item]:
    """Nodes and groups of them in an order in which each can run after those before it.

    A scope that cannot be called as a whole, since what it gives comes back to it by way of others, is dissolved.
    """
    while True:
        units = _units(nodes, prefix, paths, dissolved)
        order, rest = _sorted(units, free)
        if not rest:
            break
        groups = [key for key in rest if isinstance(key, tuple)]
        assert groups, "nodes in a circle"
        dissolved.update((*prefix, *key) for key in groups)
    found: list[Item] = []
    for key in order:
        if isinstance(key, Node):
            found.append(key)
            continue
        group = Group((*prefix, *key), units[key], free=free)
        group.items = arrange(group.nodes, group.path, paths, dissolved, free)
        found.append(group)
    return found


Key: TypeAlias = Node | Path


def _units(
    nodes: Sequence[Node], prefix: Path, paths: Mapping[Node, Path], dissolved: set[Path]
) -> dict[Key, list[Node]]:
    """What belongs together, by scope; a scope of one node is that node."""
    found: dict[Key, list[Node]] = {}
    for node in nodes:
        own = paths[node][len(prefix) :]
        length = 1
        while length <= len(own) and (*prefix, *own[:length]) in dissolved:
            length += 1
        key: Key = own[:length] if length <= len(own) else node
        found.setdefault(key, []).append(node)
    return {(members[0] if len(members) == 1 else key): members for key, members in found.items()}


def _sorted(units: Mapping[Key, list[Node]], free: frozenset[Value]) -> tuple[list[Key], list[Key]]:
    """The units in an order in which they can run, near to that of the nodes, and those that wait for each other."""
    home = {value: key for key, members in units.items() for node in members for value in node.outputs}
    waits: dict[Key, set[Key]] = {}
    readers: dict[Key, list[Key]] = {key: [] for key in units}
    for key, members in units.items():
        waits[key] = {home[value] for node in members for value in operands(node, free) if value in home} - {key}
        for other in waits[key]:
            readers[other].append(key)
    keys = list(units)
    places = {key: place for place, key in enumerate(keys)}
    ready = [places[key] for key in keys if not waits[key]]
    order: list[Key] = []
    while ready:
        key = keys[heappop(ready)]
        order.append(key)
        for reader in readers[key]:
            waits[reader].discard(key)
            if not waits[reader]:
                heappush(ready, places[reader])
    done = set(order)
    return order, [key for key in keys if key not in done]


def is_container(group: Group, paths: Mapping[Node, Path]) -> bool:
    """Whether a scope holds nothing but numbered modules."""
    length = len(group.path)
    return all(len(paths[node]) > length and paths[node][length].isdigit() for node in group.nodes)


def chain_of(group: Group) -> list[Item] | None:
    """The items of a group of which each takes what the one before gives, and nothing else."""
    before = group.inputs
    if len(before) != 1:
        return None
    for item in group.items:
        whole = item if isinstance(item, Group) else Group(group.path, [item], free=group.free)
        if whole.inputs != before or len(whole.outputs) != 1:
            return None
        before = whole.outputs
    return group.items if before == group.outputs else None


def all_groups(items: Iterable[Item]) -> Iterable[Group]:
    """All groups, outer ones first."""
    for item in items:
        if isinstance(item, Group):
            yield item
            yield from all_groups(item.items)
