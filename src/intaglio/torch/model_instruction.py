# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""A model of ours as a step of a program: tensors in, tensors out; by arrays at first, then by addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from intaglio.record import Record
from intaglio.runtime.model.model import Model
from intaglio.runtime.model.tensors import array_of, tensor_of
from intaglio.targets import executor_for
from intaglio.targets.step import PREPARED_LIMIT, Direct

empty_strided: Callable[..., torch.Tensor] = torch._C._dynamo.guards._empty_strided_cpu  # pyright: ignore
"""`torch.empty_strided` for the CPU in a third of the time."""


class LateModel:
    """A model that is made when it first runs; `saw` is told of it, `observe` of all values of each run."""

    def __init__(
        self,
        make: Callable[[], Model],
        saw: Callable[[Model], None],
        observe: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._make, self._saw, self._observe = make, saw, observe
        self.model: Model | None = None

    @property
    def plain(self) -> Model | None:
        """The model where it was made and nobody watches its runs."""
        return self.model if self._observe is None else None

    def __call__(self, *arrays: Any) -> Any:
        """Run the model."""
        if self.model is None:
            self.model = self._make()
            self._saw(self.model)
        if self._observe is not None:
            self._observe(_all_values(self.model, arrays))
        return self.model(*arrays)


def _all_values(model: Model, arrays: Sequence[Any]) -> dict[str, Any]:
    """Every tensor that a run computes, by name."""
    names = [value.name for node in model.graph.nodes for value in node.outputs]
    feeds = {item.name: array for item, array in zip(model.inputs, arrays, strict=True)}
    return {name: tensor_of(array) for name, array in model.run(feeds, outputs=names).items()}


class Operand(Record):
    """An input of a model: the slot of a tensor, and the order of its axes in memory where that is not the usual."""

    slot: int
    order: tuple[int, ...] | None = None


class Result(Record):
    """An output of a model: its slot, and the order of its axes in memory where that is not the usual."""

    slot: int
    order: tuple[int, ...] | None = None


class CarriedSize(Record):
    """A symbol that a model is given as a size: its value, or with a sign what it is above or below zero."""

    name: str
    sign: int = 0

    def value(self, bindings: Mapping[str, int]) -> int:
        """The size for these values of symbols."""
        given = bindings[self.name]
        return max(self.sign * given, 0) if self.sign else given


class ModelInstruction:
    """A model of ours between slots."""

    def __init__(
        self,
        model: Model | LateModel,
        operands: Sequence[Operand],
        sizes: Sequence[CarriedSize],
        results: Sequence[Result],
        count: int,
    ) -> None:
        self.model = model
        self.operands = tuple(operands)
        self.sizes = tuple(sizes)
        self.results = tuple(results)
        self.count = count
        self._again: DirectCall | None = None
        self._calls: dict[tuple[tuple[int, ...], ...], DirectCall | None] = {}

    def run(self, slots: list[Any], bindings: Mapping[str, int]) -> None:
        """Read tensors from slots and write the results to others."""
        again = self._again
        if again is not None and again.run(slots, [size.value(bindings) for size in self.sizes]):
            return
        arrays: list[Any] = []
        for operand in self.operands:
            tensor = slots[operand.slot]
            arrays.append(array_of(tensor if operand.order is None else tensor.permute(operand.order)))
        arrays += [_size_array(size.value(bindings)) for size in self.sizes]
        found = self.model(*arrays)
        for result, array in zip(self.results, found if self.count > 1 else (found,), strict=True):
            tensor = tensor_of(np.asarray(array, order="C"))  # the reference gives arrays in any order
            slots[result.slot] = _own(tensor if result.order is None else tensor.permute(_inverse(result.order)))
        self._again = self._direct_call(tuple([array.shape for array in arrays]), slots)

    def _direct_call(self, shapes: tuple[tuple[int, ...], ...], slots: Sequence[Any]) -> DirectCall | None:
        """The short way for tensors like those of the run that has just ended; None where there is none."""
        if shapes not in self._calls:
            if not self._has_plain_memory(slots):
                return None
            if len(self._calls) >= PREPARED_LIMIT:
                self._calls.clear()
            direct = _direct(self.model, shapes)
            self._calls[shapes] = None if direct is None else DirectCall(self, direct, shapes, slots)
        return self._calls[shapes]

    def _has_plain_memory(self, slots: Sequence[Any]) -> bool:
        """Whether all tensors of a run have elements, without gaps in the order in which the code takes them."""
        for each in (*self.operands, *self.results):
            tensor = slots[each.slot]
            ordered = tensor if each.order is None else tensor.permute(each.order)
            if not ordered.is_contiguous() or not tensor.numel():
                return False
        return True


def _direct(model: Model | LateModel, shapes: tuple[tuple[int, ...], ...]) -> Direct | None:
    made = model.plain if isinstance(model, LateModel) else model
    return None if made is None else made.direct(shapes)


class DirectCall:
    """A call of compiled code on the memory of tensors, for sizes, types and strides that were seen before."""

    def __init__(
        self, step: ModelInstruction, direct: Direct, shapes: tuple[tuple[int, ...], ...], slots: Sequence[Any]
    ) -> None:
        count = len(step.operands)
        self._direct = direct
        self._invoke = executor_for().direct_call()
        self._operands = [_Form(operand.slot, slots[operand.slot]) for operand in step.operands]
        self._results = [_Form(result.slot, slots[result.slot]) for result in step.results]
        self._sizes = [shape[0] for shape in shapes[count:]]
        self._empty = np.zeros(1, np.uint8)
        self._rest = [self._empty.ctypes.data] * len(self._sizes)

    def run(self, slots: list[Any], sizes: Sequence[int]) -> bool:
        """Whether the tensors are like those before and the code has run; nothing is written to the slots if not."""
        addresses: list[int] = []
        for form in self._operands:
            tensor = slots[form.slot]
            if tensor.shape != form.shape or tensor.stride() != form.strides or tensor.dtype is not form.dtype:
                return False
            address = tensor.data_ptr()
            if not address or tensor.is_neg():  # without elements, or a view whose signs are to be changed
                return False
            addresses.append(address)
        if sizes != self._sizes:
            return False
        made = [empty_strided(form.shape, form.strides, form.dtype) for form in self._results]
        addresses += self._rest
        addresses += [tensor.data_ptr() for tensor in made]
        try:
            status = self._invoke(self._direct.handle, self._direct.time, *addresses)
        except MemoryError:  # of which a run in the usual way tells more
            return False
        if status:
            return False
        for form, tensor in zip(self._results, made, strict=True):
            slots[form.slot] = tensor
        return True


class _Form:
    """A slot, and how the tensor in it lies in memory."""

    __slots__ = ("dtype", "shape", "slot", "strides")

    def __init__(self, slot: int, tensor: torch.Tensor) -> None:
        self.slot, self.shape, self.strides, self.dtype = slot, tuple(tensor.shape), tensor.stride(), tensor.dtype


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """A result that is no view to autograd, which lets nobody write to views that a graph returns."""
    return tensor.detach() if tensor._is_view() else tensor


def _size_array(size: int) -> Any:
    return np.empty((size, 0), np.uint8)


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda place: order[place])
