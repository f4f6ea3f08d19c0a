"""Values, nodes and graphs in SSA form, with uses tracked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from intaglio.errors import GraphError
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import from_numpy
from intaglio.ir.op import Array, Op
from intaglio.ir.origin import UNKNOWN, Origin, as_origin
from intaglio.ir.types import TensorType, Type

CONTENTS_LIMIT = 256
"""Integer tensors of at most this many elements carry their symbolic contents."""


class Value:
    """One value: a graph input, a node's output or a constant.

    `uses` maps each (node or graph, position) that reads the value, in order of first use; a graph reads its outputs.
    `contents` is an object array of dimensions where those of a small integer tensor are known.
    `default` is what an input takes when it is not fed. `is_literal` is for a constant that stands in a node of a
    file, and not among its weights.
    """

    FIELDS = ("name", "type", "constant", "default", "is_literal", "contents")
    """What a value is by itself: every copy has it, whether it was cloned or pickled."""

    LINKS = ("producer", "uses")
    """What ties a value to its graph: copies get their own."""

    __slots__ = ("_contents", "constant", "default", "is_literal", "name", "producer", "type", "uses")
    __array_ufunc__ = None  # so that `array + value` asks the value, not NumPy

    def __init__(self, name: str, type: Type, producer: Node | None = None, constant: Array | None = None) -> None:
        self.name = name
        self.type = type
        self.producer = producer
        self.constant = constant
        self.default: Array | None = None
        self.is_literal = False
        self.uses: dict[tuple[Node | Graph, int], None] = {}
        self._contents: Array | None = None

    def state(self) -> tuple[Any, ...]:
        """The fields of the value, in the order of `FIELDS`."""
        return self.name, self.type, self.constant, self.default, self.is_literal, self._contents

    @classmethod
    def from_state(cls, state: Sequence[Any], producer: Node | None = None) -> Value:
        """A value with the fields that `state` returned."""
        name, type, constant, default, is_literal, contents = state
        value = cls(name, type, producer, constant)
        value.default, value.is_literal, value._contents = default, is_literal, contents
        return value

    @property
    def id(self) -> str:
        """What identifies the value in its model: its name, which nothing else there has.

        Copies, pickles and texts keep it, and so does a value that takes the place of another.
        """
        return self.name

    @property
    def tensor(self) -> TensorType:
        """The type of a value that must be a tensor; raises GraphError where it is not."""
        if not isinstance(self.type, TensorType):
            raise GraphError(f"{self.name} is {self.type}, a tensor is needed here")
        return self.type

    @property
    def dtype(self) -> Any:
        """The tensor's element type."""
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The tensor's dimensions; raises ShapeError where the rank is not known."""
        return self.tensor.dims

    @property
    def rank(self) -> int:
        """The tensor's number of dimensions; raises ShapeError where it is not known."""
        return self.tensor.rank

    @property
    def contents(self) -> Array | None:
        """The elements as dimensions (an object array of the tensor's shape), where they are known."""
        if self._contents is None and self.constant is not None and _is_small_integer(self.constant):
            self._contents = self.constant.astype(object)
        return self._contents

    @contents.setter
    def contents(self, contents: Array | None) -> None:
        self._contents = contents

    @property
    def readers(self) -> list[Node]:
        """The nodes that read the value, each once, in order."""
        return list(dict.fromkeys(user for user, _ in self.uses if isinstance(user, Node)))

    @property
    def is_output(self) -> bool:
        """Whether some graph returns the value."""
        return any(isinstance(user, Graph) for user, _ in self.uses)

    def replace_uses(self, other: Value) -> None:
        """Make every reader of this value read `other` instead."""
        for user, position in list(self.uses):
            replace_use(user, position, other)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"

    def __add__(self, other: Operand) -> Value:
        return _apply("Add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return _apply("Add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return _apply("Sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return _apply("Sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return _apply("Mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return _apply("Mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return _apply("Div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return _apply("Div", other, self)

    def __pow__(self, other: Operand) -> Value:
        return _apply("Pow", self, other)

    def __rpow__(self, other: Operand) -> Value:
        return _apply("Pow", other, self)

    def __matmul__(self, other: Operand) -> Value:
        return _apply("MatMul", self, other)

    def __rmatmul__(self, other: Operand) -> Value:
        return _apply("MatMul", other, self)

    def __getitem__(self, index: Any) -> Value:
        """A part of the value, as NumPy has it: `x[1:]`, `x[..., -1]`, `x[:, None]`; inside a builder's context."""
        from intaglio.ir.build import current_builder
        from intaglio.ir.subscript import subscript

        return subscript(current_builder(), self, index)

    __iter__ = None  # Python would index a value without end to go through it
    __contains__ = None

    def __neg__(self) -> Value:
        return _apply("Neg", self)

    def __lt__(self, other: Operand) -> Value:
        return _apply("Less", self, other)

    def __le__(self, other: Operand) -> Value:
        return _apply("LessOrEqual", self, other)

    def __gt__(self, other: Operand) -> Value:
        return _apply("Greater", self, other)

    def __ge__(self, other: Operand) -> Value:
        return _apply("GreaterOrEqual", self, other)


def _is_small_integer(array: Array) -> bool:
    return array.dtype.kind in "iub" and array.size <= CONTENTS_LIMIT


Operand: TypeAlias = Value | float | int | bool | Sequence[Any] | Array


def _apply(operator: str, *operands: Operand) -> Value:
    from intaglio.ir.build import current_builder

    return getattr(current_builder(), operator)(*operands)


class Node:
    """An operator applied to values. `origin` tells which ONNX node it came from."""

    FIELDS = ("op", "origin")
    """What a node is by itself: every copy has it."""

    LINKS = ("inputs", "outputs", "graph", "next", "previous")
    """What ties a node to its graph: copies get their own."""

    __slots__ = ("_inputs", "graph", "next", "op", "origin", "outputs", "previous")

    def __init__(self, op: Op, inputs: Sequence[Value | None], origin: Origin | str = UNKNOWN) -> None:
        self.op = op
        self._inputs: list[Value | None] = []
        self.outputs: tuple[Value, ...] = ()
        self.origin = as_origin(origin)
        self.graph: Graph | None = None
        self.previous: Node | None = None
        self.next: Node | None = None
        for position, value in enumerate(inputs):
            self._inputs.append(None)
            self.set_input(position, value)

    @property
    def id(self) -> str:
        """What identifies the node in its model: the name of its first output; empty where it has none."""
        return self.outputs[0].name if self.outputs else ""

    @property
    def is_recomputed(self) -> bool:
        """Whether the node is there to compute a value once more; it is not merged with the one that does so first."""
        return self.origin.is_recomputed

    @property
    def inputs(self) -> tuple[Value | None, ...]:
        """The operands; None stands for an optional input that is absent."""
        return tuple(self._inputs)

    @property
    def input(self) -> Value:
        """The first operand, which must be there."""
        return self.needed(0)

    def needed(self, position: int) -> Value:
        """The operand at a position, which must be there."""
        value = self._inputs[position]
        assert value is not None
        return value

    def optional(self, position: int) -> Value | None:
        """The operand at a position, None where it is absent."""
        return self._inputs[position] if position < len(self._inputs) else None

    @property
    def output(self) -> Value:
        """The first output."""
        return self.outputs[0]

    def set_input(self, position: int, value: Value | None) -> None:
        """Replace one operand and keep the uses right."""
        old = self._inputs[position]
        if old is not None:
            del old.uses[(self, position)]
        self._inputs[position] = value
        if value is not None:
            value.uses[(self, position)] = None

    def set_inputs(self, inputs: Sequence[Value | None]) -> None:
        """Replace all operands, also by more or fewer."""
        for position in range(len(self._inputs)):
            self.set_input(position, None)
        self._inputs = [None] * len(inputs)
        for position, value in enumerate(inputs):
            self.set_input(position, value)

    def captures(self) -> list[Value]:
        """Outer values that the node's subgraphs read, each once, constants included."""
        found: dict[Value, None] = {}
        for _, graph in self.op.subgraphs():
            found.update(dict.fromkeys(graph.captures()))
        return list(found)

    def __repr__(self) -> str:
        return f"{self.op.name}({', '.join('' if v is None else '%' + v.name for v in self._inputs)})"


def replace_use(user: Node | Graph, position: int, value: Value) -> None:
    """Make one reader read another value: a node as the operand at a position, a graph as the output there."""
    if isinstance(user, Graph):
        user.set_output(position, value)
    else:
        user.set_input(position, value)


class Nodes:
    """The nodes of a graph in order: they can be counted, and gone through while the graph changes."""

    __slots__ = ("_graph",)

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return len(self._graph)

    def __bool__(self) -> bool:
        return self._graph.first is not None

    def __iter__(self) -> Iterator[Node]:
        node = self._graph.first
        while node is not None:
            following = node.next
            yield node
            node = following if node.graph is None else node.next

    def __reversed__(self) -> Iterator[Node]:
        node = self._graph.last
        while node is not None:
            following = node.previous
            yield node
            node = following if node.graph is None else node.previous

    def __repr__(self) -> str:
        return f"<{len(self)} nodes>"


class Graph:
    """Inputs, outputs and nodes in an order in which each value is defined before it is read.

    Nodes are added and removed only through methods. A subgraph shares the name table of its outer graph, so that all
    names in a model are unique.
    """

    def __init__(self, name: str = "graph", outer: Graph | None = None) -> None:
        self.name = name
        self.doc: str = ""
        self.metadata: dict[str, str] = {}
        self.inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._first: Node | None = None
        self._last: Node | None = None
        self._length = 0
        self.names: dict[str, int] = outer.names if outer is not None else {}

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        from intaglio.ir.text import format_graph

        return self is other or (isinstance(other, Graph) and format_graph(self) == format_graph(other))

    def __str__(self) -> str:
        """The graph for people, weights as shapes; `intaglio.ir.text.format_graph` prints all of it."""
        from intaglio.ir.text import summary

        return summary(self)

    def __repr__(self) -> str:
        from intaglio.ir.text import signature

        return f"<Graph {signature(self)}, {len(self)} nodes>"

    def _repr_html_(self) -> str:
        """The graph as a table, for notebooks."""
        from intaglio.ir.html import graph_html

        return graph_html(self)

    def unique_name(self, hint: str) -> str:
        """A name that nothing in the model has yet: `hint` itself, or `hint` with a number behind it."""
        name = hint
        while name in self.names:
            self.names[hint] += 1
            name = f"{hint}_{self.names[hint]}"
        self.names[name] = 0
        return name

    def add_input(self, name: str, type: Type) -> Value:
        """A new input behind the others."""
        value = Value(self.unique_name(name), type)
        self.inputs.append(value)
        return value

    def constant(self, array: Array, name: str = "constant") -> Value:
        """A new value that holds `array`."""
        array = np.asarray(array)
        return Value(self.unique_name(name), TensorType(from_numpy(array.dtype), array.shape), constant=array)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that the graph returns."""
        return tuple(self._outputs)

    def set_outputs(self, outputs: Iterable[Value]) -> None:
        """Replace all outputs."""
        for position, value in enumerate(self._outputs):
            del value.uses[(self, position)]
        self._outputs = list(outputs)
        for position, value in enumerate(self._outputs):
            value.uses[(self, position)] = None

    def set_output(self, position: int, value: Value) -> None:
        """Replace the output at `position`."""
        outputs = list(self._outputs)
        outputs[position] = value
        self.set_outputs(outputs)

    def open(self, value: Value) -> Value:
        """Make an input of a constant, or of a value that was defined outside, behind the other inputs; returns it.

        Raises GraphError for a value that is an input already, or that a node of this graph computes.
        """
        if value in self.inputs or (value.producer is not None and value.producer.graph is self):
            raise GraphError(f"{value!r} cannot become an input: it is one, or a node of the graph computes it")
        if value.constant is not None:
            value.contents = None  # those of the constant
        value.constant = value.producer = None
        self.inputs.append(value)
        return value

    def close(self, value: Value, array: Array) -> None:
        """Make a constant that holds `array` of an input; raises GraphError for a value that is no input."""
        if value not in self.inputs:
            raise GraphError(f"{value!r} is no input of the graph, and cannot become a constant")
        self.inputs = [each for each in self.inputs if each is not value]
        value.constant, value.default = array, None

    @property
    def nodes(self) -> Nodes:
        """The nodes in order; the current node may be removed and others inserted while iterating."""
        return Nodes(self)

    def __len__(self) -> int:
        return self._length

    @property
    def first(self) -> Node | None:
        """The first node."""
        return self._first

    @property
    def last(self) -> Node | None:
        """The last node."""
        return self._last

    def insert(self, node: Node, before: Node | None = None) -> None:
        """Put a node before another, or at the end."""
        after = before.previous if before is not None else self._last
        node.graph, node.previous, node.next = self, after, before
        if after is None:
            self._first = node
        else:
            after.next = node
        if before is None:
            self._last = node
        else:
            before.previous = node
        self._length += 1

    def remove(self, node: Node) -> None:
        """Take out a node whose outputs nobody reads; raises GraphError naming the readers otherwise."""
        for value in node.outputs:
            if value.uses:
                readers = ", ".join(repr(user) if isinstance(user, Node) else "the graph" for user, _ in value.uses)
                raise GraphError(f"cannot remove {node!r}: its output {value!r} is read by {readers}")
        node.set_inputs(())
        self._drop_subgraph_uses(node)
        self._unlink(node)

    def detach(self, node: Node) -> None:
        """Take out a node whose outputs other nodes compute now (see `build.take_place`): they lose it, and stay."""
        node.outputs = ()
        self.remove(node)

    def move(self, node: Node, before: Node | None) -> None:
        """Put a node of this graph at another place."""
        self._unlink(node)
        self.insert(node, before)

    def _unlink(self, node: Node) -> None:
        if node.previous is None:
            self._first = node.next
        else:
            node.previous.next = node.next
        if node.next is None:
            self._last = node.previous
        else:
            node.next.previous = node.previous
        node.graph = None
        self._length -= 1

    def _drop_subgraph_uses(self, node: Node) -> None:
        for _, graph in node.op.subgraphs():
            graph.set_outputs(())
            for inner in reversed(list(graph.nodes)):
                graph.remove(inner)

    def all_nodes(self) -> Iterator[Node]:
        """The nodes of this graph and of all subgraphs, each before those inside it."""
        stack = [iter(self.nodes)]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            yield node
            stack.extend(iter(graph.nodes) for _, graph in node.op.subgraphs())

    def captures(self) -> list[Value]:
        """Values that nodes in here read although they are defined outside, constants included."""
        inside: set[Value] = set(self.inputs)
        found: dict[Value, None] = {}
        for node in self.nodes:
            reads = [value for value in node.inputs if value is not None] + node.captures()
            found.update((value, None) for value in reads if value not in inside)
            inside.update(node.outputs)
        found.update((value, None) for value in self._outputs if value not in inside)
        return list(found)

    def constants(self) -> list[Value]:
        """All constant values that this graph and its subgraphs read, each once, in order of first use."""
        found: dict[Value, None] = {}
        for node in self.all_nodes():
            found.update((v, None) for v in node.inputs if v is not None and v.constant is not None)
            for _, graph in node.op.subgraphs():
                found.update((v, None) for v in graph.outputs if v.constant is not None)
        found.update((v, None) for v in self._outputs if v.constant is not None)
        return list(found)

    def values(self) -> Iterator[Value]:
        """Inputs and node outputs in order, those of subgraphs aside."""
        yield from self.inputs
        for node in self.nodes:
            yield from node.outputs
