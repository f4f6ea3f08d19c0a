"""Programs as JSON holds them: expressions of sizes are text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.ir.dim import Dim, parse
from intaglio.ir.dtype import DTYPES
from intaglio.ir.requirements import Requirement
from intaglio.ir.types import TensorType
from intaglio.memory.arena import Layout
from intaglio.runtime.engine.program import Port, Program
from intaglio.runtime.engine.segment import Frame, Result, Room

Data = dict[str, Any]


def program_data(program: Program) -> Data:
    """A program as JSON holds it: expressions are text."""
    frame = program.frame
    layout = frame.layout
    return {
        "name": program.name,
        "inputs": [_port_data(port) for port in program.inputs],
        "outputs": [_port_data(port) for port in program.outputs],
        "results": [_result_data(result) for result in frame.results],
        "symbols": list(frame.symbols),
        "arena": [[room.name, _dim_data(room.bytes)] for room in frame.arena],
        "layout": [layout.place, layout.first, layout.last],
        "work": _dims_data(frame.work),
        "safe": frame.safe,
        "driver": program.driver,
        "kernels": list(program.kernels),
        "late": list(program.late),
        "assumptions": [_dims_data(pair) for pair in program.assumptions],
        "requirements": [[[_dims_data(pair) for pair in each.pairs], each.message] for each in program.requirements],
        "weight_bytes": program.weight_bytes,
    }


def program_from_data(data: Data) -> Program:
    """The inverse of `program_data`."""
    read = _Reader()
    inputs, results = tuple(map(read.port, data["inputs"])), tuple(map(read.result, data["results"]))
    frame = Frame(
        inputs=sum(not port.is_optional for port in inputs),
        results=results,
        late=tuple(result.shape is None for result in results),
        symbols=tuple(data["symbols"]),
        arena=tuple(Room(name, read.dim(size)) for name, size in data["arena"]),
        layout=Layout(*data["layout"]),
        work=read.dims(data["work"]),
        is_narrow=any(each.is_narrow for each in (*(port.type.dtype for port in inputs), *(r.dtype for r in results))),
        safe=data.get("safe", -1),
    )
    return Program(
        name=data["name"],
        inputs=inputs,
        outputs=tuple(map(read.port, data["outputs"])),
        frame=frame,
        driver=data["driver"],
        kernels=tuple(data["kernels"]),
        late=tuple(data["late"]),
        assumptions=tuple(map(read.pair, data["assumptions"])),
        requirements=tuple(
            Requirement(tuple(map(read.pair, pairs)), message) for pairs, message in data["requirements"]
        ),
        weight_bytes=data["weight_bytes"],
    )


def _dim_data(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _dims_data(dims: Sequence[Dim]) -> list[int | str]:
    return [_dim_data(dim) for dim in dims]


def _port_data(port: Port) -> list[Any]:
    return [port.name, port.type.dtype.name, _dims_data(port.type.dims), port.is_optional]


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

    def port(self, data: Sequence[Any]) -> Port:
        name, dtype, shape, is_optional = data
        return Port(name, TensorType(DTYPES[dtype], self.dims(shape)), is_optional)

    def result(self, data: Sequence[Any]) -> Result:
        name, dtype, shape, size = data
        if shape is None:
            return Result(name, DTYPES[dtype], None, None)
        return Result(name, DTYPES[dtype], self.dims(shape), self.dim(size))
