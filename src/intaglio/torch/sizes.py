# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""Sizes of a graph that is being translated: as dimensions, and as tensors in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch.utils._sympy.symbol import SymT, symbol_is_type

from intaglio.errors import UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim, DimFunction, Expr, Symbol
from intaglio.ir.dtype import FLOAT64
from intaglio.ir.graph import Value
from intaglio.ir.types import TensorType
from intaglio.torch.symbols import convert, to_dim

FLOATS = (SymT.FLOAT, SymT.UNBACKED_FLOAT)
_QUOTIENTS = ("FloatTrueDiv", "IntTrueDiv")


class Sizes:
    """What is known of sizes: where in the graph each can be read, and how PyTorch's symbols are called here."""

    def __init__(self) -> None:
        self._places: dict[Dim, tuple[Value, int]] = {}
        self._renamed: dict[str, Dim] = {}
        self._made: dict[Dim, Value] = {}
        self._split: set[str] = set()

    def dim(self, size: Any) -> Dim:
        """A size of PyTorch as a dimension."""
        self._split_all(size)
        return to_dim(size, self._renamed)

    def split(self, name: str, number: Any) -> bool:
        """Whether a symbol that stands in a number may be negative: then it is the difference of two sizes here."""
        for symbol in number.node.expr.free_symbols:
            if str(symbol) == name and name not in self._renamed and _may_be_negative(symbol, number):
                above, below = split_names(name)
                self._renamed[name] = dims.symbol(above) - dims.symbol(below)
                self._split.add(name)
        return name in self._split

    def _split_all(self, number: Any) -> None:
        if isinstance(number, (torch.SymInt, torch.SymFloat)):
            for symbol in number.node.expr.free_symbols:
                self.split(str(symbol), number)

    def dims(self, shape: Sequence[Any]) -> tuple[Dim, ...]:
        """A shape of PyTorch as dimensions."""
        return tuple([self.dim(size) for size in shape])

    def note(self, value: Value, fake: Any = None) -> None:
        """Remember where sizes can be read, and what symbols of PyTorch are called that data decides."""
        if not isinstance(value.type, TensorType) or value.type.shape is None:
            return
        for axis, dim in enumerate(value.type.shape):
            if isinstance(dim, Expr):
                self._places.setdefault(dim, (value, axis))
        if isinstance(fake, torch.Tensor):
            for size, dim in zip(fake.shape, value.type.shape, strict=False):
                self._rename(size, dim)

    def _rename(self, size: Any, dim: Dim) -> None:
        if isinstance(size, int):
            return
        expression = size.node.expr
        if expression.is_Symbol and str(expression).startswith("u") and str(expression) not in self._renamed:
            self._renamed[str(expression)] = dim

    def vector(self, builder: Builder, sizes: Sequence[Any]) -> Value:
        """Sizes as an int64 tensor: a constant where all are numbers."""
        if all(isinstance(size, int) for size in sizes):
            return builder.constant(np.array([int(size) for size in sizes], np.int64))
        parts = [self._one(builder, size) for size in sizes]
        return parts[0] if len(parts) == 1 else builder.Concat(*parts, axis=0)

    def number(self, builder: Builder, number: Any) -> Value:
        """A symbolic floating-point number as a scalar."""
        if any(symbol_is_type(symbol, FLOATS) for symbol in number.node.expr.free_symbols):
            raise UnsupportedError(f"the number {number}, which is no function of sizes")
        self._split_all(number)
        return self._float(builder, number.node.expr)

    def _float(self, b: Builder, expression: Any) -> Value:
        kind = type(expression).__name__
        if kind in _QUOTIENTS:
            left, right = (self._float(b, each) for each in expression.args)
            return b.Div(left, right)
        if kind in ("Add", "Mul") and not expression.is_integer:
            parts = [self._float(b, each) for each in expression.args]
            return reduce(b.Add if kind == "Add" else b.Mul, parts)
        if kind == "ToFloat":
            return self._float(b, expression.args[0])
        if expression.is_number:
            return b.constant(float(expression), FLOAT64)
        size = convert(expression, self._renamed)
        return b.Cast(b.Reshape(self.vector(b, [size]), []), to=FLOAT64.number)

    def _one(self, b: Builder, size: Dim) -> Value:
        """One size as a tensor of one element."""
        if isinstance(size, int):
            return b.constant([size])
        if size not in self._made:
            place = self._places.get(size)
            self._made[size] = (
                self._computed(b, size) if place is None else b.Shape(place[0], start=place[1], end=place[1] + 1)
            )
        return self._made[size]

    def _computed(self, b: Builder, size: Expr) -> Value:
        total: Value | None = None
        for monomial, factor in size.terms:
            term: Value | None = None if monomial and factor == 1 else b.constant([factor])
            for atom in monomial:
                value = self._atom(b, atom)
                term = value if term is None else b.Mul(term, value)
            assert term is not None
            total = term if total is None else b.Add(total, term)
        assert total is not None
        return total

    def _atom(self, b: Builder, atom: Symbol | DimFunction) -> Value:
        if isinstance(atom, Symbol):
            lone = dims.symbol(atom.name)
            if lone not in self._places:
                raise UnsupportedError(f"the size {atom.name} is that of no tensor here")
            return self._one(b, lone)
        left, right = self._one(b, atom.left), self._one(b, atom.right)
        if atom.function == "floordiv":
            low, _ = dims.bounds(atom.left)
            whole = left if low is not None and low >= 0 else b.Sub(left, b.Mod(left, right))
            return b.Div(whole, right)
        if atom.function == "broadcast":
            return b.Where(b.Equal(left, b.constant([1])), right, left)
        made = {"mod": b.Mod, "min": b.Min, "max": b.Max}.get(atom.function)
        if made is None:
            raise UnsupportedError(f"the size {atom}")
        return made(left, right)


def split_names(name: str) -> tuple[str, str]:
    """The two sizes that a symbol is the difference of where it may be negative."""
    return f"{name}_above", f"{name}_below"


def _may_be_negative(symbol: Any, number: Any) -> bool:
    ranges = number.node.shape_env.var_to_range
    return symbol in ranges and bool(ranges[symbol].lower < 0)
