"""Symbolic dimensions bound to the sizes that a run brings."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.errors import GraphError, ShapeError
from intaglio.ir.dim import Dim, Symbol, lone_atom
from intaglio.ir.substitution import evaluate
from intaglio.ir.types import Shape


def bind(shape: Shape | None, actual: Sequence[int], bindings: dict[str, int], name: str) -> None:
    """Match a typed shape with an actual one, giving unbound symbols their values.

    Raises ShapeError where the rank, a fixed dimension or a symbol's earlier value differs.
    """
    if shape is None:
        return
    if len(shape) != len(actual):
        raise ShapeError(f"{name} has rank {len(actual)}, the model expects {len(shape)}: {format_shape(shape)}")
    for axis, (dim, size) in enumerate(zip(shape, actual, strict=True)):
        _bind_dim(dim, int(size), bindings, f"dimension {axis} of {name}")


def _bind_dim(dim: Dim, size: int, bindings: dict[str, int], place: str) -> None:
    single = lone_symbol(dim)
    if single is not None and single not in bindings:
        bindings[single] = size
        return
    try:
        expected = evaluate(dim, bindings)
    except GraphError:
        return
    if expected != size:
        origin = "" if isinstance(dim, int) else f" ({dim} was {expected} elsewhere in this run)"
        raise ShapeError(f"{place} is {size}, expected {expected}{origin}")


def lone_symbol(dim: Dim) -> str | None:
    """The name of the symbol where the dimension is just one symbol."""
    atom = lone_atom(dim)
    return atom.name if isinstance(atom, Symbol) else None


def format_shape(shape: Shape) -> str:
    """A shape as people write it."""
    return "[" + ", ".join(str(dim) for dim in shape) + "]"
