"""Inputs that are given away: of random graphs with caches, runs with `donate` give the bits of runs without.

Each part of a graph has squares of numbers as inputs, so that every value has the shape of every input: results are
scattered into, computed in other orders, read again, and decided by branches. Some outputs take the memory of inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import intaglio
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import BOOL, FLOAT32, INT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType

from ..judging import Finding, Verdict
from . import Seen, Tell

PARTS = 12
"""Parts of one seed's graph, times `--times`."""
SIZES = (1, 3, 9, 33)
"""The sides of the squares, one after the other, and the first of them again."""

Generator = np.random.Generator


@dataclass
class Part:
    """A part of a graph under construction: its own inputs, and the squares that there are by now."""

    b: Builder
    dice: Generator
    name: str
    caches: list[Value]
    row: Value
    places: Value
    flag: Value
    squares: list[Value] = field(default_factory=list[Value])

    def any(self) -> Value:
        """One of the squares; the inputs are likely."""
        return self.squares[self.dice.integers(len(self.squares))] if self.dice.random() < 0.5 else self.cache()

    def cache(self) -> Value:
        """One of the inputs that may be given away."""
        return self.caches[self.dice.integers(len(self.caches))]


def look(seed: int, times: int, tell: Tell) -> Seen:
    """Make a seed's graph and compare; a case is a part at one size."""
    tell("generating")
    dice = np.random.default_rng(seed)
    graph, donate = made(dice, PARTS * times)
    verdict = Verdict()
    tell("native")
    plain, given = intaglio.load(graph, threads=1), intaglio.load(graph, threads=1 + seed % 2, donate=donate)
    notes = given.explain().notes
    verdict.judges["in place"] += sum(note.startswith("in place") for note in notes)
    verdict.judges["copied"] += sum(note.startswith("copied at the end") for note in notes)
    for size in (*SIZES, SIZES[0]):
        feeds = {value.name: _feed(value, size, dice) for value in graph.inputs}
        for text in difference(plain, given, donate, feeds):
            verdict.findings.append(Finding("donations", "", size, text, str(given.simplified)))
    return Seen(len(SIZES) * PARTS * times, verdict)


def difference(plain: Any, given: Any, donate: dict[str, str], feeds: dict[str, Any]) -> list[str]:
    """What runs with and without `donate` give that differs."""
    wanted = plain.run(feeds)
    copies = {name: array.copy() for name, array in feeds.items()}
    found = given.run(copies)
    texts = [f"{made} is not the array of {name}" for name, made in donate.items() if found[made] is not copies[name]]
    kept = [name for name in feeds if name not in donate and not _same(feeds[name], copies[name])]
    texts += [f"the input {name} has changed" for name in kept]
    return texts + [f"{name} differs" for name in wanted if not _same(wanted[name], found[name])]


def _same(left: Any, right: Any) -> bool:
    return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")


def _feed(value: Value, size: int, dice: Generator) -> Any:
    shape = [size if not isinstance(dim, int) else dim for dim in value.shape]
    if value.dtype == BOOL:
        return np.array(dice.random() < 0.5)
    if value.dtype == INT64:
        return dice.integers(-size, size, shape)
    return dice.integers(-8, 9, shape).astype(np.float32)


def made(dice: Generator, parts: int) -> tuple[Graph, dict[str, str]]:
    """A graph of parts that share nothing, and which output is to take the memory of which input."""
    graph, side = Graph("donations"), symbol("n")
    b = Builder(graph)
    outputs: list[Value] = []
    donate: dict[str, str] = {}
    square = TensorType(FLOAT32, (side, side))
    for number in range(parts):
        name = f"p{number}"
        caches = [graph.add_input(f"{name}_cache{place}", square) for place in range(int(dice.integers(1, 4)))]
        row = graph.add_input(f"{name}_row", TensorType(FLOAT32, (1, side)))
        places = graph.add_input(f"{name}_place", TensorType(INT64, (1, 1)))
        flag = graph.add_input(f"{name}_flag", TensorType(BOOL, ()))
        part = Part(b, dice, name, caches, row, places, flag, list(caches))
        for _ in range(int(dice.integers(1, 7))):
            with b.active():
                part.squares.append(STEPS[dice.integers(len(STEPS))](part))
        results = _results(part)
        outputs += results
        free = [value for value in results if value.name not in donate.values()]
        for cache, result in zip(caches, dice.permutation(np.array(free, object)), strict=False):
            donate[cache.name] = result.name
    graph.set_outputs(outputs)
    return graph, donate


def _results(part: Part) -> list[Value]:
    """Some of the squares as outputs with names of their own, the last one among them."""
    chosen = [part.squares[-1], *(part.any() for _ in range(int(part.dice.integers(1, 4))))]
    found: list[Value] = []
    for place, value in enumerate(chosen):
        result = part.b.Identity(value) if value in found or value.producer is None else value
        result.name = f"{part.name}_out{place}" if result.producer is not None else result.name
        found.append(result)
    return found


def _scattered(part: Part) -> Value:
    return part.b.ScatterND(part.any(), part.places, part.row)


def _added(part: Part) -> Value:
    return part.b.ScatterND(part.any(), part.places, part.row, reduction="add")


def _elements(part: Part) -> Value:
    wide = part.b.Expand(part.places, part.b.Shape(part.row))
    return part.b.ScatterElements(part.any(), wide, part.row, axis=0)


def _rows(part: Part) -> Value:
    """Rows of a cache from a place on, which are written over."""
    b, cache = part.b, part.any()
    start = b.Reshape(b.Mod(part.places, b.Reshape(b.Shape(cache, start=0, end=1), [1, 1])), [1])
    lifted, row = (b.Unsqueeze(each, b.constant(np.array([0]))) for each in (cache, part.row))
    return b.Squeeze(b.TensorScatter(lifted, row, start, axis=1), b.constant(np.array([0])))


def _sum(part: Part) -> Value:
    return part.any() + part.any()


def _with_other_order(part: Part) -> Value:
    """An operand that is also read in another order."""
    cache = part.any()
    return cache - part.b.Transpose(cache) * 2.0


def _turned(part: Part) -> Value:
    return part.b.Transpose(part.any(), perm=(1, 0))


def _with_row(part: Part) -> Value:
    return part.any() * part.row


def _less_sum(part: Part) -> Value:
    cache = part.any()
    return cache - part.b.ReduceSum(cache, part.b.constant(np.array([int(part.dice.integers(2))])), keepdims=1)


def _running(part: Part) -> Value:
    return part.b.CumSum(part.any(), part.b.constant(np.int64(0)))


def _product(part: Part) -> Value:
    return part.b.MatMul(part.any(), part.any())


def _reshaped(part: Part) -> Value:
    cache = part.any()
    return part.b.Reshape(part.b.Reshape(cache, part.b.constant(np.array([-1]))) + 1.0, part.b.Shape(cache))


def _shifted(part: Part) -> Value:
    """The first row behind all others."""
    cache, b = part.any(), part.b
    one, zero, end = (b.constant(np.array([number])) for number in (1, 0, 2**31))
    turned = b.Concat(b.Slice(cache, one, end, zero), b.Slice(cache, zero, one, zero), axis=0)
    return b.Reshape(turned, b.Shape(cache))


def _chosen(part: Part) -> Value:
    return part.b.Where(part.b.Greater(part.any(), part.any()), part.any(), part.any())


def _guarded(part: Part) -> Value:
    """A square that a branch changes, or leaves as it is."""
    cache, other = part.any(), part.any()
    graph = part.b.graph
    then, otherwise = Graph("then", outer=graph), Graph("otherwise", outer=graph)
    then.set_outputs([Builder(then).Add(cache, other)])
    otherwise.set_outputs([Builder(otherwise).Identity(cache)])
    return part.b.If(part.flag, then_branch=then, else_branch=otherwise)


STEPS: tuple[Callable[[Part], Value], ...] = (
    _scattered, _scattered, _added, _elements, _rows, _sum, _with_other_order, _turned, _with_row, _less_sum, _running,
    _product, _reshaped, _shifted, _chosen, _guarded, _guarded,
)  # fmt: skip
