"""Gradients of operators with bodies: If, Loop, Scan and SequenceMap.

The backward pass of a body computes the body anew and then its gradients. A loop keeps for it what each round starts
with, stacked as further outputs, and goes through the rounds backwards as a Scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from intaglio.autodiff.bodies import Backward, Bars, Rounds, Slices, State, or_zero
from intaglio.autodiff.path import find_path, is_smooth
from intaglio.autodiff.replay import can_stack, replay_bars
from intaglio.autodiff.reverse import Seeds
from intaglio.autodiff.round_sums import RoundSums
from intaglio.autodiff.sequences import zero_bar
from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.resize import type_symbols
from intaglio.ir.types import SequenceType
from intaglio.ops.control import If, Scan, scan_slice
from intaglio.ops.sequence import SequenceMap


def control_bars(
    b: Builder, node: Node, wanted: Sequence[Value], output_bars: Bars, straight_through: bool
) -> Iterator[tuple[Value, Value]]:
    """The gradients of what an operator with bodies reads, from those of its outputs."""
    if isinstance(node.op, If):
        return _if_bars(b, node, wanted, output_bars, straight_through)
    if isinstance(node.op, SequenceMap):
        return _map_bars(b, node, node.op, wanted, output_bars, straight_through)
    return _round_bars(b, Rounds(node), wanted, output_bars, straight_through)


def _if_bars(
    b: Builder, node: Node, wanted: Sequence[Value], output_bars: Bars, straight_through: bool
) -> Iterator[tuple[Value, Value]]:
    """The same condition chooses the gradients of the branch that was run."""
    graphs: dict[str, Graph] = {}
    for name, body in node.op.subgraphs():
        back = Backward(b, body, straight_through)
        pairs = [(out, bar) for out, bar in zip(body.outputs, output_bars, strict=True) if bar is not None]

        def seeds(back: Backward = back, pairs: list[tuple[Value, Value]] = pairs) -> Seeds:
            return [back.weighted(out, bar) for out, bar in pairs]

        found = back.pull_back(seeds, wanted)
        graphs[name] = back.finish(or_zero(back.builder, found, wanted))
    values = b.apply(If, node.input, outputs=len(wanted), **graphs)
    yield from zip(wanted, values if len(wanted) > 1 else (values,), strict=True)


def _live_states(
    rounds: Rounds, varied: list[Value], output_bars: dict[Value, Value], straight_through: bool
) -> list[State]:
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
    b: Builder, rounds: Rounds, wanted: Sequence[Value], output_bars: Bars, straight_through: bool
) -> Iterator[tuple[Value, Value]]:
    bars = {v: bar for v, bar in zip(rounds.node.outputs, output_bars, strict=True) if bar is not None}
    captures = [value for value in rounds.node.captures() if value in wanted]
    scanned = [slices for slices in rounds.scanned if slices.outer in wanted]
    varied = [*captures, *(s.inner for s in scanned), *(s.given for s in rounds.states if s.initial in wanted)]
    live = _live_states(rounds, varied, bars, straight_through)
    if rounds.is_loop and not all(can_stack(rounds, state.given) for state in live):
        yield from replay_bars(b, rounds, live, captures, wanted, bars, straight_through)
        return
    for state in live:
        rounds.check_kept(state.given)
    back = Backward(b, rounds.body, straight_through)
    state_bars = [back.input(state.given, ".bar") for state in live]
    totals = {value: back.input(value, ".bar") for value in captures}
    sources = _sources(rounds, back, bars)
    products = _kept_products(rounds, back)
    seeds = _round_seeds(rounds, back, live, state_bars, sources, bars)
    found = back.pull_back(seeds, [*(s.given for s in live), *captures, *(s.inner for s in scanned)])
    for product, source in products.items():
        back.values[product].replace_uses(source.input)
    like = [back.values[s.given] for s in live], [back.values[s.inner] for s in scanned]
    state_results = or_zero(back.builder, found[: len(live)], like[0])
    slice_results = or_zero(back.builder, found[len(live) + len(captures) :], like[1])
    stacks = _stacks(rounds, sources, products, scanned, slice_results)
    behind = RoundSums(back.graph, stacks, rounds.outside_symbols())
    for capture, bar in zip(captures, found[len(live) : len(live) + len(captures)], strict=True):
        behind.take(capture, bar)
    inside = {value: bar for value, bar in zip(captures, found[len(live) :], strict=False) if not behind.has(value)}
    back.graph.inputs = [value for value in back.graph.inputs if value not in [totals[v] for v in behind.taken]]
    with back.builder.active():
        sums = [totals[value] if bar is None else totals[value] + bar for value, bar in inside.items()]
    back.finish([*state_results, *sums, *slice_results, *behind.stacked])
    if rounds.is_loop and not all(can_stack(rounds, s.given) for s in rounds.states if sources[s.given].input.uses):
        back.drop()
        yield from replay_bars(b, rounds, live, captures, wanted, bars, straight_through)
        return
    initial = [bars[s.final] if s.final in bars else zero_bar(b, s.final) for s in live]
    initial += [zero_bar(b, value) for value in inside]
    given = [*scanned, *(Slices(value, value, 0, 0) for value in behind.stacked)]
    values = _scan_back(b, rounds, back.graph, initial, {**sources, **products}, given)
    targets = [*(s.initial for s in live), *inside, *(s.outer for s in scanned)]
    yield from ((target, value) for target, value in zip(targets, values, strict=False) if target in wanted)
    made = dict(zip(slice_results, values[len(initial) :], strict=False))
    made |= dict(zip(behind.stacked, values[len(targets) :], strict=True))
    yield from behind.built(b, made)


DEAR = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators of bodies whose results are kept for the backward pass, and not computed anew."""


def _kept_products(rounds: Rounds, back: Backward) -> dict[Value, _Source]:
    """What the backward body may read in the place of products that the body made, by those."""
    outside = rounds.outside_symbols()
    products = [node.output for node in rounds.body.nodes if node.op.name in DEAR and node.op.domain == ""]
    fixed = [v for v in products if v.tensor.shape is not None and type_symbols(v.type) <= outside]
    return {v: _Source(back.input(v), lambda v=v: rounds.keep(v)) for v in fixed}


def _stacks(
    rounds: Rounds,
    sources: dict[Value, _Source],
    products: dict[Value, _Source],
    scanned: Sequence[Slices],
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


def _is_first(slices: Slices) -> bool:
    return (slices.axis, slices.direction) == (0, 0)


@dataclass(frozen=True)
class _Source:
    """Where an input of the backward body comes from; it is asked for only if the body reads it."""

    input: Value
    slices: Callable[[], Slices]


def _sources(rounds: Rounds, back: Backward, bars: dict[Value, Value]) -> dict[Value, _Source]:
    """The scanned inputs of the backward body by what they stand for in the body, or by the output they belong to."""
    sources: dict[Value, _Source] = {}

    def add(key: Value, input: Value, slices: Callable[[], Slices]) -> None:
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
            outside = Slices(bar, slices.inner, slices.axis, slices.direction)
            sources[slices.outer] = _Source(back.input(slices.inner, ".bar", type), lambda outside=outside: outside)
    if rounds.is_loop:
        flag = rounds.body.inputs[1]
        back.values[flag] = back.graph.constant(np.ones((1,) * len(flag.tensor.shape or ()), np.bool_))
    return sources


def _round_seeds(
    rounds: Rounds,
    back: Backward,
    live: Sequence[State],
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
    rounds: Rounds,
    back: Graph,
    initial: Sequence[Value],
    sources: dict[Value, _Source],
    scanned: Sequence[Slices],
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
    back = Backward(b, op.body, straight_through)
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
    results = or_zero(back.builder, found, [back.values.get(inner, inner) for _, inner in targets])
    back.finish(results)
    bars = b.apply(SequenceMap, *operands, *(bar for _, bar in pairs), body=back.graph, outputs=len(targets))
    for (value, _), bar in zip(targets, bars if len(targets) > 1 else (bars,), strict=True):
        yield value, bar if isinstance(value.type, SequenceType) else _total(b, value, bar)


def _total(b: Builder, value: Value, parts: Value) -> Value:
    """The sum of a sequence of gradients of one value; there may be none."""
    filled = b.SequenceInsert(parts, zero_bar(b, value), b.constant(0, None))
    return b.ReduceSum(b.ConcatFromSequence(filled, axis=0, new_axis=1), [0], keepdims=0)
