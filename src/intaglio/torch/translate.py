# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""From a graph of torch.fx with ATen operators to a graph of ours."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import torch
from torch.fx import Node

from intaglio.errors import IntaglioError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim, UndecidableError
from intaglio.ir.graph import Graph, Value
from intaglio.ir.origin import Origin
from intaglio.ir.types import TensorType
from intaglio.runtime.model.tensors import array_of
from intaglio.torch.aten import TABLE, why_missing
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.table import COMPLEX
from intaglio.torch.sizes import Sizes, split_names
from intaglio.torch.strides import may_share_memory
from intaglio.torch.types import to_dtype

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)

CUSTOM: dict[str, Callable[..., Any]] = {}
"""Functions for operators of `torch.library`, by name; see `intaglio.torch.operator`."""


class Translator:
    """A graph that grows node by node; what a node of torch.fx became stands in `values`."""

    def __init__(self, name: str = "graph") -> None:
        self.graph = Graph(name)
        self.builder = Builder(self.graph)
        self.sizes = Sizes()
        self.values: dict[Node, Any] = {}
        self._fakes: dict[int, Any] = {}
        self._constants: dict[int, Value] = {}

    def add_input(self, node: Node, order: tuple[int, ...] | None = None) -> Value:
        """A tensor that comes from outside; `order` is that of its axes in memory, where it is not the usual."""
        fake = node.meta["val"]
        shape = self.sizes.dims(fake.shape)
        given = shape if order is None else tuple([shape[axis] for axis in order])
        value = self.graph.add_input(node.name, TensorType(to_dtype(fake.dtype), given))
        if order is not None:
            self.sizes.note(value)
            self.builder.origin = Origin(node.name)
            value = self.builder.Transpose(value, perm=tuple(sorted(range(len(order)), key=lambda p: order[p])))
        self._note(value, fake)
        self.values[node] = value
        return value

    def add_size(self, name: str) -> Value:
        """An input that only has a size: [name, 0], without any element."""
        from intaglio.ir.dim import symbol
        from intaglio.ir.dtype import UINT8

        value = self.graph.add_input(f"size.{name}", TensorType(UINT8, (symbol(name), 0)))
        self._note(value, None)
        return value

    def add_symbol(self, name: str, number: Any) -> tuple[int, ...]:
        """Inputs for a symbol of PyTorch that stands in a number: (0,) for one with its value, else their signs."""
        if not self.sizes.split(name, number):
            self.add_size(name)
            return (0,)
        for part in split_names(name):
            self.add_size(part)
        return (1, -1)

    def constant(self, node: Node, tensor: torch.Tensor) -> Value:
        """A tensor that is part of the program; its memory is shared."""
        value = self.graph.constant(array_of(tensor), node.name)
        self._note(value, node.meta.get("val", tensor))
        self.values[node] = value
        return value

    def add(self, node: Node) -> Any:
        """Say a node in our operators; raises UnsupportedError with the reason where that is not possible."""
        found = node.meta.get("val")
        if isinstance(found, SYMBOLIC):
            self.values[node] = result = self._size(found)
        elif node.target is operator.getitem:
            self.values[node] = result = self._item(node)
        else:
            self.values[node] = result = self._apply(node, found)
        return result

    def _size(self, found: Any) -> Dim | Value:
        """A symbolic integer as a dimension, a symbolic floating-point number as a scalar of the graph."""
        if isinstance(found, torch.SymInt):
            return self.sizes.dim(found)
        if not isinstance(found, torch.SymFloat):
            raise UnsupportedError(f"a {type(found).__name__}")
        value = self.sizes.number(self.builder, found)
        self._fakes[id(value)] = 1.0
        return value

    def _item(self, node: Node) -> Any:
        source, place = node.args
        assert isinstance(source, Node)
        result = self.values[source][place]
        if result is None:
            raise UnsupportedError(f"the result {place} of {source.target}")
        return result

    def _apply(self, node: Node, found: Any) -> Any:
        name = operator_name(node)
        schema = getattr(node.target, "_schema", None)
        if schema is not None and schema.is_mutable:
            raise UnsupportedError(f"{name} writes to its arguments")
        rule = CUSTOM.get(name) or TABLE.get(name)
        if rule is None:
            raise UnsupportedError(why_missing(name))
        _check_results(found)
        _check_written(node)
        arguments, named = self._arguments(node)
        wanted = _wanted(node, found)
        call = AtenCall(self.builder, self.sizes, self._fakes, found, wanted)
        self.builder.origin = Origin(f"{node.name} ({name.removeprefix('aten.')})", name)
        try:
            with self.builder.active():
                result = rule(call, *arguments, **named)
        except UndecidableError as error:
            raise UnsupportedError(str(error)) from error
        except (IntaglioError, NotImplementedError) as error:
            raise UnsupportedError(_shortened(str(error))) from error
        self._check(result, found, wanted)
        return result

    def _arguments(self, node: Node) -> tuple[list[Any], dict[str, Any]]:
        arguments = [self._argument(each) for each in node.args]
        return arguments, {name: self._argument(each) for name, each in node.kwargs.items()}

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, Node):
            return self.values[argument]
        if isinstance(argument, (list, tuple)):
            return [self._argument(each) for each in argument]
        if isinstance(argument, SYMBOLIC):
            return self._size(argument)
        return argument

    def _check(self, result: Any, found: Any, wanted: frozenset[int]) -> None:
        """Raise UnsupportedError where the result is not of the type that PyTorch says."""
        results = result if isinstance(result, (list, tuple)) else (result,)
        fakes = found if isinstance(found, (list, tuple)) else (found,)
        for place, (value, fake) in enumerate(zip(results, fakes, strict=False)):
            if value is None and (place not in wanted or fake is None):
                continue
            if value is None:
                raise UnsupportedError(f"its result {place}")
            self._check_one(value, fake)
            self._note(value, fake)

    def _check_one(self, value: Value, fake: torch.Tensor) -> None:
        expected = to_dtype(fake.dtype)
        shape = value.tensor.shape
        same_rank = shape is not None and len(shape) == fake.ndim
        sizes: list[Any] = [size if isinstance(cast("Any", size), int) else None for size in fake.shape]
        is_same = same_rank and all(
            not isinstance(dim, int) or size is None or dim == size
            for dim, size in zip(shape or (), sizes, strict=True)
        )
        if value.dtype != expected or not is_same:
            raise UnsupportedError(f"a result {value.type} where PyTorch has {expected}{list(fake.shape)}")

    def _note(self, value: Value, fake: Any) -> None:
        self.sizes.note(value, fake)
        if fake is not None:
            self._fakes[id(value)] = fake


def operator_name(node: Node) -> str:
    """The full name of what a node calls: `aten.add.Tensor`."""
    return str(node.target)


def _check_results(found: Any) -> None:
    for fake in found if isinstance(found, (list, tuple)) else (found,):
        if fake is None:
            continue
        if not isinstance(fake, torch.Tensor):
            raise UnsupportedError(f"a result that is {type(fake).__name__}")
        if fake.is_complex():
            raise UnsupportedError(COMPLEX)
        if fake.device.type != "cpu":
            raise UnsupportedError(f"a tensor on {fake.device}")
        if fake.layout != torch.strided:
            raise UnsupportedError("a sparse tensor")


_PARTIAL_WRITES = {"select_scatter", "slice_scatter", "diagonal_scatter"}
"""Writes to parts of tensors; PyTorch keeps the strides of the tensor, so that all elements at a place change."""


def _check_written(node: Node) -> None:
    """Raise UnsupportedError for a write to a part of a tensor whose elements may share memory with each other."""
    if getattr(node.target, "_opname", "") not in _PARTIAL_WRITES:
        return
    written = node.args[0]
    if isinstance(written, Node) and may_share_memory(written):
        raise UnsupportedError("it writes to a part of a tensor whose elements may share memory with each other")


def _wanted(node: Node, found: Any) -> frozenset[int]:
    """The results of a node that somebody reads."""
    if not isinstance(found, (list, tuple)):
        return frozenset((0,))
    if any(user.target is not operator.getitem for user in node.users):
        return frozenset(range(len(found)))
    return frozenset(user.args[1] for user in node.users if user.users)  # pyright: ignore


def _shortened(text: str) -> str:
    first = text.splitlines()[0] if text else "it failed"
    return first if len(first) <= 300 else first[:297] + "..."
