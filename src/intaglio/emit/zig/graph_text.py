"""A graph as one anonymous struct of Zig, in ONNX's own names and as `zig fmt` prints it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intaglio.ir.dtype import DType
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Array, Tensor
from intaglio.ir.types import OptionalType, SequenceType, TensorType, Type
from intaglio.onnx.opsets import given_attributes
from intaglio.onnx.types import is_made_up
from intaglio.onnx.write_types import dim_text

INLINE = 16
"""Constants of at most this many elements are written out."""

ALIGNMENT = 64
"""Constants in the file of weights begin at multiples of this."""

INDENT = "    "

_ELEMENTS = {"float32": "FLOAT", "float64": "DOUBLE"}
_KEYWORDS = frozenset({"align", "allowzero", "and", "async", "error", "export", "test", "union", "var"})
_SKIPPED = frozenset({"type"})
"""Attributes that say what the types of values say too."""


def string(text: str) -> str:
    """A string literal of printable ASCII characters.

    >>> print(string('a"b\\n'))
    "a\\x22b\\x0a"
    """
    data = text.encode("utf-8", "surrogateescape")
    return (
        '"' + "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in data) + '"'
    )


def element_name(dtype: DType) -> str:
    """An element type as ONNX calls it."""
    return _ELEMENTS.get(dtype.name, dtype.name.upper())


def number(value: Any) -> str:
    """A number as a literal."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    single = float(value)
    if math.isnan(single):
        return "std.math.nan(f32)"
    if math.isinf(single):
        return f"{'-' if single < 0 else ''}std.math.inf(f32)"
    text = repr(single) if isinstance(value, np.float64) else str(np.float32(single))
    return text if any(char in text for char in ".e") else f"{text}.0"


def items(texts: Iterable[str]) -> str:
    """Texts as a tuple on one line."""
    found = list(texts)
    if len(found) <= 1:
        return f".{{{''.join(found)}}}"
    return f".{{ {', '.join(found)} }}"


def field_name(name: str) -> str:
    """The name of an attribute as that of a field."""
    return f'@"{name}"' if name in _KEYWORDS else name


def fields(pairs: Iterable[tuple[str, str]]) -> str:
    """Named fields on one line."""
    inside = ", ".join(f".{field_name(name)} = {text}" for name, text in pairs)
    return f".{{ {inside} }}" if inside else ".{}"


def type_text(type: Type) -> str:
    """A type as ONNX writes it."""
    if isinstance(type, TensorType):
        inside = [("elem_type", f".{element_name(type.dtype)}")]
        if type.shape is not None:
            inside.append(("shape", items(map(_size, type.shape))))
        return fields([("tensor_type", fields(inside))])
    kind = "sequence_type" if isinstance(type, SequenceType) else "optional_type"
    assert isinstance(type, (SequenceType, OptionalType))
    return fields([(kind, fields([("elem_type", type_text(type.element))]))])


def _size(size: Any) -> str:
    if isinstance(size, int):
        return str(size)
    text = dim_text(size)
    return string("?" if is_made_up(text) else text)


@dataclass
class GraphText:
    """Prints a graph, and collects the constants that go into the file of weights."""

    arrays: list[tuple[int, Array]] = field(default_factory=list)
    size: int = 0
    _names: dict[Value, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def lines(self, graph: Graph) -> list[str]:
        """The definition of the constant `graph`."""
        text = list(self._graph(graph, graph.constants()))
        return ["pub const graph = .{", *text, "};"]

    def name(self, value: Value) -> str:
        """The name of a value, which no other value of the model has."""
        if value not in self._names:
            self._names[value] = self._unique(value.name)
        return self._names[value]

    def _unique(self, name: str) -> str:
        base = name.replace("\x00", "?") or "value"
        found, count = base, 1
        while found in self._taken:
            count += 1
            found = f"{base}_{count}"
        self._taken.add(found)
        return found

    def _graph(self, graph: Graph, constants: Sequence[Value]) -> Iterator[str]:
        yield f"{INDENT}.name = {string(graph.name)},"
        yield from self._list("input", [self._info(value) for value in graph.inputs])
        yield from self._list("initializer", [self._initializer(value) for value in constants])
        own = {value for node in graph.nodes for value in node.outputs}
        copies = self._copies(graph, own)
        outputs = [self._output(value, name) for value, name in zip(graph.outputs, copies, strict=True)]
        yield from self._list("output", outputs)
        ends = {value for value, copy in zip(graph.outputs, copies, strict=True) if copy is None}
        between = [value for node in graph.nodes for value in node.outputs if value not in ends]
        yield from self._list("value_info", [self._info(value) for value in between])
        yield f"{INDENT}.node = .{{" if own or any(copies) else f"{INDENT}.node = .{{}},"
        for node in graph.nodes:
            yield from indented(indented(self._node(node)))
        for value, copy in zip(graph.outputs, copies, strict=True):
            if copy is not None:
                yield from indented(indented(self._identity(value, copy)))
        if own or any(copies):
            yield f"{INDENT}}},"

    def _copies(self, graph: Graph, own: set[Value]) -> list[str | None]:
        """New names for outputs that repeat or that no node of the graph gives."""
        found: list[str | None] = []
        seen: set[Value] = set()
        for value in graph.outputs:
            found.append(self._unique(value.name) if value in seen or value not in own else None)
            seen.add(value)
        return found

    def _list(self, name: str, entries: Sequence[str]) -> Iterator[str]:
        if not entries:
            yield f"{INDENT}.{name} = .{{}},"
            return
        yield f"{INDENT}.{name} = .{{"
        for entry in entries:
            yield f"{INDENT}{INDENT}{entry},"
        yield f"{INDENT}}},"

    def _info(self, value: Value) -> str:
        return fields([("name", string(self.name(value))), ("type", type_text(value.type))])

    def _output(self, value: Value, copy: str | None) -> str:
        return fields([("name", string(copy or self.name(value))), ("type", type_text(value.type))])

    def _initializer(self, value: Value) -> str:
        array = value.constant
        assert array is not None
        parts = [
            ("name", string(self.name(value))),
            ("data_type", f".{element_name(value.dtype)}"),
            ("dims", items(map(str, array.shape))),
        ]
        if is_written_out(array, value.dtype):
            return fields([*parts, ("data", items(map(element, array.ravel())))])
        return fields([*parts, ("offset", str(self._place(array)))])

    def _place(self, array: Array) -> int:
        """Where an array begins in the file; one without bytes takes no place, which might lie behind the last byte."""
        if not array.nbytes:
            return 0
        start = -(-self.size // ALIGNMENT) * ALIGNMENT
        self.arrays.append((start, array))
        self.size = start + array.nbytes
        return start

    def _identity(self, value: Value, copy: str) -> list[str]:
        return self._fields("", "Identity", "", [self.name(value)], [copy], [])

    def _node(self, node: Node) -> list[str]:
        op = node.op
        given = ["" if value is None else self.name(value) for value in node.inputs]
        made = [self.name(value) for value in node.outputs]
        attributes = [(name, value) for name, value in given_attributes(op).items() if name not in _SKIPPED]
        name = node.origin.path.removesuffix(f" ({op.name})")
        return self._fields(name, op.name, op.domain, given, made, attributes)

    def _fields(
        self, name: str, op: str, domain: str, given: list[str], made: list[str], attributes: list[tuple[str, Any]]
    ) -> list[str]:
        lines = [".{", f"{INDENT}.name = {string(name)},", f"{INDENT}.op_type = {string(op)},"]
        lines += [f"{INDENT}.domain = {string(domain)},"] if domain else []
        lines += [f"{INDENT}.input = {items(map(string, given))},", f"{INDENT}.output = {items(map(string, made))},"]
        return [*lines, *indented(self._attributes(attributes)), "},"]

    def _attributes(self, attributes: list[tuple[str, Any]]) -> list[str]:
        if not any(isinstance(value, Graph) for _, value in attributes):
            return [f".attribute = {fields((name, attribute_text(value)) for name, value in attributes)},"]
        lines = [".attribute = .{"]
        for name, value in attributes:
            if isinstance(value, Graph):
                lines += indented([f".{field_name(name)} = .{{", *self._graph(value, []), "},"])
            else:
                lines.append(f"{INDENT}.{field_name(name)} = {attribute_text(value)},")
        return [*lines, "},"]


def attribute_text(value: Any) -> str:
    """An attribute that is no graph."""
    if isinstance(value, (tuple, list)):
        return items(attribute_text(each) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, Tensor):
        return element(value.array.reshape(-1)[0])
    return string(value) if isinstance(value, str) else number(value)


def element(item: Any) -> str:
    """An element of a constant; one of a type that Zig lacks as its bits."""
    if isinstance(item, str):
        return string(item)
    if type(item).__module__.startswith("ml_dtypes"):
        return _narrow(item)
    return number(item)


def _narrow(item: Any) -> str:
    array = np.asarray(item)
    if "int" in array.dtype.name:
        return str(int(item))
    return str(int(array.view(np.uint16 if array.itemsize == 2 else np.uint8)))


def is_written_out(array: Array, dtype: DType) -> bool:
    """Whether the elements of a constant stand in the source."""
    if dtype.kind == "string":
        return True
    is_plain = dtype.is_integer or dtype.kind == "bool" or dtype.name == "float32"
    is_finite = dtype.name != "float32" or bool(np.isfinite(array).all())
    return is_plain and is_finite and 0 < array.size <= INLINE


def indented(lines: Iterable[str]) -> Iterator[str]:
    """Lines one level deeper."""
    return (f"{INDENT}{line}" for line in lines)
