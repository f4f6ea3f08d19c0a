"""What was compiled for PyTorch, what ran where, and why."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import field

from intaglio.record import Record


class CompiledGraph(Record):
    """One graph that PyTorch gave us: what of it we run, and why the rest is PyTorch's."""

    kind: str
    """`inference`, `forward` or `backward`."""
    ours: int
    """How many of its operators are in models of ours."""
    models: int
    eager: tuple[tuple[str, str], ...] = ()
    """The operators that PyTorch runs, each with the reason."""
    host: tuple[str, ...] = ()
    """The nodes that our reference engine runs, because they are not compiled."""
    seconds: float = 0.0
    """How long it took."""
    inputs: tuple[str, ...] = field(default=())
    is_pending: bool = False
    """Whether PyTorch still runs it, since its code was not there yet when it last ran."""

    def __str__(self) -> str:
        state = ", run by PyTorch until it is compiled" if self.is_pending else ""
        lines = [f"{self.kind}: {self.ours} operators in {self.models} models, {self.seconds:.2f} s{state}"]
        for (name, reason), count in Counter(self.eager).items():
            lines.append(f"  {count} x {name} by PyTorch: {reason}")
        lines += [f"  {name} by the reference engine" for name in self.host]
        return "\n".join(lines)


class Report(Record):
    """All graphs since the start, or since `clear()`."""

    graphs: tuple[CompiledGraph, ...] = ()

    @property
    def operators(self) -> int:
        """How many operators we run."""
        return sum(graph.ours for graph in self.graphs)

    @property
    def eager(self) -> dict[str, str]:
        """The operators that PyTorch runs, with a reason for each."""
        return {name: reason for graph in self.graphs for name, reason in graph.eager}

    @property
    def seconds(self) -> float:
        """How long all compiling took."""
        return sum(graph.seconds for graph in self.graphs)

    def __str__(self) -> str:
        if not self.graphs:
            return "nothing was compiled for PyTorch"
        return "\n".join([f"{len(self.graphs)} graphs", *map(str, self.graphs)])


_graphs: list[CompiledGraph] = []
_lock = threading.Lock()


def note(graph: CompiledGraph) -> CompiledGraph:
    """Add a graph to the report, and give it back."""
    with _lock:
        _graphs.append(graph)
    return graph


def amend(before: CompiledGraph, after: CompiledGraph) -> None:
    """Put another graph in the place of one that was noted, if the report still has it."""
    with _lock:
        for place, graph in enumerate(_graphs):
            if graph is before:
                _graphs[place] = after


def report() -> Report:
    """What was compiled for PyTorch so far: how many graphs, what runs where, and why."""
    with _lock:
        return Report(tuple(_graphs))


def clear() -> None:
    """Forget what was compiled so far."""
    with _lock:
        _graphs.clear()
