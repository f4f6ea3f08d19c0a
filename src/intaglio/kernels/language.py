"""The language of kernels: what one computes, over which loops, on which elements; nothing in it belongs to a target.

A kernel has loops, outermost first: those that are kept, then those that it reduces along. Its parameters are buffers;
each says how far apart its elements lie along every loop: 0, 1, or a size by name. Its body is a list of statements,
each of which gives a value of one scalar type for every step of the loops that it depends on. Whoever prints a kernel
decides about the order of loops, vectors, tiles, and what is kept in between.

`language_text` writes and reads kernels as text, `language_check` finds broken ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from intaglio.errors import GraphError
from intaglio.ir.dtype import DType

Stride = int | str
"""How far apart elements lie along a loop: nothing, side by side, or a size by name."""


@dataclass(frozen=True, eq=False)
class Number:
    """A literal: a float of a float type, a whole number of any other. Only those with the same bits are equal."""

    value: float | int
    type: str

    def __post_init__(self) -> None:
        value = float(self.value) if self.type in ("f32", "f64") else int(self.value)
        if value != self.value and not math.isnan(value):
            raise GraphError(f"{self.value!r} is no number of the type {self.type}")
        object.__setattr__(self, "value", value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and (self.type, repr(self.value)) == (other.type, repr(other.value))

    def __hash__(self) -> int:
        return hash((self.type, repr(self.value)))


@dataclass(frozen=True)
class Name:
    """What a statement before gives."""

    name: str
    type: str


@dataclass(frozen=True)
class Apply:
    """A function of values; FUNCTIONS has all of them."""

    function: str
    arguments: tuple[Expr, ...]
    type: str
    options: tuple[str, ...] = ()


Expr = Number | Name | Apply


@dataclass(frozen=True)
class Loop:
    """One loop: its name is also that of its extent among the sizes."""

    name: str
    is_reduced: bool = False


@dataclass(frozen=True)
class Parameter:
    """A buffer of elements in memory, with its steps along the loops."""

    name: str
    dtype: DType
    steps: tuple[Stride, ...]
    is_written: bool = False


@dataclass(frozen=True)
class Load:
    """An element of a buffer: as a number, or its bits where the type is an integer that is none of its own."""

    name: str
    type: str
    parameter: str


@dataclass(frozen=True)
class Let:
    """A value computed from others."""

    name: str
    value: Expr

    @property
    def type(self) -> str:
        """The scalar type of the value."""
        return self.value.type


@dataclass(frozen=True)
class Reduce:
    """A value combined along all reduced loops: sum, mean, product, max or min.

    `total` is the type in which it is combined, and `round` the format to which the result is rounded, if any.
    """

    name: str
    type: str
    function: str
    value: Expr
    total: str
    round: str = ""


@dataclass(frozen=True)
class Scan:
    """A running sum or product along one kept loop: of all values up to this step, or before it where exclusive.

    Where it is reversed, the loop's last step comes first. All scans of a kernel go along the same loop the same way.
    """

    name: str
    type: str
    function: str
    value: Expr
    loop: str
    is_exclusive: bool = False
    is_reversed: bool = False


@dataclass(frozen=True)
class Store:
    """A value written to a buffer."""

    parameter: str
    value: Expr


Definition = Load | Let | Reduce | Scan
Statement = Load | Let | Reduce | Scan | Store


@dataclass(frozen=True)
class LoopKernel:
    """A kernel. Where it `checks`, reducing nothing is a fault of the run that the kernel reports."""

    name: str
    about: str
    loops: tuple[Loop, ...]
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    checks: bool = False

    @property
    def kept(self) -> tuple[Loop, ...]:
        """The loops that are not reduced."""
        return tuple(loop for loop in self.loops if not loop.is_reduced)

    @property
    def reduced(self) -> tuple[Loop, ...]:
        """The loops that are reduced."""
        return tuple(loop for loop in self.loops if loop.is_reduced)

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes by name: extents of loops, then steps of parameters."""
        steps = (step for each in self.parameters for step in each.steps if isinstance(step, str))
        return tuple(dict.fromkeys((*(loop.name for loop in self.loops), *steps)))

    @property
    def given(self) -> dict[str, str]:
        """The types of names that come from outside: an epilogue is given the result of the kernel before it."""
        values = (each.value for each in self.body if not isinstance(each, Load))
        names = (part for value in values for part in parts(value) if isinstance(part, Name))
        return {name.name: name.type for name in names if name.name not in self.definitions}

    @property
    def has_reduction(self) -> bool:
        """Whether anything is reduced, be it along loops of one step."""
        return any(isinstance(each, Reduce) for each in self.body)

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The running sums and products."""
        return tuple(each for each in self.body if isinstance(each, Scan))

    @property
    def stores(self) -> dict[str, Expr]:
        """What is written to each parameter."""
        return {each.parameter: each.value for each in self.body if isinstance(each, Store)}

    def row_values(self) -> set[str]:
        """The values that are the same along all reduced loops: results of reductions, and of arithmetic on such."""
        kept = len(self.kept)
        steps = {each.name: each.steps[kept:] for each in self.parameters}
        found: set[str] = set()
        for each in self.body:
            if isinstance(each, Load):
                is_row = all(step == 0 for step in steps[each.parameter])
            else:
                is_row = isinstance(each, Reduce) or all(name in found for name in reads_of(each))
            if is_row and not isinstance(each, Store):
                found.add(each.name)
        return found

    def row_stores(self) -> set[str]:
        """The parameters that are written once for a row: their value and their place are the same all along it.

        A value of a row may also be stored to each element, where what is reduced was repeated along the row.
        """
        kept, rows = len(self.kept), self.row_values()
        steps = {each.name: each.steps[kept:] for each in self.parameters}
        return {
            parameter
            for parameter, value in self.stores.items()
            if set(names_in(value)) <= rows and all(step == 0 for step in steps[parameter])
        }

    def levels(self) -> dict[str, int]:
        """How many reductions, one behind the other, each value stands behind."""
        found: dict[str, int] = {}
        for each in self.body:
            if not isinstance(each, Store):
                below = max((found[name] for name in reads_of(each)), default=0)
                found[each.name] = below + isinstance(each, Reduce)
        return found

    @property
    def definitions(self) -> dict[str, Definition]:
        """The statements that give values, by the name of the value."""
        return {each.name: each for each in self.body if not isinstance(each, Store)}


FUNCTIONS: dict[str, str] = {
    # the same type as the operands, which all have one
    **dict.fromkeys(("abs", "neg", "sign", "add", "sub", "mul", "div", "min", "max", "mod", "fmod", "pow"), "same"),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor", "bit_not", "shift_left", "shift_right", "low_bits"), "same"),
    **dict.fromkeys(("ceil", "floor", "rint", "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos"), "float"),
    **dict.fromkeys(("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf"), "float"),
    **dict.fromkeys(("relu", "round", "expm1"), "float"),
    "power": "same",
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "is_nan"), "compare"),
    **dict.fromkeys(("and", "or", "xor", "not"), "logic"),
    "select": "select",
    **dict.fromkeys(("cast", "decode", "encode", "round_to_odd", "quantize", "magnitude"), "convert"),
}  # fmt: skip
"""Every function and how its result's type follows from its operands: `same` and `float` (the same, and floating
point), `compare` (bool), `logic` (bool of bools), `select` (that of the second and third), `convert` (told with it).

relu is the greater of 0 and a number, NaN staying NaN; expm1 is exp(x) - 1, exact near 0; rint rounds halves to even;
round rounds to the numbers of a narrower format, which is its option; power is modulo 2**64, magnitude an int64 without
its sign; low_bits keeps as many bits as its option says; decode and encode go between numbers and the bits of the
format in their first option."""

_CHEAP = frozenset(
    {"add", "sub", "mul", "neg", "abs", "relu", "cast", "min", "max", "select", "and", "or", "xor", "not", "quantize",
     "eq", "ne", "lt", "le", "gt", "ge", "is_nan", "bit_and", "bit_or", "bit_xor", "bit_not", "round", "low_bits",
     "round_to_odd"}
)  # fmt: skip
"""Functions that cost less than keeping their result in memory."""

_MEDIUM = frozenset({"div", "sqrt", "rint", "floor", "ceil"})


def parts(value: Expr) -> Iterator[Expr]:
    """An expression and all expressions in it."""
    yield value
    if isinstance(value, Apply):
        for argument in value.arguments:
            yield from parts(argument)


def names_in(value: Expr) -> list[str]:
    """The names that an expression reads, in order, each once."""
    return list(dict.fromkeys(each.name for each in parts(value) if isinstance(each, Name)))


def reads_of(statement: Statement) -> list[str]:
    """The names that a statement reads."""
    return [] if isinstance(statement, Load) else names_in(statement.value)


def is_cheap(statement: Statement) -> bool:
    """Whether computing a statement again costs less than keeping its result in memory."""
    if not isinstance(statement, Let):
        return False
    return all(each.function in _CHEAP for each in parts(statement.value) if isinstance(each, Apply))


def nanoseconds(statement: Statement) -> float:
    """What one element of a statement costs, roughly, on one core."""
    if isinstance(statement, (Load, Store)):
        return 0.0
    if isinstance(statement, (Reduce, Scan)):
        return 0.6
    functions = [each.function for each in parts(statement.value) if isinstance(each, Apply)]
    return max((0.05 if f in _CHEAP else 0.1 if f in _MEDIUM else 0.6 for f in functions), default=0.05)
