"""Sizes that must fit 64 bits, as drivers compute them.

Expressions over symbols that are known before a run are not checked in C: the runtime compares the symbols with a limit
up to which nothing can overflow, and works out every partial result where one is larger. What depends on symbols that
the driver itself binds is checked by the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest

from intaglio.ir.dim import Atom, Dim, DimFunction, Expr, Symbol

MOST_THREADS = 2**16
"""No run has more threads."""

LARGEST = 2**62
"""Sizes up to this are safe; the rest of the range is left for what kernels add to them."""

_Polynomial = tuple[int, ...]
"""Coefficients by degree: what a size is at most where every symbol is at most the variable."""


class _Bounds:
    """What expressions and all their parts are at most, as one polynomial."""

    def __init__(self) -> None:
        self.largest: _Polynomial = ()
        self._known: dict[Dim | DimFunction, _Polynomial] = {}

    def of(self, dim: Dim) -> _Polynomial:
        if dim not in self._known:
            self._known[dim] = total = self._sum(dim) if isinstance(dim, Expr) else (abs(dim),)
            self.largest = _maximum(self.largest, total)
        return self._known[dim]

    def _sum(self, dim: Expr) -> _Polynomial:
        total: _Polynomial = ()
        for monomial, factor in dim.terms:
            term: _Polynomial = (abs(factor),)
            self.largest = _maximum(self.largest, term)
            for atom in monomial:
                term = _product(term, self._atom(atom))
            total = tuple(left + right for left, right in zip_longest(total, term, fillvalue=0))
        return total

    def _atom(self, atom: Atom) -> _Polynomial:
        if isinstance(atom, Symbol):
            return (0, 1)
        if atom not in self._known:
            self._known[atom] = self._call(atom.function, [self.of(operand) for operand in atom.operands])
        return self._known[atom]

    def _call(self, function: str, operands: Sequence[_Polynomial]) -> _Polynomial:
        match function:
            case "threads":
                return (MOST_THREADS,)
            case "less" | "equal":
                return (1,)
            case "select":
                return _maximum(operands[1], operands[2])
            case "floordiv" | "ceildiv":
                return (operands[0][0] + 1, *operands[0][1:])
            case _:
                return _maximum(*operands)


def _maximum(left: _Polynomial, right: _Polynomial) -> _Polynomial:
    return tuple(max(pair) for pair in zip_longest(left, right, fillvalue=0))


def _product(left: _Polynomial, right: _Polynomial) -> _Polynomial:
    found = [0] * (len(left) + len(right) - 1)
    for i, first in enumerate(left):
        for j, second in enumerate(right):
            found[i + j] += first * second
    return tuple(found)


def safe_limit(dims: Iterable[Dim]) -> int:
    """How large all symbols may be, in magnitude, so that no part of an expression is over LARGEST; -1 for none.

    >>> from intaglio.ir.dim import symbol
    >>> safe_limit([symbol("n") * symbol("m") * 4, symbol("n") + 7]) == 2**30 - 1
    True
    """
    bounds = _Bounds()
    for dim in dims:
        if isinstance(dim, Expr):
            bounds.of(dim)
    low, high = -1, LARGEST
    while low < high:
        middle = (low + high + 1) // 2
        is_safe = sum(factor * middle**degree for degree, factor in enumerate(bounds.largest)) <= LARGEST
        low, high = (middle, high) if is_safe else (low, middle - 1)
    return low


Magnitude = dict[tuple[str, ...], int]
"""A polynomial of sizes: factors by the names of the sizes that are multiplied."""


def magnitude(dims: Iterable[Dim]) -> Magnitude:
    """What all parts of expressions are at most, in magnitude, where each size counts as 1 at least.

    >>> from intaglio.ir.dim import less, symbol
    >>> magnitude([symbol("n") * symbol("m") * 4 - 7, symbol("n") * 5])
    {('m', 'n'): 4, (): 7, ('n',): 5}
    >>> magnitude([less(symbol("n") * 3, 9) * symbol("m")])
    {('m',): 1, ('n',): 3, (): 9}
    """
    known: dict[Dim | DimFunction, Magnitude] = {}
    results = [_magnitude(dim, known) for dim in dims]
    return _largest([*results, *(known[part] for part in known)])


def _magnitude(dim: Dim, known: dict[Dim | DimFunction, Magnitude]) -> Magnitude:
    if dim not in known:
        total: Magnitude = {} if isinstance(dim, Expr) else {(): abs(dim)}
        for monomial, factor in dim.terms if isinstance(dim, Expr) else ():
            term: Magnitude = {(): abs(factor)}
            for atom in monomial:
                term = _multiplied(term, _atom_magnitude(atom, known))
            for names, share in term.items():
                total[names] = total.get(names, 0) + share
        known[dim] = total
    return known[dim]


def _atom_magnitude(atom: Atom, known: dict[Dim | DimFunction, Magnitude]) -> Magnitude:
    if isinstance(atom, Symbol):
        return {(atom.name,): 1}
    if atom not in known:
        known[atom] = _call_magnitude(atom.function, [_magnitude(operand, known) for operand in atom.operands])
    return known[atom]


def _call_magnitude(function: str, operands: Sequence[Magnitude]) -> Magnitude:
    match function:
        case "threads":
            return {(): MOST_THREADS}
        case "less" | "equal":
            return {(): 1}
        case "select":
            return _largest(operands[1:])
        case "floordiv" | "ceildiv":
            return {**operands[0], (): operands[0].get((), 0) + 1}
        case _:
            return _largest(operands)


def _largest(polynomials: Iterable[Magnitude]) -> Magnitude:
    found: Magnitude = {}
    for each in polynomials:
        for names, factor in each.items():
            found[names] = max(found.get(names, 0), factor)
    return found


def _multiplied(left: Magnitude, right: Magnitude) -> Magnitude:
    found: Magnitude = {}
    for first, factor in left.items():
        for second, other in right.items():
            names = tuple(sorted((*first, *second)))
            found[names] = found.get(names, 0) + factor * other
    return found


def fits(dims: Iterable[Dim], bindings: Mapping[str, int]) -> bool:
    """Whether all parts of expressions fit 64 bits for these values of their symbols, in the order C computes them."""
    known: dict[DimFunction, int] = {}
    try:
        for dim in dims:
            _value(dim, bindings, known)
    except OverflowError:
        return False
    return True


def _value(dim: Dim, bindings: Mapping[str, int], known: dict[DimFunction, int]) -> int:
    if not isinstance(dim, Expr):
        return _checked(dim)
    total = 0
    for monomial, factor in dim.terms:
        term = _checked(factor)
        for atom in monomial:
            term = _checked(term * _atom_value(atom, bindings, known))
        total = _checked(total + term)
    return total


def _atom_value(atom: Atom, bindings: Mapping[str, int], known: dict[DimFunction, int]) -> int:
    if isinstance(atom, Symbol):
        return bindings[atom.name]
    if atom not in known:
        operands = [_value(operand, bindings, known) for operand in atom.operands]
        known[atom] = _checked(_FUNCTIONS[atom.function](*operands))
    return known[atom]


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "floordiv": lambda left, right: left // right if right else 0,
    "ceildiv": lambda left, right: -(-left // right) if right else 0,
    "mod": lambda left, right: left % right if right else 0,
    "min": min,
    "max": max,
    "broadcast": lambda left, right: right if left == 1 else left,
    "less": lambda left, right: int(left < right),
    "equal": lambda left, right: int(left == right),
    "select": lambda condition, yes, no: yes if condition else no,
    "threads": lambda: MOST_THREADS,
}
"""What drivers compute, where nothing is divided by nothing."""


def _checked(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        raise OverflowError
    return number
