"""Branches, loops, scans and sequences around bodies that are grown."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from .anchors import ANCHORS, shape_for
from .dice import SMALL, Dice
from .draft import Draft, Rejected, _number
from .growth import POINTS, VIEWS, Grower, Proposal, outputs_of
from .problem import Problem

INSIDE = (*POINTS, *((p, w / 3) for p, w in VIEWS), *((anchor, 0.15) for anchor in ANCHORS))


def problem(seed: int, times: int = 1) -> Problem:
    """A graph with control flow and sequences among its nodes, or several of them."""
    dice = Dice(4, seed)
    bindings = dice.of((1, 2, 2, 3))
    draft = Draft(dice, bindings, is_static=bindings == 1)
    outputs: list[str] = []
    for _ in range(times):
        before = len(draft.nodes)
        g = Grower(draft, dice.of(("float32",) * 6 + ("float64",)))
        while len(draft.nodes) == before:
            grow(g)
        outputs += outputs_of(g, 0.2, draft.nodes[before:])
    return draft.problem(outputs, times)


def grow(g: Grower) -> None:
    """One graph."""
    dice = g.dice
    while not g.pool:
        g.attempt(lambda grower: [grower.input(*shape_for(dice.of(ANCHORS), grower))])
    g.attempt(lambda grower: [grower.input(*(grower.dim(SMALL) for _ in range(dice.integer(1, 3))))])
    g.grow(INSIDE, dice.integer(0, 3))
    for kind in dice.subset(KINDS, 2, 4):
        for _ in range(4):
            if g.attempt(kind):
                break
        g.grow(INSIDE, dice.integer(0, 2))


def inner(g: Grower) -> tuple[Draft, Grower]:
    """A draft for a body; its grower reads what is outside too."""
    draft = type(g.draft)(g.dice, g.draft.bindings, g.draft.is_static, g.draft.opset, g.draft)
    draft.wild = g.draft.wild
    grower = Grower(draft, g.type)
    grower.pool = list(g.pool)
    return draft, grower


def parameter(draft: Draft, grower: Grower, arrays: list[Any], with_shape: bool = True) -> onnx.ValueInfoProto:
    """An input of a body; for its shape only the rank is said."""
    name = draft.name()
    draft.values[name] = arrays
    grower.pool.append(name)
    shape = [None] * arrays[0].ndim if with_shape else None
    return helper.make_tensor_value_info(name, _number(arrays[0].dtype), shape)


def _information(draft: Draft, name: str, rank: int | None = None) -> onnx.ValueInfoProto:
    array = draft.arrays(name)[0]
    return helper.make_tensor_value_info(name, _number(array.dtype), [None] * (array.ndim if rank is None else rank))


def _own(draft: Draft, name: str) -> str:
    """A body's result must be made in the body."""
    if name in draft.values and any(name in node.output for node in draft.nodes):
        return name
    return draft.one("Identity", name)


def _apart(draft: Draft, name: str, others: list[str]) -> str:
    """A body's result that is no other result too, which ONNX Runtime does not expect."""
    return draft.one("Identity", name) if name in others else _own(draft, name)


def _body(draft: Draft, inputs: list[Any], outputs: list[str]) -> onnx.GraphProto:
    infos = [_information(draft, name) for name in outputs]
    return helper.make_graph(draft.nodes, "body", inputs, infos, draft.constants)


def branch(g: Grower) -> list[str]:
    """If, whose branches give values of one type, by a fed or computed condition."""
    count = g.dice.integer(1, 2)
    bodies: list[tuple[Draft, list[str]]] = []
    for _ in range(2):
        draft, grower = inner(g)
        before = len(grower.pool)
        grower.grow(INSIDE, g.dice.integer(1, 4))
        made = [name for name in grower.pool[before:] if isinstance(draft.arrays(name)[0], np.ndarray)] or grower.pool
        results = [made[-1 - i % len(made)] for i in range(count)]
        chosen: list[str] = []
        for name in results:
            chosen.append(_apart(draft, name, chosen))
        bodies.append((draft, chosen))
    for left, right in zip(bodies[0][1], bodies[1][1], strict=True):
        if bodies[0][0].arrays(left)[0].ndim != bodies[1][0].arrays(right)[0].ndim and g.dice.chance(0.8):
            raise Rejected("branches of different ranks")
    condition = _condition(g)
    names = ("then_branch", "else_branch")
    graphs: dict[str, Any] = {name: _body(*_pair(body)) for name, body in zip(names, bodies, strict=True)}
    return g.keep(*g.draft.add("If", condition, outputs=count, **graphs))


def _pair(body: tuple[Draft, list[str]]) -> tuple[Draft, list[Any], list[str]]:
    return body[0], [], body[1]


def _condition(g: Grower) -> str:
    roll = g.dice.random.random()
    if roll < 0.4:
        return g.draft.feed([np.array(g.dice.chance(0.5)) for _ in range(g.draft.bindings)])
    if roll < 0.6:
        return g.draft.constant(np.array(g.dice.chance(0.5)))
    total = g.draft.one("ReduceSum", g.pick(), keepdims=0)
    return g.draft.one("Less", total, g.draft.constant(np.zeros((), g.draft.dtype(total))))


def loop(g: Grower) -> list[str]:
    """Loop with one or two states, stacked outputs, values from outside, and sometimes an early end."""
    states = [g.pick() for _ in range(g.dice.integer(1, 2))]
    draft, grower = inner(g)
    infos = [helper.make_tensor_value_info("", onnx.TensorProto.INT64, []) for _ in range(1)]
    trip, on = draft.name(), draft.name()
    draft.values[trip] = [np.array(0, np.int64)] * draft.bindings
    draft.values[on] = [np.array(True)] * draft.bindings
    infos = [helper.make_tensor_value_info(trip, onnx.TensorProto.INT64, []),
             helper.make_tensor_value_info(on, onnx.TensorProto.BOOL, [])]  # fmt: skip
    inside = [parameter(draft, grower, g.draft.arrays(name), g.dice.chance(0.8)) for name in states]
    infos += inside
    before = len(grower.pool)
    if g.dice.chance(0.4):
        grower.attempt(lambda w: _uses_trip(w, trip))
    grower.grow(INSIDE, g.dice.integer(1, 4))
    made = grower.pool[before:]
    following: list[str] = []
    for info in inside:
        following.append(_apart(draft, _following(grower, info.name, made), following))
    stacked = [_apart(draft, name, following) for name in g.dice.subset(made, 0, 2)]
    keep_on = _keep_on(g, draft, trip, on)
    body = helper.make_graph(
        draft.nodes, "body", infos,
        [_information(draft, keep_on), *(_information(draft, n) for n in (*following, *stacked))], draft.constants,
    )  # fmt: skip
    trips = [np.array(g.dice.of((0, 1, 2, 3, 5)), np.int64) for _ in range(g.draft.bindings)]
    count = g.draft.feed(trips) if g.dice.chance(0.5) else g.draft.constant(trips[0])
    start = g.draft.constant(np.array(True)) if g.dice.chance(0.5) else ""
    results = g.draft.add("Loop", count, start, *states, outputs=len(following) + len(stacked), body=body)
    return g.keep(*results)


def _uses_trip(g: Grower, trip: str) -> list[str]:
    from tests.ops.agreement_cases import number_of

    number = g.draft.one("Cast", trip, to=number_of(g.type))
    return g.keep(g.draft.one("Add", g.pick(), number))


def _following(grower: Grower, state: str, made: list[str]) -> str:
    """What a state is in the next round: something of its shape, or the state moved a little."""
    draft = grower.draft
    dims = draft.dims(state)
    alike = [name for name in made if draft.dtype(name) == draft.dtype(state) and draft.dims(name) == dims]
    if alike and grower.dice.chance(0.8):
        return _own(draft, grower.dice.of(alike))
    if grower.dice.chance(0.2):
        return draft.one("Identity", state)
    return draft.one("Mul", state, draft.constant(np.array(0.5).astype(draft.dtype(state))))


def _keep_on(g: Grower, draft: Draft, trip: str, on: str) -> str:
    if g.dice.chance(0.6):
        return draft.one("Identity", on)
    return draft.one("Less", trip, draft.constant(np.array(g.dice.of((0, 1, 2)), np.int64)))


def scan(g: Grower) -> list[str]:
    """Scan over one or two inputs, forwards or backwards, along the first axis or another."""
    first = g.pick(low=1)
    rank = len(g.draft.dims(first))
    axis = g.dice.of((0, 0, rank - 1))
    length = g.draft.dims(first)[axis]
    if 0 in length:
        raise Rejected("nothing to scan")
    state = g.input(*(dim for i, dim in enumerate(g.draft.dims(first)) if i != axis))
    draft, grower = inner(g)
    grower.pool = []
    infos = [parameter(draft, grower, g.draft.arrays(state))]
    infos.append(parameter(draft, grower, [np.take(a, 0, axis) for a in g.draft.arrays(first)]))
    before = len(grower.pool)
    grower.grow(INSIDE, g.dice.integer(1, 4))
    made = grower.pool[before:]
    following = _following(grower, infos[0].name, made)
    stacked = [_apart(draft, name, [following]) for name in g.dice.subset(made, 1, 2)] or [
        draft.one("Identity", infos[1].name)
    ]
    body = _body(draft, infos, [following, *stacked])
    forth, back = [g.dice.flag()], [g.dice.flag() for _ in stacked]
    return g.keep(*g.draft.add("Scan", state, first, outputs=1 + len(stacked), body=body, num_scan_inputs=1,
                               scan_input_axes=[axis], scan_input_directions=forth,
                               scan_output_directions=back))  # fmt: skip


def sequence(g: Grower) -> list[str]:
    """Values that go through a sequence."""
    name = g.pick(low=1)
    axis = g.dice.axis(len(g.draft.dims(name)))
    if g.dice.chance(0.5):
        size = g.draft.constant(np.array(g.dice.of((1, 2, 3)), np.int64))
        made = g.draft.one("SplitToSequence", name, size, axis=axis)
    else:
        made = g.draft.one("SequenceConstruct", name, name, g.partner(name))
    if g.dice.chance(0.4):
        place = g.draft.constant(np.array(g.dice.of((0, -1)), np.int64))
        made = g.draft.one("SequenceInsert", made, name, place)
    if g.dice.chance(0.3):
        made = g.draft.one("SequenceErase", made, g.draft.constant(np.array(0, np.int64)))
    roll = g.dice.random.random()
    if roll < 0.3:
        return g.keep(g.draft.one("SequenceAt", made, g.draft.constant(np.array(g.dice.of((0, -1)), np.int64))))
    if roll < 0.4:
        return [g.draft.one("SequenceLength", made)]
    if roll < 0.6:
        made = _mapped(g, made)
    new_axis = g.dice.flag()
    return g.keep(g.draft.one("ConcatFromSequence", made, axis=axis, new_axis=new_axis))


def _mapped(g: Grower, made: str) -> str:
    if not all(g.draft.arrays(made)):
        raise Rejected("a sequence without elements")
    draft, grower = inner(g)
    grower.pool = []
    info = parameter(draft, grower, [items[0] for items in g.draft.arrays(made)])
    grower.grow(((POINTS[0][0], 1.0),), g.dice.integer(1, 2))
    result = _own(draft, grower.pool[-1])
    return g.draft.one("SequenceMap", made, body=_body(draft, [info], [result]))


def repeated(g: Grower) -> list[str]:
    """Rows that a loop over the parts of a value repeats and joins, as exporters write `repeat_interleave`."""
    name = g.pick(low=1)
    dims = g.draft.dims(name)
    axis = g.dice.integer(0, len(dims) - 1)
    if 0 in dims[axis]:
        raise Rejected("nothing to join")
    rows = g.draft.one("Shape", name, start=axis, end=axis + 1)
    ones = g.draft.one("ConstantOfShape", rows, value=helper.make_tensor("", onnx.TensorProto.INT64, [1], [1]))
    counts = g.draft.feed(
        [np.array([g.dice.of((0, 1, 1, 2, 3)) for _ in range(size)], np.int64) for size in dims[axis]]
    )
    parts = [g.draft.one("SplitToSequence", counts, ones), g.draft.one("SplitToSequence", name, ones, axis=axis)]
    body = _repeating_body(g, parts, len(dims), axis)
    start = g.draft.constant(np.array(True))
    empty = g.draft.one("SequenceEmpty", dtype=_number(g.draft.dtype(name)))
    rounds = g.draft.one("Squeeze", rows) if g.dice.chance(0.5) else rows
    joined = g.draft.one("Loop", rounds, start, empty, body=body)
    return g.keep(g.draft.one("ConcatFromSequence", joined, axis=g.dice.of((axis, axis - len(dims)))))


def _repeating_body(g: Grower, parts: list[str], rank: int, axis: int) -> onnx.GraphProto:
    """A round appends one part as often as the count at its place; a -1 among the sizes stands for 1, as in PyTorch."""
    draft = inner(g)[0]
    number, on, state = draft.name(), draft.name(), draft.name()
    draft.values[number], draft.values[on] = [np.array(0, np.int64)] * draft.bindings, [np.array(True)] * draft.bindings
    draft.values[state] = [[] for _ in range(draft.bindings)]
    count, part = (draft.one("SequenceAt", each, number) for each in parts)
    place = g.dice.of((axis, axis + 1))
    others = [draft.integers(*[g.dice.of((1, -1)) for _ in range(size)]) for size in (place, rank - place)]
    shape = draft.one("Concat", *others[: place > 0], count, *others[1 : 1 + (place < rank)], axis=0)
    is_open = draft.one("Equal", shape, draft.integers(-1))
    shape = draft.one("Where", is_open, draft.integers(*[1] * (rank + 1)), shape)
    wide = draft.one("Expand", draft.one("Unsqueeze", part, draft.integers(axis + 1)), shape)
    around = [draft.one("Shape", part, start=0, end=axis), draft.one("Shape", part, start=axis + 1)]
    flat = draft.one("Reshape", wide, draft.one("Concat", around[0], count, around[1], axis=0), allowzero=1)
    element = helper.make_tensor_type_proto(_number(draft.dtype(flat)), None)
    sequences = [helper.make_value_info(each, helper.make_sequence_type_proto(element))
                 for each in (state, draft.one("SequenceInsert", state, flat))]  # fmt: skip
    infos = [helper.make_tensor_value_info(number, onnx.TensorProto.INT64, []),
             helper.make_tensor_value_info(on, onnx.TensorProto.BOOL, []), sequences[0]]  # fmt: skip
    results = [_information(draft, draft.one("Identity", on)), sequences[1]]
    return helper.make_graph(draft.nodes, "body", infos, results, draft.constants)


KINDS: tuple[Proposal, ...] = (branch, loop, loop, scan, sequence, repeated)
