"""Arrays for inputs that a model declares as scalars: ONNX Runtime takes them of any shape, and computes with that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.errors import IntaglioError
from intaglio.ir import dim as dims
from intaglio.ir.types import TensorType
from intaglio.runtime.model.model import Model

if TYPE_CHECKING:
    from intaglio.ir.dim import Dim
    from intaglio.ir.graph import Graph

Shape = tuple["Dim", ...]


class ScalarInputs:
    """The inputs of a model that are scalars, and the models in which some of them are not."""

    def __init__(self, model: Model, load: Callable[[Graph], Model]) -> None:
        self._model = model
        self._load = load
        self._names = [
            item.name for item in model.inputs if isinstance(item.type, TensorType) and item.type.shape == ()
        ]
        self._models: dict[tuple[tuple[str, Shape], ...], Model | None] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_models": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._lock = threading.Lock()

    def fitting(self, feeds: dict[str, Any]) -> tuple[Model, dict[str, Any]]:
        """The model for the shapes of these arrays, and what to feed it.

        Where no node fits an array of one element in another shape, that is fed as the scalar that is declared.
        """
        shapes = {name: shape for name in self._names if name in feeds and (shape := _shape(feeds[name]))}
        if not shapes:
            return self._model, feeds
        key = tuple((name, _sizes(name, shape)) for name, shape in shapes.items())
        with self._lock:
            if key not in self._models:
                self._models[key] = self._reshaped(dict(key))
            model = self._models[key]
        if model is not None:
            return model, feeds
        return self._model, feeds | {name: _scalar(feeds[name]) for name in shapes}

    def _reshaped(self, shapes: Mapping[str, Shape]) -> Model | None:
        """The model with other shapes for some inputs; None where some operator cannot take them."""
        from intaglio.ir.clone import clone
        from intaglio.ops.control import retype

        try:
            graph = clone(self._model.graph)
            changed = {value for value in graph.inputs if value.name in shapes}
            for value in changed:
                value.type = value.tensor.with_shape(shapes[value.name])
            retype(graph, set(changed))
            return self._load(graph)
        except IntaglioError:
            return None


def _shape(item: Any) -> tuple[int, ...]:
    """The shape of what is fed; that of a scalar where it is no array, which others report."""
    try:
        return tuple(getattr(item, "shape", None) or np.shape(item))
    except (TypeError, ValueError):
        return ()


def _sizes(name: str, shape: tuple[int, ...]) -> Shape:
    return tuple(1 if size == 1 else dims.symbol(f"{name}.{axis}") for axis, size in enumerate(shape))


def _scalar(item: Any) -> Any:
    """An array of one element without its dimensions; one of more as it is, which the model refuses."""
    array = np.asarray(item)
    return array.reshape(()) if array.size == 1 else item
