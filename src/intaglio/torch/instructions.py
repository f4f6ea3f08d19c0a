# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""What a program does besides models of ours: calls of PyTorch, symbolic numbers, strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sympy import Float, Integer
from torch.fx import Node
from torch.fx.node import map_arg


class EagerInstruction:
    """One operator that PyTorch runs."""

    def __init__(self, node: Node, slot: int, places: Mapping[Node, Any]) -> None:
        self.target = node.target
        self.slot = slot
        self.arguments = _placed(node.args, places)
        self.named = _placed(node.kwargs, places)

    def run(self, slots: list[Any], bindings: Mapping[str, Any]) -> None:
        """Call the operator on what is in the slots."""
        arguments, named = _filled(self.arguments, slots), _filled(self.named, slots)
        assert callable(self.target)
        slots[self.slot] = self.target(*arguments, **named)


def _placed(arguments: Any, places: Mapping[Node, int]) -> Any:
    """The arguments of a node with slots in the place of nodes."""
    replace: Any = lambda each: Slot(places[each])  # noqa: E731
    return map_arg(arguments, replace)


class Slot:
    """The place of a tensor or number in a program."""

    def __init__(self, place: int) -> None:
        self.place = place


def _filled(arguments: Any, slots: Sequence[Any]) -> Any:
    if isinstance(arguments, Slot):
        return slots[arguments.place]
    if isinstance(arguments, (list, tuple)):
        return [_filled(each, slots) for each in arguments]
    if isinstance(arguments, dict):
        return {name: _filled(each, slots) for name, each in arguments.items()}
    return arguments


class SizeInstruction:
    """A symbolic number, from the sizes that are known by then."""

    def __init__(self, number: Any, slot: int) -> None:
        self.slot = slot
        self._number = Number(number)

    def run(self, slots: list[Any], bindings: Mapping[str, Any]) -> None:
        """Write the number."""
        slots[self.slot] = self._number.value(bindings)


NUMBER_LIMIT = 256
"""How many values a symbolic number remembers."""


class Number:
    """A symbolic number of PyTorch, worked out for given symbols and remembered."""

    def __init__(self, number: Any) -> None:
        self._expression = None if isinstance(number, (bool, int, float)) else number.node.expr
        self._number = number
        self._symbols = () if self._expression is None else tuple(self._expression.free_symbols)
        self._names = tuple(map(str, self._symbols))
        self._found: dict[tuple[Any, ...], Any] = {}

    def value(self, bindings: Mapping[str, Any]) -> Any:
        """The number for these values of its symbols."""
        if self._expression is None:
            return self._number
        key = tuple([bindings[name] for name in self._names])
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= NUMBER_LIMIT:
                self._found.clear()
            found = self._found[key] = self._evaluated(key)
        return found

    def _evaluated(self, values: Sequence[Any]) -> Any:
        assert self._expression is not None
        given = {each: _literal(value) for each, value in zip(self._symbols, values, strict=True)}
        kind = float if isinstance(self._number, torch.SymFloat) else int
        return (bool if isinstance(self._number, torch.SymBool) else kind)(self._expression.xreplace(given))


def _literal(number: float) -> Any:
    return Float(number) if isinstance(number, float) else Integer(number)


class BindInstruction:
    """The values of symbols, read off tensors and numbers that are there by now."""

    def __init__(self, sources: Mapping[str, tuple[int, int | None]]) -> None:
        self.sources = dict(sources)

    def run(self, slots: list[Any], bindings: dict[str, Any]) -> None:
        """Bind the symbols."""
        for name, (slot, axis) in self.sources.items():
            bindings[name] = slots[slot] if axis is None else slots[slot].shape[axis]


class SolveInstruction:
    """The value of a symbol, from a size or number that is `factor` times the symbol and the rest."""

    def __init__(self, name: str, source: tuple[int, int | None], factor: int, rest: Any) -> None:
        self.name = name
        self._slot, self._axis = source
        self._factor, self._rest = factor, rest

    def run(self, slots: list[Any], bindings: dict[str, Any]) -> None:
        """Bind the symbol."""
        given = slots[self._slot] if self._axis is None else slots[self._slot].shape[self._axis]
        known = {each: Integer(bindings[str(each)]) for each in self._rest.free_symbols}
        bindings[self.name] = (int(given) - int(self._rest.xreplace(known))) // self._factor


class RestrideInstruction:
    """Moves a tensor to the strides, and to the offset in its memory, that PyTorch expects, where it lies otherwise."""

    def __init__(self, slot: int, expected: Any, offset: Any = 0) -> None:
        self.slot = slot
        self._offset = Number(offset)
        self._strides = tuple([Number(stride) for stride in expected.stride()])

    def run(self, slots: list[Any], bindings: Mapping[str, Any]) -> None:
        """Copy the tensor if its strides are not those expected."""
        tensor = slots[self.slot]
        strides = tuple([stride.value(bindings) for stride in self._strides])
        offset = self._offset.value(bindings)
        if offset:
            slots[self.slot] = _moved(tensor, strides, offset)
        elif not _lie_alike(tensor.shape, tensor.stride(), strides):
            slots[self.slot] = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)


def _moved(tensor: torch.Tensor, strides: Sequence[int], offset: int) -> torch.Tensor:
    """The tensor in memory that begins before it."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True) if size)
    memory = torch.empty(offset + last + 1, dtype=tensor.dtype)
    return memory.as_strided(tensor.shape, strides, offset).copy_(tensor).detach()


def _lie_alike(shape: Sequence[int], have: Sequence[int], want: Sequence[int]) -> bool:
    """Whether strides mean the same; those of axes with one element do not matter."""
    return 0 in shape or all(size == 1 or mine == theirs for size, mine, theirs in zip(shape, have, want, strict=True))
