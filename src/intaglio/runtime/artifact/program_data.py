"""Programs as JSON holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.ir.dim_data import DimReader, DimWriter
from intaglio.ir.dtype import DTYPES
from intaglio.ir.requirements import Requirement
from intaglio.ir.types import MapType, SequenceType, TensorType, Type
from intaglio.memory.arena import Layout
from intaglio.runtime.engine.hosted_runs import Hosted, HostPart, NativePart
from intaglio.runtime.engine.program import Hosts, Part, Port, Program
from intaglio.runtime.engine.segment import Frame, Result, Room

Data = dict[str, Any]


def program_data(program: Program) -> Data:
    """A program as JSON holds it; each symbol and function in its sizes is there once."""
    write = _Writer()
    found = {
        "name": program.name,
        "inputs": [write.port(port) for port in program.inputs],
        "outputs": [write.port(port) for port in program.outputs],
        "segments": [write.part(part) for part in program.segments],
        "kernels": list(program.kernels),
        "assumptions": [write.dims(pair) for pair in program.assumptions],
        "requirements": [[[write.dims(pair) for pair in each.pairs], each.message] for each in program.requirements],
        "weight_bytes": program.weight_bytes,
        "hosts": None if program.hosts is None else _hosts_data(program.hosts),
        "parameters": list(program.parameters),
        "is_for_sizes": program.is_for_sizes,
    }
    return found | {"atoms": write.atoms}


def is_known(type: Type) -> bool:
    """Whether a program can have an input or output of a type."""
    if isinstance(type, SequenceType):
        return is_known(type.element)
    return is_known(type.value) if isinstance(type, MapType) else isinstance(type, TensorType)


class _Writer(DimWriter):
    """Writes the parts of programs."""

    def port(self, port: Port) -> list[Any]:
        return [port.name, self.type(port.type), port.is_optional]

    def result(self, result: Result) -> list[Any]:
        if result.shape is None or result.bytes is None:
            return [result.name, result.dtype.name, None, None]
        return [result.name, result.dtype.name, self.dims(result.shape), self.dim(result.bytes)]

    def part(self, part: Part) -> Data:
        frame, layout = part.frame, part.frame.layout
        return {
            "inputs": frame.inputs,
            "results": [self.result(result) for result in frame.results],
            "symbols": list(frame.symbols),
            "arena": [[room.name, self.dim(room.bytes)] for room in frame.arena],
            "layout": [layout.place, layout.first, layout.last],
            "work": self.dims(frame.work),
            "is_narrow": frame.is_narrow,
            "safe": frame.safe,
            "aliases": [list(pair) for pair in frame.aliases],
            "first_write": frame.first_write,
            "driver": part.driver,
            "late": list(part.late),
        }


def _hosts_data(hosts: Hosts) -> Data:
    steps = hosts.steps
    parts = [
        ["host", part.operands, part.results, part.sizes]
        if isinstance(part, HostPart)
        else ["native", part.inputs, part.outputs, part.is_open]
        for part in steps.parts
    ]
    found = {"parts": parts, "places": steps.places, "outputs": steps.outputs, "texts": steps.texts}
    return found | {"graph": hosts.graph, "modules": list(hosts.modules), "reasons": list(hosts.reasons)}


def program_from_data(data: Data) -> Program:
    """The inverse of `program_data`."""
    read = _Reader(data["atoms"])
    return Program(
        name=data["name"],
        inputs=tuple(map(read.port, data["inputs"])),
        outputs=tuple(map(read.port, data["outputs"])),
        segments=tuple(map(read.part, data["segments"])),
        kernels=tuple(data["kernels"]),
        assumptions=tuple(map(read.pair, data["assumptions"])),
        requirements=tuple(
            Requirement(tuple(map(read.pair, pairs)), message) for pairs, message in data["requirements"]
        ),
        weight_bytes=data["weight_bytes"],
        hosts=None if data["hosts"] is None else _hosts(data["hosts"]),
        parameters=tuple(data["parameters"]),
        is_for_sizes=data["is_for_sizes"],
    )


def _hosts(data: Data) -> Hosts:
    parts = tuple([_step(*part) for part in data["parts"]])
    outputs = tuple([(place, bool(is_view)) for place, is_view in data["outputs"]])
    hosted = Hosted(parts, data["places"], outputs, tuple(data["texts"]))
    return Hosts(hosted, data["graph"], tuple(data["modules"]), tuple(data.get("reasons", ())))


def _step(kind: str, read: Sequence[int], made: Sequence[int], more: Any) -> HostPart | NativePart:
    if kind == "host":
        return HostPart(tuple(read), tuple(made), tuple([(result, axis, name) for result, axis, name in more]))
    return NativePart(tuple(read), tuple(made), bool(more))


class _Reader(DimReader):
    """Reads the parts of programs."""

    def part(self, data: Data) -> Part:
        results = tuple(map(self.result, data["results"]))
        frame = Frame(
            inputs=data["inputs"],
            results=results,
            late=tuple(result.shape is None for result in results),
            symbols=tuple(data["symbols"]),
            arena=tuple(Room(name, self.dim(size)) for name, size in data["arena"]),
            layout=Layout(*data["layout"]),
            work=self.dims(data["work"]),
            is_narrow=data["is_narrow"],
            safe=data["safe"],
            aliases=tuple((output, given) for output, given in data["aliases"]),
            first_write=data["first_write"],
        )
        return Part(frame, data["driver"], tuple(data["late"]))

    def port(self, data: Sequence[Any]) -> Port:
        name, type, is_optional = data
        return Port(name, self.type(*type), is_optional)

    def result(self, data: Sequence[Any]) -> Result:
        name, dtype, shape, size = data
        if shape is None:
            return Result(name, DTYPES[dtype], None, None)
        return Result(name, DTYPES[dtype], self.dims(shape), self.dim(size))
