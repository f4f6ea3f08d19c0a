"""If, Loop and Scan as control flow of the driver: blocks of actions, with state that passes from round to round.

Sizes that a subgraph finds out belong to symbols, which are variables of the driver; a value whose size changes from
round to round has symbols of its own for it, and memory that is allocated anew in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from intaglio.ir.dim import Dim, compare, maximum, product, symbol, symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.context import Context
from intaglio.kernels.elements import is_computable
from intaglio.kernels.plan import (
    FAULT,
    Action,
    Allocate,
    Branch,
    Call,
    Check,
    Fill,
    Grow,
    Move,
    Operand,
    Pair,
    Repeat,
    Settle,
    Swap,
    operands_of,
    walk,
)
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import Buffer, View, whole
from intaglio.ops.shared.indices import known, resolve_axis

LowerBody = Callable[[Graph], object]
"""Emits the actions of a subgraph into the block under way."""

CONTROL = ("If", "Loop", "Scan")


def refuse_control(node: Node) -> Refusal | None:
    """Why a node's own values (its subgraphs aside) cannot be handled in C, or None."""
    bodies = [graph for _, graph in node.op.subgraphs()]
    values = [*node.inputs, *node.outputs, *(v for graph in bodies for v in (*graph.inputs, *graph.outputs))]
    for value in values:
        if value is None:
            continue
        if not isinstance(value.type, TensorType):
            return Refusal(Cause.ELEMENTS, f"{value.name} is {value.type}, which is not a tensor")
        if value.type.shape is None:
            return Refusal(Cause.SHAPE, f"the rank of {value.name} is not known before the run")
        if not is_computable(value.dtype):
            return Refusal(Cause.ELEMENTS, f"{value.dtype} is not compiled")
    flags = [product(value.shape) for value in _flags(node) if value is not None]
    if any(compare(size, 1) in (-1, 1) or (size != 1 and node.op.name != "If") for size in flags):
        return Refusal(Cause.FORM, "a condition or a count that may have more than one element is not compiled")
    return _refuse_sizes(node)


def _flags(node: Node) -> Sequence[Value | None]:
    """The values that decide what runs."""
    if node.op.name == "If":
        return node.inputs[:1]
    return [*node.inputs[:2], node.op.body.outputs[0]] if node.op.name == "Loop" else []


def _refuse_sizes(node: Node) -> Refusal | None:
    if node.op.name == "If":
        return None
    inner, returned, _ = _carried(node)
    for value, result in zip(inner, returned, strict=True):
        if value.rank != result.rank or value.dtype != result.dtype:
            return Refusal(Cause.FORM, f"{value.name} changes its rank or type from round to round")
    return None


def body_symbols(node: Node, bound: set[str]) -> set[str]:
    """The symbols that the control flow itself binds inside a node's subgraphs."""
    found: set[str] = set()
    for _, graph in node.op.subgraphs():
        for value in graph.inputs:
            found |= {name for dim in value.shape for name in symbols(dim)} - bound
    return found if node.op.name == "If" else found | {_counter(node)}


def _counter(node: Node) -> str:
    return f"{node.outputs[0].name}:rounds"


def lower_control(context: Context, node: Node, lower_body: LowerBody) -> None:
    """Emit the actions of If, Loop or Scan."""
    if node.op.name == "If":
        _lower_if(context, node, lower_body)
    else:
        _Rounds(context, node).lower(lower_body)


def _lower_if(context: Context, node: Node, lower_body: LowerBody) -> None:
    condition = node.inputs[0]
    assert condition is not None
    size = product(condition.shape)
    if size != 1:
        title = f"the condition of If -> {node.outputs[0].name} is one element"
        context.emit(Check([(size, 1)], FAULT, nodes=(node,), title=title))
    view = context.contiguous(condition)
    wanted = [value for value in node.outputs if value.uses or value.is_output]
    unbound = {value: context.unbound(value) for value in wanted}
    results = {value: _result_buffer(context, value, bool(unbound[value])) for value in wanted}
    blocks = [_branch_block(context, node, graph, results, unbound, lower_body) for graph in _branches(node)]
    title = f"If -> {node.outputs[0].name}"
    context.emit(Branch(Operand(view.buffer, view.offset), blocks[0], blocks[1], nodes=(node,), title=title))
    context.declare(list(dict.fromkeys(name for axes in unbound.values() for _, name in axes)))
    context.views.update((value, whole(buffer, value.shape)) for value, buffer in results.items())


def _branches(node: Node) -> tuple[Graph, Graph]:
    return node.op.then_branch, node.op.else_branch


def _result_buffer(context: Context, value: Value, is_late: bool) -> Buffer:
    """Memory for what either branch gives; each allocates it where only it knows the size."""
    if not is_late:
        return context.temporary(value.dtype, value.tensor.size, value.name, value.shape)
    buffer = context.late_buffer(value.dtype, value.tensor.size, value.name)
    context.adopt(buffer)
    return buffer


def _branch_block(
    context: Context,
    node: Node,
    graph: Graph,
    results: dict[Value, Buffer],
    unbound: dict[Value, list[tuple[int, str]]],
    lower_body: LowerBody,
):
    outer = context.begin_block()
    lower_body(graph)
    given = dict(zip(node.outputs, graph.outputs, strict=True))
    views = {value: context.view(given[value]) for value in results}
    sizes = {name: views[value].shape[axis] for value, axes in unbound.items() for axis, name in axes}
    context.assign(list(sizes.items()))
    for value, buffer in results.items():
        if unbound[value]:
            context.emit(Allocate(buffer, nodes=(node,), title=value.name))
        view = views[value]
        context.copy(given[value], view, into=whole(buffer, view.shape))
    return context.end_block(outer)


def _carried(node: Node) -> tuple[list[Value], list[Value], list[Value]]:
    """A loop's body: the inputs that carry state, the outputs that give it on, and the outputs that are stacked."""
    body, skipped = node.op.body, 1 if node.op.name == "Loop" else 0
    if node.op.name == "Loop":
        inner = list(body.inputs[2:])
    else:
        inner = list(body.inputs[: len(body.inputs) - node.op.num_scan_inputs])
    returned = body.outputs[skipped : skipped + len(inner)]
    return inner, list(returned), list(body.outputs[skipped + len(inner) :])


@dataclass
class _State:
    """A value that passes from round to round: where it lies, and the symbols that are its sizes."""

    inner: Value
    returned: Value
    output: Value
    buffer: Buffer
    own: list[tuple[int, str]]
    place: int
    """Where the actions stand that give the state its first value, in the block around the loop."""
    pair: Pair | None = None


@dataclass
class _Stack:
    """An output that has an element for each round."""

    element: Value
    output: Value
    buffer: Buffer
    axis: int
    is_reversed: bool
    rounds: str | None
    """The symbol that is the number of rounds, where only the loop tells it."""
    own: list[tuple[int, str]]
    """The axes of an element whose sizes only the loop tells."""


class _Rounds:
    """The lowering of Loop and Scan."""

    def __init__(self, context: Context, node: Node) -> None:
        self.context = context
        self.node = node
        self.counter = _counter(node)
        self.round: Dim = symbol(self.counter)
        self.is_loop = node.op.name == "Loop"

    def lower(self, lower_body: LowerBody) -> None:
        """Emit the state's beginning, the loop, and what it gives."""
        context, node = self.context, self.node
        inner, returned, elements = _carried(node)
        count = len(inner)
        initial = node.inputs[2 : 2 + count] if self.is_loop else node.inputs[:count]
        outputs = node.outputs
        rows = self._rows()
        operands = self._loop_operands()
        rest = zip(inner, returned, outputs[:count], initial, strict=True)
        self.unbound = {value: context.unbound(value) for value in (*inner, *outputs[count:])}
        growing = {name for value in outputs[count:] for _, name in self.unbound[value]}
        context.growing |= growing
        states = [self._begin_state(i, r, o, v) for i, r, o, v in rest if v is not None]
        pairs = enumerate(zip(elements, outputs[count:], strict=True))
        stacks = [self._begin_stack(place, element, output) for place, (element, output) in pairs]
        limit = operands[0] if self.is_loop else self._length()
        self.fresh = len(context.segment.arena)
        outer = context.begin_block()
        context.declare([self.counter])
        self._feed(rows, states)
        lower_body(node.op.body)
        again = self._end_round(states, stacks)
        block = context.end_block(outer)
        title = f"{node.op.name} -> {outputs[0].name}"
        for state in reversed([state for state in states if state.pair is not None]):
            assert state.pair is not None
            context.insert(state.place, state.pair)
        context.emit(
            Repeat(self.counter, limit, operands[1], again, block, self._most_rounds(), nodes=(node,), title=title)
        )
        context.growing -= growing
        self._finish(states, stacks)

    def _most_rounds(self) -> Dim | None:
        """What is known of the number of rounds before the run."""
        if not self.is_loop:
            return self._length()
        most = known(self.node.inputs[0])
        return most[0] if most else None

    def _loop_operands(self) -> tuple[Operand | None, Operand | None]:
        """The most rounds and the first condition of a Loop, as the driver reads them."""
        found: list[Operand | None] = []
        for value in self.node.inputs[:2] if self.is_loop else ():
            if value is None:
                found.append(None)
                continue
            view = self.context.contiguous(value)
            found.append(Operand(view.buffer, view.offset))
        found += [None] * (2 - len(found))
        return found[0], found[1]

    def _rows(self) -> list[View]:
        """The scanned inputs with the scanned axis in front."""
        if self.is_loop:
            return []
        op, values = self.node.op, self.node.inputs[-self.node.op.num_scan_inputs :]
        axes = op.scan_input_axes or (0,) * len(values)
        found: list[View] = []
        for value, axis in zip(values, axes, strict=True):
            assert value is not None
            place = resolve_axis(axis, value.rank)
            order = [place, *(other for other in range(value.rank) if other != place)]
            found.append(self.context.view(value).transpose(order))
        self.lengths = [view.shape[0] for view in found]
        self._check_lengths()
        return found

    def _check_lengths(self) -> None:
        title = "the scanned inputs are equally long"
        for length in dict.fromkeys(self.lengths[1:]):
            if length != self.lengths[0]:
                self.context.emit(Check([(length, self.lengths[0])], FAULT, nodes=(self.node,), title=title))

    def _length(self) -> Dim:
        return self.lengths[0]

    def _begin_state(self, inner: Value, returned: Value, output: Value, initial: Value) -> _State:
        context = self.context
        own = self.unbound[inner]
        view = context.view(initial)
        place = context.place
        buffer = self._memory(inner, [(name, view.shape[axis]) for axis, name in own])
        buffer.is_shared = bool(own)
        context.copy(initial, view, into=whole(buffer, view.shape))
        return _State(inner, returned, output, buffer, own, place)

    def _begin_stack(self, place: int, element: Value, output: Value) -> _Stack:
        op = self.node.op
        axis, is_reversed = 0, False
        if not self.is_loop:
            axis = resolve_axis(_flag(op.scan_output_axes, place), output.rank)
            is_reversed = bool(_flag(op.scan_output_directions, place))
        unbound = self.unbound[output]
        rounds = next((name for position, name in unbound if position == axis), None)
        own = [(position - (position > axis), name) for position, name in unbound if position != axis]
        first = {name: self._first_size(element.shape[position]) for position, name in own}
        buffer = self._memory(output, [(name, first.get(name, 0)) for _, name in unbound])
        buffer.shape = output.shape if buffer.is_late else ()
        return _Stack(element, output, buffer, axis, is_reversed, rounds, own)

    def _first_size(self, size: Dim) -> Dim:
        """The size that an element would have in the first round, 0 where only the round itself tells."""
        return maximum(size, 0) if self.context.is_known(size) else 0

    def _memory(self, value: Value, sizes: Sequence[tuple[str, Dim]]) -> Buffer:
        """Memory for a value before the first round; where rounds change its sizes, these are what it begins with."""
        context = self.context
        if not sizes:
            return context.temporary(value.dtype, value.tensor.size, value.name, value.shape)
        context.assign(sizes)
        buffer = context.late_buffer(value.dtype, value.tensor.size, value.name)
        context.adopt(buffer)
        context.emit(Allocate(buffer, nodes=(self.node,), title=value.name))
        return buffer

    def _feed(self, rows: list[View], states: list[_State]) -> None:
        """Give the body's inputs their places for a round."""
        context, body = self.context, self.node.op.body
        context.views.update((state.inner, whole(state.buffer, state.inner.shape)) for state in states)
        if self.is_loop:
            self._fill(body.inputs[0], self.round)
            self._fill(body.inputs[1], 1)
            return
        directions = self.node.op.scan_input_directions
        for place, (value, view) in enumerate(zip(body.inputs[len(states) :], rows, strict=True)):
            index = view.shape[0] - 1 - self.round if _flag(directions, place) else self.round
            context.views[value] = _element(view, 0, index)

    def _fill(self, value: Value, item: Dim) -> None:
        if value.uses or value.is_output:
            view = self.context.allocate(value)
            self.context.emit(Fill(Operand(view.buffer, 0, True), (item,), nodes=(self.node,), title=value.name))

    def _end_round(self, states: list[_State], stacks: list[_Stack]) -> Operand | None:
        """Stack the elements, give the states on, and find where the condition for another round lies."""
        context = self.context
        returned = {context.view(state.returned).buffer for state in states}
        for stack in stacks:
            self._push(stack, returned)
        buffers = {state.buffer for state in states}
        sources = {state.inner: self._apart(state.returned, state, buffers) for state in states}
        kept = self._kept(states, sources)
        again = self._again(buffers | set(kept.values()))
        moves: list[tuple[Buffer, Buffer]] = []
        for state in states:
            view = sources[state.inner]
            if state.own:
                fresh = context.late_buffer(state.inner.dtype, product(view.shape), state.inner.name)
                context.adopt(fresh)
                context.emit(Allocate(fresh, nodes=(self.node,), title=state.inner.name))
                context.copy(state.returned, view, into=whole(fresh, view.shape))
                moves.append((fresh, state.buffer))
            elif state.inner not in kept and view != whole(state.buffer, state.inner.shape):
                context.copy(state.returned, view, into=whole(state.buffer, view.shape))
        for source, target in moves:
            context.emit(Move(source, target, nodes=(self.node,)))
        for state in states:
            if state.inner in kept:
                self._keep(state, kept[state.inner])
        context.assign([(name, sources[state.inner].shape[axis]) for state in states for axis, name in state.own])
        return again

    def _kept(self, states: list[_State], sources: dict[Value, View]) -> dict[Value, Buffer]:
        """The buffers that a round fills and that can be the states of the next one as they are, by state."""
        found: dict[Value, Buffer] = {}
        for state in states:
            buffer = sources[state.inner].buffer
            fits = not state.own and buffer.size == state.buffer.size and buffer not in found.values()
            if fits and self._is_made(sources[state.inner]):
                found[state.inner] = buffer
        return found

    def _keep(self, state: _State, made: Buffer) -> None:
        """Let the state be what a round has made: in the state's own place, if it may be written over, else swapped."""
        if _may_overwrite(self.context.actions, made, state.buffer):
            made.kind, made.place = "place", state.buffer
            return
        homes = [self.context.temporary(made.dtype, made.size, state.inner.name) for _ in range(2)]
        state.pair = Pair(state.buffer, made, homes[0], homes[1], nodes=(self.node,))
        state.buffer.kind = made.kind = "place"
        self.context.emit(Swap(state.buffer, made, nodes=(self.node,)))

    def _again(self, buffers: set[Buffer]) -> Operand | None:
        if not self.is_loop:
            return None
        last = self.node.op.body.outputs[0]
        if last.constant is not None and bool(last.constant.all()):
            return None
        view = self.context.contiguous(last)
        if view.buffer in buffers:
            view = self.context.copy(last, view)
        return Operand(view.buffer, view.offset)

    def _apart(self, value: Value, state: _State, buffers: set[Buffer]) -> View:
        """Where a state's next value lies, outside of the states that are about to change."""
        view = self.context.view(value)
        is_unchanged = not state.own and view == whole(state.buffer, state.inner.shape)
        return self.context.copy(value, view) if view.buffer in buffers and not is_unchanged else view

    def _push(self, stack: _Stack, returned: set[Buffer]) -> None:
        """Add an element: the body makes it in its place, if it can be there from the start, else it is copied."""
        context, view = self.context, self.context.view(stack.element)
        is_made = not stack.own and stack.axis == 0 and view.buffer not in returned and self._is_made(view)
        start = 0 if is_made else context.place
        if stack.own:
            self._settle_element(stack, view)
            start = context.place
        target = whole(stack.buffer, stack.output.shape)
        if stack.rounds is not None:
            target = whole(stack.buffer, (self.round + 1, *view.shape))
            used = self.round * product(view.shape)
            context.insert(start, Grow(stack.buffer, used, target.shape, nodes=(self.node,)))
        elif stack.own:
            context.insert(start, Grow(stack.buffer, 0, target.shape, nodes=(self.node,)))
        length = target.shape[stack.axis]
        index = length - 1 - self.round if stack.is_reversed else self.round
        element = _element(target, stack.axis, index)
        if is_made:
            view.buffer.kind, view.buffer.place, view.buffer.place_offset = "place", stack.buffer, element.offset
        else:
            context.copy(stack.element, view, into=element)

    def _is_made(self, view: View) -> bool:
        """Whether a view is all of a buffer that the body fills in each round."""
        buffer = view.buffer
        is_whole = view == whole(buffer, view.shape) and buffer.size == product(view.shape)
        is_fresh = any(buffer is made for made in self.context.segment.arena[self.fresh :])
        return is_whole and is_fresh and buffer.kind == "arena" and not buffer.is_shared

    def _settle_element(self, stack: _Stack, view: View) -> None:
        """Bind the sizes of an element, which are the same in every round."""
        title = f"all elements of {stack.output.name} have the same sizes"
        items = [(name, view.shape[axis]) for axis, name in stack.own]
        for name, size in items:
            pairs: list[tuple[Dim, Dim]] = [(self.round, 0), (symbol(name), size)]
            self.context.emit(Check(pairs, FAULT, nodes=(self.node,), title=title))
        self.context.assign(items)

    def _finish(self, states: list[_State], stacks: list[_Stack]) -> None:
        context = self.context
        items: list[tuple[str, Dim]] = []
        for state in states:
            for axis, name in context.unbound(state.output):
                items.append((name, state.inner.shape[axis]))
        items += [(stack.rounds, self.round) for stack in stacks if stack.rounds is not None]
        context.assign(items)
        context.declare([name for stack in stacks for _, name in stack.own])
        for state in states:
            if state.pair is not None:
                context.emit(Settle(state.pair, nodes=(self.node,)))
            buffer = state.buffer if state.pair is None else state.pair.first
            context.views[state.output] = whole(buffer, state.output.shape)
        context.views.update((stack.output, whole(stack.buffer, stack.output.shape)) for stack in stacks)


def _may_overwrite(actions: Sequence[Action], made: Buffer, state: Buffer) -> bool:
    """Whether the kernel that makes a state's next value may write it over the state, which nobody reads afterwards."""
    for place, action in enumerate(actions):
        if _touches(action, made):
            rest = actions[place + 1 :]
            may_replace = isinstance(action, Call) and (made, state) in action.replaces
            return may_replace and not any(_touches(later, state) for later in rest)
    return False


def _touches(action: Action, buffer: Buffer) -> bool:
    return any(operand.buffer.home is buffer for each in walk([action]) for operand in operands_of(each))


def _flag(flags: Sequence[int] | None, place: int) -> int:
    return 0 if flags is None else flags[place]


def _element(view: View, axis: int, index: Dim) -> View:
    """One element of a view along an axis, without that axis."""
    offset = view.offset + index * view.strides[axis]
    shape = view.shape[:axis] + view.shape[axis + 1 :]
    return View(view.buffer, offset, shape, view.strides[:axis] + view.strides[axis + 1 :])


def nested_graphs(graph: Graph) -> Iterator[Graph]:
    """The subgraphs of a graph's nodes, and theirs, each before those inside it."""
    for node in graph.nodes:
        for _, inner in node.op.subgraphs():
            yield inner
            yield from nested_graphs(inner)
