"""Loops: what does not change from round to round is taken out of them."""

from __future__ import annotations

from collections.abc import Iterator

from intaglio.errors import IntaglioError
from intaglio.ir.build import Builder, infer_node, infer_types
from intaglio.ir.dim import symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.requirements import recording
from intaglio.ir.resize import type_symbols
from intaglio.ir.types import SequenceType, TensorType
from intaglio.ops.control import seen
from intaglio.passes.driver import Event, Outcome, Stays, infer_graph, nothing_stays, remove_dead, replace_value
from intaglio.passes.match import produced


def simplify_loops(graph: Graph, stays: Stays = nothing_stays) -> Outcome:
    """Take unchanged states, work that is the same in each round and sequences that only grow out of loops.

    A loop that `stays` is left alone.
    """
    outcome = Outcome()
    for each, node in [(each, node) for each, node in _loops(graph) if not stays(node)]:
        for step in (_capture_unchanged, _hoist, _stack_sequences):
            outcome.applied += [Event(rule, node.origin.path or place) for rule, place in step(graph, each, node)]
    if outcome.has_changes:
        infer_graph(graph)
    return outcome


Found = Iterator[tuple[str, str]]
"""What was rewritten: the name of the rewrite and the value at which it was."""


def _loops(graph: Graph) -> Iterator[tuple[Graph, Node]]:
    """The loops with the graphs that they stand in, inner ones first."""
    for node in graph.nodes:
        for _, inner in node.op.subgraphs():
            yield from _loops(inner)
        if node.op.name in ("Loop", "Scan") and not node.op.domain:
            yield graph, node


def _state_places(node: Node) -> list[tuple[int, int, int, int]]:
    """Of each state: its places among the inputs of node and body, and among the outputs of body and node."""
    skipped, first = (2, 1) if node.op.name == "Loop" else (0, 0)
    count = len(node.op.body.inputs) - (2 if skipped else node.op.num_scan_inputs)
    return [(skipped + i, skipped + i, first + i, i) for i in range(count)]


def _origin(value: Value) -> Value:
    """The value of which this is a copy."""
    while (copy := produced(value, "Identity")) is not None:
        value = copy.input
    return value


def _capture_unchanged(model: Graph, graph: Graph, node: Node) -> Found:
    """A state that each round gives on as it is, is its first value, which the body reads from outside."""
    del graph
    body: Graph = node.op.body
    for given, inner, returned, result in reversed(_state_places(node)):
        initial, state = node.inputs[given], body.inputs[inner]
        if initial is None or _origin(body.outputs[returned]) is not state or len(node.outputs) == 1:
            continue
        output = node.outputs[result]
        state.replace_uses(initial)
        if output.uses:
            replace_value(model, output, _named(model, node, output, initial))
        _drop_state(node, given, inner, returned, result)
        yield "capture-unchanged-state", f"%{state.name}"


def _named(model: Graph, node: Node, output: Value, initial: Value) -> Value:
    """What stands for a loop's output: a copy where the model returns it, whose name stays."""
    if not any(user is model for user, _ in output.uses):
        return initial
    assert node.graph is not None
    return Builder(node.graph, node, node.origin).Identity(initial)


def _drop_state(node: Node, given: int, inner: int, returned: int, result: int) -> None:
    body: Graph = node.op.body
    unread = [body.outputs[returned], node.inputs[given]]
    del body.inputs[inner]
    body.set_outputs(value for place, value in enumerate(body.outputs) if place != returned)
    node.set_inputs([value for place, value in enumerate(node.inputs) if place != given])
    node.outputs = tuple(value for place, value in enumerate(node.outputs) if place != result)
    node.op = node.op.changed(output_count=len(node.outputs))
    remove_dead([value.producer for value in unread if value is not None and value.producer is not None])


def _hoist(model: Graph, graph: Graph, node: Node) -> Found:
    """Work that reads only what stands outside of a loop is done before it."""
    del model
    body: Graph = node.op.body
    inside = set(body.values())
    for each in list(body.nodes):
        if inside.isdisjoint(value for value in each.inputs if value is not None) and _is_certain(each):
            body._unlink(each)  # pyright: ignore[reportPrivateUsage]
            graph.insert(each, node)
            inside.difference_update(each.outputs)
            yield "hoist", f"%{each.outputs[0].name}"


def _is_certain(node: Node) -> bool:
    """Whether a node cannot fail, whatever the data and the sizes are, and has no sizes of its own."""
    if not node.op.never_fails or not node.inputs:
        return False
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    if any(not isinstance(value.type, TensorType) or value.type.shape is None for value in values):
        return False
    if any(value.dtype.kind == "string" for value in values):
        return False
    brought = {name for value in node.inputs if value is not None for name in _symbols(value)}
    if any(not type_symbols(value.type) <= brought for value in node.outputs):
        return False
    try:
        with recording() as open_requirements:
            infer_types(node.op, node.inputs, len(node.outputs), node.outputs[0].name)
    except IntaglioError:
        return False
    return not open_requirements


def _symbols(value: Value) -> set[str]:
    """The symbols in the sizes and the contents of a value."""
    return seen(Graph(), [value])


def _stack_sequences(model: Graph, graph: Graph, node: Node) -> Found:
    """A sequence to which each round appends one tensor, and which is joined behind the loop, is a stacked output.

    Along the axis on which they are joined, the tensors must have one size; along others they must have it anyway.
    """
    for given, inner, returned, result in reversed(_state_places(node)):
        state, output = node.op.body.inputs[inner], node.outputs[result]
        element = _appended(node, given, inner, returned)
        joins = [
            user for user, _ in output.uses if isinstance(user, Node) and produced(user.output, "ConcatFromSequence")
        ]
        if element is None or not joins or len(joins) != len(output.uses):
            continue
        shared = seen(node.op.body, node.inputs)
        if not all(_has_one_size(element, join.op.axis, bool(join.op.new_axis), shared) for join in joins):
            continue
        stack = _add_stack(node, element)
        for join in joins:
            assert join.graph is not None
            builder = Builder(join.graph, join, join.origin)
            replace_value(model, join.output, _joined(builder, stack, join.op.axis, bool(join.op.new_axis)))
            join.graph.remove(join)
        _drop_state(node, given, inner, returned, result)
        yield "stack-sequence", f"%{state.name}"


def _appended(node: Node, given: int, inner: int, returned: int) -> Value | None:
    """The tensor that each round appends to an empty sequence, where it does nothing else with it."""
    body: Graph = node.op.body
    state, insert = body.inputs[inner], produced(body.outputs[returned], "SequenceInsert")
    is_empty = produced(node.inputs[given], "SequenceEmpty") is not None
    if not isinstance(state.type, SequenceType) or not is_empty or insert is None or len(insert.output.uses) != 1:
        return None
    if list(state.uses) != [(insert, 0)] or insert.optional(2) is not None or insert.graph is not body:
        return None
    element = insert.needed(1)
    return element if isinstance(element.type, TensorType) and element.type.shape is not None else None


def _has_one_size(element: Value, axis: int, has_new_axis: bool, shared: set[str]) -> bool:
    """Whether a tensor has the same size in each round along the axis on which those of all rounds are joined."""
    if has_new_axis:
        return -element.rank - 1 <= axis <= element.rank
    return -element.rank <= axis < element.rank and symbols(element.shape[axis]) <= shared


def _add_stack(node: Node, element: Value) -> Value:
    """A new output of a loop that stacks what each round has."""
    assert node.graph is not None
    body: Graph = node.op.body
    body.set_outputs([*body.outputs, element])
    stack = Value(node.graph.unique_name(f"{element.name}_all"), element.type, node)
    node.outputs = (*node.outputs, stack)
    node.op = node.op.changed(output_count=len(node.outputs))
    infer_node(node)
    return stack


def _joined(b: Builder, stack: Value, axis: int, has_new_axis: bool) -> Value:
    """The elements of a stack joined along one of their axes, or along a new one."""
    rank = stack.rank - 1
    place = axis % (rank + has_new_axis)
    order = [*range(1, place + 1), 0, *range(place + 1, rank + 1)]
    moved = b.Transpose(stack, perm=tuple(order)) if place else stack
    if has_new_axis:
        return moved if moved is not stack else b.Identity(stack)
    size = b.Mul(b.Shape(moved, start=place, end=place + 1), b.Shape(moved, start=place + 1, end=place + 2))
    around = [b.Shape(moved, start=0, end=place)] if place else []
    around += [size, *([b.Shape(moved, start=place + 2)] if place + 2 < rank + 1 else [])]
    target = b.Concat(*around, axis=0) if len(around) > 1 else size
    return b.Reshape(moved, target, allowzero=1)
