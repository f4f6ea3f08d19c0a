"""Statements in Python, built node by node, with what each reads and gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from intaglio.emit.names import Names, identifier
from intaglio.emit.pythonic.functions import Library
from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir.dim import Dim, DimFunction, Expr, Symbol, lone_atom
from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import known, known_integers
from intaglio.ops.shared.window import Window

INLINE = 8
"""Integer constants of at most this many elements are written out."""

INDENT = "    "


class UnprintableError(UnsupportedError):
    """A node that a language has no words for, as it is; its expansion may have."""


Printer: TypeAlias = "Callable[[Site], str | None]"
"""An expression for the outputs of a node; None where the printer wrote statements itself."""


@dataclass
class Statement:
    """Lines of source, the values that they read and those that they give."""

    lines: list[str]
    reads: set[Value]
    gives: tuple[Value, ...] = ()
    scope: str = ""
    note: str = ""
    is_kept: bool = False


@dataclass
class Language:
    """How to say nodes and constants: printers by domain and operator, the functions that they may call."""

    printers: Mapping[tuple[str, str], Printer]
    library: Library
    constant: Callable[[Value, Writer], str]
    array: Callable[[str, DType], str]
    dtype: Callable[[DType], str]
    reserved: frozenset[str] = frozenset()


@dataclass
class Writer:
    """The statements of one function."""

    language: Language
    names: Names
    texts: dict[Value, str] = field(default_factory=dict)
    symbols: dict[str, tuple[str, Value]] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    reads: set[Value] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)

    def declare(self, value: Value, hint: str | None = None) -> str:
        """Give a value a name of its own, and note the sizes that are known from now on."""
        name = self.names.give(identifier(value_hint(value) if hint is None else hint))
        self.texts[value] = name
        self.bind(value)
        return name

    def bind(self, value: Value) -> None:
        """Note the sizes that a value tells."""
        if not isinstance(value.type, TensorType) or value.type.shape is None:
            return
        for axis, size in enumerate(value.type.shape):
            atom = lone_atom(size)
            if isinstance(atom, Symbol) and atom.name not in self.symbols:
                self.symbols[atom.name] = f"{self.texts[value]}.shape[{axis}]", value

    def read(self, value: Value) -> str:
        """How a value is spelled where it is read."""
        if value.constant is not None:
            return self.language.constant(value, self)
        if value not in self.texts:
            raise UnprintableError(f"%{value.name} is not computed here")
        self.reads.add(value)
        return self.texts[value]

    def size(self, size: Dim) -> str:
        """A dimension as an expression; raises UnprintableError where it has a symbol that nothing tells."""
        if not isinstance(size, Expr):
            return str(size)
        parts = [self._term(monomial, factor) for monomial, factor in size.terms]
        return " + ".join(parts).replace("+ -", "- ")

    def _term(self, monomial: Sequence[Any], factor: int) -> str:
        atoms = " * ".join(self._atom(atom) for atom in monomial)
        if not monomial:
            return str(factor)
        return atoms if factor == 1 else f"-{atoms}" if factor == -1 else f"{factor} * {atoms}"

    def _atom(self, atom: Symbol | DimFunction) -> str:
        if isinstance(atom, Symbol):
            if atom.name not in self.symbols:
                raise UnprintableError(f"no input has the size {atom.name}")
            text, value = self.symbols[atom.name]
            self.reads.add(value)
            return text
        left, right = self.size(atom.left), self.size(atom.right)
        match atom.function:
            case "floordiv":
                return f"(({left}) // ({right}))"
            case "mod":
                return f"(({left}) % ({right}))"
            case "broadcast":
                return f"({left} if {right} == 1 else {right})"
            case function:
                return f"{function}({left}, {right})"

    def sizes(self, sizes: Iterable[Dim]) -> str:
        """Dimensions as a tuple."""
        items = [self.size(size) for size in sizes]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"

    def add(self, lines: Sequence[str], gives: Sequence[Value] = (), *, is_kept: bool = False, note: str = "") -> None:
        """Add a statement that reads what was read since the last one."""
        self.statements.append(Statement(list(lines), self.reads, tuple(gives), note=note, is_kept=is_kept))
        self.reads = set()

    def nested(self) -> Writer:
        """A writer for a part of the function: it sees all names, and what it learns of sizes it keeps to itself."""
        return Writer(self.language, self.names, self.texts, dict(self.symbols), [], self.used, set(), self.imports)


_NUMBERED = re.compile(r"[A-Z][A-Za-z]*_\d+_output_\d+(_\d+)*")
"""Names that say no more than which operator came how late in some file."""


def value_hint(value: Value) -> str:
    """What of a value's name is worth keeping: the part behind scopes, without what exporters append."""
    last = value.name.rstrip("/").rpartition("/")[2] or value.name
    if value.producer is not None and _NUMBERED.fullmatch(last):
        return snake(value.producer.op.name)
    for suffix in ("_output_0", ":0"):
        last = last.removesuffix(suffix)
    producer = value.producer
    if producer is None:
        return last
    name, _, number = last.rpartition("_")
    if len(last) > 40 or last.isdigit() or last == producer.op.name or (number.isdigit() and name == producer.op.name):
        return snake(producer.op.name)
    return last


def snake(name: str) -> str:
    """The name of an operator as one of a variable.

    >>> snake("LayerNormalization"), snake("GatherND")
    ('layer_normalization', 'gather_nd')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def quoted(text: str) -> str:
    """A text as a literal of ASCII characters, in double quotes where it has none itself."""
    shown = ascii(text)
    return shown if '"' in shown or "\\" in shown else f'"{shown[1:-1]}"'


@dataclass
class Site:
    """A node to be printed, and what printers ask about it."""

    node: Node
    writer: Writer

    @property
    def op(self) -> Op:
        """The operator with its attributes."""
        return self.node.op

    def has(self, position: int) -> bool:
        """Whether an operand is there."""
        return self.node.optional(position) is not None

    def value(self, position: int) -> Value:
        """An operand that must be there."""
        found = self.node.optional(position)
        if found is None:
            raise UnprintableError(f"{self.op.name} without its operand {position}")
        return found

    def x(self, position: int) -> str:
        """How an operand is spelled."""
        return self.writer.read(self.value(position))

    def optional(self, position: int) -> str:
        """How an operand is spelled that may be absent."""
        return self.x(position) if self.has(position) else "None"

    def terms(self) -> list[str]:
        """All operands of an elementwise node; constants of one element as numbers, where that changes no type."""
        values = [value for value in self.node.inputs if value is not None]
        rank = self.node.output.tensor.shape
        others = [value for value in values if not _is_number(value)]
        ranks = [value.tensor.shape for value in others]
        plain = bool(others) and rank is not None and all(shape is not None for shape in ranks)
        plain = plain and max(len(shape or ()) for shape in ranks) == len(rank or ())
        return [number(value) if plain and _is_number(value) else self.writer.read(value) for value in values]

    def ints(self, position: int) -> list[int]:
        """The numbers in an operand that must be known."""
        found = known_integers(self.value(position))
        if found is None:
            raise UnprintableError(f"operand {position} of {self.op.name} is not known before the run")
        return found

    def dims(self, position: int) -> list[Dim] | None:
        """The sizes in an operand where they are known."""
        return known(self.value(position))

    def rank(self, position: int = 0) -> int:
        """The rank of an operand, which must be known."""
        value = self.value(position)
        if not isinstance(value.type, TensorType) or value.type.shape is None:
            raise UnprintableError(f"the rank of {value.name} is not known before the run")
        return value.rank

    def listing(self, position: int) -> str:
        """The integers in an operand: written out where they are known, else the operand as a list."""
        sizes = self.dims(position)
        if sizes is not None:
            try:
                return self.writer.sizes(sizes)
            except UnprintableError:
                pass
        return f"{self.x(position)}.tolist()"

    def dtype(self, dtype: DType) -> str:
        """How an element type is spelled."""
        return self.writer.language.dtype(dtype)

    def call(self, function: str, *arguments: str, **named: Any) -> str:
        """A call of a function of the library, which the module then holds."""
        self.writer.used.add(function)
        given = [*arguments, *(f"{name}={_shown(value)}" for name, value in named.items() if value is not None)]
        return f"{function}({', '.join(given)})"

    def shape(self, value: Value) -> str:
        """The sizes of a value as a tuple."""
        if not isinstance(value.type, TensorType) or value.type.shape is None:
            raise UnprintableError(f"the rank of {value.name} is not known before the run")
        return self.writer.sizes(value.type.shape)


def _shown(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else ascii(value)


def _is_number(value: Value) -> bool:
    """Whether a constant can be written as a number without changing the type of what it is computed with."""
    constant = value.constant
    return constant is not None and constant.size == 1 and is_plain(constant)


def is_plain(array: Array) -> bool:
    """Whether an array holds numbers of a type that NumPy itself has."""
    return array.dtype.kind in "fiub" and not from_numpy(array.dtype).is_narrow


def number(value: Value) -> str:
    """The one element of a constant as a literal."""
    assert value.constant is not None
    text = literal(value.constant.reshape(()))
    return f"({text})" if text.startswith("-") else text


def has_literal_shape(array: Array) -> bool:
    """Whether nested lists tell the shape of an array: without elements, no axis behind an empty one is seen."""
    return 0 not in array.shape[:-1]


def literal(array: Array) -> str:
    """The elements of an array as numbers in nested lists, each the shortest text that means it."""
    if array.ndim:
        return f"[{', '.join(literal(np.asarray(item, array.dtype)) for item in array)}]"
    item = array[()]
    if array.dtype.kind == "b":
        return str(bool(item))
    if array.dtype.kind in "iu":
        return str(int(item))
    if array.dtype.kind == "O":
        return quoted(str(item))
    if not np.isfinite(item):
        return f'float("{float(item)}")'
    text = repr(float(item)) if array.dtype.itemsize == 8 else str(item)
    if abs(float(text)) > float(np.finfo(array.dtype).max):
        text = repr(float(item))  # the shortest text of the largest number is a little larger than it
    return text if any(char in text for char in ".en") else f"{text}.0"


def write_graph(graph: Graph, writer: Writer) -> None:
    """Add the statements of all nodes of a graph."""
    for node in graph.nodes:
        write_node(node, writer)


def write_node(node: Node, writer: Writer) -> None:
    """Add the statements of a node; raises UnprintableError where there are no words for it."""
    before = len(writer.statements)
    if not _write_sizes(node, writer):
        printer = writer.language.printers.get((node.op.domain, node.op.name))
        if printer is None:
            raise UnprintableError(f"{node.op.name} has no words")
        try:
            text = printer(Site(node, writer))
        except ShapeError as error:
            raise UnprintableError(str(error)) from None
        if text is not None:
            left = ", ".join(writer.declare(value) if value.uses else "_" for value in node.outputs)
            writer.add([f"{left} = {text}"], node.outputs, note=str(node.outputs[0].type))
    scope = ".".join(scope.name for scope in node.origin.scopes)
    for statement in writer.statements[before:]:
        statement.scope = scope


def _write_sizes(node: Node, writer: Writer) -> bool:
    """Write integers that are known as expressions over sizes, in place of the arithmetic that finds them."""
    if node.op.is_random or not all(_has_sizes(value) for value in node.outputs):
        return False
    try:
        texts = [sizes_text(value, writer) for value in node.outputs]
    except UnprintableError:
        writer.reads = set()
        return False
    for value, text in zip(node.outputs, texts, strict=True):
        reads = writer.reads
        name = writer.declare(value)
        writer.add([f"{name} = {writer.language.array(text, value.dtype)}"], [value], note=str(value.type))
        writer.reads = set(reads)
    writer.reads = set()
    return True


def _has_sizes(value: Value) -> bool:
    contents = value.contents
    return contents is not None and contents.size <= 2 * INLINE


def sizes_text(value: Value, writer: Writer) -> str:
    """The elements of a value as expressions over sizes, in nested lists."""

    def text(items: Any) -> str:
        if isinstance(items, np.ndarray) and items.ndim:
            return f"[{', '.join(text(item) for item in items)}]"
        item = items.item() if isinstance(items, np.ndarray) else items
        return str(item) if isinstance(item, bool) else writer.size(item)

    return text(value.contents)


def needed(statements: Sequence[Statement], outputs: Iterable[Value]) -> list[Statement]:
    """The statements that outputs need, in order."""
    wanted, kept = set(outputs), list[Statement]()
    for statement in reversed(statements):
        if statement.is_kept or not wanted.isdisjoint(statement.gives):
            kept.append(statement)
            wanted |= statement.reads
    return kept[::-1]


def indented(lines: Iterable[str]) -> list[str]:
    """Lines one level deeper."""
    return [f"{INDENT}{line}" if line else "" for line in lines]


def lines_of(statements: Sequence[Statement]) -> list[str]:
    """The lines of statements one after the other."""
    return [line for statement in statements for line in statement.lines]


WIDTH = 108
"""Lines are broken where they are longer; functions add a margin of their own."""


def wrapped(line: str) -> list[str]:
    """A line, or several where it is too long and holds a bracket whose items can stand one below the other."""
    if len(line) <= WIDTH or line.lstrip().startswith("#"):
        return [line]
    margin = line[: len(line) - len(line.lstrip())]
    start = next((place for place, char in _outside_texts(line) if _is_open(line, place, char)), None)
    if start is None:
        return [line]
    last = line.rindex({"(": ")", "[": "]"}[line[start]])
    inside = [part for item in _items(line[start + 1 : last]) for part in wrapped(f"{margin}{INDENT}{item},")]
    return [line[: start + 1], *inside, f"{margin}{line[last:]}"]


def _is_open(line: str, place: int, char: str) -> bool:
    """Whether a call or a list begins here that ends with the line."""
    is_joined = place > 0 and (line[place - 1].isalnum() or line[place - 1] in "_])")
    return ((char == "(" and is_joined) or (char == "[" and not is_joined)) and _ends_line(line, place)


def _ends_line(line: str, start: int) -> bool:
    """Whether a bracket is closed by the last character of the line."""
    depth = 0
    for place, char in _outside_texts(line):
        depth += (char in "([{") - (char in ")]}") if place >= start else 0
        if place >= start and depth == 0:
            return place == len(line) - 1 or line[place + 1 :] == ","
    return False


def _items(text: str) -> list[str]:
    """The items between a pair of brackets."""
    found, depth, begin = list[str](), 0, 0
    for place, char in _outside_texts(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            found.append(text[begin:place].strip())
            begin = place + 1
    return [*found, text[begin:].strip()] if text[begin:].strip() else found


def _outside_texts(line: str) -> Iterator[tuple[int, str]]:
    """The characters that are in no string literal."""
    quote, is_escaped = "", False
    for place, char in enumerate(line):
        if quote:
            if char == quote and not is_escaped:
                quote = ""
            is_escaped = char == "\\" and not is_escaped
        elif char in "\"'":
            quote = char
        else:
            yield place, char


def conv_windows(site: Site) -> tuple[Window, ...]:
    """The windows of a convolution; the rank of its input may be open, where its sizes decide no pads."""
    x, weight = site.value(0), site.value(1)
    if weight.tensor.shape is None:
        raise UnprintableError("a convolution of unknown rank")
    kernel = weight.shape[2:]
    if x.tensor.shape is None and site.op.auto_pad.startswith("SAME"):
        raise UnprintableError("a convolution whose pads follow from sizes that are not known")
    return site.op.windows(kernel if x.tensor.shape is None else x.shape[2:], kernel)
