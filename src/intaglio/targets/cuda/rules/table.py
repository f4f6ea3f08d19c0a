"""The structured operators that have rules of their own for devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.refusal import Refusal
from intaglio.kernels.target_rules import Anchor

OWN: dict[str, Anchor] = {}
"""The rules by operator."""

Lower = Callable[[Context, Node, Epilogue], None]


def anchor(
    *names: str,
    refuse: Callable[[Node], Refusal | None] = lambda node: None,
    fuses: bool = False,
    takes: Callable[[Sequence[Node], Node], bool] = lambda nodes, node: True,
) -> Callable[[Lower], Lower]:
    """Register the lowering of operators."""

    def register(lower: Lower) -> Lower:
        OWN.update((name, Anchor(lower, refuse, fuses=lambda node: fuses, takes=takes)) for name in names)
        return lower

    return register


def first_of(rule: Anchor, other: Anchor) -> Anchor:
    """A rule, or another one for the nodes that it refuses."""

    def lower(context: Context, node: Node, epilogue: Epilogue) -> None:
        chosen = rule if rule.refuse(node) is None else other
        chosen.lower(context, node, epilogue)

    return Anchor(
        lower,
        lambda node: None if rule.refuse(node) is None else other.refuse(node),
        fuses=lambda node: rule.fuses(node) and rule.refuse(node) is None,
        takes=rule.takes,
    )
