"""Scopes of all graphs of a document as columns: modules, repeated blocks, functions and bodies."""

from __future__ import annotations

from dataclasses import dataclass, field

from intaglio.tools.document import Node
from intaglio.tools.drawing.scopes import Scope, scopes_of, signature

KINDS = ("module", "repeat", "function", "body")


@dataclass
class ScopeTable:
    """Rows of scopes. A parent stands before what is in it; `repeats` is the first of several built alike, or -1."""

    parent: list[int] = field(default_factory=list[int])
    name: list[str] = field(default_factory=list[str])
    graph: list[int] = field(default_factory=list[int])
    kind: list[int] = field(default_factory=list[int])
    repeats: list[int] = field(default_factory=list[int])

    def add(self, parent: int, name: str, graph: int, kind: str, repeats: int = -1) -> int:
        """Add a row; returns its number."""
        self.parent.append(parent)
        self.name.append(name)
        self.graph.append(graph)
        self.kind.append(KINDS.index(kind))
        self.repeats.append(repeats)
        return len(self.parent) - 1

    def add_graph(self, nodes: list[Node], root: int, graph: int) -> dict[int, int]:
        """Add the scopes in a graph whose own is `root`; returns the scope of each node by its number."""
        found: dict[int, int] = {}
        waiting = [(scopes_of(nodes), root)]
        while waiting:
            scope, row = waiting.pop()
            last: tuple[object, int] | None = None
            for member in scope.members:
                if not isinstance(member, Scope):
                    found[member.number] = row
                    last = None
                    continue
                built = signature(list(member.nodes()))
                template = last[1] if last is not None and last[0] == built else -1
                kind = "repeat" if member.name.startswith("block ") else "module"
                inner = self.add(row, member.name, graph, kind, template)
                last = (built, template if template >= 0 else inner)
                waiting.append((member, inner))
        return found
