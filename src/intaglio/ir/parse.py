"""The reader of graphs as text; `intaglio.ir.text` describes the form."""

from __future__ import annotations

import base64
import binascii
import difflib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NoReturn, cast

import numpy as np

from intaglio.errors import GraphError, IntaglioError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import infer_types, set_contents
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import DTYPES, DType
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import OPERATORS, Array, Op, Tensor, is_required, single
from intaglio.ir.origin import UNKNOWN, Origin
from intaglio.ir.text import from_elements, read_number
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type

NESTING_LIMIT = 64
"""Graphs, types and dimensions nested deeper than this are refused."""

_TOKEN = re.compile(
    r"""(?P<space>(?:\s+|\#[^\n]*)+)
    |(?P<value>%(?:[A-Za-z0-9_./-]+|(?="|')))
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+))
    |(?P<word>[A-Za-z_][A-Za-z0-9_.]*)
    |(?P<sign>->|::|\.\.\.|[-+*(){}\[\],:;=@])""",
    re.VERBOSE | re.DOTALL,
)


def read_graph(text: str, stored: Sequence[Array] = ()) -> Graph:
    """The graph that `format_graph` printed; raises GraphError with line, column and what was expected."""
    reader = _Reader(text, stored)
    graph = reader.graph(None)
    if reader.kind != "end":
        reader.fail("the end of the text")
    return graph


def read_type(text: str) -> Type:
    """The type that a text such as `float32[N, 3]` spells; raises GraphError with the place of what is wrong.

    >>> read_type("seq(float32[2*N, 3])")
    SequenceType(element=TensorType(dtype=float32, shape=(2*N, 3)))
    """
    reader = _Reader(text)
    found = reader.type()
    if reader.kind != "end":
        reader.fail("the end of the type")
    return found


class _Reader:
    """A recursive-descent parser; `kind` and `token` are those of the next token."""

    def __init__(self, text: str, stored: Sequence[Array] = ()) -> None:
        self.stored = stored
        self.text = text
        self.values: dict[str, Value] = {}
        self.origins: dict[tuple[str, int, bool], Origin] = {}
        self.depth = 0
        self.position = self.start = 0
        self.kind = self.token = ""
        self.advance()

    def advance(self) -> str:
        """Step over the next token and return it."""
        passed = self.token
        while True:
            self.start = self.position
            found = _TOKEN.match(self.text, self.position)
            if found is None:
                self.kind, self.token = ("end", "") if self.position == len(self.text) else ("", self.text[self.start])
                return passed
            self.position = found.end()
            if found.lastgroup != "space":
                self.kind, self.token = cast("str", found.lastgroup), found.group()
                return passed

    def fail(self, expected: str, at: int | None = None) -> NoReturn:
        """Raise GraphError at the next token."""
        got = "the end of the text" if self.kind == "end" else repr(self.token[:40])
        self.error(f"expected {expected}, got {got}", at)

    def error(self, message: str, at: int | None = None) -> NoReturn:
        """Raise GraphError with the line, and a caret below the place."""
        place = self.start if at is None else at
        begin = self.text.rfind("\n", 0, place) + 1
        line = self.text.count("\n", 0, place) + 1
        shown = self.text[max(begin, place - 80) : place + 40].split("\n")[0]
        caret = " " * (place - max(begin, place - 80)) + "^"
        raise GraphError(f"line {line}, column {place - begin + 1}: {message}\n  {shown}\n  {caret}")

    def accept(self, token: str) -> bool:
        """Step over `token` if it is the next one."""
        if self.token != token or self.kind == "string":
            return False
        self.advance()
        return True

    def expect(self, token: str) -> None:
        """Step over `token`, which must be the next one."""
        if not self.accept(token):
            self.fail(repr(token))

    def listing(self, item: Callable[[], Any], end: str) -> list[Any]:
        """Items between commas up to the closing sign."""
        found: list[Any] = []
        while not self.accept(end):
            found.append(item())
            if not self.accept(","):
                self.expect(end)
                break
        return found

    def nested(self, inner: Callable[[], Any]) -> Any:
        """Guard against nesting that would exhaust the stack."""
        self.depth += 1
        if self.depth > NESTING_LIMIT:
            self.error(f"nested deeper than {NESTING_LIMIT} levels")
        try:
            return inner()
        finally:
            self.depth -= 1

    def string(self) -> str:
        """A quoted text."""
        if self.kind != "string":
            self.fail("a quoted text")
        try:
            return _unescape(self.advance()[1:-1])
        except (KeyError, ValueError, OverflowError):
            self.error("an escape in this text is unknown")

    def word(self, expected: str) -> str:
        """An identifier."""
        if self.kind != "word":
            self.fail(expected)
        return self.advance()

    def name(self) -> str:
        """A value's name behind its percent sign."""
        if self.kind != "value":
            self.fail("a value such as %x")
        plain = self.advance()[1:]
        return plain or self.string()

    # Graphs and nodes.

    def graph(self, outer: Graph | None) -> Graph:
        """graph "name" (inputs) -> (outputs) { statements }"""
        self.expect("graph")
        graph = Graph(self.string(), outer)
        self.expect("(")
        graph.inputs.extend(self.listing(lambda: self.input(graph), ")"))
        self.expect("->")
        self.expect("(")
        outputs = self.listing(lambda: (self.start, self.name()), ")")
        self.expect("{")
        while not self.accept("}"):
            self.statement(graph)
        graph.set_outputs([self.look_up(name, place) for place, name in outputs])
        return graph

    def define(self, graph: Graph, name: str, type: Type, place: int, constant: Array | None = None) -> Value:
        """A value with a name that must be new."""
        if name in self.values:
            self.error(f"%{name} is defined twice", place)
        value = Value(graph.unique_name(name), type, constant=constant)
        self.values[name] = value
        return value

    def look_up(self, name: str, place: int) -> Value:
        """A value that is defined already."""
        if name not in self.values:
            near = difflib.get_close_matches(name, self.values, 1)
            hint = f"; did you mean %{near[0]}?" if near else ""
            self.error(f"%{name} is not defined before it is read{hint}", place)
        return self.values[name]

    def input(self, graph: Graph) -> Value:
        """%x: type, or %x: type = default"""
        place, name = self.start, self.name()
        self.expect(":")
        value = self.define(graph, name, self.type(), place)
        if self.accept("="):
            value.default = self.array(value.type)
        return value

    def statement(self, graph: Graph) -> None:
        """A line of a graph's body."""
        if self.accept("doc"):
            graph.doc = self.string()
        elif self.accept("metadata"):
            key = self.string()
            self.expect("=")
            graph.metadata[key] = self.string()
        else:
            self.definition(graph)

    def definition(self, graph: Graph) -> None:
        """A constant, an outer value or a node."""
        targets = [self.target()]
        while self.accept(","):
            targets.append(self.target())
        self.expect("=")
        place, name, type = targets[0]
        if len(targets) == 1 and type is not None and self.token in ("{", "base64", "stored", "literal"):
            is_literal = self.accept("literal")
            array = self.array(type)
            self.define(graph, name, type, place, array).is_literal = bool(is_literal)
        elif len(targets) == 1 and type is not None and self.accept("outer"):
            self.define(graph, name, type, place)
        else:
            self.node(graph, targets)

    def target(self) -> tuple[int, str, Type | None]:
        """%x, or %x: type"""
        place, name = self.start, self.name()
        return place, name, self.type() if self.accept(":") else None

    def node(self, graph: Graph, targets: list[tuple[int, str, Type | None]]) -> None:
        """Operator(inputs; attributes), with an origin behind it or not"""
        place = self.start
        cls = self.operator()
        self.expect("(")
        inputs: list[Value | None] = []
        while self.token not in (")", ";"):
            inputs.append(self.operand(graph))
            if not self.accept(","):
                break
        attributes: dict[str, Any] = {}
        if self.accept(";"):
            attributes = dict(self.listing(lambda: self.keyword(cls, graph), ")"))
        else:
            self.expect(")")
        origin = self.origin() if self.accept("@") else UNKNOWN
        self.append(graph, self.make(cls, attributes, len(targets), place), inputs, targets, origin, place)

    def origin(self) -> Origin:
        """ "path" 2 again: the second node with this path, computed once more"""
        path, number = self.string(), int(self.advance()) if self.kind == "number" and self.token.isdigit() else 1
        is_recomputed = self.accept("again")
        return self.origins.setdefault((path, number, is_recomputed), Origin(path, is_recomputed=is_recomputed))

    def operator(self) -> type[Op]:
        """An operator's name, behind its domain if it has one."""
        place = self.start
        first = self.string() if self.kind == "string" else self.word("an operator")
        domain, name = (first, self.word("an operator")) if self.accept("::") else ("", first)
        cls = OPERATORS.get((domain, name))
        if cls is None:
            near = difflib.get_close_matches(name, [known for _, known in OPERATORS], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"there is no operator {name!r}{f' in {domain!r}' if domain else ''}{hint}", place)
        return cls

    def operand(self, graph: Graph) -> Value | None:
        """%x, _ or a constant with its type."""
        if self.accept("_"):
            return None
        if self.kind == "word":
            type = self.type()
            array = self.array(type)
            value = Value(graph.unique_name("constant"), type, constant=array)
            self.values[value.name] = value
            return value
        place = self.start
        return self.look_up(self.name(), place)

    def keyword(self, cls: type[Op], graph: Graph) -> tuple[str, Any]:
        """attribute=value"""
        place, name = self.start, self.word("an attribute")
        known = [field.name for field in fields(cls)]  # pyright: ignore[reportArgumentType]
        if name not in known:
            self.error(f"{cls.__name__} has no attribute {name!r}; it has {', '.join(known) or 'none'}", place)
        self.expect("=")
        place = self.start
        value = self.nested(lambda: self.graph(graph)) if self.token == "graph" else self.attribute()
        if cls.is_single(name) and _overflows(value):
            self.error("this number is too large for single precision", place)
        return name, value

    def make(self, cls: type[Op], attributes: dict[str, Any], outputs: int, place: int) -> Op:
        """The operator; every attribute without a default must be there."""
        missing = [field.name for field in cls.attributes() if is_required(field) and field.name not in attributes]
        if missing:
            self.error(f"{cls.__name__} needs the attribute {missing[0]!r}", place)
        if cls.variadic_outputs:
            attributes.setdefault("output_count", outputs)
        return cls(**attributes)

    def append(
        self,
        graph: Graph,
        op: Op,
        inputs: list[Value | None],
        targets: list[tuple[int, str, Type | None]],
        origin: Origin,
        place: int,
    ) -> None:
        """Add the node; the types that were left out are inferred."""
        types = [type for _, _, type in targets]
        if any(type is None for type in types):
            try:
                inferred = infer_types(op, inputs, len(targets), targets[0][1])
            except IntaglioError as error:
                self.error(str(error), place)
            types = [given or found for given, found in zip(types, inferred, strict=True)]
        node = Node(op, inputs, origin)
        node.outputs = tuple(
            self.define(graph, name, cast("Type", type), at) for (at, name, _), type in zip(targets, types, strict=True)
        )
        for value in node.outputs:
            value.producer = node
        set_contents(node)
        graph.insert(node)

    # Attributes, types, dimensions and arrays.

    def attribute(self) -> Any:
        """Any attribute value but a graph."""
        if self.kind == "string":
            return self.string()
        if self.accept("["):
            return tuple(self.nested(lambda: self.listing(self.attribute, "]")))
        keywords: dict[str, Callable[[], Any]] = {
            "none": lambda: None,
            "true": lambda: True,
            "false": lambda: False,
            "tensor": self.tensor,
            "bytes": self.bytes,
            "dtype": self.dtype,
            "dim": self.dim,
            "type": self.type,
        }
        if self.kind == "word" and self.token in keywords:
            return keywords[self.advance()]()
        return self.number()

    def number(self) -> Any:
        """An integer or a float, nan and inf included; true and false where they stand in a tensor."""
        place, sign = self.start, "-" if self.accept("-") else ""
        if self.kind != "number" and self.token not in ("nan", "inf", "true", "false"):
            self.fail("a number")
        is_spelled_out = self.kind == "number"
        try:
            number = read_number(sign + self.advance())
        except ValueError:
            self.error("this number has too many digits", place)
        if is_spelled_out and isinstance(number, float) and math.isinf(number):
            self.error("this number is too large for double precision", place)
        return number

    def tensor(self) -> Tensor:
        """A tensor attribute: type and elements."""
        return Tensor(self.array(self.type()))

    def bytes(self) -> bytes:
        """Bytes in base64."""
        place = self.start
        try:
            return base64.b64decode(self.string(), validate=True)
        except binascii.Error:
            self.error("this is not base64", place)

    def dtype(self) -> DType:
        """An element type."""
        place, name = self.start, self.word("an element type")
        if name not in DTYPES:
            near = difflib.get_close_matches(name, DTYPES, 1)
            self.error(f"there is no element type {name!r}{f'; did you mean {near[0]}?' if near else ''}", place)
        return DTYPES[name]

    def type(self) -> Type:
        """dtype[dims], dtype[...], seq(type), optional(type) or map(dtype, type)"""
        if self.token in ("seq", "optional"):
            kind = SequenceType if self.advance() == "seq" else OptionalType
            self.expect("(")
            element = self.nested(self.type)
            self.expect(")")
            return kind(element)
        if self.accept("map"):
            self.expect("(")
            key = self.dtype()
            self.expect(",")
            element = self.nested(self.type)
            self.expect(")")
            return MapType(key, element)
        dtype = self.dtype()
        self.expect("[")
        if self.accept("..."):
            self.expect("]")
            return TensorType(dtype, None)
        return TensorType(dtype, tuple(self.listing(self.dim, "]")))

    def dim(self) -> Dim:
        """A sum of products."""
        total = self.dim_term()
        while self.token in ("+", "-"):
            total = total + self.dim_term() if self.advance() == "+" else total - self.dim_term()
        return total

    def dim_term(self) -> Dim:
        """A product of atoms."""
        factor = self.dim_atom()
        while self.accept("*"):
            factor = factor * self.dim_atom()
        return factor

    def dim_atom(self) -> Dim:
        """A number, a symbol or a function of two dimensions."""
        if self.accept("-"):
            return -self.nested(self.dim_atom)
        if self.kind == "number" and self.token.isdigit():
            return int(self.advance())
        if self.kind == "string":
            return dims.symbol(self.string())
        place, name = self.start, self.word("a dimension")
        if not self.accept("("):
            return dims.symbol(name)
        if name not in dims.FUNCTIONS:
            self.error(f"there is no function {name!r} of dimensions", place)
        arguments = self.nested(lambda: self.listing(self.dim, ")"))
        if len(arguments) != 2:
            self.error(f"{name} takes two dimensions", place)
        try:
            return dims.FUNCTIONS[name](*arguments)
        except ShapeError as error:
            self.error(str(error), place)

    def array(self, type: Type) -> Array:
        """The elements of a constant of the given type, in braces or base64."""
        place = self.start
        if not isinstance(type, TensorType) or not type.is_static:
            self.error(f"a constant needs a tensor type with known dimensions, not {type}", place)
        shape = cast("tuple[int, ...]", type.dims)
        try:
            return self.elements(type.dtype).reshape(shape)
        except GraphError:
            raise
        except (ValueError, OverflowError, TypeError):
            self.error(f"these elements are not those of {type}", place)

    def elements(self, dtype: DType) -> Array:
        """The elements as a flat array."""
        if self.accept("stored"):
            return self.kept(dtype)
        if self.accept("base64"):
            return np.frombuffer(self.bytes(), dtype.numpy.newbyteorder("<")).astype(dtype.numpy)
        self.expect("{")
        if dtype.kind != "string":
            return from_elements(self.listing(self.number, "}"), dtype.numpy)
        items = self.listing(lambda: self.bytes() if self.accept("bytes") else self.string(), "}")
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array

    def kept(self, dtype: DType) -> Array:
        """The array with the number that follows."""
        place, number = self.start, self.number()
        if not isinstance(number, int) or not 0 <= number < len(self.stored):
            self.error(f"there is no stored array {number}", place)
        array = self.stored[number]
        if array.dtype != dtype.numpy:
            self.error(f"the stored array {number} is {array.dtype}, not {dtype}", place)
        return array


def _overflows(value: Any) -> bool:
    """Whether a number, or one of several, is infinite in single precision and was not before."""
    items = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
    return any(isinstance(item, float) and math.isinf(single(item)) and not math.isinf(item) for item in items)


_UNESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
_UNESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code is None:
            return _UNESCAPES[match[4]]
        return chr(int(code, 16))

    return _UNESCAPE.sub(one, text)
