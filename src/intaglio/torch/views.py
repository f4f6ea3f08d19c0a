# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""Which tensors of a graph PyTorch sees, and which of them are views.

PyTorch trusts the strides, offsets and shared memory of what it sees: of the outputs, and of what the operators read
that it runs. A view among them is made by PyTorch, of the tensor that it is a view of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from torch.fx import Node

from intaglio.torch.partition import is_size
from intaglio.torch.strides import is_gapless, is_view, viewed


def seen_nodes(outputs: Iterable[Any], eager: Collection[Node]) -> set[Node]:
    """The nodes whose results PyTorch sees: outputs, operands of what it runs, and what these are views of.

    What a lone view is a view of is not among them: the view can be made like any other result.
    """
    shown = [each for each in outputs if isinstance(each, Node)]
    shown += [operand for node in eager for operand in node.all_input_nodes]
    lone = _lone_views(shown, eager)
    waiting = list(shown)
    found: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in found or is_size(node):
            continue
        found.add(node)
        source = viewed(node)
        if source is not None and node not in lone:
            waiting.append(source)
    return found


def _lone_views(shown: Iterable[Node], eager: Collection[Node]) -> set[Node]:
    """Views of whole results of ours of which PyTorch is shown nothing else: nobody can see what they share."""
    families: dict[Node, set[Node]] = {}
    for node in shown:
        if not is_size(node):
            families.setdefault(_root(node), set()).add(node)
    ours = {root: views for root, views in families.items() if root.op == "call_function" and root not in eager}
    alone = {node for root, views in ours.items() for node in views if len(views) == 1 and node is not root}
    return {node for node in alone if node not in eager and _is_whole(node) and is_gapless(node.meta["val"])}


_WHOLE = {"permute", "t", "transpose", "view", "_unsafe_view", "unsqueeze", "squeeze", "alias", "detach"}
"""Views of all elements of a tensor, whatever order that lies in."""


def _is_whole(node: Node) -> bool:
    """Whether a view, and all that it is a view of, have all elements of the root."""
    while (source := viewed(node)) is not None:
        target: Any = node.target
        if not is_view(target) or target._opname not in _WHOLE or target._overloadname == "dtype":
            return False
        node = source
    return True


def _root(node: Node) -> Node:
    """The node that has the memory in which a node's result lies."""
    while (source := viewed(node)) is not None:
        node = source
    return node
