"""Modules that the names of weights tell, for models whose nodes do not.

Many files keep the names of parameters (`layer1.0.conv1.weight`) and lose those of modules. A node that reads such
weights stands in the module that they name. Other nodes stand where what they read comes from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from intaglio.emit.torch.structure import Path, block_of, operands
from intaglio.ir.graph import Node, Value

_WEIGHT = re.compile(r"[A-Za-z_]\w*(\.\w+)+")
_DEEPEST = 20


def weight_paths(nodes: Sequence[Node], free: frozenset[Value]) -> dict[Node, Path]:
    """The modules around each node; nothing around any where weights have no names of modules."""
    homes = {node: path for node in nodes if (path := _home(node))}
    layers = Counter(homes.values())
    if len(layers) < 2:
        return dict.fromkeys(nodes, ())
    holders = {node: path[:-1] if layers[path] == 1 else path for node, path in homes.items()}
    around: dict[Node, Path] = {}
    for node in nodes:
        around[node] = holders[node] if node in homes else _between(node, holders, around, free)
    paths = around | homes
    for node, path in _ends(nodes, homes, paths):
        paths[node] = path
    return paths


def _home(node: Node) -> Path:
    """The module that the weights of a node belong to: their name without its last part."""
    for value in node.inputs:
        if value is not None and value.constant is not None and _WEIGHT.fullmatch(value.name):
            return tuple(value.name.split(".")[:-1][:_DEEPEST])
    return ()


def _between(node: Node, holders: Mapping[Node, Path], around: Mapping[Node, Path], free: frozenset[Value]) -> Path:
    """Where a node without weights stands: what is common to its neighbours, within the block that it ends.

    `holders` are the modules around layers, `around` those around the nodes before this one, in order.
    """
    read = {value.producer for value in operands(node, free)}
    makers = [each for each in around if each in read and (around[each] or each in holders)]
    if not makers:
        return ()
    block = block_of(around[makers[-1]])
    if any(around[each][: len(block)] != block for each in makers):
        return block
    users = [user for value in node.outputs for user in value.readers if user in holders]
    found = [*(around[each] for each in makers), *(holders[each] for each in users)]
    return _common([path for path in found if path[: len(block)] == block])


def _common(paths: Sequence[Path]) -> Path:
    """What all of them begin with."""
    shared = [names[0] for names in takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))]
    return tuple(shared)


def _ends(nodes: Sequence[Node], homes: Mapping[Node, Path], paths: Mapping[Node, Path]) -> Iterator[tuple[Node, Path]]:
    """Nodes behind the last weights of a block that blocks like it do not have: they stand behind all blocks."""
    last: dict[Path, list[Node]] = {}
    for node in nodes:
        block = block_of(paths[node])
        if block and node in homes:
            last[block] = []
        elif block:
            last.setdefault(block, []).append(node)
    kinds: dict[Path, list[list[Node]]] = {}
    for block, ends in last.items():
        kinds.setdefault(tuple("" if name.isdigit() else re.sub(r"\d+", "", name) for name in block), []).append(ends)
    for alike in kinds.values():
        shared = len(_common([tuple(node.op.name for node in ends) for ends in alike]))
        for ends in alike:
            for node in ends[shared:] if len(alike) > 1 else ():
                yield node, block_of(paths[node])[:-2]
