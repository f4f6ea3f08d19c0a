"""Models on their way to the processes of a cluster."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from intaglio.errors import InputError
from intaglio.ir.graph import Graph
from intaglio.ir.state import graph_from_state, graph_state
from intaglio.ray.storage import fetched, is_remote
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model
from intaglio.serve.rows import Joining, rows_of


@dataclass(frozen=True)
class SentModel:
    """A model as plain data: its weights are arrays, which processes of one machine read of one object store."""

    state: dict[str, Any]
    options: dict[str, Any]
    fed: tuple[str, ...]
    """The names of the inputs that a run must be given."""
    outputs: tuple[str, ...]
    rows: Joining

    def graph(self) -> Graph:
        """The graph, whose weights are those that were sent and not copied."""
        return graph_from_state(self.state)

    def load(self, threads: int) -> Model:
        """The model in this process, with weights that all processes of the machine share."""
        return load(self.graph(), **self.options, threads=threads, shared_weights=True)


def send(model: Any, options: dict[str, Any]) -> SentModel:
    """What processes need to load a model, given as `load` takes it, or as the path or address of a file."""
    if "threads" in options:
        raise InputError("threads: the processes of a cluster have as many threads as `num_cpus` says")
    if isinstance(model, Model):
        options = model.options.keywords() | options
        options.pop("threads")
    else:
        looked_at: dict[str, Any] = options | {"engine": "reference"}  # which compiles nothing here
        model = load(opened(model), **looked_at)
    options.pop("shared_weights", None)
    fed, outputs = tuple(model.fed), tuple(item.name for item in model.outputs)
    return SentModel(graph_state(model.graph), options, fed, outputs, rows_of(model))


def opened(source: Any) -> Any:
    """What `load` takes in the place of a source: a file behind an address is fetched."""
    return fetched(os.fspath(source)) if is_remote(source) else source


def threads_of(num_cpus: float) -> int:
    """The threads of a process that is granted so many processors; a part of one is one thread."""
    if num_cpus <= 0:
        raise InputError(f"num_cpus is {num_cpus}, expected more than 0")
    return max(1, int(num_cpus))
