"""`model.memory_plan()`: what a run holds in memory, known before it starts."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from intaglio.errors import InputError, ShapeError
from intaglio.ir.dim import Dim, symbol, symbols
from intaglio.ir.graph import Graph, Value
from intaglio.ir.html import line, table, titled
from intaglio.ir.substitution import evaluate, substitute
from intaglio.ir.types import TensorType
from intaglio.kernels.arena import layout
from intaglio.kernels.memory_demand import Bounds, buffers_of_run, own_outputs, scratch_of, spans_of_run
from intaglio.kernels.plan_form import SegmentForm
from intaglio.runtime.engine.limits import weight_bytes
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.engine.outline import Port
from intaglio.targets.executor import Host

PROBES = (16, 64, 1000, 100_000)
"""What open dimensions are taken to be where sizes are compared: the first with which all of a size can be computed."""


@dataclass(frozen=True)
class LateTensor:
    """A tensor whose size only data tells: its bytes as an expression of sizes that the run finds out, and what they
    are at most, where that is known before."""

    name: str
    bytes: Dim
    most: Dim | None
    is_output: bool

    def to_dict(self) -> dict[str, Any]:
        """The tensor as plain data; expressions are text."""
        most = None if self.most is None else _plain(self.most)
        return {"name": self.name, "bytes": _plain(self.bytes), "most": most, "is_output": self.is_output}

    def __str__(self) -> str:
        place = "output " if self.is_output else ""
        return f"{place}{self.name}: {self.bytes} bytes, {_at_most(self.most)}"


@dataclass(frozen=True)
class MemoryPlan:
    """The bytes that a run holds, as numbers or, where sizes are open, as expressions of them.

    `weights` are those of the model's file, which are mapped and not held; `constants` those that compiled code reads,
    packed or as they were, which all models of the process share. `arenas` is the memory between nodes, for each
    segment; `outputs` are the arrays that segments give, which live until the run is over. `scratch` is what kernels
    need for themselves, on all threads together. `late` is what tensors take whose sizes only data tells, at the
    fullest moment; `tensors` lists them. Sizes that a run finds out are open like others until they are given.
    `total` is everything that is held at the end of a run, `most` what it can be at most, where that is known. `notes`
    tell what is not counted.
    """

    sizes: dict[str, int]
    weights: int
    constants: int
    arenas: tuple[Dim, ...]
    outputs: Dim
    notes: tuple[str, ...] = field(default=())
    scratch: Dim = 0
    late: Dim = 0
    late_most: Dim | None = 0
    tensors: tuple[LateTensor, ...] = ()

    @property
    def total(self) -> Dim:
        """Constants, arenas, outputs, scratch memory, and tensors whose sizes data tells."""
        return self._known + self.late

    @property
    def most(self) -> Dim | None:
        """The total with everything that data tells as large as it can be; None where it can be any size."""
        return None if self.late_most is None else self._known + self.late_most

    @property
    def _known(self) -> Dim:
        return self.constants + sum(self.arenas, 0) + self.outputs + self.scratch

    @property
    def summary(self) -> str:
        """The plan in one line, and one for each tensor whose size data tells."""
        held = self.total - self.scratch
        scratch = f", and {self.scratch} of scratch memory" if self.scratch != 0 else ""
        line = f"memory of a run: {held} bytes, {self.constants} of them constants{scratch}"
        return "\n".join([line, *(f"allocated in the run: {tensor}" for tensor in self.tensors)])

    def with_sizes(self, put: Callable[[Dim], Dim]) -> MemoryPlan:
        """The plan with `put` applied to all its sizes."""

        def put_if(size: Dim | None) -> Dim | None:
            return None if size is None else put(size)

        return replace(
            self,
            arenas=tuple(put(arena) for arena in self.arenas),
            outputs=put(self.outputs),
            scratch=put(self.scratch),
            late=put(self.late),
            late_most=put_if(self.late_most),
            tensors=tuple(replace(each, bytes=put(each.bytes), most=put_if(each.most)) for each in self.tensors),
        )

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data; expressions are text."""
        return {
            "sizes": dict(self.sizes),
            "weights": self.weights,
            "constants": self.constants,
            "arenas": [_plain(arena) for arena in self.arenas],
            "outputs": _plain(self.outputs),
            "scratch": _plain(self.scratch),
            "late": _plain(self.late),
            "total": _plain(self.total),
            "most": None if self.most is None else _plain(self.most),
            "tensors": [tensor.to_dict() for tensor in self.tensors],
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """The plan as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        lines = [self._title(), *(f"  {name:22} {_readable(size)}" for name, size in self._rows())]
        lines += [f"  {_at_most(self.most)}", *(f"    {tensor}" for tensor in self.tensors)] if self.tensors else []
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _title(self) -> str:
        given = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        return f"memory of a run{' with ' + given if given else ''}"

    def _rows(self) -> list[tuple[str, Dim]]:
        rows: list[tuple[str, Dim]] = [("weights in the file", self.weights), ("constants of the code", self.constants)]
        rows += [(f"arena of segment {place}", arena) for place, arena in enumerate(self.arenas)]
        rows += [("outputs", self.outputs), ("scratch of all threads", self.scratch)]
        rows += [("sizes found in data", self.late)] if self.tensors else []
        return [*rows, ("total of a run", self.total)]

    def _repr_html_(self) -> str:
        """The plan as a table, for notebooks."""
        rows = [(name, f"{size:,}" if isinstance(size, int) else size, _mebibytes(size)) for name, size in self._rows()]
        parts = [table(("", "#bytes", "#MiB"), rows)]
        if self.tensors:
            late = [
                ("output" if t.is_output else "", t.name, t.bytes, "any size" if t.most is None else t.most)
                for t in self.tensors
            ]
            parts.append(table(("", "allocated in the run", "#bytes", "#at most"), late))
        return titled(self._title(), *parts, *(line(note) for note in self.notes))


def _at_most(size: Dim | None) -> str:
    return "with no upper bound known" if size is None else f"at most {_readable(size)}"


def _plain(size: Dim) -> int | str:
    return size if isinstance(size, int) else str(size)


def _mebibytes(size: Dim) -> str:
    return f"{size / 2**20:.1f}" if isinstance(size, int) else ""


def _readable(size: Dim) -> str:
    if not isinstance(size, int):
        return f"{size} bytes"
    return f"{size:,} bytes ({size / 2**20:.1f} MiB)"


def memory_of_plan(graph: Graph, engine: NativeEngine, sizes: Mapping[str, int]) -> MemoryPlan:
    """The memory of an engine's plan, `graph` being the model as it was read."""
    form, threads = engine.form, engine.threads
    segments = form.segments
    inputs = [Port(name, form.value(name).type) for name in form.inputs]
    sizes = _shared_names(graph, inputs, sizes, [name for segment in segments for name in segment.late])
    outputs = [substitute(b.bytes, sizes) for segment in segments for b in own_outputs(segment)]
    scratch, undecided = _scratch(segments, sizes, threads)
    late = [_late(segment, sizes) for segment in segments]
    notes: list[str] = []
    if undecided:
        notes.append(f"scratch memory of {undecided} kernels, which depends on open sizes, is not counted")
    if form.hosts:
        notes.append(f"what {len(form.hosts)} host nodes make is not counted")
    bounds = [each.most for each in late]
    return MemoryPlan(
        dict(sizes),
        weight_bytes(graph),
        sum(array.nbytes for array in engine.constants),
        tuple(_arena(segment, sizes, engine.executor) for segment in segments),
        sum(outputs, 0),
        tuple(notes),
        scratch,
        sum((each.bytes for each in late), 0),
        None if None in bounds else sum((bound for bound in bounds if bound is not None), 0),
        tuple(tensor for each in late for tensor in each.tensors),
    )


def _scratch(segments: Sequence[SegmentForm], sizes: Mapping[str, int], threads: int) -> tuple[Dim, int]:
    """What kernels ask for on all threads together, and for how many of them open sizes decide that."""
    known = [Bounds(segment, sizes).symbols | dict[str, Dim](sizes) for segment in segments]
    found = [
        each for segment, names in zip(segments, known, strict=True) for each in scratch_of(segment, names, threads)
    ]
    own = [each.bytes for each in found if each.bytes is not None]
    shared = [each.bytes for each in found if each.bytes is not None and each.is_shared]
    return _largest(own) + _largest(shared) * (threads - 1), sum(each.bytes is None for each in found)


def _largest(sizes: Sequence[Dim]) -> Dim:
    """The largest of some sizes; where they are open, the one that is the largest for the probe."""
    return max(sizes, key=_probed, default=0)


@dataclass(frozen=True)
class _Late:
    """The tensors of a segment whose sizes data tells, and what they take at the fullest moment."""

    tensors: tuple[LateTensor, ...]
    bytes: Dim
    most: Dim | None


def _late(segment: SegmentForm, sizes: Mapping[str, int]) -> _Late:
    buffers, bounds = buffers_of_run(segment), Bounds(segment, sizes)
    first, last = spans_of_run(segment, buffers)
    bytes = [substitute(buffer.bytes, sizes) for buffer in buffers]
    bounded = [bounds.most(buffer.bytes) for buffer in buffers]
    tensors = tuple(
        LateTensor(buffer.name, size, most, buffer.kind == "output")
        for buffer, size, most in zip(buffers, bytes, bounded, strict=True)
    )
    known = [most for most in bounded if most is not None]
    most = _fullest(known, first, last) if len(known) == len(bounded) else None
    return _Late(tensors, _fullest(bytes, first, last), most)


def _arena(segment: SegmentForm, sizes: Mapping[str, int], executor: Host) -> Dim:
    """What the planner needs; where sizes are open, the sum of the buffers at the fullest moment."""
    bytes = [substitute(buffer.bytes, sizes) for buffer in segment.arena]
    blocks = layout(segment)
    numbers = [max(0, size) for size in bytes if isinstance(size, int)]
    if len(numbers) == len(bytes):
        return executor.arena_size(blocks, numbers)
    return _fullest([bytes[holder] for holder in blocks.holders], blocks.first, blocks.last)


def _fullest(sizes: Sequence[Dim], first: Sequence[int], last: Sequence[int]) -> Dim:
    probed = [_probed(size) for size in sizes]
    moments = range(max(last, default=-1) + 1)
    live = [[i for i in range(len(sizes)) if first[i] <= moment <= last[i]] for moment in moments]
    fullest = max(live, key=lambda items: sum(probed[i] for i in items), default=[])
    return sum((sizes[i] for i in fullest), 0)


def _probed(size: Dim) -> int:
    """The size where every open dimension is the probe; 0 where none of the probes fits, as for divisors of 0."""
    for probe in PROBES:
        with suppress(ShapeError):
            return evaluate(size, dict.fromkeys(symbols(size), probe))
    return 0


def memory_of_graph(graph: Graph, simplified: Graph, sizes: Mapping[str, int]) -> MemoryPlan:
    """The memory of a model on the reference engine, which frees each tensor behind its last reader."""
    sizes = _shared_names(graph, simplified.inputs, sizes)
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


def _shared_names(
    graph: Graph, inputs: Sequence[Value | Port], sizes: Mapping[str, int], late: Sequence[str] = ()
) -> dict[str, int]:
    """The sizes, also under the names that the plan's inputs have: sizes that the model makes equal share one there."""
    _check_names([*graph.inputs, *inputs], sizes, late)
    read = {value.name: _open_sizes(value) for value in graph.inputs}
    found = dict(sizes)
    for value in inputs:
        for given, wanted in zip(read.get(value.name, ()), _open_sizes(value), strict=False):
            if wanted and given in sizes:
                found.setdefault(wanted, sizes[given])
    return found


def _open_sizes(value: Value | Port) -> list[str]:
    """The name of each size of a tensor that is nothing but a name, an empty text for each other one."""
    shape = (value.type.shape or ()) if isinstance(value.type, TensorType) else ()
    names = [next(iter(symbols(size)), "") for size in shape]
    return [name if name and size == symbol(name) else "" for name, size in zip(names, shape, strict=True)]


def _check_names(inputs: Sequence[Value | Port], sizes: Mapping[str, int], late: Sequence[str] = ()) -> None:
    shapes = [value.type.shape or () for value in inputs if isinstance(value.type, TensorType)]
    known = sorted({name for shape in shapes for dim in shape for name in symbols(dim)})
    for name in sizes:
        if name not in known and name not in late:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the dimensions are {', '.join(known) or 'all numbers'}"
            raise InputError(f"there is no dimension {name!r}; {hint}")
