"""Dimensions and types as JSON holds them: each symbol and each function of sizes is written once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.ir.dim import Atom, Dim, DimFunction, Expr, Symbol
from intaglio.ir.dtype import DTYPES
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type


class DimWriter:
    """Writes a sum as its terms, each a factor and the numbers of atoms, which are a list of their own."""

    def __init__(self) -> None:
        self.atoms: list[Any] = []
        self._numbers: dict[Atom, int] = {}

    def dim(self, dim: Dim) -> Any:
        """A number, or the terms of a sum."""
        if not isinstance(dim, Expr):
            return int(dim)
        return [[factor, *[self._number(atom) for atom in monomial]] for monomial, factor in dim.terms]

    def _number(self, atom: Atom) -> int:
        found = self._numbers.get(atom)
        if found is None:
            data = atom.name if isinstance(atom, Symbol) else [atom.function, *map(self.dim, atom.operands)]
            found = self._numbers[atom] = len(self.atoms)
            self.atoms.append(data)
        return found

    def dims(self, dims: Sequence[Dim]) -> list[Any]:
        """Each of several."""
        return [self.dim(dim) for dim in dims]

    def type(self, type: Type) -> list[Any]:
        """A type, with what it is made of."""
        match type:
            case TensorType():
                return [type.dtype.name, None if type.shape is None else self.dims(type.shape)]
            case SequenceType():
                return ["seq", self.type(type.element)]
            case OptionalType():
                return ["optional", self.type(type.element)]
            case MapType():
                return ["map", type.key.name, self.type(type.value)]


class DimReader:
    """Reads what `DimWriter` wrote, whose `atoms` it is given; nothing is worked out again."""

    def __init__(self, atoms: Sequence[Any]) -> None:
        self._atoms: list[Atom] = []
        for atom in atoms:
            self._atoms.append(Symbol(atom) if isinstance(atom, str) else DimFunction(atom[0], self.dims(atom[1:])))

    def dim(self, data: Any) -> Dim:
        """The inverse of `DimWriter.dim`."""
        if isinstance(data, int):
            return data
        return Expr(tuple([(tuple([self._atoms[number] for number in numbers]), factor) for factor, *numbers in data]))

    def dims(self, data: Sequence[Any]) -> tuple[Dim, ...]:
        """Each of several."""
        return tuple([self.dim(item) for item in data])

    def pair(self, data: Sequence[Any]) -> tuple[Dim, Dim]:
        """Both of two."""
        left, right = data
        return self.dim(left), self.dim(right)

    def type(self, kind: str, *inner: Any) -> Type:
        """The inverse of `DimWriter.type`."""
        if kind == "seq":
            return SequenceType(self.type(*inner[0]))
        if kind == "optional":
            return OptionalType(self.type(*inner[0]))
        if kind == "map":
            return MapType(DTYPES[inner[0]], self.type(*inner[1]))
        return TensorType(DTYPES[kind], None if inner[0] is None else self.dims(inner[0]))
