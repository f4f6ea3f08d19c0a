"""Sizes in an explanation: numbers put in for symbols, and names for what would be written again and again."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from intaglio.ir.dim import Atom, Dim, DimFunction, Expr, bounds, symbol, symbols
from intaglio.ir.substitution import replace_atoms, substitute
from intaglio.ir.types import TensorType, Type
from intaglio.record import Record

LEAST_NAMED = 12
"""Expressions of fewer characters keep standing where they are."""

LEAST_PART = 16
"""The same for parts of sizes."""

_DEPTH = 64
"""How deep calls in calls are named, from the inside."""

_ROUNDS = 4
"""How often names are put in; where one is put into an expression, another may come to fit."""


class Sizes(Record):
    """Numbers for symbols, and names for expressions that occur several times."""

    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    names: dict[str, Dim] = field(default_factory=dict[str, Dim])
    """What each name stands for, in terms of symbols and of the names before it."""
    atoms: dict[Atom, Dim] = field(default_factory=dict[Atom, Dim])
    """What is written instead of a part of an expression: a name, or one more or less than it."""

    def put(self, size: Dim) -> Dim:
        """A size with numbers and names put in."""
        size = substitute(size, self.dims) if self.dims else size
        for _ in range(_ROUNDS if self.atoms else 0):
            before, size = size, replace_atoms(size, self.atoms)
            if size == before:
                break
        return size

    def put_into_type(self, type: Type) -> Type:
        """A type with numbers and names put in."""
        if not isinstance(type, TensorType) or type.shape is None:
            return type
        return TensorType(type.dtype, tuple(self.put(dim) for dim in type.shape))

    def put_into_text(self, text: str, sizes: Iterable[Dim]) -> str:
        """A title with numbers and names put in, where one of these sizes stands in a shape or in `m x n x k`."""
        changed = {str(size): str(self.put(size)) for size in sizes if isinstance(size, Expr)}
        for before in sorted(changed, key=len, reverse=True):
            if changed[before] == before:
                continue
            words = re.escape(before)
            places = (
                rf"(?:(?<=\[)|(?<=, )|(?<= x )){words}(?=[,\] ]|$)",
                rf"(?<= ){words}(?= x )",
                rf"^{words}(?= = )",
                rf"(?<= = ){words}$",
            )
            text = re.sub("|".join(places), lambda _, after=changed[before]: after, text)
        return text


def name_sizes(sizes: Iterable[Dim], dims: Mapping[str, int]) -> Sizes:
    """Numbers for the symbols in `dims`, and names for those of `sizes` that are long and come again, in others too.

    They are the sizes of tensors, so none is less than zero.

    >>> found = name_sizes([(symbol("rows") - 1) // 2 + 1] * 2, {})
    >>> found.names
    {'s1': floordiv(rows - 1, 2) + 1}
    >>> found.put(((symbol("rows") - 1) // 2 + 1) * 8)
    8*s1
    """
    all_sizes = [substitute(size, dims) for size in sizes]
    found = Sizes(dict(dims))
    free = _free_names(all_sizes)
    _name_whole(all_sizes, found, free)
    for _ in range(_DEPTH):
        if not _name_parts(all_sizes, found, free):
            break
    return found


def _name_whole(all_sizes: Sequence[Dim], found: Sizes, free: Iterator[str]) -> None:
    """Name sizes that are a call, or a number more or less than one."""
    counts = Counter(call for size in all_sizes for call in _calls(size))
    for size in dict.fromkeys(all_sizes):
        short = found.put(size)
        before, atom = _single_call(size), _single_call(short)
        if before is None or atom is None or counts[before] < 2 or len(str(size)) < LEAST_NAMED:
            continue
        name = next(free)
        found.names[name] = short
        found.atoms[atom] = symbol(name) - (short - _lone(atom))


def _name_parts(all_sizes: Sequence[Dim], found: Sizes, free: Iterator[str]) -> bool:
    """Name the innermost calls that are left and come again; whether there was one."""
    shorts = [found.put(size) for size in all_sizes]
    counts = Counter(call for size in shorts for call in _calls(size))
    parts = [
        call
        for call, count in counts.items()
        if count > 1 and len(str(call)) >= LEAST_PART and not any(map(_calls, call.operands))
    ]
    signs = {call: _sign(call) for call in parts}
    for call, sign in signs.items():
        if sign:
            name = next(free)
            found.names[name] = _lone(call) * sign
            found.atoms[call] = symbol(name) * sign
    return any(signs.values())


def _sign(call: DimFunction) -> int:
    """1 where a call is never less than zero, -1 where it is never more, 0 where neither is known.

    What a symbol stands for is never less than zero, and expressions are simplified on the strength of that.
    """
    low, high = bounds(_lone(call))
    return 1 if low is not None and low >= 0 else -1 if high is not None and high <= 0 else 0


def _calls(size: Dim) -> set[DimFunction]:
    """Every call in a size, those in other calls included."""
    found: set[DimFunction] = set()
    waiting = [size]
    while waiting:
        current = waiting.pop()
        atoms = [atom for monomial, _ in current.terms for atom in monomial] if isinstance(current, Expr) else []
        new = {atom for atom in atoms if isinstance(atom, DimFunction)} - found
        found |= new
        waiting += [operand for call in new for operand in call.operands]
    return found


def _free_names(sizes: Iterable[Dim]) -> Iterator[str]:
    taken = {name for size in sizes for name in symbols(size)}
    return (name for number in itertools.count(1) if (name := f"s{number}") not in taken)


def _lone(atom: Atom) -> Expr:
    return Expr((((atom,), 1),))


def _single_call(size: Dim) -> DimFunction | None:
    """The call that a size is, apart from a number that is added; None where it is something else."""
    if not isinstance(size, Expr):
        return None
    calls = [monomial[0] for monomial, factor in size.terms if len(monomial) == 1 and factor == 1]
    others = [monomial for monomial, factor in size.terms if monomial and not (len(monomial) == 1 and factor == 1)]
    return calls[0] if len(calls) == 1 and not others and isinstance(calls[0], DimFunction) else None
