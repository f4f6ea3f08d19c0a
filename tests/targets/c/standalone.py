"""Segments as programs without Python: compiled for any processor, fed by a file, and run by an emulator or engine."""

from __future__ import annotations

import io
import itertools
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from intaglio.ir.dim import symbols
from intaglio.ir.graph import Graph
from intaglio.ir.substitution import evaluate
from intaglio.ir.types import TensorType
from intaglio.kernels.arena import layout
from intaglio.kernels.plan_form import SegmentForm
from intaglio.kernels.segment_sizes import segment_symbols
from intaglio.processor import usable_cores
from intaglio.runtime.engine.binding import bind
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.engine.specialise import with_parameters, with_sizes
from intaglio.targets import executor_for
from intaglio.targets.arrays import exportable
from intaglio.targets.c.compiler import RUNTIME_FOLDER, Compiler
from intaglio.targets.c.native import planned
from intaglio.targets.c.target import Target
from intaglio.targets.c.units import CFunction, Key, function_key, partition, symbol_of, unit_source

RUNNER = Path(__file__).with_name("segments.c")
LIBRARY_FLAGS = ("-fPIC", "-shared")

Run = Callable[[Path, int, bytes], bytes]
"""Runs a program from the segment of this number on, with these bytes as its input; returns its output."""


class NotAlone(Exception):
    """A model that is more than one segment."""


@dataclass
class SegmentRun:
    """A model that is one segment, with the arrays of one run."""

    engine: NativeEngine
    inputs: Sequence[Any]
    bindings: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        form = self.engine.form
        if len(form.parts) != 1 or form.hosts:
            raise NotAlone(", ".join(f"{host.node.operator}: {host.refusal}" for host in form.hosts) or "no segment")
        for name, array in zip(form.inputs, self.inputs, strict=True):
            if name in self.step.inputs:
                type = form.value(name).type
                assert isinstance(type, TensorType)
                bind(type.shape, array.shape, self.bindings, name)

    @property
    def step(self) -> SegmentForm:
        (step,) = self.engine.form.segments
        return step

    def is_as_assumed(self) -> bool:
        return all(
            evaluate(left, self.bindings) == evaluate(right, self.bindings)
            for left, right in self.engine.form.assumptions
            if symbols(left) | symbols(right) <= self.bindings.keys()
        )

    def request(self) -> bytes:
        """What the program reads for this segment."""
        step, constants = self.step, self.engine.constants
        offsets, total = planned(layout(step), [evaluate(buffer.bytes, self.bindings) for buffer in step.arena])
        dims = [self.bindings[name] for name in segment_symbols(step)]
        sizes = self._output_sizes()
        lists = dims, offsets, [bytes for bytes, _ in sizes], [item for _, item in sizes]
        arrays = [*(np.array(each, np.int64) for each in lists), *map(self._known().__getitem__, step.inputs)]
        parts = [np.array([len(step.inputs), len(constants), len(sizes), total], np.int64).tobytes()]
        for array in (*arrays, *constants):
            content = exportable(np.asarray(array)).tobytes()
            parts += [np.int64(len(content)).tobytes(), content]
        return b"".join(parts)

    def _known(self) -> dict[str, Any]:
        return dict(zip(self.engine.form.inputs, self.inputs, strict=True))

    def _output_sizes(self) -> list[tuple[int, int]]:
        """Of each output its bytes, below 0 where only the run tells, and those of an element."""
        found: list[tuple[int, int]] = []
        for name, buffer in zip(self.step.outputs, self.step.output_buffers, strict=True):
            type = self._type(name)
            item = type.dtype.numpy.itemsize
            elements = 0 if buffer.is_late else int(np.prod(self._shape(type), dtype=np.int64))
            found.append((-1 if buffer.is_late else elements * item, item))
        return [*found, (8 * self.step.told, 8)] if self.step.told else found

    def _type(self, name: str) -> TensorType:
        type = self.engine.form.value(name).type
        assert isinstance(type, TensorType)
        return type

    def _shape(self, type: TensorType) -> tuple[int, ...]:
        return tuple(evaluate(dim, self.bindings) for dim in type.shape or ())

    def response(self, stream: io.BytesIO) -> list[Any] | int:
        """The model's outputs as the program wrote them, or the status of a run that failed."""
        if status := _integer(stream):
            return status
        known = self._known()
        for name, (bytes, item) in zip(self.step.outputs, self._output_sizes(), strict=False):
            type = self._type(name)
            shape = self._shape(type) if bytes >= 0 else tuple(_integer(stream) for _ in range(_integer(stream)))
            content = stream.read(bytes if bytes >= 0 else item * int(np.prod(shape, dtype=np.int64)))
            known[name] = np.frombuffer(content, type.dtype.numpy).reshape(shape)
        stream.read(8 * self.step.told)
        known |= self.engine.lowered.given
        return [known[name] for name in self.engine.form.outputs]


def _integer(stream: io.BytesIO) -> int:
    content = stream.read(8)
    if len(content) < 8:
        raise EOFError
    return int.from_bytes(content, "little", signed=True)


def segment(graph: Graph, inputs: Sequence[Any], target: Target) -> SegmentRun:
    """The model as one segment for these inputs, by the plans that the native engine would make for them."""
    engine = NativeEngine(graph, 1, executor_for(target=target))
    if engine.parameters:
        kept = [array for place, array in enumerate(inputs) if place not in engine.parameters]
        return segment(with_parameters(engine.graph, engine.parameters, inputs), kept, target)
    if not engine.depends_on_shapes:
        found = SegmentRun(engine, inputs)
        if found.is_as_assumed():
            return found
    return SegmentRun(NativeEngine(with_sizes(engine.graph, inputs), 1, engine.executor, is_special=True), inputs)


@dataclass(frozen=True)
class Toolchain:
    """A target, a compiler that makes programs for it, and a way to run them."""

    target: Target
    compiler: Compiler
    run: Run

    def build(self, segments: Sequence[SegmentRun], folder: Path) -> Path:
        """One program of all segments."""
        names: list[list[str]] = []
        functions: dict[Key, CFunction] = {}
        for each in segments:
            keyed = [
                (function_key(function, self.compiler, self.target), function) for function in each.engine.functions()
            ]
            functions.update(keyed)
            names.append([symbol_of(function, key) for key, function in keyed])
        units = partition(functions, usable_cores())
        with ThreadPoolExecutor(usable_cores()) as executor:
            jobs = [
                executor.submit(self._compile, unit_source(unit), next(iter(unit.values())).optimize, folder / f"{i}.o")
                for i, unit in enumerate(units)
            ]
            objects = [job.result() for job in jobs]
        objects.append(self._compile(_table(names), "-O1", folder / "table.o"))
        objects.append(self._compile(RUNNER.read_text(), "-O1", folder / "runner.o"))
        program = folder / "program"
        self._call("-o", program, *objects, "-lm")
        return program

    def _compile(self, source: str, optimize: str, output: Path) -> Path:
        unit = output.with_suffix(".c")
        unit.write_text(source, encoding="ascii", errors="backslashreplace")
        flags = [flag for flag in self.compiler.flags(self.target, optimize) if flag not in LIBRARY_FLAGS]
        self._call(*flags, f"-I{RUNTIME_FOLDER}", "-c", "-o", output, unit)
        return output

    def _call(self, *arguments: str | Path) -> None:
        command = [*self.compiler.command, *map(str, arguments)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, f"{' '.join(command)[:2000]}\n{answer.stderr[:4000]}"

    def outputs(self, program: Path, segments: Sequence[SegmentRun]) -> list[list[Any] | int | None]:
        """What the program computed for each segment: outputs, a status, or None where it died."""
        found: list[list[Any] | int | None] = []
        while len(found) < len(segments):
            rest = segments[len(found) :]
            stream = io.BytesIO(self.run(program, len(found), b"".join(each.request() for each in rest)))
            try:
                found.extend(each.response(stream) for each in rest)
            except (EOFError, ValueError):
                found.append(None)
        return found


def _table(names: Sequence[Sequence[str]]) -> str:
    """C of the table of segments; each has its kernels' symbols and last its driver's."""
    kernels = dict.fromkeys(itertools.chain.from_iterable(each[:-1] for each in names))
    lines = ['#include "ig.h"', "typedef struct { ig_driver driver; const ig_kernel *kernel; } segment;"]
    lines += [f"void {name}(void *const *, const int64_t *, int64_t, int64_t, void *);" for name in kernels]
    lines += [f"int32_t {name}(const ig_call *);" for name in dict.fromkeys(each[-1] for each in names)]
    for i, each in enumerate(names):
        lines.append(f"static const ig_kernel kernel{i}[] = {{{', '.join(each[:-1]) or '0'}}};")
    rows = ", ".join(f"{{{each[-1]}, kernel{i}}}" for i, each in enumerate(names))
    lines += [f"const segment segments[] = {{{rows}}};", f"const int64_t segment_count = {len(names)};", ""]
    return "\n".join(lines)
