# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""Operators of `torch.library` said in operators of ours, and models of ours as such operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from intaglio.errors import InputError, UnsupportedError
from intaglio.ir.dim import Dim, DimFunction, Symbol
from intaglio.ir.types import TensorType
from intaglio.runtime.engine.binding import lone_symbol
from intaglio.runtime.model.model import Model
from intaglio.runtime.model.tensors import tensor_of
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.translate import CUSTOM
from intaglio.torch.types import from_dtype

Translate = Callable[..., Any]


def operator(name: str) -> Callable[[Translate], Translate]:
    """Give an operator of `torch.library` a meaning in compiled graphs: `@operator("shop::scaled_relu")`.

    The function gets a builder and the arguments of the operator: tensors are values, sizes may be dimensions. It gives
    a value, or a tuple of them. The name may say an overload, `shop::scaled_relu.out`.
    """
    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(torch.ops, space), packet, None) if space and packet else None
    if found is None or (overload or "default") not in found.overloads():
        raise InputError(f"there is no operator {name!r}; register it with torch.library first: 'namespace::name'")

    def enter(translate: Translate) -> Translate:
        def rule(call: AtenCall, *arguments: Any, **named: Any) -> Any:
            return translate(call.b, *arguments, **named)

        CUSTOM[f"{space}.{packet}.{overload or 'default'}"] = rule
        return translate

    return enter


def as_operator(model: Model, name: str) -> Callable[..., Any]:
    """A model as an operator of `torch.library`: a function of tensors that torch.export and torch.compile keep whole.

    `name` is that of the operator, `shop::detector`. The function takes the model's inputs in order, and gives its
    output, or a tuple of them. It has no gradient.
    """
    if "::" not in name:
        raise InputError(f"the operator's name is {name!r}, expected 'namespace::name'")
    for item in (*model.inputs, *model.outputs):
        if not isinstance(item.type, TensorType) or item.type.shape is None:
            raise UnsupportedError(f"{item.name} is {item.type}; an operator takes and gives tensors of a known rank")

    def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        found = model(*inputs)
        return [tensor_of(each) for each in (found if isinstance(found, tuple) else (found,))]

    def describe(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        sizes = _bound(model, inputs)
        return [_like(item.type, sizes) for item in model.outputs]

    entered = torch.library.custom_op(name, run, mutates_args=(), schema="(Tensor[] inputs) -> Tensor[]")
    entered.register_fake(describe)

    def call(*inputs: torch.Tensor) -> Any:
        found = entered(list(inputs))
        return found[0] if len(found) == 1 else tuple(found)

    return call


def _bound(model: Model, inputs: Sequence[torch.Tensor]) -> dict[str, Any]:
    """The sizes that the model's symbols stand for, numbers or symbols of PyTorch."""
    found: dict[str, Any] = {}
    for item, tensor in zip(model.inputs, inputs, strict=True):
        assert isinstance(item.type, TensorType)
        for dim, size in zip(item.type.dims, tensor.shape, strict=True):
            name = lone_symbol(dim)
            if name is not None:
                found.setdefault(name, size)
    return found


def _like(type: Any, sizes: Mapping[str, Any]) -> torch.Tensor:
    shape = [_size(dim, sizes) for dim in type.dims]
    return torch.empty(shape, dtype=from_dtype(type.dtype))


def _size(dim: Dim, sizes: Mapping[str, Any]) -> Any:
    if isinstance(dim, int):
        return dim
    total: Any = 0
    for monomial, factor in dim.terms:
        term: Any = factor
        for atom in monomial:
            term = term * _atom(atom, sizes)
        total = total + term
    return total


def _atom(atom: Symbol | DimFunction, sizes: Mapping[str, Any]) -> Any:
    if isinstance(atom, Symbol):
        if atom.name not in sizes:
            raise UnsupportedError(f"the size {atom.name} of an output, which only a run finds out")
        return sizes[atom.name]
    left, right = _size(atom.left, sizes), _size(atom.right, sizes)
    if atom.function == "floordiv":
        return left // right
    if atom.function == "mod":
        return left % right
    return torch.sym_min(left, right) if atom.function == "min" else torch.sym_max(left, right)
