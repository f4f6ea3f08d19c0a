"""The reference engine: a graph evaluated node by node in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from intaglio.errors import IntaglioError, LimitError, OperatorError, ShapeError
from intaglio.ir.build import RunBody, Runner, constant_value, infer_types, set_runner, type_of
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.limits import current, most_bytes
from intaglio.ir.types import TensorType
from intaglio.ir.verify import is_compatible

Watch = Callable[[Node], None]
"""Called before each node and before each round of a node with subgraphs; it may raise to stop the evaluation."""


def evaluate(
    graph: Graph, inputs: Sequence[Any], outer: Mapping[Value, Any] | None = None, watch: Watch | None = None
) -> list[Any]:
    """The graph's outputs for its inputs, in order; `outer` holds the values that a subgraph reads from outside."""
    return evaluate_values(graph, inputs, graph.outputs, outer, watch)


def evaluate_values(
    graph: Graph,
    inputs: Sequence[Any],
    wanted: Sequence[Value],
    outer: Mapping[Value, Any] | None = None,
    watch: Watch | None = None,
) -> list[Any]:
    """Like `evaluate`, for any values of the graph."""
    known: dict[Value, Any] = dict(outer or {})
    known.update(zip(graph.inputs, inputs, strict=True))
    last_reader = _last_readers(graph, wanted)
    for node in graph.nodes:
        if watch is not None:
            watch(node)
        results = run_node(node, known, watch)
        _check_rule(node, known)
        known.update(zip(node.outputs, results, strict=False))
        for value in last_reader.get(node, ()):
            known.pop(value, None)
    return [_read(value, known) for value in wanted]


def _check_rule(node: Node, known: Mapping[Value, Any]) -> None:
    """Raise ShapeError where a node computed what its type rule forbids: sizes that it did not know before the run."""
    values = [value for value in node.inputs if value is not None]
    if node.op.has("interpret") or all(_is_settled(value) for value in values):
        return
    arrays = [None if value is None else _read(value, known) for value in node.inputs]
    if any(isinstance(array, (list, dict)) for array in arrays):
        return
    operands = [None if array is None else constant_value(array) for array in arrays]
    try:
        infer_types(node.op, operands, len(node.outputs), node.outputs[0].name)
    except ShapeError as error:
        raise ShapeError(f"{describe(node)}: {error}") from None


def _is_settled(value: Value) -> bool:
    """Whether the shape of a value was known before the run."""
    return isinstance(value.type, TensorType) and value.type.is_static


def _last_readers(graph: Graph, wanted: Sequence[Value]) -> dict[Node, list[Value]]:
    """The values of this graph that nobody needs after each node."""
    kept = set(wanted) | set(graph.inputs)
    last: dict[Value, Node] = {}
    for node in graph.nodes:
        for value in (*node.inputs, *node.captures(), *node.outputs):
            if value is not None and value.producer is not None and value.producer.graph is graph:
                last[value] = node
    result: dict[Node, list[Value]] = {}
    for value, node in last.items():
        if value not in kept:
            result.setdefault(node, []).append(value)
    return result


def _read(value: Value, known: Mapping[Value, Any]) -> Any:
    return value.constant if value.constant is not None else known[value]


def run_node(
    node: Node, known: Mapping[Value, Any], watch: Watch | None = None, run_body: RunBody | None = None
) -> tuple[Any, ...]:
    """One node's outputs; errors gain the node's path and the shapes that it met."""
    arrays = [None if value is None else _read(value, known) for value in node.inputs]
    try:
        with np.errstate(all="ignore"):
            if node.op.has("interpret"):
                run = run_body or _subgraph_runner(node, known, watch)
                result = node.op.interpret(Runner(_counted(run, node), known), *arrays)
            else:
                result = node.op.reference(*arrays)
    except (OperatorError, ShapeError) as error:
        raise type(error)(f"{describe(node)}: {error}") from None
    except LimitError as error:
        is_own = isinstance(error, _RoundsError) and error.node is node
        raise LimitError(str(error) if is_own else f"{describe(node)}: {error}") from None
    except IntaglioError:
        raise
    except MemoryError as error:
        shapes = ", ".join(_shape_text(array) for array in arrays)
        raise LimitError(f"{describe(node)} needs more memory for ({shapes}) than there is: {error}") from error
    except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError) as error:
        shapes = ", ".join(_shape_text(array) for array in arrays)
        raise OperatorError(f"{describe(node)} cannot take ({shapes}): {error}") from error
    results = result if isinstance(result, tuple) else (result,)
    if node.op.host_reason:
        _check_results(node, results)
    _check_sizes(node, results)
    return tuple(_as_array(item) for item in results[: len(node.outputs)])


def _check_results(node: Node, results: Sequence[Any]) -> None:
    """Raise OperatorError where a user's function breaks the operator's type rule, on which compiled code relies."""
    if len(results) < len(node.outputs):
        raise OperatorError(f"{describe(node)} gave {len(results)} results, expected {len(node.outputs)}")
    for value, result in zip(node.outputs, results, strict=False):
        if not isinstance(value.type, TensorType):
            continue
        is_right = isinstance(result, np.ndarray) and is_compatible(type_of(result), value.type)
        if not is_right:
            raise OperatorError(f"{describe(node)} gave {_shape_text(result)} for %{value.name}: {value.type}")


def _check_sizes(node: Node, results: Sequence[Any]) -> None:
    limit = most_bytes()
    for result in results:
        if isinstance(result, np.ndarray) and result.nbytes > limit:
            text = f"{describe(node)} makes {_shape_text(result)} of {result.nbytes} bytes"
            raise LimitError(f"{text}; the limit on memory is {limit}")


class _RoundsError(LimitError):
    """A loop runs too many rounds."""

    def __init__(self, node: Node, limit: int) -> None:
        super().__init__(f"{describe(node)} runs more than {limit} rounds, the limit on loop_iterations")
        self.node = node


def _counted(run: RunBody, node: Node) -> RunBody:
    """A runner of bodies that stops a loop after too many rounds."""
    limit, rounds = current().loop_iterations, 0

    def counted(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        nonlocal rounds
        rounds += 1
        if rounds > limit:
            raise _RoundsError(node, limit)
        return run(graph, inputs)

    return counted


def _subgraph_runner(node: Node, known: Mapping[Value, Any], watch: Watch | None) -> RunBody:
    def run(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        if watch is not None:
            watch(node)
        return evaluate(graph, inputs, known, watch)

    return run


def _as_array(item: Any) -> Any:
    return item if item is None or isinstance(item, (np.ndarray, list, dict)) else np.asarray(item)


def _shape_text(array: Any) -> str:
    if isinstance(array, np.ndarray):
        return f"{array.dtype}{list(array.shape)}"
    return "nothing" if array is None else type(array).__name__


def describe(node: Node) -> str:
    """The operator and the path of the ONNX node that it came from."""
    return f"{node.op.name} at {node.origin}" if node.origin else node.op.name


set_runner(evaluate)
