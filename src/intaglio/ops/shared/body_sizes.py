"""The sizes of what a body would have given, had it run: what types tell of them, for the arrays that a run has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from intaglio.ir.dim import Atom, Dim, DimFunction, Expr
from intaglio.ir.graph import Value
from intaglio.ir.substitution import replace_atoms
from intaglio.ir.types import TensorType


def known_sizes(known: Mapping[Value, Any]) -> dict[Atom, Dim]:
    """What symbols, and calls of them, are worth where the given values are the given arrays.

    A size such as 2*N + 1 tells N; a size of several unknowns tells nothing.
    """
    equations = list(_equations(known))
    found: dict[Atom, Dim] = {}
    while True:
        solved = dict(_solve(replace_atoms(size, found), number) for size, number in equations)
        solved.pop(None, None)
        if not solved:
            return found
        found.update((atom, number) for atom, number in solved.items() if atom is not None)


def _equations(known: Mapping[Value, Any]) -> Iterable[tuple[Expr, int]]:
    """The sizes and contents of values as their types write them, each with the number that it is."""
    for value, array in known.items():
        if not isinstance(value.type, TensorType) or not isinstance(array, np.ndarray):
            continue
        pairs = list(zip(value.type.shape or (), array.shape, strict=False))
        if value.contents is not None:
            pairs += zip(value.contents.ravel().tolist(), array.ravel().tolist(), strict=False)
        yield from ((size, int(number)) for size, number in pairs if isinstance(size, Expr))


def _solve(size: Dim, number: int) -> tuple[Atom | None, int]:
    """The one atom of a size and what it must be for the size to be a number; no atom where that does not follow."""
    if isinstance(size, int):
        return None, 0
    unknown = [(monomial, factor) for monomial, factor in size.terms if monomial]
    (monomial, factor), rest = unknown[0], sum(number for monomial, number in size.terms if not monomial)
    is_linear = len(unknown) == 1 and len(monomial) == 1 and (number - rest) % factor == 0
    return (monomial[0], (number - rest) // factor) if is_linear else (None, 0)


def size_of(size: Dim, sizes: Mapping[Atom, Dim]) -> int:
    """A size as a number: 0 where nobody knows it before the body has run, or where the body could not run."""
    found = replace_atoms(size, sizes) if _is_known(size, sizes) else 0
    return max(found, 0) if isinstance(found, int) else 0


def _is_known(size: Dim, sizes: Mapping[Atom, Dim]) -> bool:
    """Whether every part of a size is known: compiled code does not see that some part does not matter."""
    atoms = [] if isinstance(size, int) else [atom for monomial, _ in size.terms for atom in monomial]
    return all(
        atom in sizes or (isinstance(atom, DimFunction) and all(_is_known(operand, sizes) for operand in atom.operands))
        for atom in atoms
    )
