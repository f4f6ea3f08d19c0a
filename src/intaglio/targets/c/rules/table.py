"""The structured operators that C kernels exist for, and the operators whose sizes drivers find; rules fill both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from intaglio.errors import GraphError
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.refusal import Refusal
from intaglio.kernels.target_rules import Anchor, LateSizes, all_inputs

ANCHORS: dict[str, Anchor] = {}
"""The structured operators by name."""

LATE: dict[str, LateSizes] = {}
"""The operators whose outputs' sizes may depend on data, by name."""


def late_sizes(
    *names: str,
    refuse: Callable[[Node], Refusal | None] = lambda node: None,
    reads: Callable[[Node], Sequence[Value]] = all_inputs,
) -> Callable[[Callable[[Context, Node], None]], Callable[[Context, Node], None]]:
    """Register what binds the sizes of operators' outputs."""

    def register(bind: Callable[[Context, Node], None]) -> Callable[[Context, Node], None]:
        for name in names:
            if name in LATE:
                raise GraphError(f"{name} has two rules for its sizes")
            LATE[name] = LateSizes(bind, refuse, reads)
        return bind

    return register


def anchor(
    *names: str,
    refuse: Callable[[Node], Refusal | None] = lambda node: None,
    reads: Callable[[Node], Sequence[Value]] = all_inputs,
    fuses: Callable[[Node], bool] = lambda node: False,
    needs: Collection[str] = (),
) -> Callable[[Callable[[Context, Node, Epilogue], None]], Callable[[Context, Node, Epilogue], None]]:
    """Register the lowering of structured operators; for what its kernels may need, see `Anchor`."""

    def register(lower: Callable[[Context, Node, Epilogue], None]) -> Callable[[Context, Node, Epilogue], None]:
        for name in names:
            if name in ANCHORS:
                raise GraphError(f"{name} has two lowerings")
            ANCHORS[name] = Anchor(lower, refuse, reads, fuses, needs=frozenset(needs))
        return lower

    return register
