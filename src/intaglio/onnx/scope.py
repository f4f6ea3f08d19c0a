"""What names mean while a graph is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from onnx import AttributeProto, NodeProto

from intaglio.errors import IntaglioError, LoadError
from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph, Value
from intaglio.ir.origin import Origin
from intaglio.onnx.protobuf import printable, shorten, text, texts
from intaglio.onnx.schema import normal_domain


class Broken:
    """Stands for a value whose node could not be read, so that its readers don't report the same problem again."""


BROKEN: Final = Broken()

_SUGGESTION_LIMIT = 1000
"""Among more names than this none is suggested: the search would take too long."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a model: the error, and the path of the node or tensor that has it."""

    error: IntaglioError
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.error}" if self.where else str(self.error)


@dataclass(frozen=True)
class BoundAttribute:
    """An attribute with the scope that its subgraphs see: the caller's, where a function passes it on."""

    proto: AttributeProto
    scope: Scope


@dataclass
class Scope:
    """The names that nodes may read and where new nodes go.

    `path` leads to the scope in messages, `prefix` stands before the names of a function's values, `hints` holds the
    names that a function's outputs have outside, `attributes` what its attribute references stand for, and `place` the
    call of the function or the subgraph that it is.
    """

    graph: Graph
    opsets: Mapping[str, int]
    path: str = ""
    prefix: str = ""
    outer: Scope | None = None
    depth: int = 0
    values: dict[str, Value | Broken | None] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)
    attributes: Mapping[str, BoundAttribute] = field(default_factory=dict)
    place: Origin | None = None

    def find(self, name: str) -> Value | Broken | None:
        """The value with a name here or further out; raises LoadError where there is none."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise LoadError(f"reads {self._undefined(name)}")

    def find_all(self, names: Sequence[str]) -> list[Value | Broken | None]:
        """The values with these names, None for an empty one; raises LoadError for all that nothing defines."""
        found: list[Value | Broken | None] = []
        missing: list[str] = []
        for name in names:
            try:
                found.append(self.find(name) if name else None)
            except LoadError:
                missing.append(self._undefined(name))
        if missing:
            raise LoadError(f"reads {', and '.join(missing)}")
        return found

    def _undefined(self, name: str) -> str:
        return f"{shorten(name)!r}, which nothing defines{self._suggestion(name)}"

    def define(self, name: str, value: Value) -> None:
        """Give a value its name; raises LoadError where the name is taken in this scope."""
        if name in self.values and self.values[name] is not BROKEN:
            raise LoadError(f"defines {shorten(name)!r}, which is already defined: names must be unique")
        self.values[name] = value

    def hint(self, name: str) -> str:
        """The name that the IR's value should have."""
        return self.hints.get(name) or (self.prefix + name if name else "")

    def where(self, what: str) -> str:
        """The path of something in this scope."""
        return f"{self.path}/{what}" if self.path else what

    def _suggestion(self, name: str) -> str:
        if len(name) > 200 or len(self.values) > _SUGGESTION_LIMIT:
            return ""
        close = get_close_matches(name, self.values, n=1)
        return f"; did you mean {close[0]!r}?" if close else ""


@dataclass(frozen=True)
class Site:
    """One node being read: its message, what it is given, and where it stands."""

    node: NodeProto
    inputs: Sequence[Value | None]
    attributes: Mapping[str, BoundAttribute]
    scope: Scope
    builder: Builder

    @property
    def path(self) -> str:
        """The node's path in messages."""
        return self.builder.origin.path

    def output_names(self, is_variadic: bool) -> list[str]:
        """The outputs' names, without the absent ones at the end unless their number means something."""
        names = texts(self.node.output)
        while names and not names[-1] and not is_variadic:
            names.pop()
        if not names:
            raise LoadError("has no outputs")
        return names


def path_of(node: NodeProto, index: int) -> str:
    """A node's name, or its position where it has none, and its operator."""
    return f"{printable(text(node.name)) or f'#{index}'} ({printable(text(node.op_type))})"


def origin_of(node: NodeProto, index: int, scope: Scope) -> Origin:
    """Where a node stands, what it was in the file, and what the exporter said about it."""
    domain, name = normal_domain(text(node.domain)), text(node.op_type)
    properties = node.metadata_props
    return Origin(
        scope.where(path_of(node, index)),
        f"{domain}::{name}" if domain else name,
        scope.opsets.get(domain, 0),
        {text(entry.key): text(entry.value) for entry in properties} if properties else None,
        scope.place,
    )


def bind_attributes(node: NodeProto, scope: Scope) -> dict[str, BoundAttribute]:
    """A node's attributes by name; a reference to one that the function's caller left out is left out too."""
    bound: dict[str, BoundAttribute] = {}
    for proto in node.attribute:
        name, reference = text(proto.name), text(proto.ref_attr_name)
        if name in bound:
            raise LoadError(f"has the attribute {shorten(name)!r} twice")
        if not reference:
            bound[name] = BoundAttribute(proto, scope)
        elif reference in scope.attributes:
            bound[name] = scope.attributes[reference]
    return bound


MEMORY_HINT = "consumed_inputs"
"""An attribute of the first operator sets, a hint to reuse memory without a meaning."""


def check_attributes(given: Iterable[str], allowed: Mapping[str, bool]) -> None:
    """Raise LoadError for every attribute that nobody reads, and for those that are missing.

    `allowed` tells which attributes are read and which of those are required.
    """
    names = set(given)
    problems = [_unknown_attribute(name, list(allowed)) for name in given if name not in allowed]
    missing = [name for name, is_needed in allowed.items() if is_needed and name not in names]
    if missing:
        problems.append(f"needs the attribute {', '.join(missing)}")
    if problems:
        raise LoadError("; it ".join(problems))


def _unknown_attribute(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(shorten(name), known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known) or 'none'}"
    return f"has the attribute {shorten(name)!r}, which this version of the operator does not have{hint}"
