"""Fused chains around each anchor, and whole random graphs."""

from __future__ import annotations

from .anchors import ANCHORS, shape_for
from .dice import Dice
from .draft import Draft
from .growth import POINTS, VIEWS, Grower, Proposal, outputs_of, residual
from .problem import Problem

CHAINS = 6
GRAPHS = 4
TYPES = ("float32",) * 9 + ("float64", "float16")


def chains(seed: int, times: int = 1) -> Problem:
    """Some chains in one model: functions, an anchor, functions and residuals, views, and a second anchor."""
    count = CHAINS * times
    dice = Dice(2, seed)
    bindings = dice.of((1, 2, 3))
    draft = Draft(dice, bindings, is_static=bindings == 1 or dice.chance(0.2))
    draft.wild = dice.chance(0.1)
    draft.has_open_ones = times == 1 or dice.chance(0.1)
    outputs: list[str] = []
    for number in range(count):
        anchor = ANCHORS[(seed * count + number) % len(ANCHORS)]
        before = len(draft.nodes)
        g = Grower(draft, dice.of(TYPES))
        g.focus = 0.7
        chain(g, anchor)
        made = draft.nodes[before:]
        read = {name for node in made for name in node.input}
        results = [name for node in made for name in node.output]
        outputs += [name for name in results if name not in read or dice.chance(0.2)]
    return draft.problem(outputs, count)


def chain(g: Grower, anchor: Proposal) -> None:
    """One chain."""
    dice = g.dice
    for _ in range(8):
        if g.attempt(lambda grower: [grower.input(*shape_for(anchor, grower))]):
            break
    g.grow(POINTS, dice.integer(0, 2))
    if dice.chance(0.2):
        g.grow(VIEWS, 1)
    for _ in range(6):
        if g.attempt(anchor):
            break
    if dice.chance(0.4):
        g.attempt(residual)
    g.grow(POINTS, dice.integer(1, 5))
    if dice.chance(0.4):
        g.grow(VIEWS, dice.integer(1, 2))
        g.grow(POINTS, dice.integer(0, 2))
    if dice.chance(0.5):
        g.grow(tuple((other, 1.0) for other in (anchor, *ANCHORS)), 1)
        g.grow(POINTS, dice.integer(0, 3))


def graphs(seed: int, times: int = 1) -> Problem:
    """Some graphs of all kinds of nodes in one model, which share nothing but names of sizes."""
    dice = Dice(3, seed)
    bindings = dice.of((1, 2, 3, 3))
    draft = Draft(dice, bindings, is_static=bindings == 1)
    draft.wild = dice.chance(0.05)
    draft.has_open_ones = times == 1 or dice.chance(0.1)
    outputs: list[str] = []
    for _ in range(GRAPHS * times):
        before = len(draft.nodes)
        g = Grower(draft, dice.of(TYPES))
        grow_graph(g)
        outputs += outputs_of(g, 0.15, draft.nodes[before:])
    return draft.problem(outputs, GRAPHS * times)


def grow_graph(g: Grower) -> None:
    """One graph, from two or three inputs that fit an anchor."""
    dice = g.dice
    start = dice.subset(ANCHORS, 2, 3)
    while len(g.pool) < len(start):
        for anchor in start:
            g.attempt(lambda grower, anchor=anchor: [grower.input(*shape_for(anchor, grower))])
    mixed = (*POINTS, *((p, w / 2) for p, w in VIEWS), *((anchor, 0.35) for anchor in ANCHORS))
    g.grow(mixed, dice.integer(8, 24))
