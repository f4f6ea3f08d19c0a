"""State: tensors that a model holds between runs.

A step is an ordinary graph: some inputs are the state as it was, some outputs what it becomes. `StatefulModel` binds
them, so that users feed and get the rest. A run that fails changes nothing. A model that was loaded with
`StateUpdates` writes over the state, at its end and where nothing stops it. Elsewhere each tensor that changes has two
buffers: a run reads one and writes the other, and then they change places.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.clone import clone_with_values
from intaglio.ir.types import TensorType
from intaglio.runtime.engine.limits import settled
from intaglio.runtime.model.arrays import as_input, to_array
from intaglio.runtime.model.loading import import_source, load
from intaglio.runtime.model.model import Model, Signature
from intaglio.runtime.model.tensor_files import read_tensors, write_tensors

if TYPE_CHECKING:
    from intaglio.ir.graph import Graph
    from intaglio.onnx.reader import ModelProto, Source
    from intaglio.runtime.model.explain import Explanation
    from intaglio.runtime.model.memory import MemoryPlan

Array = np.ndarray[Any, Any]

FIXED = "intaglio.fixed"
"""The metadata of a graph that names, as JSON, constants which whoever made the model does not train."""
LOST_DROPOUT = "intaglio.lost_dropout"
"""The metadata of a graph that names, as JSON, layers whose dropout is no node of it."""


class State(Mapping[str, Array]):
    """Tensors by name, whose types and shapes stay what they are.

    Reading gives a copy; `state[name] = array` writes.
    """

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._front: dict[str, Array] = {name: np.array(array, order="C") for name, array in arrays.items()}
        self._back: dict[str, Array] = {}
        self.lock = threading.RLock()
        """Held while a run reads and changes the state."""

    def __getitem__(self, name: str) -> Array:
        return self.held(name).copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._front)

    def __len__(self) -> int:
        return len(self._front)

    def __contains__(self, name: object) -> bool:
        return name in self._front

    def __setitem__(self, name: str, array: Any) -> None:
        held = self.held(name)
        np.copyto(held, self._fitting(name, array, held))

    def __repr__(self) -> str:
        return f"<State {', '.join(f'{name}: {a.dtype}{list(a.shape)}' for name, a in self._front.items())}>"

    def _fitting(self, name: str, array: Any, held: Array) -> Array:
        from intaglio.ir.dtype import from_numpy

        given = to_array(array, from_numpy(held.dtype), f"state {name!r}")
        if given.dtype != held.dtype or given.shape != held.shape:
            got, wanted = f"{given.dtype}{list(given.shape)}", f"{held.dtype}{list(held.shape)}"
            raise InputError(f"state {name!r} is {wanted}, got {got}")
        return given

    def held(self, name: str) -> Array:
        """The array itself, which the next steps write to; for those who copy nothing and keep nothing."""
        found = self._front.get(name)
        if found is None:
            near = get_close_matches(name, self._front, 3)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"it has {_some(self._front)}"
            raise InputError(f"there is no state {name!r}; {hint}")
        return found

    def spare(self, name: str) -> Array:
        """The array that a step writes the new value to."""
        found = self._back.get(name)
        if found is None:
            found = self._back[name] = np.empty_like(self.held(name))
        return found

    def replace(self, arrays: Mapping[str, Array]) -> None:
        """Let these arrays be the state, all at once."""
        self._front = {**self._front, **arrays}

    @property
    def bytes(self) -> int:
        """The bytes that are held."""
        return sum(array.nbytes for array in (*self._front.values(), *self._back.values()))

    def turn(self, names: Sequence[str]) -> None:
        """Make what was written to the spare arrays the state."""
        front, back = dict(self._front), dict(self._back)
        for name in names:
            front[name], back[name] = back[name], front[name]
        self._front, self._back = front, back  # all at once: an interrupt finds the old state or the new one

    def state_dict(self) -> dict[str, Array]:
        """A copy of all tensors."""
        return {name: array.copy() for name, array in self._front.items()}

    def load_state_dict(self, tensors: Mapping[str, Any], strict: bool = True) -> None:
        """Take over tensors by name; with `strict`, all that there are and no others.

        Nothing is taken where one does not fit.
        """
        missing = [name for name in self._front if name not in tensors]
        unknown = [name for name in tensors if name not in self._front]
        if strict and (missing or unknown):
            parts = [
                f"{what} {_some(names)}" for what, names in (("lacks", missing), ("has besides", unknown)) if names
            ]
            raise InputError(f"the tensors are not those of this state: it {' and '.join(parts)}")
        known = [name for name in tensors if name in self._front]
        fitting = {name: self._fitting(name, tensors[name], self.held(name)) for name in known}
        for name, array in fitting.items():
            np.copyto(self.held(name), array)

    def save(self, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
        """Write all tensors to a file of safetensors."""
        write_tensors(path, self._front, metadata)

    def load(self, path: str | os.PathLike[str], strict: bool = True) -> None:
        """Take over the tensors of a file of safetensors."""
        self.load_state_dict(read_tensors(path)[0], strict)


class StatefulModel:
    """A model with state: `model.state["conv1.weight"]`. Feeds and results are those that are no state.

    `reads` tells of which inputs the state is the value, `writes` which outputs become it. Runs that change the state
    come one after another; a run that fails, or that `accept` refuses, leaves it as it was.
    """

    def __init__(self, model: Model, state: State, reads: Mapping[str, str], writes: Mapping[str, str]) -> None:
        self.model, self.state = model, state
        self._reads, self._writes = dict(reads), dict(writes)
        types = {item.name: item for item in model.inputs}
        self._fed = [(types[name], self._reads.get(name)) for name in model.fed]
        self._results = [item.name for item in model.outputs]
        self._turned = [self._writes[name] for name in self._results if name in self._writes]
        self._names = {item.name for item, source in self._fed if source is None}
        self._into = [self._writes.get(name) for name in self._results]

    @property
    def inputs(self) -> tuple[Signature, ...]:
        """The inputs that a run is given, in order."""
        return tuple(item for item in self.model.inputs if item.name not in self._reads)

    @property
    def outputs(self) -> tuple[Signature, ...]:
        """The outputs that a run returns, in order."""
        return tuple(item for item in self.model.outputs if item.name not in self._writes)

    @property
    def options(self) -> Any:
        """The options of the model."""
        return self.model.options

    @property
    def graph(self) -> Graph:
        """The graph, in which state is inputs and outputs; do not change it."""
        return self.model.graph

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Run on arrays by position or name; returns the output, or a tuple of them where there are several."""
        names = [item.name for item in self.inputs]
        if len(arrays) > len(names):
            raise InputError(f"{len(arrays)} inputs were given, the model has {len(names)}: {', '.join(names)}")
        twice = [name for name in names[: len(arrays)] if name in named]
        if twice:
            raise InputError(f"input {twice[0]!r} was given by position and by name")
        results = list(self.run(dict(zip(names, arrays, strict=False)) | named).values())
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, feeds: Mapping[str, Any], accept: Callable[[dict[str, Any]], bool] | None = None) -> dict[str, Any]:
        """Run on inputs by name; returns outputs by name, and the state is what the run made of it.

        `accept` sees the outputs first; where it says no, the state stays as it was.
        """
        if len(feeds) != len(self._names) or not self._names.issuperset(feeds):
            self._check_feeds(feeds)
        state = self.state
        with state.lock:
            values = [feeds[item.name] if source is None else state.held(source) for item, source in self._fed]
            if self.options.is_state:
                return self._run_in_place(values, accept)
            into = [None if name is None else state.spare(name) for name in self._into]
            found = self.model.run_into(values, into)
            results = {
                name: array for name, array, place in zip(self._results, found, into, strict=True) if place is None
            }
            if accept is None or accept(results):
                state.turn(self._turned)
        return results

    def _run_in_place(self, values: list[Any], accept: Callable[[dict[str, Any]], bool] | None) -> dict[str, Any]:
        """A run that changes the state itself; where that could not be, its results become the state."""
        if accept is not None:
            raise InputError("a run in place cannot be refused when it is over: let the graph decide what it changes")
        found = dict(zip(self._results, self.model.run_into(values, [None] * len(self._results)), strict=True))
        made = {self._writes[name]: array for name, array in found.items() if name in self._writes}
        fresh = {name: array for name, array in made.items() if array is not self.state.held(name)}
        if fresh:
            self.state.replace(fresh)
        return {name: array for name, array in found.items() if name not in self._writes}

    def _check_feeds(self, feeds: Mapping[str, Any]) -> None:
        names = [item.name for item in self.inputs]
        problems = [f"there is no input {name!r}" for name in feeds if name not in names]
        missing = [item.name for item, source in self._fed if source is None and item.name not in feeds]
        if missing:
            problems.append(f"no value for {_some(missing)}")
        if problems:
            raise InputError(f"{'; '.join(problems)}; the inputs are {_some(names)}")

    def state_dict(self) -> dict[str, Array]:
        """A copy of the state."""
        return self.state.state_dict()

    def load_state_dict(self, tensors: Mapping[str, Any], strict: bool = True) -> None:
        """Take over tensors by name; see `State.load_state_dict`."""
        with self.state.lock:
            self.state.load_state_dict(tensors, strict)

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file of safetensors."""
        self.state.save(path)

    def load_state(self, path: str | os.PathLike[str], strict: bool = True) -> None:
        """Take the state over from a file of safetensors."""
        with self.state.lock:
            self.state.load(path, strict)

    def frozen_graph(self) -> Graph:
        """A copy of the graph in which the state is constants, as it is now, and is no output."""
        graph, _ = clone_with_values(self.graph)
        for value in [value for value in graph.inputs if value.name in self._reads]:
            graph.close(value, self.state[self._reads[value.name]])
        graph.set_outputs([value for value in graph.outputs if value.name not in self._writes])
        return graph

    def to_onnx(self, opset: int | None = None) -> ModelProto:
        """The model with its present state as weights, as an ONNX message."""
        from intaglio.onnx.writer import write_model

        return write_model(self.frozen_graph(), opset=opset)

    def save(self, path: str | os.PathLike[str], opset: int | None = None) -> None:
        """Write the model with its present state as weights to an ONNX file."""
        from intaglio.onnx.writer import save_model

        save_model(self.frozen_graph(), path, opset=opset)

    def explain(self, dims: Mapping[str, int] | None = None) -> Explanation:
        """What the model runs; see `Model.explain`."""
        return self.model.explain(dims)

    def memory_plan(self, sizes: Mapping[str, int] | None = None, /, **named: int) -> MemoryPlan:
        """What a run holds in memory; see `Model.memory_plan`."""
        return self.model.memory_plan(sizes, **named)

    def __repr__(self) -> str:
        return f"<StatefulModel with {len(self.state)} tensors of state, {self.model!r}>"


def stateful(
    model: Model | Source | Graph,
    state: str | Sequence[str] | Mapping[str, Any] = "*",
    updates: Mapping[str, str] | None = None,
    capacity: Mapping[str, int] | None = None,
    **options: Any,
) -> StatefulModel:
    """A model whose weights are state: read, written, and changed by runs.

    `state` names weights (patterns such as `"conv*.weight"`), by default all: constants of floating-point numbers that
    are no scalars. Or it is a dict of values for weights and inputs by name. `updates` tells which output becomes which
    of them in every run: `{"w": "w_next"}`. `options` are those of `load`.

    `capacity` is for caches that grow, where an output is `Concat(past, new)`: the most elements that a dimension of
    their inputs may have, by its symbol. Runs then write what is new behind the past and copy nothing; the result is a
    `GrowingModel`, whose `cache(name)` is a view of what there is by now.
    """
    source = model.graph if isinstance(model, Model) else import_source(model, settled(options.get("limits"))).graph
    graph, _ = clone_with_values(source)
    arrays = _open(graph, state)
    given = (model.options.keywords() if isinstance(model, Model) else {}) | options
    if capacity:
        from intaglio.runtime.model.growing import growing

        return growing(graph, arrays, updates or {}, capacity, given)
    writes = _writes(graph, arrays, updates or {})
    loaded = load(graph, **given)
    return StatefulModel(loaded, State(arrays), {name: name for name in arrays}, writes)


def matching(names: Sequence[str], patterns: str | Sequence[str], what: str) -> list[str]:
    """The names that one of the patterns matches; raises InputError for a pattern that matches none."""
    wanted = [patterns] if isinstance(patterns, str) else list(patterns)
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            near = get_close_matches(pattern, names, 3)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {_some(list(names))}"
            raise InputError(f"no {what} is named {pattern!r}; {hint}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in wanted)]


def noted(graph: Graph, entry: str) -> list[str]:
    """The names in an entry of a graph's metadata; none where it is missing or cannot be read."""
    try:
        found = json.loads(graph.metadata.get(entry, "[]"))
    except ValueError:
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []  # pyright: ignore


def weight_names(graph: Graph) -> list[str]:
    """The names of a graph's weights: constants of floating-point numbers that are no scalars."""
    found = [value for value in graph.constants() if isinstance(value.type, TensorType) and value.dtype.kind == "float"]
    return [value.name for value in found if value.rank > 0]


def _open(graph: Graph, state: str | Sequence[str] | Mapping[str, Any]) -> dict[str, Array]:
    """Make inputs of the weights that are to be state, and return what the state begins with."""
    weights = {value.name: value for value in graph.constants() if isinstance(value.type, TensorType)}
    inputs = {value.name: value for value in graph.inputs}
    if isinstance(state, Mapping):
        known = [*weights, *inputs]
        names = [name for each in state for name in matching(known, [each], "weight or input")]
        arrays = {name: to_array(state[name], (weights | inputs)[name].dtype, f"state {name!r}") for name in names}
        for name, array in arrays.items():
            as_input((weights | inputs)[name], array)
    else:
        names = matching(weight_names(graph), state, "weight")
        arrays = {name: np.asarray(weights[name].constant) for name in names}
    for name in names:
        if name in weights:
            if weights[name].dtype.is_integer:  # sizes may have been worked out with its elements
                raise InputError(f"the weight {name!r} is {weights[name].type}: only an input of integers can be state")
            graph.open(weights[name])
    return arrays


def _writes(graph: Graph, arrays: Mapping[str, Array], updates: Mapping[str, str]) -> dict[str, str]:
    outputs = {value.name: value for value in graph.outputs}
    for name, output in updates.items():
        if name not in arrays:
            raise InputError(f"updates has a new value for {name!r}, which is no state; that is {_some(arrays)}")
        if output not in outputs:
            raise InputError(f"updates: {output!r} is no output; the outputs are {_some(outputs)}")
        given = outputs[output].type
        kept = TensorType(outputs[output].dtype, arrays[name].shape)
        if not isinstance(given, TensorType) or given != kept or given.dtype.numpy != arrays[name].dtype:
            got = f"{arrays[name].dtype}{list(arrays[name].shape)}"
            raise InputError(f"updates: the output {output!r} is {given}, and the state {name!r} is {got}")
    if len(set(updates.values())) < len(updates):
        raise InputError("updates: an output becomes two tensors of the state")
    return {output: name for name, output in updates.items()}


def _some(names: Any) -> str:
    listed = list(names)
    return (
        ", ".join(map(repr, listed[:8])) + (f", ... ({len(listed)})" if len(listed) > 8 else "") if listed else "none"
    )
