"""What stands in the gaps of a statement's template: tensors that are there, axes, indices, numbers, types.

A template is a line of Python with gaps: `<new> = <f>.sum(<d>, keepdim=<flag>)`. The first tensor of a line is what the
other gaps follow, so `<d>` is one of its axes. A gap that cannot be filled gives no line, and a line that PyTorch
refuses is dropped, so no template has to say when it is valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..dice import Dice

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.uint8, torch.int8, torch.int16)
NUMBERS = ("0.5", "-1.5", "2", "3.0", "-1", "0", "1", "0.1", "-2", "7", "1e-3", "True")
WHOLE = ("1", "2", "-1", "3", "0", "5", "-3", "2")
SPECIAL = ("float('inf')", "float('nan')", "-float('inf')", "1e30")
SIGNS = ("sin", "tanh", "relu", "abs", "neg", "exp", "floor")
GAP = re.compile(r"<(\w+)>")


class NoFill(Exception):
    """Nothing fits a gap."""


Environment = Mapping[str, Any]


class Scope:
    """The values that are there before a statement, one environment for each set of sizes."""

    def __init__(self, environments: Sequence[Environment]) -> None:
        self.environments = list(environments)
        first = self.environments[0]
        self.tensors = [name for name, value in first.items() if isinstance(value, torch.Tensor)]
        self.numbers = [name for name, value in first.items() if isinstance(value, (int, float))]

    def dtype(self, name: str) -> Any:
        """The element type of a tensor."""
        return self.environments[0][name].dtype

    def rank(self, name: str) -> int:
        """The rank of a tensor, the least where sizes change it."""
        return min(each[name].ndim for each in self.environments)

    def shapes(self, name: str) -> tuple[tuple[int, ...], ...]:
        """The shapes of a tensor for all sets of sizes."""
        return tuple(tuple(each[name].shape) for each in self.environments)

    def least(self, name: str, axis: int) -> int:
        """The smallest size of an axis."""
        return min(shape[axis] for shape in self.shapes(name))

    def fixed(self, name: str, axis: int) -> int:
        """A size that is the same for all sets of sizes; raises NoFill where it is not."""
        sizes = {shape[axis] for shape in self.shapes(name)}
        if len(sizes) > 1:
            raise NoFill
        return sizes.pop()


def is_float(dtype: Any) -> bool:
    """Whether an element type is one of floats."""
    return dtype in FLOATS


KINDS: dict[str, Callable[[Any], bool]] = {
    "f": is_float,
    "i": lambda dtype: dtype in INTEGERS,
    "b": lambda dtype: dtype == torch.bool,
    "v": lambda dtype: dtype != torch.bool,
    "a": lambda dtype: True,
}


class Filler:
    """Fills the gaps of one template."""

    def __init__(self, dice: Dice, scope: Scope, fresh: Callable[[], str]) -> None:
        self.dice, self.scope, self._fresh = dice, scope, fresh
        self.head = ""
        self.made: list[str] = []

    def fill(self, template: str) -> str:
        """The line; raises NoFill where a gap has nothing that fits."""
        target, assigned, rest = template.partition(" = ")
        if assigned and target.startswith("<new"):
            filled = GAP.sub(self._replace, rest)
            return f"{GAP.sub(self._replace, target)} = {filled}"
        return GAP.sub(self._replace, template)

    def _replace(self, match: re.Match[str]) -> str:
        return self.gap(match.group(1))

    def gap(self, name: str) -> str:
        """What stands in one gap."""
        if name == "new":
            self.made.append(self._fresh())
            return self.made[-1]
        if name[0] in KINDS and (len(name) == 1 or name[1:].isdigit()):
            return self._tensor(name[0], int(name[1:] or -1))
        if not self.head:
            self._tensor("a", -1)
        return getattr(self, f"gap_{name}")()

    def _tensor(self, kind: str, rank: int) -> str:
        fits = [each for each in self.scope.tensors if KINDS[kind](self.scope.dtype(each))]
        if rank >= 0:
            fits = [each for each in fits if self.scope.rank(each) == rank]
        chosen = self.recent(fits)
        self.head = self.head or chosen
        return chosen

    def recent(self, names: Sequence[str]) -> str:
        """One of the names, rather a late one."""
        if not names:
            raise NoFill
        if len(names) > 3 and self.dice.chance(0.6):
            names = names[-3:]
        return self.dice.of(names)

    @property
    def rank(self) -> int:
        """The rank of the first tensor."""
        return self.scope.rank(self.head)

    def axis(self) -> int:
        """An axis of the first tensor."""
        if not self.rank:
            raise NoFill
        return self.dice.integer(0, self.rank - 1)

    def gap_h(self) -> str:
        return self.head

    def gap_d(self) -> str:
        axis = self.axis()
        return str(axis - self.rank if self.dice.chance(0.4) else axis)

    def gap_axes(self) -> str:
        if not self.rank:
            raise NoFill
        chosen = self.dice.subset(range(self.rank), 1, 3)
        return f"({', '.join(map(str, chosen))},)"

    def gap_perm(self) -> str:
        return ", ".join(map(str, self.dice.subset(range(self.rank), self.rank, self.rank)))

    def gap_same(self) -> str:
        shapes = self.scope.shapes(self.head)
        return self.recent([each for each in self.scope.tensors if self.scope.shapes(each) == shapes])

    def gap_like(self) -> str:
        """A tensor that can be broadcast with the first, or a number."""
        if self.dice.chance(0.2):
            return self.gap_c()
        return self.recent([each for each in self.scope.tensors if self._fits(each)])

    def _fits(self, other: str) -> bool:
        try:
            for left, right in zip(self.scope.shapes(self.head), self.scope.shapes(other), strict=True):
                torch.broadcast_shapes(left, right)
        except RuntimeError:
            return False
        return True

    def gap_mask(self) -> str:
        """Truth values that can be broadcast to the first tensor."""
        masks = [each for each in self.scope.tensors if self.scope.dtype(each) == torch.bool and self._fits(each)]
        if masks and self.dice.chance(0.5):
            return self.recent(masks)
        return f"({self.gap_same()} {self.dice.of(('>', '<', '>=', '!='))} {self.dice.of(('0', '1', '0.3'))})"

    def gap_c(self) -> str:
        """A number: a literal, or one that the program holds."""
        if self.scope.numbers and self.dice.chance(0.3):
            return self.dice.of(self.scope.numbers)
        return self.dice.of(SPECIAL) if self.dice.chance(0.03) else self.dice.of(NUMBERS)

    def gap_w(self) -> str:
        return self.dice.of(WHOLE)

    def gap_p(self) -> str:
        return self.dice.of(("0.5", "0.2", "0.9", "0.0", "1.0"))

    def gap_flag(self) -> str:
        return self.dice.of(("True", "False"))

    def gap_dt(self) -> str:
        types = (*FLOATS, torch.float32, torch.float64, *INTEGERS, torch.int64, torch.bool)
        return str(self.dice.of(types))

    def gap_ft(self) -> str:
        return str(self.dice.of((*FLOATS, torch.float32)))

    def gap_sign(self) -> str:
        return self.dice.of(SIGNS)

    def gap_len(self) -> str:
        return f"{self.head}.shape[{self.axis()}]"

    def gap_at(self) -> str:
        """A place on the first axis that is there for all sizes, counted from either end."""
        return self._place(0)

    def _place(self, axis: int) -> str:
        if self.rank <= axis:
            raise NoFill
        size = min(self.scope.least(self.head, axis), 4)
        if not size:
            raise NoFill
        return str(self.dice.integer(-size, size - 1))

    def gap_slice(self) -> str:
        """A slice of one axis, with a step of at least 1."""
        begin = self.dice.of(("", "", "1", "2", "-2", "-3", "0"))
        end = self.dice.of(("", "", "-1", "3", "2", "100", f"{self.head}.shape[0] - 1"))
        step = self.dice.of(("", "", "", ":2", ":3"))
        return f"{begin}:{end}{step}"

    def gap_index(self) -> str:
        """An index of slices, places, new axes and an ellipsis."""
        parts: list[str] = []
        axis = 0
        while axis < self.rank and (not parts or self.dice.chance(0.6)):
            kind = self.dice.of(("slice", "slice", "place", "new", "all", "dots"))
            if kind == "new":
                parts.append("None")
                continue
            if kind == "dots":
                parts.append("...")
                break
            parts.append(self._place(axis) if kind == "place" else ":" if kind == "all" else self.gap_slice())
            axis += 1
        if not parts:
            raise NoFill
        return ", ".join(parts)

    def gap_places(self) -> str:
        """A tensor of places on the first axis, as an expression."""
        listed = ", ".join(self._place(0) for _ in range(self.dice.integer(0, 3)))
        choices = [f"torch.tensor([{listed}], dtype=torch.int64)", f"torch.arange({self.head}.shape[0])"]
        choices.append(f"torch.arange({self.head}.shape[0] - 1, -1, -1)")
        ranks = [each for each in self.scope.tensors if self.scope.dtype(each) == torch.int64]
        choices += [f"({each} % {self.head}.shape[0])" for each in ranks[-1:]]
        return self.dice.of(choices)

    def gap_ten(self) -> str:
        """A literal tensor that broadcasts with the first."""
        size = self.scope.fixed(self.head, -1) if self.rank and self.dice.chance(0.5) else 1
        if size > 8:
            raise NoFill
        listed = ", ".join(self.dice.of(NUMBERS[:-1]) for _ in range(size))
        return f"torch.tensor([{listed}])"

    def gap_shape(self) -> str:
        """A shape for as many elements as the first tensor has."""
        head = self.head
        sizes = [f"{head}.shape[{axis}]" for axis in range(self.rank)]
        options = ["-1", "-1, 1", "1, -1"]
        if self.rank:
            options += [f"{sizes[0]}, -1", f"-1, {sizes[-1]}", f"{head}.shape", ", ".join(reversed(sizes))]
        if self.rank > 1:
            options += [f"{sizes[0]} * {sizes[1]}, -1", f"-1, {sizes[1]}, {sizes[0]}"]
        return self.dice.of(options)

    def gap_wide(self) -> str:
        """A shape to which the first tensor can be expanded."""
        sizes = ["-1"] * self.rank
        for axis in range(self.rank):
            if all(shape[axis] == 1 for shape in self.scope.shapes(self.head)):
                sizes[axis] = self.dice.of(("3", "-1", "2"))
        front = self.dice.of(("", "", "2, ", "1, ", "3, 2, "))
        return front + ", ".join(sizes) if sizes else front + "2"

    def gap_strided(self) -> str:
        """Arguments of `as_strided` that stay in the storage of the first tensor."""
        room = min(each[self.head].untyped_storage().nbytes() for each in self.scope.environments)
        room //= self.scope.environments[0][self.head].element_size()
        if room < 4:
            raise NoFill
        return self.dice.of(
            (
                "(2, 2), (2, 1)",
                "(2, 2), (1, 2)",
                "(2, 2), (1, 1)",
                "(2,), (3,), 0",
                "(2, 1), (1, 1), 1",
                f"({self.head}.numel() // 2, 2), (2, 1)",
                "(3,), (1,), 1",
                "(2, 3), (0, 1)",
            )
        )

    def gap_pads(self) -> str:
        count = self.dice.integer(1, min(self.rank, 2)) if self.rank else 0
        if not count:
            raise NoFill
        return f"({', '.join(self.dice.of(('0', '1', '2', '-1', '1')) for _ in range(2 * count))})"
