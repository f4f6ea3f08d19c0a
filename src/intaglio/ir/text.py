"""Graphs as text: `format_graph` prints one, `parse_graph` reads it back, `summary` prints it for people.

    graph "name" (%x: float32[N, 3], %y: float32[3] = {0.0, 0.0, 1.0}) -> (%out) {
      doc "what the graph is for"
      metadata "author" = "somebody"
      %w: float32[3] = {1.0, 2.0, 3.0}
      %a: float32[N, 3] = Add(%x, %w) @"path/of/the/onnx/node"
      %out: float32[N, 1], %rest: float32[N, 2] = Split(%a, _; axis=1, num_outputs=2)
      %z: float32[N] = If(%c; then_branch=graph "then" () -> (%p) {
          ...
        })
    }

Nodes with one path came from one node of the model; behind the path of a second node that has the same one stands its
number, `@"path" 2`. A constant stands before its first reader: its elements in braces, or `base64 "..."` where there
are many or where their digits would lose bits, or `stored 3` where its elements are kept elsewhere; `literal` stands
before them where the constant stood in a node of a file. `_` is an absent
input, `outer` a value that a lone subgraph reads from outside. In what is read a type may be left out (it is then
inferred), a constant may be written as an operand (`Add(%x, float32[] {1.0})`), and `#` begins a comment.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeGuard, cast

import numpy as np

from intaglio.errors import GraphError
from intaglio.ir import dim as dims
from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Array, Op, Tensor, single
from intaglio.ir.origin import Origin
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type

INLINE_LIMIT = 16
"""Constants of at most this many elements are printed in digits."""

SHOWN_LIMIT = 8
"""Those of more than so many elements are only shapes in what is printed for people."""


@dataclass(frozen=True)
class Line:
    """One line of a printed graph and the node that it belongs to, if any."""

    depth: int
    text: str
    node: Node | None = None

    def __str__(self) -> str:
        return "  " * self.depth + self.text


Keep = Callable[[Array], int]
"""Puts an array somewhere else and gives the number under which it is found there."""


def format_graph(graph: Graph, keep: Keep | None = None) -> str:
    """The graph as text that `parse_graph` reads back to an equal graph.

    With `keep`, constants that would not be written in digits are not written at all: `stored 3` is the array that
    `keep` has numbered 3.
    """
    return "\n".join(str(line) for line in format_lines(graph, keep=keep))


def summary(graph: Graph) -> str:
    """The graph as text for people: the elements of all but the smallest constants are left out."""
    return "\n".join(str(line) for line in format_lines(graph, elide=True))


def signature(graph: Graph) -> str:
    """The name, inputs and outputs of a graph in one line."""

    def listed(values: Sequence[Value]) -> str:
        return ", ".join(f"{value.name}: {value.type}" for value in values)

    return f"{quote(graph.name)} ({listed(graph.inputs)}) -> ({listed(graph.outputs)})"


def node_attributes(node: Node) -> Iterator[tuple[str, str]]:
    """The names and texts of a node's attributes, for people: tensors as shapes, subgraphs as names."""
    printer = _Printer(True)
    for name, value in _attributes(node.op, len(node.outputs)):
        yield name, printer.attribute(value, node.op.is_single(name))


def format_lines(graph: Graph, elide: bool = False, keep: Keep | None = None) -> Iterator[Line]:
    """The lines of a printed graph, in time linear in its size; nesting costs no recursion."""
    printer = _Printer(elide, keep)
    stack: list[Iterator[Line | Iterator[Any]]] = [printer.graph(graph, 0, "", "}")]
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
        elif isinstance(item, Line):
            yield item
        else:
            stack.append(item)


def parse_graph(text: str, stored: Sequence[Array] = ()) -> Graph:
    """The graph that `format_graph` printed; raises GraphError with line, column and what was expected.

    `stored` are the arrays that were kept elsewhere, by number.
    """
    from intaglio.ir.parse import read_graph

    return read_graph(text, stored)


class _Printer:
    """Printing needs to know which constants and outer values have been introduced already."""

    def __init__(self, elide: bool, keep: Keep | None = None) -> None:
        self.elide = elide
        self.keep = keep
        self.introduced: set[Value] = set()
        self.alike: dict[str, dict[tuple[str, int], int]] = {}

    def graph(self, graph: Graph, depth: int, before: str, after: str) -> Iterator[Line | Iterator[Any]]:
        inputs = ", ".join(self.input(value) for value in graph.inputs)
        outputs = ", ".join(_name(value) for value in graph.outputs)
        yield Line(depth, f"{before}graph {quote(graph.name)} ({inputs}) -> ({outputs}) {{")
        if graph.doc:
            yield Line(depth + 1, f"doc {quote(graph.doc)}")
        for key, text in graph.metadata.items():
            yield Line(depth + 1, f"metadata {quote(key)} = {quote(text)}")
        for node in graph.nodes:
            yield from self.introduce(node.inputs, depth + 1)
            yield from self.node(node, depth + 1)
            self.introduced.update(node.outputs)
        yield from self.introduce(graph.outputs, depth + 1)
        yield Line(depth, after)

    def input(self, value: Value) -> str:
        self.introduced.add(value)
        default = "" if value.default is None else f" = {self.array(value.default)}"
        return f"{_name(value)}: {_type_text(value.type)}{default}"

    def introduce(self, values: Sequence[Value | None], depth: int) -> Iterator[Line]:
        for value in values:
            if value is None or value in self.introduced:
                continue
            self.introduced.add(value)
            content = "outer" if value.constant is None else self.array(value.constant)
            if value.is_literal and not self.elide:
                content = f"literal {content}"
            yield Line(depth, f"{_name(value)}: {_type_text(value.type)} = {content}")

    def node(self, node: Node, depth: int) -> Iterator[Line | Iterator[Any]]:
        outputs = ", ".join(f"{_name(value)}: {_type_text(value.type)}" for value in node.outputs)
        inputs = ", ".join("_" if value is None else _name(value) for value in node.inputs)
        attributes = list(_attributes(node.op, len(node.outputs)))
        texts = [
            (name, self.attribute(item, node.op.is_single(name))) for name, item in attributes if not _is_graph(item)
        ]
        plain = [f"{name}={text}" for name, text in texts]
        graphs = [(name, item) for name, item in attributes if _is_graph(item)]
        origin = self.origin(node.origin) if node.origin else ""
        head = f"{outputs} = {_operator_name(node.op)}({inputs}{'; ' if plain else ''}{', '.join(plain)}"
        if not graphs:
            yield Line(depth, f"{head}){origin}", node)
            return
        yield Line(depth, head + ("," if plain else ";"), node)
        for position, (name, graph) in enumerate(graphs):
            end = "}," if position + 1 < len(graphs) else f"}}){origin}"
            yield self.graph(graph, depth + 2, f"{name}=", end)

    def origin(self, origin: Origin) -> str:
        alike = self.alike.setdefault(origin.path, {})
        number = alike.setdefault(origin.place, len(alike) + 1)
        return f" @{quote(origin.path)}{f' {number}' if number > 1 else ''}{' again' if origin.is_recomputed else ''}"

    def attribute(self, value: Any, is_single: bool = False) -> str:
        """The text of an attribute's value; with `is_single`, who reads it rounds its numbers to single precision."""
        match value:
            case None:
                return "none"
            case bool():
                return "true" if value else "false"
            case int() | np.integer():
                return str(int(value))
            case float() | np.floating():
                return _shortest(float(value)) if is_single else repr(float(value))
            case str():
                return quote(value)
            case bytes():
                return f"bytes {quote(base64.b64encode(value).decode())}"
            case tuple() | list():
                return f"[{', '.join(self.attribute(item, is_single) for item in cast('list[Any]', value))}]"
            case Tensor():
                return f"tensor {value.dtype}[{', '.join(map(str, value.array.shape))}] {self.array(value.array)}"
            case _:
                return self.special(value)

    def special(self, value: Any) -> str:
        if isinstance(value, Graph):
            return f"graph {quote(value.name)}"
        if isinstance(value, DType):
            return f"dtype {value}"
        if isinstance(value, dims.Expr):
            return f"dim {value}"
        if isinstance(value, (TensorType, SequenceType, OptionalType, MapType)):
            return f"type {_type_text(value)}"
        raise GraphError(f"an attribute of type {type(value).__name__} cannot be printed")

    def array(self, array: Any) -> str:
        if not isinstance(array, np.ndarray):
            return f"<{type(array).__name__}>"
        if self.elide and array.size > SHOWN_LIMIT:
            return f"<{array.size} elements>"
        if array.dtype.kind in "OUST":
            return f"{{{', '.join(_element_text(item) for item in array.ravel().tolist())}}}"
        if array.size <= INLINE_LIMIT and array.dtype.kind != "c":
            digits = [_number_text(item) for item in array.ravel()]
            numbers = from_elements([read_number(d) for d in digits], array.dtype)
            if self.elide or _to_bytes(numbers) == _to_bytes(array):
                return f"{{{', '.join(digits)}}}"
        if self.keep is not None:
            return f"stored {self.keep(array)}"
        return f'base64 "{base64.b64encode(_to_bytes(array)).decode()}"'


def _is_graph(item: Any) -> TypeGuard[Graph]:
    return isinstance(item, Graph)


def _attributes(op: Op, outputs: int | None) -> Iterator[tuple[str, Any]]:
    """The fields that differ from their defaults; the number of outputs is the node's to say."""
    printer = _Printer(False)
    for field in fields(op):  # pyright: ignore[reportArgumentType]
        value = getattr(op, field.name)
        if field.name == "output_count" and outputs in (None, value):
            continue
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if isinstance(value, Graph) or default is MISSING or printer.attribute(value) != printer.attribute(default):
            yield field.name, value


def quote(text: str) -> str:
    """The text in double quotes; what cannot be seen is escaped."""
    return '"' + "".join(_escape(character) for character in text) + '"'


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_./-]+")


def _name(value: Value) -> str:
    return "%" + (value.name if _PLAIN_NAME.fullmatch(value.name) else quote(value.name))


def _operator_name(op: Op) -> str:
    if not op.domain:
        return op.name
    return f"{op.domain if _IDENTIFIER.fullmatch(op.domain) else quote(op.domain)}::{op.name}"


def _type_text(type: Type) -> str:
    return str(type)


def _element_text(item: Any) -> str:
    return f"bytes {quote(base64.b64encode(item).decode())}" if isinstance(item, bytes) else quote(str(item))


def _number_text(item: Any) -> str:
    dtype = from_numpy(item.dtype)
    if dtype.kind == "bool":
        return "true" if item else "false"
    if dtype.is_integer:
        return str(int(item))
    return repr(float(item)) if dtype.is_narrow else _with_point(str(item))


def _with_point(text: str) -> str:
    return text if any(sign in text for sign in ".en") else text + ".0"


def _shortest(number: float) -> str:
    """The fewest digits that are the number once they are rounded to single precision, or all that it has."""
    text = _with_point(str(np.float32(number)))
    return text if single(float(text)) == number else repr(number)


def read_number(text: str) -> Any:
    """The number or truth value that a text spells."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _to_bytes(array: Array) -> bytes:
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def from_elements(items: list[Any], dtype: np.dtype[Any]) -> Array:
    """Numbers as an array; raises ValueError for one that the type does not have, and rounds floats.

    >>> from_elements([0.1, 1], np.dtype(np.float16)).tolist()
    [0.0999755859375, 1.0]
    """
    if from_numpy(dtype).is_float or dtype.kind == "c":
        return _rounded(np.array(items, dtype=np.float64), dtype)
    array = np.array(items, dtype=object).astype(dtype)
    if array.tolist() != items or any(isinstance(item, float) for item in items):
        raise ValueError(f"{items} are not numbers of the type {dtype}")
    return array


def _rounded(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers in another float type, which has the finite ones as finite numbers."""
    with np.errstate(over="ignore"):
        array = numbers.astype(dtype)
    if not np.array_equal(np.isfinite(array.astype(np.complex128)), np.isfinite(numbers)):
        raise ValueError(f"the type {dtype} does not have all of these numbers")
    return array
