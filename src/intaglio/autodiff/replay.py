"""Gradients of loops whose states cannot be stacked: sequences, and tensors that grow or shrink.

What a round started with is not kept. The backward pass is a Loop from the last round to the first, and each of its
rounds runs the loop once more up to its own. So the work grows with the square of the number of rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from intaglio.autodiff.bodies import Backward, Rounds, State, or_zero
from intaglio.autodiff.reverse import Seeds, remove_unread
from intaglio.autodiff.sequences import add_bars, zero_bar
from intaglio.errors import UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.clone import clone_into
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Graph, Value
from intaglio.ops.control import Loop, retype


def can_stack(rounds: Rounds, given: Value) -> bool:
    """Whether what each round starts with can be kept as one tensor."""
    try:
        rounds.check_kept(given)
    except UnsupportedError:
        return False
    return True


def replay_bars(
    b: Builder,
    rounds: Rounds,
    live: Sequence[State],
    captures: Sequence[Value],
    wanted: Sequence[Value],
    bars: Mapping[Value, Value],
    straight_through: bool,
) -> Iterator[tuple[Value, Value]]:
    """The gradients of what a Loop reads; `live` are the states on the way, `bars` the gradients of its outputs."""
    numbers = rounds.keep(rounds.body.inputs[0]).outer
    count = b.Size(numbers)
    back = Backward(b, rounds.body, straight_through)
    number = back.graph.add_input("round", rounds.body.inputs[0].tensor.with_shape(()))
    goes_on = back.graph.add_input("goes_on", rounds.body.inputs[1].tensor.with_shape(()))
    initial = [bars[s.final] if s.final in bars else zero_bar(b, s.final) for s in live]
    state_bars = [back.input(s.given, ".bar", bar.type) for s, bar in zip(live, initial, strict=True)]
    totals = [back.input(value, ".bar") for value in captures]
    with back.builder.active():
        place = count - 1 - number
        _set_numbers(rounds, back, place)
        replayed = _replay(rounds, back, place)
    found = back.pull_back(
        lambda: _seeds(rounds, back, live, state_bars, bars, place, replayed), [*(s.given for s in live), *captures]
    )
    like = [back.values[state.given] for state in live]
    results = or_zero(back.builder, found[: len(live)], like)
    with back.builder.active():
        sums = [
            total if bar is None else add_bars(back.builder, total, bar)
            for total, bar in zip(totals, found[len(live) :], strict=True)
        ]
        back.finish([back.builder.Identity(goes_on), *results, *sums])
    initial += [zero_bar(b, value) for value in captures]
    op = Loop(body=back.graph, output_count=len(initial))
    values = b.add(op, [count, None, *initial], len(initial))
    targets = [*(state.initial for state in live), *captures]
    yield from ((target, value) for target, value in zip(targets, values, strict=True) if target in wanted)


def _set_numbers(rounds: Rounds, back: Backward, place: Value) -> None:
    """What the body reads as its number and its condition in the round that is differentiated."""
    number, flag = rounds.body.inputs[:2]
    ranks = [len(value.tensor.shape or ()) for value in (number, flag)]
    back.values[number] = back.builder.Reshape(place, [1] * ranks[0]) if ranks[0] else place
    back.values[flag] = back.graph.constant(np.ones((1,) * ranks[1], np.bool_))


def _replay(rounds: Rounds, back: Backward, place: Value) -> list[Value]:
    """The states at the start of a round, by the loop itself with so many rounds."""
    body, values = Graph(f"{rounds.body.name} once more", outer=back.graph), dict[Value, Value]()
    for value in rounds.body.inputs:
        values[value] = body.add_input(value.name, value.type)
    made = clone_into(rounds.body, body, values)[: 1 + len(rounds.states)]
    inner = Builder(body, origin=back.builder.origin)
    body.set_outputs([inner.Identity(value) if value.producer is None else value for value in made])
    remove_unread(body, body.outputs)
    op = Loop(body=body, output_count=len(rounds.states))
    operands = [place, rounds.node.optional(1), *(state.initial for state in rounds.states)]
    found = list(back.builder.add(op, operands, len(rounds.states)))
    back.values.update(zip([state.given for state in rounds.states], found, strict=True))
    return found


def _seeds(
    rounds: Rounds,
    back: Backward,
    live: Sequence[State],
    state_bars: Sequence[Value],
    bars: Mapping[Value, Value],
    place: Value,
    replayed: Sequence[Value],
) -> Seeds:
    """The results of the round with their gradients; their sizes are those that the replayed states bring."""
    retype(back.graph, set(replayed))
    carried = [back.weighted(state.carried, bar) for state, bar in zip(live, state_bars, strict=True)]
    stacked = [slices for slices in rounds.stacked if slices.outer in bars]
    here = back.builder.Cast(place, to=INT64.number)
    return [*carried, *(back.weighted(s.inner, back.builder.Gather(bars[s.outer], here, axis=0)) for s in stacked)]
