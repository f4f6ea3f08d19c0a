"""Gradients of operators with bodies: If, Loop, Scan and SequenceMap.

The backward pass of a body computes the body anew and then its gradients. A loop keeps for it what each round starts
with, stacked as further outputs, and goes through the rounds backwards as a Scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from intaglio.autodiff.path import find_path, is_smooth
from intaglio.autodiff.reverse import Seeds, pull_back, remove_unread
from intaglio.autodiff.round_sums import RoundSums
from intaglio.autodiff.sequences import zero_bar
from intaglio.errors import UnsupportedError
from intaglio.ir.build import Builder, infer_types
from intaglio.ir.clone import clone_into
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.resize import type_symbols
from intaglio.ir.types import SequenceType, TensorType, Type
from intaglio.ops.control import If, Loop, Scan, scan_slice
from intaglio.ops.logic import Identity
from intaglio.ops.sequence import SequenceMap

Bars = Sequence[Value | None]


def control_bars(
    b: Builder, node: Node, wanted: Sequence[Value], output_bars: Bars, straight_through: bool
) -> Iterator[tuple[Value, Value]]:
    """The gradients of what an operator with bodies reads, from those of its outputs."""
    if isinstance(node.op, If):
        return _if_bars(b, node, wanted, output_bars, straight_through)
    if isinstance(node.op, SequenceMap):
        return _map_bars(b, node, node.op, wanted, output_bars, straight_through)
    return _round_bars(b, _Rounds(node), wanted, output_bars, straight_through)


class _Backward:
    """A body that computes another one anew, and the gradients of that."""

    def __init__(self, b: Builder, body: Graph, straight_through: bool) -> None:
        self.graph = Graph(f"gradient of {body.name}", outer=b.graph)
        self.builder = Builder(self.graph, origin=b.origin)
        self.values: dict[Value, Value] = {}
        self._body = body
        self._straight_through = straight_through

    def input(self, value: Value, suffix: str = "", type: Type | None = None) -> Value:
        """A new input that is named after a value."""
        return self.graph.add_input(value.name + suffix, value.type if type is None else type)

    def pull_back(self, seeds: Callable[[], Seeds], wrt: Sequence[Value]) -> list[Value | None]:
        """Copy the body into this one, then differentiate it; `seeds` are asked for in between."""
        clone_into(self._body, self.graph, self.values)
        with self.builder.active():
            wanted = [self.values.get(value, value) for value in wrt]
            return pull_back(self.builder, lambda: self.graph.nodes, seeds(), wanted, self._straight_through)

    def weighted(self, output: Value, bar: Value) -> tuple[Value, Value]:
        """An output of the body as it is here, with its gradient in that shape."""
        made = self.values.get(output, output)
        is_known = made.type == bar.type or not isinstance(made.type, TensorType)
        return made, bar if is_known else self.builder.Reshape(bar, self.builder.Shape(made), allowzero=1)

    def finish(self, results: Sequence[Value]) -> Graph:
        """Make the outputs, each computed in here, and leave out what nobody reads."""
        own = {value for node in self.graph.nodes for value in node.outputs}
        with self.builder.active():
            results = [value if value in own else self.builder.Identity(value) for value in results]
        results = [v if v not in results[:i] else self.builder.Identity(v) for i, v in enumerate(results)]
        self.graph.set_outputs(results)
        remove_unread(self.graph, results)
        _refuse_random(self.graph)
        return self.graph


def _refuse_random(graph: Graph) -> None:
    for node in graph.all_nodes():
        mode = node.optional(2) if node.op.name == "Dropout" else None
        is_inference = node.op.name == "Dropout" and (
            mode is None or (mode.constant is not None and not mode.constant.any())
        )
        if node.op.is_random and not is_inference:
            raise UnsupportedError(
                f"its body draws random numbers in {node.op.name}, and the backward pass would draw others; "
                "draw them outside of the body"
            )


def _if_bars(
    b: Builder, node: Node, wanted: Sequence[Value], output_bars: Bars, straight_through: bool
) -> Iterator[tuple[Value, Value]]:
    """The same condition chooses the gradients of the branch that was run."""
    graphs: dict[str, Graph] = {}
    for name, body in node.op.subgraphs():
        back = _Backward(b, body, straight_through)
        pairs = [(out, bar) for out, bar in zip(body.outputs, output_bars, strict=True) if bar is not None]

        def seeds(back: _Backward = back, pairs: list[tuple[Value, Value]] = pairs) -> Seeds:
            return [back.weighted(out, bar) for out, bar in pairs]

        found = back.pull_back(seeds, wanted)
        graphs[name] = back.finish(_or_zero(back.builder, found, wanted))
    values = b.apply(If, node.input, outputs=len(wanted), **graphs)
    yield from zip(wanted, values if len(wanted) > 1 else (values,), strict=True)


def _or_zero(b: Builder, bars: Bars, values: Sequence[Value]) -> list[Value]:
    with b.active():
        return [zero_bar(b, value) if bar is None else bar for bar, value in zip(bars, values, strict=True)]


@dataclass(frozen=True)
class _State:
    """A value that passes from round to round: where it starts, what the body gets and gives, and how it ends."""

    initial: Value
    given: Value
    carried: Value
    final: Value


@dataclass(frozen=True)
class _Slices:
    """What the body gets or gives in each round, as one array outside: the axis, and whether it goes backwards."""

    outer: Value
    inner: Value
    axis: int
    direction: int


class _Rounds:
    """A Loop or a Scan, in one vocabulary."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.body: Graph = node.op.body
        self.is_loop = isinstance(node.op, Loop)
        skipped = 2 if self.is_loop else 0
        count = len(node.inputs) - (skipped if self.is_loop else node.op.num_scan_inputs)
        operands = [node.needed(i) for i in range(skipped, len(node.inputs))]
        inner, made = self.body.inputs[skipped:], self.body.outputs[1 if self.is_loop else 0 :]
        self.states = [_State(operands[i], inner[i], made[i], node.outputs[i]) for i in range(count)]
        self.scanned = self._slices(operands[count:], inner[count:], "scan_input")
        self.stacked = self._slices(node.outputs[count:], made[count:], "scan_output")

    def _slices(self, outer: Sequence[Value], inner: Sequence[Value], kind: str) -> list[_Slices]:
        axes, directions = (getattr(self.node.op, f"{kind}_{name}", None) for name in ("axes", "directions"))
        rows = zip(outer, inner, axes or [0] * len(outer), directions or [0] * len(outer), strict=True)
        return [_Slices(*row) for row in rows]

    def keep(self, given: Value) -> _Slices:
        """An input of the body in all rounds, as one more stacked output of the operator, or one that it has."""
        for slices in self.stacked:
            producer = slices.inner.producer
            if slices.inner is given or (producer and producer.op.name == "Identity" and producer.input is given):
                return slices
        self._check_size(given)
        builder = Builder(self.body, origin=self.node.origin)
        (copy,) = builder.add(Identity(), [given], names=[f"{given.name}.kept"])
        self.body.set_outputs((*self.body.outputs, copy))
        value = self._add_output(f"{given.name}.rounds")
        self.stacked.append(_Slices(value, copy, 0, 0))
        return self.stacked[-1]

    def _check_size(self, given: Value) -> None:
        if not isinstance(given.type, TensorType):
            raise UnsupportedError(
                f"its body carries %{given.name}, a {given.type}, which cannot be kept for each round"
            )
        own = {name for name in type_symbols(given.type) if name.startswith(f"{given.name}.round")}
        if given.type.shape is None or own:
            raise UnsupportedError(f"its body carries %{given.name}, whose size changes from round to round")

    def _add_output(self, hint: str) -> Value:
        node, op = self.node, self.node.op
        changes: dict[str, object] = {"output_count": op.output_count + 1}
        for name in ("scan_output_axes", "scan_output_directions"):
            if getattr(op, name, None) is not None:
                changes[name] = (*getattr(op, name), 0)
        node.op = op.changed(**changes)
        type = infer_types(node.op, node.inputs, op.output_count + 1, hint)[-1]
        if self.stacked and isinstance(type, TensorType) and type.shape:
            first = self.stacked[0]
            length = scan_slice(first.outer, first.axis)[0]
            type = type if length is None else type.with_shape((length, *type.shape[1:]))
        assert node.graph is not None
        value = Value(node.graph.unique_name(hint), type, node)
        node.outputs += (value,)
        return value


def _live_states(
    rounds: _Rounds, varied: list[Value], output_bars: dict[Value, Value], straight_through: bool
) -> list[_State]:
    """The states that depend on what varies, and on which something that is differentiated depends."""
    nodes = list(rounds.body.nodes)
    active = list(varied)
    while True:
        reached = find_path(nodes, [state.carried for state in rounds.states], active, straight_through).values
        more = [s.given for s in rounds.states if s.carried in reached | set(active) and is_smooth(s.given.type)]
        if set(more) <= set(active):
            break
        active += [value for value in more if value not in active]
    live = [state for state in rounds.states if state.final in output_bars]
    while True:
        of = [s.carried for s in live] + [s.inner for s in rounds.stacked if s.outer in output_bars]
        reached = find_path(nodes, of, active, straight_through).values | set(of)
        found = [s for s in rounds.states if s in live or (s.given in reached and s.given in active)]
        if len(found) == len(live):
            return [state for state in live if state.given in active]
        live = found


def _round_bars(
    b: Builder, rounds: _Rounds, wanted: Sequence[Value], output_bars: Bars, straight_through: bool
) -> Iterator[tuple[Value, Value]]:
    bars = {v: bar for v, bar in zip(rounds.node.outputs, output_bars, strict=True) if bar is not None}
    captures = [value for value in rounds.node.captures() if value in wanted]
    scanned = [slices for slices in rounds.scanned if slices.outer in wanted]
    varied = [*captures, *(s.inner for s in scanned), *(s.given for s in rounds.states if s.initial in wanted)]
    live = _live_states(rounds, varied, bars, straight_through)
    back = _Backward(b, rounds.body, straight_through)
    state_bars = [back.input(state.given, ".bar") for state in live]
    totals = {value: back.input(value, ".bar") for value in captures}
    sources = _sources(rounds, back, bars)
    products = _kept_products(rounds, back)
    seeds = _round_seeds(rounds, back, live, state_bars, sources, bars)
    found = back.pull_back(seeds, [*(s.given for s in live), *captures, *(s.inner for s in scanned)])
    for product, source in products.items():
        back.values[product].replace_uses(source.input)
    like = [back.values[s.given] for s in live], [back.values[s.inner] for s in scanned]
    state_results = _or_zero(back.builder, found[: len(live)], like[0])
    slice_results = _or_zero(back.builder, found[len(live) + len(captures) :], like[1])
    stacks = _stacks(rounds, sources, products, scanned, slice_results)
    behind = RoundSums(back.graph, stacks, _outside_symbols(rounds.node))
    for capture, bar in zip(captures, found[len(live) : len(live) + len(captures)], strict=True):
        behind.take(capture, bar)
    inside = {value: bar for value, bar in zip(captures, found[len(live) :], strict=False) if not behind.has(value)}
    back.graph.inputs = [value for value in back.graph.inputs if value not in [totals[v] for v in behind.taken]]
    with back.builder.active():
        sums = [totals[value] if bar is None else totals[value] + bar for value, bar in inside.items()]
    back.finish([*state_results, *sums, *slice_results, *behind.stacked])
    initial = [bars[s.final] if s.final in bars else zero_bar(b, s.final) for s in live]
    initial += [zero_bar(b, value) for value in inside]
    given = [*scanned, *(_Slices(value, value, 0, 0) for value in behind.stacked)]
    values = _scan_back(b, rounds, back.graph, initial, {**sources, **products}, given)
    targets = [*(s.initial for s in live), *inside, *(s.outer for s in scanned)]
    yield from ((target, value) for target, value in zip(targets, values, strict=False) if target in wanted)
    made = dict(zip(slice_results, values[len(initial) :], strict=False))
    made |= dict(zip(behind.stacked, values[len(targets) :], strict=True))
    yield from behind.built(b, made)


DEAR = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators of bodies whose results are kept for the backward pass, and not computed anew."""


def _outside_symbols(node: Node) -> set[str]:
    """The symbols of sizes that have one value in all rounds."""
    values = [value for value in (*node.inputs, *node.captures()) if value is not None]
    return set[str]().union(*(type_symbols(value.type) for value in values))


def _kept_products(rounds: _Rounds, back: _Backward) -> dict[Value, _Source]:
    """What the backward body may read in the place of products that the body made, by those."""
    outside = _outside_symbols(rounds.node)
    products = [node.output for node in rounds.body.nodes if node.op.name in DEAR and node.op.domain == ""]
    fixed = [v for v in products if v.tensor.shape is not None and type_symbols(v.type) <= outside]
    return {v: _Source(back.input(v), lambda v=v: rounds.keep(v)) for v in fixed}


def _stacks(
    rounds: _Rounds,
    sources: dict[Value, _Source],
    products: dict[Value, _Source],
    scanned: Sequence[_Slices],
    results: Sequence[Value],
) -> dict[Value, Callable[[dict[Value, Value]], Value]]:
    """The values of the backward body that are stacked in the order of the rounds anyway, and what gives the stacks."""
    slices = {s.inner: s for s in rounds.scanned} | {s.outer: s for s in rounds.stacked}
    in_order = [source for key, source in sources.items() if key not in slices or _is_first(slices[key])]
    stacks: dict[Value, Callable[[dict[Value, Value]], Value]] = {
        source.input: lambda made, source=source: source.slices().outer for source in (*in_order, *products.values())
    }
    for given, value in zip(scanned, results, strict=True):
        if _is_first(given):
            stacks.setdefault(value, lambda made, value=value: made[value])
    return stacks


def _is_first(slices: _Slices) -> bool:
    return (slices.axis, slices.direction) == (0, 0)


@dataclass(frozen=True)
class _Source:
    """Where an input of the backward body comes from; it is asked for only if the body reads it."""

    input: Value
    slices: Callable[[], _Slices]


def _sources(rounds: _Rounds, back: _Backward, bars: dict[Value, Value]) -> dict[Value, _Source]:
    """The scanned inputs of the backward body by what they stand for in the body, or by the output they belong to."""
    sources: dict[Value, _Source] = {}

    def add(key: Value, input: Value, slices: Callable[[], _Slices]) -> None:
        back.values.setdefault(key, input)
        sources[key] = _Source(input, slices)

    kept = [*rounds.body.inputs[: 1 if rounds.is_loop else 0], *(state.given for state in rounds.states)]
    for given in kept:
        add(given, back.input(given), lambda given=given: rounds.keep(given))
    for slices in rounds.scanned:
        add(slices.inner, back.input(slices.inner), lambda slices=slices: slices)
    for slices in rounds.stacked:
        if slices.outer in bars:
            bar = bars[slices.outer]
            type = scan_slice(bar, slices.axis)[1]
            outside = _Slices(bar, slices.inner, slices.axis, slices.direction)
            sources[slices.outer] = _Source(back.input(slices.inner, ".bar", type), lambda outside=outside: outside)
    if rounds.is_loop:
        flag = rounds.body.inputs[1]
        back.values[flag] = back.graph.constant(np.ones((1,) * len(flag.tensor.shape or ()), np.bool_))
    return sources


def _round_seeds(
    rounds: _Rounds,
    back: _Backward,
    live: Sequence[_State],
    state_bars: Sequence[Value],
    sources: dict[Value, _Source],
    bars: dict[Value, Value],
) -> Callable[[], Seeds]:
    stacked = [slices for slices in rounds.stacked if slices.outer in bars]

    def seeds() -> Seeds:
        carried = [back.weighted(state.carried, bar) for state, bar in zip(live, state_bars, strict=True)]
        return [*carried, *(back.weighted(s.inner, sources[s.outer].input) for s in stacked)]

    return seeds


def _scan_back(
    b: Builder,
    rounds: _Rounds,
    back: Graph,
    initial: Sequence[Value],
    sources: dict[Value, _Source],
    scanned: Sequence[_Slices],
) -> tuple[Value, ...]:
    """The Scan that goes through the rounds from the last to the first; it reads only what its body reads."""
    if not back.outputs:
        return ()
    read = [source for source in sources.values() if source.input.uses] or [next(iter(sources.values()))]
    used = {source.input for source in read}
    back.inputs = [*back.inputs[: len(initial)], *(v for v in back.inputs[len(initial) :] if v in used)]
    slices = [source.slices() for source in read]
    op = Scan(
        body=back,
        num_scan_inputs=len(read),
        scan_input_axes=tuple(s.axis for s in slices),
        scan_input_directions=tuple(1 - s.direction for s in slices),
        scan_output_axes=tuple(s.axis for s in scanned),
        scan_output_directions=tuple(1 - s.direction for s in scanned),
        output_count=len(back.outputs),
    )
    return b.add(op, [*initial, *(s.outer for s in slices)], len(back.outputs))


def _map_bars(
    b: Builder, node: Node, op: SequenceMap, wanted: Sequence[Value], output_bars: Bars, straight_through: bool
) -> Iterator[tuple[Value, Value]]:
    """A map over the same sequences and over the gradients of its results; what is no sequence sums over elements."""
    back = _Backward(b, op.body, straight_through)
    operands = [node.needed(i) for i in range(len(node.inputs))]
    for value in op.body.inputs:
        back.values[value] = back.input(value)
    pairs = [(out, bar) for out, bar in zip(op.body.outputs, output_bars, strict=True) if bar is not None]
    inputs = [back.input(out, ".bar") for out, _ in pairs]

    def seeds() -> Seeds:
        return [back.weighted(out, given) for (out, _), given in zip(pairs, inputs, strict=True)]

    targets = [(v, inner) for v, inner in zip(operands, op.body.inputs, strict=True) if v in wanted]
    targets += [(v, v) for v in node.captures() if v in wanted]
    found = back.pull_back(seeds, [inner for _, inner in targets])
    results = _or_zero(back.builder, found, [back.values.get(inner, inner) for _, inner in targets])
    back.finish(results)
    bars = b.apply(SequenceMap, *operands, *(bar for _, bar in pairs), body=back.graph, outputs=len(targets))
    for (value, _), bar in zip(targets, bars if len(targets) > 1 else (bars,), strict=True):
        yield value, bar if isinstance(value.type, SequenceType) else _total(b, value, bar)


def _total(b: Builder, value: Value, parts: Value) -> Value:
    """The sum of a sequence of gradients of one value; there may be none."""
    filled = b.SequenceInsert(parts, zero_bar(b, value), b.constant(0, None))
    return b.ReduceSum(b.ConcatFromSequence(filled, axis=0, new_axis=1), [0], keepdims=0)
