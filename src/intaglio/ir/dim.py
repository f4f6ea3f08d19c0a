"""Symbolic integers: the dimensions of tensors.

A dimension is an `int` or an `Expr`: a polynomial with integer coefficients over atoms, and an atom is a symbol or a
call of floor division, remainder, minimum, maximum, `broadcast`, a comparison (0 or 1), a selection by one, or
`threads`. Every symbol stands for a number of at least zero. Expressions are canonical, so structural equality is `==`;
what two different expressions are to each other is a matter of `compare`, which may not know.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from intaglio.errors import ShapeError


@dataclass(frozen=True, order=True)
class Symbol:
    """A named unknown of at least zero."""

    name: str

    def __str__(self) -> str:
        return self.name if self.name.isidentifier() and self.name.isascii() else repr(self.name)


@dataclass(frozen=True)
class DimFunction:
    """An atom that is a function of dimensions.

    Of two: `floordiv`, `ceildiv`, `mod`, `min`, `max`, `broadcast`, `less` and `equal`; of three: `select`; of none:
    `threads`, the number of threads of a run.
    """

    function: str
    operands: tuple[Dim, ...]

    @property
    def left(self) -> Dim:
        """The first of two operands."""
        return self.operands[0]

    @property
    def right(self) -> Dim:
        """The second of two operands."""
        return self.operands[1]

    @cached_property
    def _text(self) -> str:
        return f"{self.function}({', '.join(map(str, self.operands))})"

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _hash(self) -> int:
        return hash((self.function, self.operands))

    def __hash__(self) -> int:
        return self._hash


Atom: TypeAlias = Symbol | DimFunction
Monomial: TypeAlias = tuple[Atom, ...]


class UndecidableError(ValueError):
    """The answer depends on the value of a symbol."""


@dataclass(frozen=True)
class Expr:
    """A sum of products of atoms, never constant; `terms` is sorted and holds no zero coefficient."""

    terms: tuple[tuple[Monomial, int], ...]

    @cached_property
    def _text(self) -> str:
        text = " + ".join(_term_text(monomial, factor) for monomial, factor in self.terms)
        return text.replace("+ -", "- ")

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    @cached_property
    def _symbols(self) -> frozenset[str]:
        return frozenset[str]().union(*(_atom_symbols(atom) for monomial, _ in self.terms for atom in monomial))

    @cached_property
    def _bounds(self) -> tuple[int | None, int | None]:
        return _sum_bounds(self)

    @cached_property
    def _has_choice(self) -> bool:
        return any(_is_choice(atom) for monomial, _ in self.terms for atom in monomial)

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Dim) -> Dim:
        if not isinstance(other, Expr):
            return self._plus(int(other))
        return _from_terms(self.terms + other.terms)

    def _plus(self, number: int) -> Expr:
        """The sum with a number, whose term is the last one."""
        monomial, factor = self.terms[-1]
        total, rest = (number, self.terms) if monomial else (factor + number, self.terms[:-1])
        return Expr((*rest, ((), total))) if total else Expr(rest)

    def __mul__(self, other: Dim) -> Dim:
        if not isinstance(other, Expr):
            number = int(other)
            scaled = tuple([(monomial, factor * number) for monomial, factor in self.terms])
            return self if number == 1 else Expr(scaled) if number else 0
        products = [(a + b, m * n) for a, m in self.terms for b, n in other.terms]
        return _from_terms([(tuple(sorted(atoms, key=str)), factor) for atoms, factor in products])

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1

    def __rsub__(self, other: Dim) -> Dim:
        return self * -1 + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return mod(other, self)

    def __lt__(self, other: Dim) -> bool:
        return decide_less(self, other)

    def __gt__(self, other: Dim) -> bool:
        return decide_less(other, self)

    def __le__(self, other: Dim) -> bool:
        return not decide_less(other, self)

    def __ge__(self, other: Dim) -> bool:
        return not decide_less(self, other)

    def __bool__(self) -> bool:
        raise UndecidableError(f"whether {self} is zero depends on its symbols")

    def __int__(self) -> int:
        raise UndecidableError(f"the value of {self} depends on its symbols")

    __index__ = __int__


Dim: TypeAlias = int | Expr


def symbol(name: str) -> Expr:
    """The dimension that is one symbol.

    >>> symbol("N") * 2 + 1
    2*N + 1
    """
    return Expr((((Symbol(name),), 1),))


def _terms(value: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(value, Expr):
        return value.terms
    return (((), int(value)),) if value else ()


def _from_terms(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    total: dict[Monomial, int] = {}
    for monomial, factor in terms:
        total[monomial] = total.get(monomial, 0) + factor
    kept = {monomial: factor for monomial, factor in total.items() if factor}
    if not kept or set(kept) == {()}:
        return kept.get((), 0)
    if len(kept) == 1:
        return Expr(tuple(kept.items()))
    order = sorted(kept.items(), key=lambda item: (-len(item[0]), [str(atom) for atom in item[0]]))
    return Expr(tuple(order))


def _term_text(monomial: Monomial, factor: int) -> str:
    atoms = "*".join(str(atom) for atom in monomial)
    if not monomial:
        return str(factor)
    return atoms if factor == 1 else f"-{atoms}" if factor == -1 else f"{factor}*{atoms}"


def expression(call: DimFunction) -> Expr:
    """A function of dimensions as a dimension."""
    return Expr((((call,), 1),))


def floordiv(left: Dim, right: Dim) -> Dim:
    """left // right, rounded towards minus infinity; exact factors cancel.

    Quotients of quotients are one, and a quotient that can only be one number is that number.

    >>> floordiv(symbol("N") * 6 + 4, 2)
    3*N + 2
    >>> floordiv(floordiv(symbol("N"), 4) - 7, 8)
    floordiv(N - 28, 32)
    >>> floordiv(maximum(1 - symbol("N"), 0), 4)
    0
    """
    if right == 0:
        raise ShapeError(f"division of the dimension {left} by zero")
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    quotient = _exact_quotient(left, right)
    if quotient is not None:
        return quotient
    if isinstance(right, int) and right > 0:
        whole = _from_terms([(m, f // right) for m, f in _terms(left) if f % right == 0])
        rest = left - whole * right
        if whole != 0 and rest != left:
            return whole + floordiv(rest, right)
        short = _known_quotient(left, right)
        if short is not None:
            return short
    return expression(DimFunction("floordiv", (left, right)))


def _known_quotient(left: Dim, right: int) -> Dim | None:
    """The quotient where bounds leave one number, or that of a quotient and a number as one quotient."""
    low, high = bounds(left)
    if low is not None and high is not None and low // right == high // right:
        return low // right
    terms = [(monomial, factor) for monomial, factor in _terms(left) if monomial]
    if len(terms) != 1 or terms[0][1] != 1 or len(terms[0][0]) != 1:
        return None
    inner = terms[0][0][0]
    if not isinstance(inner, DimFunction) or inner.function != "floordiv" or not isinstance(inner.right, int):
        return None
    offset = left - expression(inner)
    is_positive = inner.right > 0 and isinstance(offset, int)
    return floordiv(inner.left + offset * inner.right, inner.right * right) if is_positive else None


def _exact_quotient(left: Dim, right: Dim) -> Dim | None:
    """The polynomial that times `right` is `left`, where there is one.

    >>> floordiv(symbol("N") * symbol("M") * 6 + symbol("M") * 2, symbol("N") * 3 + 1)
    2*M
    """
    if left == right:
        return 1
    if isinstance(left, int) or isinstance(right, int):
        return _divided(left, right) if isinstance(left, Expr) and isinstance(right, int) else None
    divisor, quotient, rest = _terms(right), 0, left
    for _ in range(len(_terms(left))):
        term = _term_quotient(_terms(rest)[0], divisor[0])
        if term is None:
            return None
        quotient, rest = term + quotient, rest - right * term
        if rest == 0:
            return quotient
    return None


def _divided(left: Expr, number: int) -> Dim | None:
    if any(factor % number for _, factor in left.terms):
        return None
    return Expr(tuple([(monomial, factor // number) for monomial, factor in left.terms]))


def _term_quotient(left: tuple[Monomial, int], right: tuple[Monomial, int]) -> Dim | None:
    (monomial, count), (divisor, factor) = left, right
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return None if count % factor else _from_terms([(tuple(rest), count // factor)])


def mod(left: Dim, right: Dim) -> Dim:
    """The remainder of `floordiv`."""
    if right == 0:
        raise ShapeError(f"remainder of the dimension {left} by zero")
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    if _exact_quotient(left, right) is not None:
        return 0
    return expression(DimFunction("mod", (left, right)))


def ceildiv(left: Dim, right: Dim) -> Dim:
    """left / right, rounded up.

    >>> ceildiv(symbol("N"), symbol("M") + 1)
    ceildiv(N, M + 1)
    """
    if isinstance(right, int):
        return -floordiv(-left, right)
    quotient = _exact_quotient(left, right)
    return expression(DimFunction("ceildiv", (left, right))) if quotient is None else quotient


def pieces(total: Dim, size: Dim) -> Dim:
    """How many pieces of at most a size, which is at least 1, make up a total of at least 0.

    >>> pieces(symbol("N"), 16)
    floordiv(N + 15, 16)
    """
    return floordiv(total + size - 1, size) if isinstance(size, int) else ceildiv(total, size)


def minimum(left: Dim, right: Dim) -> Dim:
    """The smaller of two dimensions, resolved where it can be known."""
    return _extreme("min", left, right, left_when=-1)


def maximum(left: Dim, right: Dim) -> Dim:
    """The larger of two dimensions, resolved where it can be known."""
    return _extreme("max", left, right, left_when=1)


def _extreme(function: str, left: Dim, right: Dim, left_when: int) -> Dim:
    low, high = bounds(left - right)
    if left == right or (low is not None and low >= 0):
        return left if left_when == 1 else right
    if high is not None and high <= 0:
        return right if left_when == 1 else left
    return join(function, left, right)


def join(function: str, left: Dim, right: Dim) -> Dim:
    """The atom of an idempotent, associative and commutative function: each operand once, in a fixed order."""
    found = _operands(function, left) | _operands(function, right)
    operands = sorted(found, key=str)
    if function != "broadcast" and len(operands) > 2:
        operands = [operand for operand in operands if not _is_surpassed(function, operand, operands)]
    result = operands[0]
    for operand in operands[1:]:
        result = expression(DimFunction(function, (result, operand)))
    return result


def _is_surpassed(function: str, operand: Dim, operands: list[Dim]) -> bool:
    """Whether another operand of an extreme is certainly never on the wrong side of this one; of equals one stays."""
    for other in operands:
        low, high = bounds(other - operand) if function == "max" else bounds(operand - other)
        if other is not operand and low is not None and low >= 0 and not (high == 0 and str(other) > str(operand)):
            return True
    return False


def _operands(function: str, value: Dim) -> set[Dim]:
    atom = lone_atom(value)
    if isinstance(atom, DimFunction) and atom.function == function:
        return _operands(function, atom.left) | _operands(function, atom.right)
    return {value}


def broadcast(left: Dim, right: Dim) -> Dim:
    """The dimension of two operands after broadcasting; raises ShapeError where they cannot be broadcast.

    Two different symbols give an atom that checks them when their values are known.
    """
    if left == right or right == 1:
        return left
    if left == 1:
        return right
    if isinstance(left, int) and isinstance(right, int):
        raise ShapeError(f"dimensions {left} and {right} cannot be broadcast together")
    if isinstance(left, int):
        return left
    if isinstance(right, int):
        return right
    if _is_cut(left, right):
        return right
    if _is_cut(right, left):
        return left
    return join("broadcast", left, right)


def _is_cut(part: Dim, whole: Dim) -> bool:
    """Whether one size is another cut to what is never 0: where the two can be broadcast, the result is the whole.

    >>> _is_cut(minimum(512, symbol("N")), symbol("N"))
    True
    """
    call = lone_atom(part)
    if not isinstance(call, DimFunction) or call.function != "min" or whole not in call.operands:
        return False
    lows = [bounds(operand)[0] for operand in call.operands if operand != whole]
    return all(low is not None and low >= 1 for low in lows)


THREADS_ATOM = DimFunction("threads", ())
THREADS = expression(THREADS_ATOM)
"""The number of threads of a run, at least 1: what a model calls its sizes cannot be taken for it."""


def less(left: Dim, right: Dim) -> Dim:
    """1 where left < right, else 0.

    >>> less(symbol("N"), 3), less(2, symbol("N") + 3)
    (less(N, 3), 1)
    """
    low, high = bounds(left - right)
    if high is not None and high < 0:
        return 1
    return 0 if low is not None and low >= 0 else expression(DimFunction("less", (left, right)))


def at_most(left: Dim, right: Dim) -> Dim:
    """1 where left <= right, else 0."""
    return less(left, right + 1)


def equal(left: Dim, right: Dim) -> Dim:
    """1 where left == right, else 0."""
    if left == right:
        return 1
    order = compare(left, right)
    if order is not None:
        return int(order == 0)
    first, second = sorted((left, right), key=str)
    return expression(DimFunction("equal", (first, second)))


def select(condition: Dim, yes: Dim, no: Dim) -> Dim:
    """`yes` where the condition is not zero, else `no`; only the one that is chosen must have a value.

    >>> select(less(symbol("N"), 3), 1, symbol("N"))
    select(less(N, 3), 1, N)
    """
    if yes == no:
        return yes
    if isinstance(condition, int):
        return yes if condition else no
    return expression(DimFunction("select", (condition, yes, no)))


def product(dims: Iterable[Dim]) -> Dim:
    """The product of dimensions: the number of elements of a shape."""
    total: Dim = 1
    for dim in dims:
        total = dim * total
    return total


def bounds(value: Dim) -> tuple[int | None, int | None]:
    """The least and the greatest value that can be proven; None where there is no bound."""
    return value._bounds if isinstance(value, Expr) else (value, value)


def _sum_bounds(value: Expr) -> tuple[int | None, int | None]:
    low: int | None = 0
    high: int | None = 0
    for monomial, factor in _terms(value):
        least, most = _monomial_bounds(monomial)
        ends = (least, most) if factor > 0 else (most, least)
        low = None if low is None or ends[0] is None else low + factor * ends[0]
        high = None if high is None or ends[1] is None else high + factor * ends[1]
    is_open = low is None or high is None
    return _shifted_bounds(value, low, high) if is_open and _has_short_products(value) else (low, high)


SHORT_PRODUCT, SHORT_SUM = 4, 16
"""Sums of so many products of so many factors are looked at closely."""


def _has_short_products(value: Expr) -> bool:
    longest = max(len(monomial) for monomial, _ in value.terms)
    return 1 < longest <= SHORT_PRODUCT and len(value.terms) <= SHORT_SUM


def _shifted_bounds(value: Expr, low: int | None, high: int | None) -> tuple[int | None, int | None]:
    """The bounds of a sum of products whose factors may be below 0, as far as the given ones leave them open.

    Each factor is written as the least that it can be and a rest, which is at least 0: with a and b from -1 on,
    a*b + a + b + 1 is then the product of their rests.
    """
    atoms = {atom for monomial, _ in value.terms for atom in monomial}
    ends = {atom: _atom_bounds(atom) for atom in atoms}
    rests: dict[Monomial, int] = {}
    for monomial, factor in value.terms:
        parts: dict[Monomial, int] = {(): factor}
        for atom in monomial:
            least = ends[atom][0]
            if least is None:
                return low, high
            longer = {tuple(sorted((*rest, atom), key=str)): number for rest, number in parts.items()}
            parts = _summed({rest: number * least for rest, number in parts.items()}, longer)
        rests = _summed(rests, parts)
    constant = rests.pop((), 0)
    if low is None and all(number >= 0 for number in rests.values()):
        low = constant
    if high is None and all(number <= 0 for number in rests.values()):
        high = constant
    return low, high


def _summed(left: Mapping[Monomial, int], right: Mapping[Monomial, int]) -> dict[Monomial, int]:
    return {key: left.get(key, 0) + right.get(key, 0) for key in (*left, *right)}


def _monomial_bounds(monomial: Monomial) -> tuple[int | None, int | None]:
    if len(monomial) == 1:
        return _atom_bounds(monomial[0])
    low, high = 1, 1
    for atom in monomial:
        least, most = _atom_bounds(atom)
        if least is None or least < 0:
            return None, None
        low *= least
        high = None if high is None or most is None else high * most
    return low, high


def _atom_bounds(atom: Atom) -> tuple[int | None, int | None]:
    if isinstance(atom, Symbol):
        return 0, None
    if atom.function in ("less", "equal"):
        return 0, 1
    if atom.function == "threads":
        return 1, None
    (a, b), (c, d) = bounds(atom.operands[-2]), bounds(atom.operands[-1])
    if atom.function == "select":
        return _both(min, a, c), _both(max, b, d)
    if atom.function == "min":
        return _both(min, a, c), min((x for x in (b, d) if x is not None), default=None)
    if atom.function == "max":
        return max((x for x in (a, c) if x is not None), default=None), _both(max, b, d)
    if atom.function == "mod" and isinstance(atom.right, int) and atom.right > 0:
        return 0, atom.right - 1
    if atom.function == "floordiv" and isinstance(atom.right, int) and atom.right > 0:
        return (None if a is None else a // atom.right), (None if b is None else b // atom.right)
    at_least_zero = a is not None and a >= 0 and c is not None and c >= 0
    return (0 if at_least_zero else None), None


def _both(choose: Callable[[int, int], int], left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else choose(left, right)


def compare(left: Dim, right: Dim) -> int | None:
    """-1, 0 or 1 where it is certain that left is less than, equal to or greater than right, else None."""
    low, high = bounds(left - right)
    if low is not None and low == high == 0:
        return 0
    if high is not None and high < 0:
        return -1
    return 1 if low is not None and low > 0 else None


def decide_less(left: Dim, right: Dim) -> bool:
    """Whether left < right; raises UndecidableError where that depends on a symbol."""
    low, high = bounds(left - right)
    if high is not None and high < 0:
        return True
    if low is not None and low >= 0:
        return False
    raise UndecidableError(f"whether {left} < {right} depends on their symbols")


def decide_equal(left: Dim, right: Dim) -> bool:
    """Whether left == right for every value of the symbols; raises UndecidableError where it depends on them."""
    if left == right:
        return True
    if compare(left, right) in (-1, 1):
        return False
    raise UndecidableError(f"whether {left} == {right} depends on their symbols")


FUNCTIONS: dict[str, Callable[..., Dim]] = {
    "floordiv": floordiv,
    "ceildiv": ceildiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
    "broadcast": broadcast,
    "less": less,
    "equal": equal,
    "select": select,
    "threads": lambda: THREADS,
}
ARITIES = {"select": 3, "threads": 0}
"""Of how many operands functions are that are not of two."""


def contains(value: Dim, atom: Atom) -> bool:
    """Whether an atom stands somewhere in the dimension."""
    inner = (each for monomial, _ in _terms(value) for each in monomial)
    return any(
        each == atom or (isinstance(each, DimFunction) and any(contains(operand, atom) for operand in each.operands))
        for each in inner
    )


def lone_atom(value: Dim) -> Atom | None:
    """The atom that the dimension consists of, where it is just one."""
    if isinstance(value, Expr) and len(value.terms) == 1 and value.terms[0][1] == 1 and len(value.terms[0][0]) == 1:
        return value.terms[0][0][0]
    return None


def has_choice(value: Dim) -> bool:
    """Whether a selection, a comparison or the number of threads stands somewhere in the dimension."""
    return isinstance(value, Expr) and value._has_choice


def _is_choice(atom: Atom) -> bool:
    if isinstance(atom, Symbol):
        return False
    return atom.function in ("select", "less", "equal", "threads") or any(map(has_choice, atom.operands))


def symbols(value: Dim) -> frozenset[str]:
    """The names of all symbols in a dimension."""
    return value._symbols if isinstance(value, Expr) else frozenset()


def _atom_symbols(atom: Atom) -> frozenset[str]:
    return frozenset((atom.name,)) if isinstance(atom, Symbol) else function_symbols(atom)


def function_symbols(call: DimFunction) -> frozenset[str]:
    """The names of all symbols in a call."""
    return frozenset[str]().union(*map(symbols, call.operands))


class _Naming(threading.local):
    prefix = "d"
    count = 0


_naming = _Naming()


@contextmanager
def naming(prefix: str):
    """Within this context fresh symbols are named after `prefix`, so that inferring a node twice gives equal types."""
    saved = _naming.prefix, _naming.count
    _naming.prefix, _naming.count = prefix, 0
    try:
        yield
    finally:
        _naming.prefix, _naming.count = saved


def fresh() -> Expr:
    """A new symbol for a size that depends on data, named after the value being inferred."""
    _naming.count += 1
    return symbol(f"{_naming.prefix}.{_naming.count - 1}")
