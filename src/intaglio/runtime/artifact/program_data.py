"""Programs as JSON holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.ir.dim import Atom, Dim, DimFunction, Expr, Symbol
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


class _Writer:
    """Writes expressions: a sum as its terms, each a factor and the numbers of atoms, which are a list of their own."""

    def __init__(self) -> None:
        self.atoms: list[Any] = []
        self._numbers: dict[Atom, int] = {}

    def dim(self, dim: Dim) -> Any:
        if not isinstance(dim, Expr):
            return int(dim)
        return [[factor, *[self._number(atom) for atom in monomial]] for monomial, factor in dim.terms]

    def _number(self, atom: Atom) -> int:
        found = self._numbers.get(atom)
        if found is None:
            data = atom.name if isinstance(atom, Symbol) else [atom.function, *map(self.dim, atom.operands)]
            found = self._numbers[atom] = len(self.atoms)
            self.atoms.append(data)
        return found

    def dims(self, dims: Sequence[Dim]) -> list[Any]:
        return [self.dim(dim) for dim in dims]

    def port(self, port: Port) -> list[Any]:
        return [port.name, self.type(port.type), port.is_optional]

    def type(self, type: Type) -> list[Any]:
        if isinstance(type, TensorType):
            return [type.dtype.name, None if type.shape is None else self.dims(type.shape)]
        if isinstance(type, SequenceType):
            return ["seq", self.type(type.element)]
        assert isinstance(type, MapType), f"a program has no {type}"
        return ["map", type.key.name, self.type(type.value)]

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


class _Reader:
    """Reads expressions as they were written, which need not be worked out again."""

    def __init__(self, atoms: Sequence[Any]) -> None:
        self._atoms: list[Atom] = []
        for atom in atoms:
            self._atoms.append(Symbol(atom) if isinstance(atom, str) else DimFunction(atom[0], self.dims(atom[1:])))

    def dim(self, data: Any) -> Dim:
        if isinstance(data, int):
            return data
        return Expr(tuple([(tuple([self._atoms[number] for number in numbers]), factor) for factor, *numbers in data]))

    def dims(self, data: Sequence[Any]) -> tuple[Dim, ...]:
        return tuple([self.dim(item) for item in data])

    def pair(self, data: Sequence[Any]) -> tuple[Dim, Dim]:
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
