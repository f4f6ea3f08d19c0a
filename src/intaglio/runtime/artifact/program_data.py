"""Programs as JSON holds them: expressions of sizes are text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.errors import GraphError
from intaglio.ir.dim import Dim, parse
from intaglio.ir.dtype import DTYPES
from intaglio.ir.requirements import Requirement
from intaglio.ir.types import MapType, SequenceType, TensorType, Type
from intaglio.memory.arena import Layout
from intaglio.runtime.engine.hosted_runs import Hosted, HostPart, NativePart
from intaglio.runtime.engine.program import Hosts, Part, Port, Program
from intaglio.runtime.engine.segment import Frame, Result, Room

Data = dict[str, Any]


def program_data(program: Program) -> Data:
    """A program as JSON holds it: expressions are text."""
    return {
        "name": program.name,
        "inputs": [_port_data(port) for port in program.inputs],
        "outputs": [_port_data(port) for port in program.outputs],
        "segments": [_part_data(part) for part in program.segments],
        "kernels": list(program.kernels),
        "assumptions": [_dims_data(pair) for pair in program.assumptions],
        "requirements": [[[_dims_data(pair) for pair in each.pairs], each.message] for each in program.requirements],
        "weight_bytes": program.weight_bytes,
        "hosts": None if program.hosts is None else _hosts_data(program.hosts),
        "parameters": list(program.parameters),
        "is_for_sizes": program.is_for_sizes,
    }


def _part_data(part: Part) -> Data:
    frame, layout = part.frame, part.frame.layout
    return {
        "inputs": frame.inputs,
        "results": [_result_data(result) for result in frame.results],
        "symbols": list(frame.symbols),
        "arena": [[room.name, _dim_data(room.bytes)] for room in frame.arena],
        "layout": [layout.place, layout.first, layout.last],
        "work": _dims_data(frame.work),
        "is_narrow": frame.is_narrow,
        "safe": frame.safe,
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
    return found | {"graph": hosts.graph, "modules": list(hosts.modules)}


def program_from_data(data: Data) -> Program:
    """The inverse of `program_data`."""
    read = _Reader()
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
    return Hosts(Hosted(parts, data["places"], outputs, tuple(data["texts"])), data["graph"], tuple(data["modules"]))


def _step(kind: str, read: Sequence[int], made: Sequence[int], more: Any) -> HostPart | NativePart:
    if kind == "host":
        return HostPart(tuple(read), tuple(made), tuple([(result, axis, name) for result, axis, name in more]))
    return NativePart(tuple(read), tuple(made), bool(more))


def _dim_data(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _dims_data(dims: Sequence[Dim]) -> list[int | str]:
    return [_dim_data(dim) for dim in dims]


def _port_data(port: Port) -> list[Any]:
    return [port.name, type_data(port.type), port.is_optional]


def type_data(type: Type) -> list[Any]:
    """A type as JSON holds it; raises GraphError for one that no program has."""
    if isinstance(type, TensorType):
        return [type.dtype.name, None if type.shape is None else _dims_data(type.shape)]
    if isinstance(type, SequenceType):
        return ["seq", type_data(type.element)]
    if isinstance(type, MapType):
        return ["map", type.key.name, type_data(type.value)]
    raise GraphError(f"a program has no {type}")


def _result_data(result: Result) -> list[Any]:
    if result.shape is None or result.bytes is None:
        return [result.name, result.dtype.name, None, None]
    return [result.name, result.dtype.name, _dims_data(result.shape), _dim_data(result.bytes)]


class _Reader:
    """Reads expressions, each text once."""

    def __init__(self) -> None:
        self._known: dict[str, Dim] = {}

    def dim(self, data: int | str) -> Dim:
        if isinstance(data, int):
            return data
        if data not in self._known:
            self._known[data] = parse(data)
        return self._known[data]

    def dims(self, data: Sequence[int | str]) -> tuple[Dim, ...]:
        return tuple([self.dim(item) for item in data])

    def pair(self, data: Sequence[int | str]) -> tuple[Dim, Dim]:
        left, right = data
        return self.dim(left), self.dim(right)

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
        )
        return Part(frame, data["driver"], tuple(data["late"]))

    def port(self, data: Sequence[Any]) -> Port:
        name, type, is_optional = data
        return Port(name, self.type(*type), is_optional)

    def type(self, kind: str, *inner: Any) -> Type:
        if kind == "seq":
            return SequenceType(self.type(*inner[0]))
        if kind == "map":
            return MapType(DTYPES[inner[0]], self.type(*inner[1]))
        return TensorType(DTYPES[kind], None if inner[0] is None else self.dims(inner[0]))

    def result(self, data: Sequence[Any]) -> Result:
        name, dtype, shape, size = data
        if shape is None:
            return Result(name, DTYPES[dtype], None, None)
        return Result(name, DTYPES[dtype], self.dims(shape), self.dim(size))
