"""`model.memory_plan()`: what a run holds in memory, known before it starts."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from intaglio.errors import InputError
from intaglio.ir.dim import Dim, substitute, symbols
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.plan import NativeStep, Plan
from intaglio.kernels.reuse import layout
from intaglio.runtime.limits import weight_bytes

PROBE = 16
"""The size that open dimensions are given to find out where a segment needs most memory."""


@dataclass(frozen=True)
class MemoryPlan:
    """The bytes that a run holds, as numbers or, where sizes are open, as expressions of them.

    `weights` are those of the model's file, which are mapped and not held; `constants` those that compiled code reads,
    packed or as they were, which all models of the process share. `arenas` is the memory between nodes, for each
    segment; `outputs` are the arrays that segments give, which live until the run is over. `total` is everything that
    is held at the end of a run. `notes` tell what is not counted.
    """

    sizes: dict[str, int]
    weights: int
    constants: int
    arenas: tuple[Dim, ...]
    outputs: Dim
    notes: tuple[str, ...] = field(default=())

    @property
    def total(self) -> Dim:
        """Constants, arenas and outputs."""
        return self.constants + sum(self.arenas, 0) + self.outputs

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data; expressions are text."""
        return {
            "sizes": dict(self.sizes),
            "weights": self.weights,
            "constants": self.constants,
            "arenas": [_plain(arena) for arena in self.arenas],
            "outputs": _plain(self.outputs),
            "total": _plain(self.total),
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """The plan as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        given = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        rows: list[tuple[str, Dim]] = [("weights in the file", self.weights), ("constants of the code", self.constants)]
        rows += [(f"arena of segment {place}", arena) for place, arena in enumerate(self.arenas)]
        rows += [("outputs", self.outputs), ("total of a run", self.total)]
        lines = [f"memory of a run{' with ' + given if given else ''}"]
        lines += [f"  {name:22} {_readable(size)}" for name, size in rows]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def _plain(size: Dim) -> int | str:
    return size if isinstance(size, int) else str(size)


def _readable(size: Dim) -> str:
    if not isinstance(size, int):
        return f"{size} bytes"
    return f"{size:,} bytes ({size / 2**20:.1f} MiB)"


def memory_of_plan(graph: Graph, plan: Plan, sizes: Mapping[str, int]) -> MemoryPlan:
    """The memory of a native plan, `graph` being the model as it was read."""
    _check_names(plan.inputs, sizes)
    segments = [step for step in plan.steps if isinstance(step, NativeStep)]
    buffers = [buffer for step in segments for buffer in step.output_buffers]
    outputs = sum((substitute(b.bytes, sizes) for b in buffers if not b.is_late), 0)
    notes: list[str] = []
    if any(step.late or any(step.late_outputs) for step in segments):
        notes.append("tensors whose sizes only data tells are not counted")
    if plan.host_steps:
        notes.append(f"what {len(plan.host_steps)} host nodes make is not counted")
    constants = sum(array.nbytes for array in plan.constants)
    arenas = tuple(_arena(step, sizes) for step in segments)
    return MemoryPlan(dict(sizes), weight_bytes(graph), constants, arenas, outputs, tuple(notes))


def _arena(step: NativeStep, sizes: Mapping[str, int]) -> Dim:
    """What the planner needs; where sizes are open, the sum of the buffers at the fullest moment."""
    bytes = [substitute(buffer.bytes, sizes) for buffer in step.arena]
    blocks = layout(step)
    numbers = [size for size in bytes if isinstance(size, int)]
    if len(numbers) == len(bytes):
        return blocks.planned(numbers)[1]
    return _fullest([bytes[holder] for holder in blocks.holders], blocks.first, blocks.last)


def _fullest(sizes: Sequence[Dim], first: Sequence[int], last: Sequence[int]) -> Dim:
    probe = {name: PROBE for size in sizes for name in symbols(size)}
    probed = [int(substitute(size, probe)) for size in sizes]  # pyright: ignore[reportArgumentType]
    moments = range(max(last, default=-1) + 1)
    live = [[i for i in range(len(sizes)) if first[i] <= moment <= last[i]] for moment in moments]
    fullest = max(live, key=lambda items: sum(probed[i] for i in items), default=[])
    return sum((sizes[i] for i in fullest), 0)


def memory_of_graph(graph: Graph, simplified: Graph, sizes: Mapping[str, int]) -> MemoryPlan:
    """The memory of a model on the reference engine, which frees each tensor behind its last reader."""
    _check_names(simplified.inputs, sizes)
    places = {node: place for place, node in enumerate(simplified.nodes)}
    values = [value for node in places for value in node.outputs if _is_sized(value)]
    inner = [value for value in values if not value.is_output]
    last = [max((places.get(reader, 0) for reader in v.readers), default=places[v.producer]) for v in inner]  # pyright: ignore
    first = [places[value.producer] for value in inner if value.producer is not None]
    bytes = [substitute(value.tensor.size * value.dtype.itemsize, sizes) for value in inner]
    outputs = [substitute(v.tensor.size * v.dtype.itemsize, sizes) for v in values if v.is_output]
    held = weight_bytes(simplified)
    notes = ("operators may need more while they compute",)
    return MemoryPlan(dict(sizes), weight_bytes(graph), held, (_fullest(bytes, first, last),), sum(outputs, 0), notes)


def _is_sized(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.shape is not None


def _check_names(inputs: Sequence[Value], sizes: Mapping[str, int]) -> None:
    shapes = [value.type.shape or () for value in inputs if isinstance(value.type, TensorType)]
    known = sorted({name for shape in shapes for dim in shape for name in symbols(dim)})
    for name in sizes:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the dimensions are {', '.join(known) or 'all numbers'}"
            raise InputError(f"there is no dimension {name!r}; {hint}")
