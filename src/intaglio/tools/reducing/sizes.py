"""Smaller tensors: dimensions that are equal shrink together, in inputs, weights and constants that spell shapes."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto

from intaglio.onnx.external import ExternalData
from intaglio.onnx.reader import read_model
from intaglio.onnx.tensors import read_tensor
from intaglio.onnx.write_tensors import TensorWriter
from intaglio.onnx.write_types import type_proto
from intaglio.tools.document.parts import copied
from intaglio.tools.reducing.attempts import Attempts, Draft

SHAPE_LENGTH = 8
"""Integer constants of so many elements at most are taken for shapes."""

Array = np.ndarray[Any, Any]


def reduce_sizes(draft: Draft, attempts: Attempts) -> Draft:
    """The draft with the smallest sizes that were found to fail."""
    draft = _with_open_outputs(draft, attempts)
    before = None
    while before is not draft:
        before = draft
        for size in _sizes(draft):
            draft = _shrunk(draft, attempts, size, None)
        for name, axis in _axes(draft):
            array = draft.feeds.get(name)
            if isinstance(array, np.ndarray) and axis < array.ndim and array.shape[axis] > 1:
                draft = _shrunk(draft, attempts, array.shape[axis], (name, axis))
    return _with_typed_outputs(draft, attempts)


def _sizes(draft: Draft) -> list[int]:
    """The sizes above one that inputs and weights have, the largest first."""
    shapes = [array.shape for array in draft.feeds.values() if isinstance(array, np.ndarray)]
    shapes += [tuple(tensor.dims) for tensor in draft.model.graph.initializer]
    return sorted({int(size) for shape in shapes for size in shape if size > 1}, reverse=True)


def _axes(draft: Draft) -> list[tuple[str, int]]:
    arrays = [(name, array) for name, array in draft.feeds.items() if isinstance(array, np.ndarray)]
    return [(name, axis) for name, array in arrays for axis in range(array.ndim)]


def _shrunk(draft: Draft, attempts: Attempts, size: int, only: tuple[str, int] | None) -> Draft:
    """The draft with a size made smaller, everywhere or at one axis, as far as it goes."""
    while size > 1:
        for goal in dict.fromkeys((1, 2, (size + 1) // 2)):
            ways = [(goal, is_end) for is_end in (False, True)] if goal < size else []
            found = next(
                (each for each in (_resized(draft, size, *way, only) for way in ways) if _fails(each, attempts)), None
            )
            if found is not None:
                draft, size = found, goal
                break
        else:
            return draft
    return draft


def _fails(draft: Draft | None, attempts: Attempts) -> bool:
    return draft is not None and attempts.fails(draft, "making sizes smaller")


def _resized(draft: Draft, size: int, goal: int, is_end: bool, only: tuple[str, int] | None) -> Draft | None:
    """A draft in which a size is another one; the part that stays is the first or the last."""
    model = copied(draft.model)
    feeds = {name: _sliced(name, value, size, goal, is_end, only) for name, value in draft.feeds.items()}
    for info in model.graph.input:
        _declare(info, feeds.get(info.name))
    if only is None:
        for place, tensor in enumerate(list(model.graph.initializer)):
            model.graph.initializer[place].CopyFrom(_resized_weight(tensor, size, goal, is_end))
    return Draft(model, feeds)


def _sliced(name: str, value: Any, size: int, goal: int, is_end: bool, only: tuple[str, int] | None) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    array = cast("Array", value)
    for axis in range(array.ndim):
        if array.shape[axis] == size and only in (None, (name, axis)):
            window = slice(size - goal, size) if is_end else slice(0, goal)
            array = array[(slice(None),) * axis + (window,)]
    return np.ascontiguousarray(array).reshape(array.shape)


def _declare(info: ValueInfoProto, array: Any) -> None:
    dims = info.type.tensor_type.shape.dim
    if not isinstance(array, np.ndarray) or len(dims) != array.ndim:
        return
    for dim, size in zip(dims, array.shape, strict=True):
        if dim.HasField("dim_value"):
            dim.dim_value = size


def _resized_weight(tensor: TensorProto, size: int, goal: int, is_end: bool) -> TensorProto:
    if tensor.data_type == TensorProto.STRING:
        return tensor
    array = read_tensor(tensor, ExternalData(None))
    if array.ndim == 1 and array.size <= SHAPE_LENGTH and array.dtype.kind == "i":
        array = np.where(array == size, np.asarray(goal, array.dtype), array)
    found = _sliced(tensor.name, array, size, goal, is_end, None)
    return TensorWriter().write(tensor.name, found)


def _with_open_outputs(draft: Draft, attempts: Attempts) -> Draft:
    """With outputs of which only the element type is declared, so that nothing contradicts other sizes."""
    model = copied(draft.model)
    for info in model.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    changed = Draft(model, draft.feeds)
    return changed if attempts.fails(changed, "making sizes smaller") else draft


def _with_typed_outputs(draft: Draft, attempts: Attempts) -> Draft:
    """With outputs declared as they are inferred."""
    model: ModelProto = copied(draft.model)
    for info, value in zip(model.graph.output, read_model(model).graph.outputs, strict=True):
        info.type.CopyFrom(type_proto(value.type))
    changed = Draft(model, draft.feeds)
    return changed if attempts.fails(changed, "declaring outputs") else draft
