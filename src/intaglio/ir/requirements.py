"""What sizes must be to each other where a type rule alone cannot tell whether they are.

A type rule says what it needs with the functions here. They raise where it is certain that the sizes do not fit, and do
nothing where it is certain that they do. What depends on the values of symbols is recorded for whoever asked with
`recording`, and checked once those values are known.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property

from intaglio.errors import ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.dim import Dim
from intaglio.ir.substitution import evaluate
from intaglio.record import Record


class Requirement(Record):
    """Pairs of dimensions of which one must be equal, and what to say where none is."""

    pairs: tuple[tuple[Dim, Dim], ...]
    message: str = field(compare=False)

    @cached_property
    def symbols(self) -> set[str]:
        """The names of the symbols on which it depends."""
        return set[str]().union(*(dims.symbols(dim) for pair in self.pairs for dim in pair))

    def holds(self, bindings: Mapping[str, int]) -> bool:
        """Whether it is met; every symbol must be bound."""
        try:
            return any(evaluate(left, bindings) == evaluate(right, bindings) for left, right in self.pairs)
        except ShapeError:
            return False


class _Recorders(threading.local):
    def __init__(self) -> None:
        self.lists: list[dict[Requirement, None]] = []


_recorders = _Recorders()


@contextmanager
def recording() -> Generator[dict[Requirement, None]]:
    """Within this context requirements that stay open are collected, each once, in order."""
    found: dict[Requirement, None] = {}
    _recorders.lists.append(found)
    try:
        yield found
    finally:
        _recorders.lists.pop()


def need_equal(left: Dim, right: Dim, message: str) -> None:
    """Two sizes must be equal.

    >>> with recording() as found:
    ...     need_equal(dims.symbol("N"), 3, "three are needed")
    >>> list(found)
    [Requirement(pairs=((N, 3),), message='three are needed')]
    """
    if left == right:
        return
    if dims.compare(left, right) in (-1, 1):
        raise ShapeError(message)
    _record([(left, right)], message)


def need_at_most(left: Dim, right: Dim, message: str) -> None:
    """The first size must not be larger than the second."""
    low, high = dims.bounds(left - right)
    if low is not None and low > 0:
        raise ShapeError(message)
    if high is None or high > 0:
        _record([(dims.maximum(left, right), right)], message)


def need_multiple(size: Dim, divisor: Dim, message: str) -> None:
    """The size must be a multiple of the divisor, which must not be 0."""
    need_at_most(1, divisor, message)
    need_equal(dims.mod(size, divisor), 0, message)


def need_stretch(size: Dim, wanted: Dim, message: str) -> None:
    """The first size must be the second, or 1, so that it can be repeated."""
    if size in (1, wanted):
        return
    if dims.compare(size, wanted) in (-1, 1) and dims.compare(size, 1) in (-1, 1):
        raise ShapeError(message)
    _record([(size, wanted), (size, 1)], message)


def broadcast(left: Dim, right: Dim) -> Dim:
    """`dim.broadcast`, for which the sizes must be equal or one of them 1."""
    result = dims.broadcast(left, right)
    if left != right and 1 not in (left, right):
        message = f"dimensions {left} and {right} cannot be broadcast together"
        _record([(left, right), (left, 1), (right, 1)], message)
    return result


def broadcast_shapes(*shapes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape of several operands after NumPy-style broadcasting."""
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[Dim] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            result[axis] = broadcast(result[axis], size)
    return tuple(result)


def _record(pairs: Sequence[tuple[Dim, Dim]], message: str) -> None:
    if _recorders.lists:
        open = tuple(pair for pair in pairs if dims.compare(*pair) not in (-1, 1))
        _recorders.lists[-1].setdefault(Requirement(open, message))
