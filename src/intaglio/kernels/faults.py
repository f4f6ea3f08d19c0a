"""Faults of our own: a node whose kernel cannot be made runs in a simpler way, and that is told.

What fails in lowering or in the C compiler is a bug of Intaglio, and still no reason to refuse a model. The nodes of
the kernel at fault get kernels of their own; a node that fails by itself is run by the host; and where nobody knows
which node is to blame, the host runs them all. A graph is lowered anew after each fault, with what the faults so far
have taught. $INTAGLIO_FAULTS=raise lets the error itself out instead, so that tests do not pass by way of the host.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from intaglio.errors import GraphError, IntaglioError
from intaglio.ir.graph import Node
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.version import __version__

NODE_LIMIT = 8
"""After so many faults, one is taken for that of all nodes of the operator."""

FAULT_LIMIT = 40
"""After so many faults, the host runs the whole model."""

Remedy = str
APART: Remedy = "these nodes are computed one by one"
HOSTED: Remedy = "the reference engine runs it, which is slow and right"
ALL_HOSTED: Remedy = "the reference engine runs the whole model, which is slow and right"


class FaultWarning(UserWarning):
    """Something in Intaglio failed and a model runs in a slower way than it should."""


@dataclass(frozen=True)
class Fault:
    """What failed, at which nodes, and what is done instead."""

    nodes: tuple[str, ...]
    error: str
    remedy: Remedy

    def __str__(self) -> str:
        where = f" Please report it with {'the node' if len(self.nodes) == 1 else 'the nodes'} {'; '.join(self.nodes)}"
        place = where if self.nodes else " Please report it, with the model if that is possible"
        return f"this is a bug in Intaglio {__version__}, and {self.remedy}: {self.error}.{place}"


class LoweringError(Exception):
    """Nodes that cannot be lowered together, or alone if there is one, because of an error.

    It is not our own where one of the nodes is of an operator that a user defined.
    """

    def __init__(self, nodes: Sequence[Node], error: Exception) -> None:
        super().__init__(str(error))
        self.nodes, self.error = tuple(nodes), error
        self.is_ours = all(type(node.op).__module__.startswith("intaglio.") for node in nodes)


def is_fault(error: Exception) -> bool:
    """Whether an error is our own, and not one that tells of the model, its files or the limits."""
    return isinstance(error, GraphError) or not isinstance(error, (IntaglioError, MemoryError))


def is_raising() -> bool:
    """Whether faults are to be errors."""
    return os.environ.get("INTAGLIO_FAULTS") == "raise"


@contextmanager
def blaming(nodes: Sequence[Node]) -> Generator[None]:
    """Say of a fault in the block that it is one of these nodes."""
    try:
        yield
    except LoweringError:
        raise
    except Exception as error:
        if not is_fault(error):
            raise
        raise LoweringError(nodes, error) from error


@dataclass
class Faults:
    """The faults of a graph so far, and how its nodes run because of them; nodes are known by their first output."""

    met: list[Fault] = field(default_factory=list[Fault])
    is_plain: bool = False
    """Whether layouts, assumptions and fusion are left out."""
    is_hosted: bool = False
    """Whether the host runs everything."""
    _apart: set[str] = field(default_factory=set[str])
    _hosted: dict[str, Refusal] = field(default_factory=dict[str, Refusal])

    def is_apart(self, node: Node) -> bool:
        """Whether a node is to have a kernel of its own."""
        return self.is_plain or _name(node) in self._apart

    def refusal(self, node: Node) -> Refusal | None:
        """Why the host is to run a node; None where it is not."""
        return self._hosted.get(_name(node)) or self._hosted.get(_operator(node))

    def add(self, error: Exception, nodes: Sequence[Node] = ()) -> None:
        """Take note of a fault, and of what is to be done; raises the error where faults are to be errors."""
        if is_raising():
            raise error
        text = _text(error)
        remedy = self._plan(nodes, Refusal(Cause.FAULT, f"a bug in Intaglio: {text}"))
        self.met.append(Fault(tuple(map(shown, nodes)), text, remedy))

    def _plan(self, nodes: Sequence[Node], refusal: Refusal) -> Remedy:
        names = {_name(node) for node in nodes}
        if len(self.met) < FAULT_LIMIT:
            if len(nodes) > 1 and not self.is_plain and not names <= self._apart:
                self._apart |= names
                return APART
            if nodes and not all(map(self.refusal, nodes)):
                keys = names if len(self.met) < NODE_LIMIT else {_operator(node) for node in nodes}
                self._hosted.update(dict.fromkeys(keys, refusal))
                return HOSTED
            if not self.is_plain:
                self.is_plain = True
                return APART
        self.is_hosted = True
        return ALL_HOSTED


def _text(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    wanted = [line[line.index("error:") :] for line in lines if "error:" in line][:1] or lines[:1]
    name = type(error).__name__
    return f"{name}: {wanted[0][:300]}" if wanted else name


def _name(node: Node) -> str:
    return node.outputs[0].name if node.outputs else node.origin.path


def _operator(node: Node) -> str:
    return f"{node.op.domain}::{node.op.name}"


def shown(node: Node) -> str:
    """A node for a report: where it comes from, its operator with attributes, and the types of what it takes and gives.

    No weights are in it, and subgraphs are left out.
    """
    operator = node.op.name if next(node.op.subgraphs(), None) is not None else repr(node.op)
    taken = ", ".join("none" if value is None else str(value.type) for value in node.inputs)
    given = ", ".join(str(value.type) for value in node.outputs)
    path = f" at {node.origin}" if node.origin else ""
    return f"{operator[:300]}({taken}) -> {given}{path}"


def tell(faults: Sequence[Fault]) -> None:
    """Warn of faults."""
    for fault in faults:
        warnings.warn(str(fault), FaultWarning, stacklevel=2)
