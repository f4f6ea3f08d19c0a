"""Graphs that grow: proposals that are tried on values which are there already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from .dice import EDGES, SMALL, Dice
from .draft import Dim, Draft, Rejected, zero_dimensional

Proposal = Callable[["Grower"], list[str]]

UNARY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("Neg", {}), ("Abs", {}), ("Exp", {}), ("Sqrt", {}), ("Erf", {}),
    ("LeakyRelu", {"alpha": 0.2}), ("HardSwish", {}), ("HardSigmoid", {}), ("Softplus", {}), ("Gelu", {}),
    ("Floor", {}), ("Elu", {"alpha": 0.5}), ("Softsign", {}), ("Sin", {}), ("Cos", {}), ("Reciprocal", {}),
    ("Mish", {}), ("Round", {}), ("Gelu", {"approximate": "tanh"}), ("Log", {}), ("Sign", {}), ("Identity", {}),
    ("Ceil", {}), ("Selu", {}), ("ThresholdedRelu", {"alpha": 0.3}), ("Atan", {}), ("Celu", {}),
)  # fmt: skip
BINARY = ("Add", "Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "PRelu", "Pow")


class Grower:
    """Chooses operands, and keeps the values that later nodes may read."""

    def __init__(self, draft: Draft, dtype: str = "float32") -> None:
        self.draft, self.dice, self.type = draft, draft.dice, dtype
        self.pool: list[str] = []
        self.sizes: list[Dim] = []
        self.focus = 0.35
        """How much more often the newest value is chosen than the one before it."""

    def dim(self, sizes: tuple[int, ...] | None = None) -> Dim:
        """A size for new inputs: often one that is in use, and another one for each set of feeds unless static."""
        if self.sizes and self.dice.chance(0.4) and sizes is None:
            return self.dice.of(self.sizes)
        if self.draft.is_static or self.dice.chance(0.4):
            made = self.draft.all(self.dice.size(sizes))
        else:
            made = tuple(self.dice.size(sizes) for _ in range(self.draft.bindings))
        self.sizes.append(made)
        return made

    def fixed(self, sizes: tuple[int, ...] | None = None) -> Dim:
        """A size that is the same for all feeds, such as that of channels."""
        return self.draft.all(self.dice.size(sizes))

    def input(self, *dims: Dim, low: float = -2, high: float = 2) -> str:
        """A new input in the pool, small enough."""
        for i in range(self.draft.bindings):
            if np.prod([dim[i] for dim in dims], dtype=np.int64) > 40_000:
                raise Rejected("too large")
        name = self.draft.input(self.type, dims, self.draft.wild and self.dice.chance(0.3), low, high)
        self.pool.append(name)
        return name

    def constant(self, *shape: int, low: float = -1, high: float = 1) -> str:
        """A new constant of the graph's type."""
        return self.draft.numbers(self.type, shape, low, high)

    def weight(self, *shape: int, low: float = -1, high: float = 1) -> str:
        """A constant, or sometimes an input of that shape."""
        scale = 1 / max(1.0, float(np.sqrt(np.prod(shape[1:], dtype=np.float64)))) if len(shape) > 1 else 1.0
        if self.dice.chance(0.15):
            return self.draft.input(
                self.type, [self.draft.all(size) for size in shape], False, low * scale, high * scale
            )
        return self.draft.numbers(self.type, shape, low * scale, high * scale)

    def pick(self, rank: int | None = None, low: int = 0) -> str:
        """A value that is there, mostly a young one."""
        fitting = [n for n in self.pool if self._fits(n, rank, low)]
        if not fitting:
            raise Rejected("no such value")
        back = min(int(self.dice.random.geometric(self.focus)), len(fitting))
        return fitting[-back] if self.dice.chance(0.9) else self.dice.of(fitting)

    def _fits(self, name: str, rank: int | None, low: int) -> bool:
        arrays = self.draft.arrays(name)
        if not isinstance(arrays[0], np.ndarray) or str(arrays[0].dtype) != self.type:
            return False
        return (rank is None or arrays[0].ndim == rank) and arrays[0].ndim >= low

    def static(self, name: str, axis: int) -> int:
        """The size of an axis that is the same for all feeds."""
        dim = self.draft.dims(name)[axis]
        if len(set(dim)) > 1:
            raise Rejected("not the same for all feeds")
        return dim[0]

    def keep(self, *names: str) -> list[str]:
        """Put values into the pool."""
        self.pool += names
        return list(names)

    def partner(self, name: str) -> str:
        """Something that broadcasts with a value: another of its shape, itself, a constant, a new input."""
        dims = self.draft.dims(name)
        alike = [n for n in self.pool if n != name and self._fits(n, len(dims), 0) and self.draft.dims(n) == dims]
        roll = self.dice.random.random()
        if alike and roll < 0.5:
            return self.dice.of(alike)
        if roll < 0.58:
            return name
        if roll < 0.72 or not dims:
            return self.draft.constant(zero_dimensional(self.type, self.dice.of((0.5, -1.5, 2.0, 1.0, 0.0, 3.0))))
        if roll < 0.8:
            return self._broadcast_input(dims)
        return self._broadcast_constant(dims)

    def _broadcast_input(self, dims: tuple[Dim, ...]) -> str:
        start = self.dice.integer(0, len(dims))
        one = self.draft.all(1)
        return self.input(*(one if self.dice.chance(0.3) else dim for dim in dims[start:]))

    def _broadcast_constant(self, dims: tuple[Dim, ...]) -> str:
        """A constant along some axes, such as channels."""
        kept = self.dice.of(({1}, {len(dims) - 1}, {0}, set(range(len(dims))), {len(dims) - 1, len(dims) - 2}))
        shape = [dim[0] if i in kept and len(set(dim)) == 1 else 1 for i, dim in enumerate(dims)]
        while shape and shape[0] == 1 and self.dice.chance(0.6):
            shape.pop(0)
        return self.constant(*shape)

    def grow(self, proposals: tuple[tuple[Proposal, float], ...], count: int) -> list[str]:
        """Try proposals until so many have been taken; all that they made."""
        weights = np.array([weight for _, weight in proposals])
        made, tries = [], 0
        taken = 0
        while taken < count and tries < 8 * count:
            tries += 1
            proposal = proposals[int(self.dice.random.choice(len(proposals), p=weights / weights.sum()))][0]
            new = self.attempt(proposal)
            taken += bool(new)
            made += new
        return made

    def attempt(self, proposal: Proposal) -> list[str]:
        """What a proposal adds; nothing where it does not fit."""
        draft = self.draft
        lists: tuple[list[Any], ...] = (draft.nodes, self.pool, draft.constants, draft.inputs, draft.fed)
        lengths = [len(items) for items in lists]
        try:
            return proposal(self)
        except Rejected:
            for items, length in zip(lists, lengths, strict=True):
                del items[length:]
            return []


def unary(g: Grower) -> list[str]:
    """An elementwise function."""
    operator, attributes = g.dice.of(UNARY)
    return g.keep(g.draft.one(operator, g.pick(), **attributes))


def clip(g: Grower) -> list[str]:
    """Clip, with one or two bounds."""
    ends = [g.draft.constant(zero_dimensional(g.type, end)) if g.dice.chance(0.8) else "" for end in (-0.75, 1.25)]
    return g.keep(g.draft.one("Clip", g.pick(), *ends))


def binary(g: Grower) -> list[str]:
    """An elementwise operator on two values."""
    name = g.pick()
    other = g.partner(name)
    pair = (name, other) if g.dice.chance(0.7) else (other, name)
    return g.keep(g.draft.one(g.dice.of(BINARY), *pair))


def variadic(g: Grower) -> list[str]:
    """Sum, mean, largest of three."""
    name = g.pick()
    return g.keep(g.draft.one(g.dice.of(("Sum", "Mean", "Max", "Min")), name, g.partner(name), g.partner(name)))


def select(g: Grower) -> list[str]:
    """A choice by comparison."""
    name = g.pick()
    is_less = g.draft.one(g.dice.of(("Less", "GreaterOrEqual", "Equal")), name, g.partner(name))
    return g.keep(g.draft.one("Where", is_less, name, g.partner(name)))


def cast(g: Grower) -> list[str]:
    """There and back through another type."""
    from tests.ops.agreement_cases import number_of

    other = g.dice.of(("float64", "float16", "int32", "int64", "bool", "float32", "bfloat16", "int8"))
    name = g.draft.one("Cast", g.pick(), to=number_of(other))
    return g.keep(g.draft.one("Cast", name, to=number_of(g.type)))


def transpose(g: Grower) -> list[str]:
    """Another order of the axes."""
    name = g.pick(low=2)
    order = g.dice.random.permutation(len(g.draft.dims(name)))
    return g.keep(g.draft.one("Transpose", name, perm=[int(i) for i in order]))


def reshape(g: Grower) -> list[str]:
    """Axes that are merged or split."""
    name = g.pick(low=1)
    dims = g.draft.dims(name)
    way = g.dice.integer(0, 4)
    if way == 0:
        return g.keep(g.draft.one("Flatten", name, axis=g.dice.integer(0, len(dims))))
    if way == 1:
        axis = g.dice.integer(0, len(dims))
        return g.keep(g.draft.one("Unsqueeze", name, g.draft.integers(axis)))
    if way == 2:
        return g.keep(g.draft.one("Reshape", name, g.draft.integers(*([0] * (len(dims) - 1)), -1, 1)))
    if way == 3:
        size = g.static(name, -1)
        part = g.dice.of([n for n in range(1, size + 1) if size % n == 0] or [1])
        return g.keep(g.draft.one("Reshape", name, g.draft.integers(*([0] * (len(dims) - 1)), -1, part)))
    shape = g.draft.one("Shape", name)
    turned = g.draft.one(
        "Concat", g.draft.integers(-1), g.draft.one("Slice", shape, *map(g.draft.integers, (1, 99))), axis=0
    )
    return g.keep(g.draft.one("Reshape", name, turned))


def cut(g: Grower) -> list[str]:
    """A slice."""
    name = g.pick(low=1)
    axis, step = g.dice.axis(len(g.draft.dims(name))), g.dice.of((1, 1, 2, -1, -2, 3))
    ends = (g.dice.integer(0, 3), g.dice.of((-1, 99999, 4, 8))) if step > 0 else (g.dice.of((-1, 7)), -99999)
    return g.keep(g.draft.one("Slice", name, *(g.draft.integers(n) for n in (ends[0], ends[1], axis, step))))


def split(g: Grower) -> list[str]:
    """Halves, of which both go on."""
    name = g.pick(low=1)
    axis = g.dice.axis(len(g.draft.dims(name)))
    return g.keep(*g.draft.add("Split", name, outputs=2, axis=axis, num_outputs=2))


def expand(g: Grower) -> list[str]:
    """A repeated axis."""
    name = g.pick()
    if g.dice.chance(0.5):
        counts = [g.dice.of((1, 1, 2)) for _ in g.draft.dims(name)]
        return g.keep(g.draft.one("Tile", name, g.draft.integers(*counts)))
    return g.keep(g.draft.one("Expand", name, g.draft.integers(g.dice.of((1, 2, 3)), *([1] * len(g.draft.dims(name))))))


def concat(g: Grower) -> list[str]:
    """Two or three values side by side."""
    name = g.pick(low=1)
    axis = g.dice.axis(len(g.draft.dims(name)))
    others = []
    for _ in range(g.dice.integer(1, 2)):
        dims = g.draft.dims(name)
        alike = [n for n in g.pool if g._fits(n, len(dims), 0) and _joins(g.draft.dims(n), dims, axis)]
        others.append(g.dice.of(alike))
    return g.keep(g.draft.one("Concat", name, *others, axis=axis))


def _joins(left: tuple[Dim, ...], right: tuple[Dim, ...], axis: int) -> bool:
    axis %= len(right)
    return all(a == b for i, (a, b) in enumerate(zip(left, right, strict=True)) if i != axis)


def pad(g: Grower) -> list[str]:
    """Padding."""
    name = g.pick(low=1)
    mode = g.dice.of(("constant", "constant", "edge", "reflect", "wrap"))
    least = min(min(dim) for dim in g.draft.dims(name))
    most = 2 if mode == "constant" else max(0, min(2, least - 1))
    pads = [g.dice.integer(0, most) for _ in range(2 * len(g.draft.dims(name)))]
    return g.keep(g.draft.one("Pad", name, g.draft.integers(*pads), mode=mode))


def residual(g: Grower) -> list[str]:
    """The newest value with what it was made of: h + f(h), h * f(h)."""
    name = g.pick()
    dims = g.draft.dims(name)
    before = [n for n in g.pool if n != name and g._fits(n, len(dims), 0) and g.draft.dims(n) == dims]
    if not before:
        raise Rejected("nothing of that shape")
    return g.keep(g.draft.one(g.dice.of(("Add", "Add", "Mul", "Sub", "Max")), before[-1], name))


VIEWS = ((transpose, 2.0), (reshape, 2.0), (cut, 2.0), (split, 1.0), (expand, 1.0), (concat, 1.5), (pad, 0.7))
POINTS = ((unary, 5.0), (binary, 6.0), (residual, 3.0), (variadic, 0.6), (select, 0.8), (clip, 0.6), (cast, 0.4))


def outputs_of(g: Grower, share: float = 0.25, nodes: Sequence[NodeProto] | None = None) -> list[str]:
    """What nobody reads, and some of what others read; of all nodes unless some are named."""
    nodes = g.draft.nodes if nodes is None else nodes
    read = {name for node in nodes for name in node.input}
    made = [name for node in nodes for name in node.output]
    chosen = [name for name in made if name not in read or g.dice.chance(share)]
    return chosen or made[-1:]


def sizes_small(dice: Dice) -> tuple[int, ...]:
    """Sizes for what has many axes."""
    return SMALL if dice.chance(0.7) else EDGES
