"""Dimensions with values in the place of symbols: other dimensions, or numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from intaglio.errors import GraphError, ShapeError
from intaglio.ir.dim import (
    FUNCTIONS,
    THREADS,
    THREADS_ATOM,
    Atom,
    Dim,
    DimFunction,
    Expr,
    Symbol,
    broadcast,
    expression,
    join,
    lone_atom,
    symbols,
)


def substitute(value: Dim, bindings: Mapping[str, Dim], threads: Dim = THREADS) -> Dim:
    """The dimension with symbols, and the number of threads, replaced; unbound symbols stay."""
    atoms: dict[Atom, Dim] = {Symbol(name): dim for name, dim in bindings.items()}
    if threads is not THREADS:
        atoms[THREADS_ATOM] = threads
    return _rebuilt(value, atoms, {}, broadcast)


def replace_atoms(value: Dim, atoms: Mapping[Atom, Dim], memo: dict[Dim, Dim] | None = None) -> Dim:
    """The dimension with atoms, calls as well as symbols, replaced wherever they stand.

    A broadcast that then cannot be is left standing: it fails where it is evaluated. `memo` may be kept between calls
    with the same atoms.
    """
    return _rebuilt(value, atoms, {} if memo is None else memo, _open_broadcast)


def _open_broadcast(left: Dim, right: Dim) -> Dim:
    try:
        return broadcast(left, right)
    except ShapeError:
        return join("broadcast", left, right)


def _rebuilt(value: Dim, atoms: Mapping[Atom, Dim], memo: dict[Dim, Dim], broadcast: Callable[[Dim, Dim], Dim]) -> Dim:
    """The dimension with each of its atoms replaced; `memo` has what was replaced before."""
    if isinstance(value, int):
        return value
    if value not in memo:
        total: Dim = 0
        for monomial, factor in value.terms:
            term: Dim = factor
            for atom in monomial:
                term = term * _rebuilt_atom(atom, atoms, memo, broadcast)
            total = total + term
        memo[value] = total
    return memo[value]


def _rebuilt_atom(
    atom: Atom, atoms: Mapping[Atom, Dim], memo: dict[Dim, Dim], broadcast: Callable[[Dim, Dim], Dim]
) -> Dim:
    if atom in atoms:
        return atoms[atom]
    if isinstance(atom, Symbol):
        return Expr((((atom,), 1),))
    key = expression(atom)
    if key not in memo:
        result = _rebuilt_call(atom, atoms, memo, broadcast)
        found = lone_atom(result)
        memo[key] = result if found is None else atoms.get(found, result)
    return memo[key]


def _rebuilt_call(
    call: DimFunction, atoms: Mapping[Atom, Dim], memo: dict[Dim, Dim], broadcast: Callable[[Dim, Dim], Dim]
) -> Dim:
    if call.function == "select":  # what is not chosen need not have a value: it may divide by zero
        condition = _rebuilt(call.operands[0], atoms, memo, broadcast)
        if isinstance(condition, int):
            return _rebuilt(call.operands[1 if condition else 2], atoms, memo, broadcast)
    operands = tuple([_rebuilt(operand, atoms, memo, broadcast) for operand in call.operands])
    if operands == call.operands:
        return expression(call)
    function = broadcast if call.function == "broadcast" else FUNCTIONS[call.function]
    return function(*operands)


def evaluate(value: Dim, bindings: Mapping[str, int], threads: int | None = None) -> int:
    """The value once all symbols are bound; raises GraphError naming those that are not."""
    try:
        return _evaluated(value, bindings, {} if threads is None else {THREADS_ATOM: threads})
    except KeyError:
        missing = sorted(symbols(value) - set(bindings)) or ["threads()"]
        raise GraphError(f"the dimension {value} needs a value for {', '.join(missing)}") from None


def _evaluated(value: Dim, bindings: Mapping[str, int], memo: dict[DimFunction, int]) -> int:
    if isinstance(value, int):
        return value
    total = 0
    for monomial, factor in value.terms:
        for atom in monomial:
            factor *= bindings[atom.name] if isinstance(atom, Symbol) else _evaluated_call(atom, bindings, memo)
        total += factor
    return total


def _evaluated_call(call: DimFunction, bindings: Mapping[str, int], memo: dict[DimFunction, int]) -> int:
    if call in memo:
        return memo[call]
    if call.function == "select":
        chosen = call.operands[1 if _evaluated(call.operands[0], bindings, memo) else 2]
        result = _evaluated(chosen, bindings, memo)
    elif call.function == "threads":
        raise KeyError(call.function)
    else:
        result = FUNCTIONS[call.function](*[_evaluated(operand, bindings, memo) for operand in call.operands])
        assert isinstance(result, int)
    memo[call] = result
    return result
