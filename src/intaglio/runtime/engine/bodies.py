"""The subgraphs of control flow, each compiled: the host decides which runs and how often, its body is native."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from intaglio.errors import GraphError, ShapeError, UnsupportedError
from intaglio.ir.build import infer_node
from intaglio.ir.clone import clone_with_values
from intaglio.ir.dim import Dim, Expr, Symbol, lone_atom, symbol, symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType, Type
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.deadline import Deadline


def close_body(body: Graph) -> tuple[Graph, list[Value]]:
    """A copy of a body in which the outer values that it reads are inputs behind its own, and those values."""
    captured = [value for value in body.captures() if value.constant is None]
    graph, values = clone_with_values(body)
    named: dict[Dim, Dim] = {}
    for value in graph.inputs:
        value.type = _with_lone_symbols(value, named)
    for value in captured:
        inner = values[value]
        inner.default = None
        inner.type = _with_own_symbols(inner)
        graph.open(inner)
    _forget_unbound(graph)
    for node in graph.nodes:
        infer_node(node)
    return graph, captured


def _forget_unbound(graph: Graph) -> None:
    """Take from the inputs what they are known to hold where sizes stand in it that no shape of an input brings."""
    shapes = [value.type.shape or () for value in graph.inputs if isinstance(value.type, TensorType)]
    bound = {atom.name for shape in shapes for dim in shape if isinstance(atom := lone_atom(dim), Symbol)}
    for value in graph.inputs:
        items = [] if value.contents is None else value.contents.ravel().tolist()
        if any(isinstance(item, Expr) and not symbols(item) <= bound for item in items):
            value.contents = None


def _with_lone_symbols(value: Value, named: dict[Dim, Dim]) -> Type:
    """The value's type with a symbol in place of each expression, the same for the same, so that inputs bind it."""
    if not isinstance(value.type, TensorType) or value.type.shape is None:
        return value.type
    for axis, dim in enumerate(value.type.shape):
        if isinstance(dim, Expr) and not isinstance(lone_atom(dim), Symbol):
            named.setdefault(dim, symbol(f"{value.name}.{axis}"))
    return value.type.with_shape(tuple(named.get(dim, dim) for dim in value.type.shape))


def _with_own_symbols(value: Value) -> Type:
    """The value's type with a symbol for each dimension that is not a number, so that the input itself binds it."""
    if not isinstance(value.type, TensorType) or value.type.shape is None:
        return value.type
    own = [symbol(f"{value.name}.{axis}") for axis in range(value.rank)]
    dims = zip(value.type.shape, own, strict=True)
    return value.type.with_shape(tuple(dim if isinstance(dim, int) else fresh for dim, fresh in dims))


class Bodies:
    """Engines for the subgraphs of one node; `make` builds the engine of a closed body.

    A body that cannot be typed for the sizes at hand is never taken in a right model; it is left to the reference
    engine, which says what is wrong if it is taken all the same.
    """

    def __init__(self, node: Node, make: Callable[[Graph], Any]) -> None:
        self._engines: dict[int, tuple[Any, list[Value]]] = {}
        for _, body in node.op.subgraphs():
            with contextlib.suppress(ShapeError, GraphError, UnsupportedError):
                graph, captured = close_body(body)
                self._engines[id(body)] = make(graph), captured

    @property
    def engines(self) -> list[Any]:
        """The engines, for compiling and loading them with the model's."""
        return [engine for engine, _ in self._engines.values()]

    def runner(
        self, known: Mapping[Value, Any], deadline: Deadline | None
    ) -> Callable[[Graph, Sequence[Any]], list[Any]]:
        """What evaluates a body for `interpret`: `run(graph, arrays)`."""

        def run(body: Graph, inputs: Sequence[Any]) -> list[Any]:
            if id(body) not in self._engines:
                return evaluate(body, inputs, known, None if deadline is None else deadline.check)
            engine, captured = self._engines[id(body)]
            return engine.run([*inputs, *(known[value] for value in captured)], deadline)

        return run
