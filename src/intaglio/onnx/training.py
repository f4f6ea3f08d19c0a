"""The training information of a model: an algorithm that runs behind the model's graph and updates its initializers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, TensorProto, TrainingInfoProto, helper

from intaglio.errors import LoadError
from intaglio.ir.graph import Graph
from intaglio.onnx.limits import ReadLimits
from intaglio.onnx.protobuf import shorten, text
from intaglio.onnx.reader import Source, parse_model, read_model
from intaglio.ops.evaluate import evaluate
from intaglio.record import Record

Array = np.ndarray[Any, Any]


class Training(Record):
    """A training step: `state` are inputs of the graph with their first values, `updates` the outputs they become."""

    graph: Graph
    state: Mapping[str, Array]
    updates: Mapping[str, str]


def read_training(
    source: Source,
    index: int = 0,
    *,
    base_folder: str | os.PathLike[str] | None = None,
    limits: ReadLimits | None = None,
) -> Training:
    """Read one of the training algorithms of a model, with the model's graph before it.

    The step has the inputs and outputs of both. What the algorithm updates, or the initialization sets, is state.
    """
    model, folder = _whole_model(source)
    base = folder if base_folder is None else base_folder
    if not 0 <= index < len(model.training_info):
        count = len(model.training_info)
        raise LoadError(f"the model has {count} training algorithms, and number {index} was asked for (from 0)")
    info = model.training_info[index]
    reading = _Reading(model, base, limits or ReadLimits())
    combined = reading.combined(info)
    updates = _bound(info.update_binding, "update_binding")
    first = _bound(info.initialization_binding, "initialization_binding")
    names = list(dict.fromkeys([*updates, *first]))
    tensors = {text(tensor.name): tensor for tensor in combined.graph.initializer}
    _check_names(names, tensors, "initializer of the model or the algorithm")
    _check_names(updates.values(), [text(v.name) for v in info.algorithm.output], "output of the algorithm")
    state = reading.values([tensors[name] for name in names]) | reading.initialized(info, first)
    _open(combined.graph, [tensors[name] for name in names])
    return Training(reading.read(combined).graph, state, updates)


def _whole_model(source: Source) -> tuple[ModelProto, Path | None]:
    """The message with all its tensors, to be changed, and the folder of its file."""
    model, path, cut = parse_model(source)
    if not cut:
        copy = ModelProto()
        copy.CopyFrom(model)
        return copy, None if path is None else path.parent
    data = path.read_bytes() if path is not None else bytes(source)  # pyright: ignore[reportArgumentType]
    try:
        return ModelProto.FromString(data), None if path is None else path.parent
    except DecodeError as error:
        raise LoadError(f"the model with its tensors cannot be read as one message: {error}") from None


class _Reading:
    """Reads parts of a model, each as a model of its own."""

    def __init__(self, model: ModelProto, folder: str | os.PathLike[str] | None, limits: ReadLimits) -> None:
        self._model, self._folder, self._limits = model, folder, limits

    def _like(self, graph: GraphProto) -> ModelProto:
        made = ModelProto()
        made.CopyFrom(self._model)
        made.ClearField("training_info")
        made.graph.CopyFrom(graph)
        return made

    def read(self, model: ModelProto) -> Any:
        return read_model(model, base_folder=self._folder, limits=self._limits)

    def combined(self, info: TrainingInfoProto) -> ModelProto:
        """The model's graph with that of the algorithm behind it."""
        made = self._like(self._model.graph)
        for name in ("node", "initializer", "sparse_initializer", "input", "output", "value_info"):
            getattr(made.graph, name).extend(getattr(info.algorithm, name))
        return made

    def values(self, tensors: Iterable[TensorProto]) -> dict[str, Array]:
        """The arrays of initializers by name."""
        graph = GraphProto(name="values")
        graph.initializer.extend(tensors)
        for tensor in tensors:
            graph.output.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        found = self.read(self._like(graph)).graph.outputs if graph.output else ()
        return {text(t.name): np.array(value.constant) for t, value in zip(tensors, found, strict=True)}

    def initialized(self, info: TrainingInfoProto, binding: Mapping[str, str]) -> dict[str, Array]:
        """What the initialization computes, by the names of the initializers that it is for."""
        if not binding:
            return {}
        graph = self.read(self._like(info.initialization)).graph
        if graph.inputs:
            raise LoadError(
                f"the initialization has the input {shorten(graph.inputs[0].name)!r}, and it is run without"
            )
        outputs = [value.name for value in graph.outputs]
        _check_names(binding.values(), outputs, "output of the initialization")
        results = dict(zip(outputs, evaluate(graph, []), strict=True))
        return {name: np.array(results[output]) for name, output in binding.items()}


def _bound(binding: Iterable[Any], what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in binding:
        if text(entry.key) in found:
            raise LoadError(f"{what} names {shorten(text(entry.key))!r} twice")
        found[text(entry.key)] = text(entry.value)
    return found


def _check_names(names: Iterable[str], known: Iterable[str], what: str) -> None:
    there = set(known)
    missing = [name for name in names if name not in there]
    if missing:
        raise LoadError(f"the training information binds {shorten(missing[0])!r}, which is no {what}")


def _open(graph: GraphProto, tensors: Iterable[TensorProto]) -> None:
    """Make inputs of initializers."""
    names = {tensor.name for tensor in tensors}
    inputs = {value.name for value in graph.input}
    kept = [tensor for tensor in graph.initializer if tensor.name not in names]
    for tensor in tensors:
        if tensor.name not in inputs:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    del graph.initializer[:]
    graph.initializer.extend(kept)
