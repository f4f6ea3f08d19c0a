"""Training algorithms that stand in an ONNX model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from intaglio.errors import InputError
from intaglio.onnx.limits import ReadLimits
from intaglio.onnx.training import read_training
from intaglio.runtime.engine.limits import settled
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.state import State, StatefulModel

if TYPE_CHECKING:
    from intaglio.onnx.reader import Source


def training_step(
    source: Source, index: int = 0, *, base_folder: str | os.PathLike[str] | None = None, **options: Any
) -> StatefulModel:
    """The training algorithm in a model's `training_info`, as a model with state: each run is one step.

    Its inputs and outputs are those of the model and of the algorithm, less the tensors that the algorithm updates:
    these are the state. The model's initialization, where there is one, gives their first values. `index` chooses among
    several algorithms; `options` are those of `load`.
    """
    bounds = settled(options.get("limits"))
    found = read_training(source, index, base_folder=base_folder, limits=ReadLimits(nodes=bounds.nodes))
    types = {value.name: value.type for value in found.graph.inputs}
    for name, array in found.state.items():
        if array.shape != types[name].shape or array.dtype != types[name].dtype.numpy:  # pyright: ignore
            got = f"{array.dtype}{list(array.shape)}"
            raise InputError(f"the initialization gives {got} for {name!r}, which is {types[name]}")
    model = load(found.graph, **options)
    writes = {output: name for name, output in found.updates.items()}
    return StatefulModel(model, State(found.state), {name: name for name in found.state}, writes)
