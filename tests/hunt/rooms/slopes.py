"""Gradients of a graph to the second order, and central differences that judge them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from intaglio.autodiff import gradients
from intaglio.autodiff.backward import input_like
from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph, Value
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate_values, run_node

Arrays = Mapping[str, Any]

STEPS = (1e-5, 1e-6, 1e-4, 1e-7)
"""Steps of the differences, of which the later ones are taken where the first does not agree."""
TOLERANCE = 1e-4
"""How far a gradient may be from the differences, relatively."""
NOISE = 2e-11
"""What rounding may do to a value: a draft computes with numbers of at most 1e4."""
ELEMENTS = 3
"""How many elements are moved one by one, besides all of them at once."""


class Function:
    """A weighted sum of some outputs of a model, and its gradients up to an order, weighted and summed in turn."""

    def __init__(self, model: onnx.ModelProto, of: Sequence[str], wrt: Sequence[str], order: int) -> None:
        self.graph: Graph = read_model(model).graph
        self.builder = Builder(self.graph)
        self.wrt = [value for value in self.graph.inputs if value.name in wrt]
        made = {value.name: value for value in (*self.graph.values(), *self.graph.outputs)}
        self.values = [self._weighted([made[name] for name in of])]
        self.gradients: list[list[Value]] = []
        for _ in range(order):
            found = gradients(self.graph, self.values[-1], self.wrt)
            self.gradients.append(found)
            self.values.append(self._weighted(found))

    def _weighted(self, values: Sequence[Value]) -> Value:
        """The sum of the products with weights, which are further inputs."""
        order = len(getattr(self, "gradients", ()))
        weights = [input_like(self.builder, f"weight{order}.{i}", value) for i, value in enumerate(values)]
        with self.builder.active():
            parts = [
                self.builder.ReduceSum(value * weight, keepdims=0)
                for value, weight in zip(values, weights, strict=True)
            ]
            return parts[0] if len(parts) == 1 else self.builder.Sum(*parts)

    def __call__(self, feeds: Arrays, wanted: Sequence[Value]) -> list[Any]:
        arrays = [feeds[value.name] for value in self.graph.inputs]
        with np.errstate(all="ignore"):
            return evaluate_values(self.graph, arrays, wanted)

    def number(self, feeds: Arrays, wanted: Value) -> float:
        """One number; the types of nodes are not checked again, as they were when all gradients were computed."""
        known: dict[Value, Any] = {value: feeds[value.name] for value in self.graph.inputs}
        with np.errstate(all="ignore"):
            for node in self.graph.nodes:
                known.update(zip(node.outputs, run_node(node, known), strict=False))
        return float(known[wanted])


def weights_of(shapes: Sequence[tuple[int, ...]], order: int, random: np.random.Generator) -> dict[str, Any]:
    """Random weights, none of them near zero."""
    return {
        f"weight{order}.{i}": random.uniform(0.5, 1.5, shape) * random.choice((-1.0, 1.0), shape)
        for i, shape in enumerate(shapes)
    }


@dataclass(frozen=True)
class Move:
    """A direction in which inputs are moved: one element, or all of them."""

    name: str
    place: tuple[int, ...]
    directions: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.name}{list(self.place)}" if self.name else "all inputs at once"

    def moved(self, feeds: Arrays, step: float) -> dict[str, Any]:
        """The feeds after a step."""
        return {**feeds, **{name: feeds[name] + step * array for name, array in self.directions.items()}}

    def slope(self, bars: Arrays) -> float:
        """What gradients say about this direction."""
        with np.errstate(all="ignore"):
            return float(sum(np.sum(bars[name] * array) for name, array in self.directions.items()))


def moves_of(feeds: Arrays, wrt: Sequence[str], random: np.random.Generator) -> Iterator[Move]:
    """All inputs at once, then some elements."""
    yield Move("", (), {name: random.uniform(-1, 1, feeds[name].shape) for name in wrt})
    places = [(name, place) for name in wrt for place in np.ndindex(feeds[name].shape)]
    for index in random.permutation(len(places))[:ELEMENTS]:
        name, place = places[int(index)]
        direction = np.zeros(feeds[name].shape)
        direction[place] = 1.0
        yield Move(name, place, {name: direction})


class Differences:
    """Central differences of a value along a move, for several steps."""

    def __init__(self, function: Function, value: Value, feeds: Arrays, move: Move) -> None:
        self.function, self.value, self.feeds, self.move = function, value, feeds, move
        self.ends: dict[float, tuple[float, float]] = {}

    def _at(self, step: float) -> float:
        """The value after a step; NaN where another shape comes of it, which the weights do not fit."""
        try:
            return self.function.number(self.move.moved(self.feeds, step), self.value)
        except (OperatorError, ShapeError):
            return np.nan

    @cached_property
    def middle(self) -> float:
        """The value where nothing is moved."""
        return self._at(0.0)

    def slope(self, step: float) -> float:
        """The central difference."""
        if step not in self.ends:
            self.ends[step] = self._at(step), self._at(-step)
        high, low = self.ends[step]
        return (high - low) / (2 * step)

    def noise(self, step: float) -> float:
        """How far rounding may carry the difference."""
        return NOISE * max(1.0, *map(abs, self.ends[step])) / step

    def agrees(self, ours: float, step: float, tolerance: float = TOLERANCE) -> bool:
        """Whether a slope is that of one step."""
        found = self.slope(step)
        return abs(ours - found) <= tolerance * max(abs(ours), abs(found)) + self.noise(step)

    def is_smooth(self, error: float) -> bool:
        """Whether all steps have about the same slope, and both sides nearer to each other than an error is large."""
        slopes = [self.slope(step) for step in STEPS]
        if not np.isfinite([*slopes, self.middle]).all():
            return False
        first = STEPS[0]
        steady = all(self.agrees(slopes[0], step, 20 * TOLERANCE) for step in STEPS[1:])
        sides = [(end - self.middle) / step for end, step in zip(self.ends[first], (first, -first), strict=True)]
        return steady and abs(sides[0] - sides[1]) <= min(error / 2, 1e-2 * max(map(abs, sides))) + 2 * self.noise(
            first
        )

    def verdict(self, ours: float) -> str:
        """`right`, `open` where the function has a kink or an edge nearby, or `wrong`."""
        if np.isfinite(ours) and any(self.agrees(ours, step) for step in STEPS):
            return "right"
        error = abs(ours - self.slope(STEPS[0])) if np.isfinite(ours) else np.inf
        return "wrong" if self.is_smooth(error) else "open"
