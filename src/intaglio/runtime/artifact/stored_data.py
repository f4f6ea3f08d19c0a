"""Stored plans as JSON holds them: what is read at once, and the plan itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from intaglio.ir.dim_data import DimReader, DimWriter
from intaglio.ir.dtype import DTYPES
from intaglio.ir.requirements import Requirement
from intaglio.ir.types import MapType, SequenceType, TensorType, Type
from intaglio.kernels.frame import Frame, Result, Room
from intaglio.memory.arena import Layout
from intaglio.runtime.engine.hosted_runs import Hosted, HostPart, NativePart
from intaglio.runtime.engine.outline import Outline, Port
from intaglio.runtime.engine.stored import StoredHosts, StoredPlan

if TYPE_CHECKING:
    from intaglio.kernels.plan_form import PlanForm

Data = dict[str, Any]

PLAN_BYTES_LIMIT = 1 << 28
"""A stored plan that has more bytes than this when it is unpacked is refused."""


def form_bytes(form: PlanForm) -> bytes:
    """A plan as packed JSON."""
    import zlib

    from intaglio.kernels.plan_data import plan_data

    return zlib.compress(json.dumps(plan_data(form), separators=(",", ":")).encode())


def form_from_bytes(content: bytes) -> PlanForm:
    """The inverse of `form_bytes`. Raises GraphError for a plan that is broken, and for what is none."""
    import zlib

    from intaglio.errors import GraphError
    from intaglio.kernels.plan_check import check_plan
    from intaglio.kernels.plan_data import plan_from_data

    unpack = zlib.decompressobj()
    try:
        text = unpack.decompress(content, PLAN_BYTES_LIMIT)
        data = json.loads(text)
    except (zlib.error, ValueError) as error:
        raise GraphError(f"this is no plan: {error}") from error
    form = plan_from_data(data)
    check_plan(form)
    return form


def stored_data(stored: StoredPlan) -> Data:
    """A stored plan as JSON holds it; each symbol and function in its sizes is there once."""
    write, outline = _Writer(), stored.outline
    found = {
        "name": stored.name,
        "inputs": [write.port(port) for port in stored.inputs],
        "outputs": [write.port(port) for port in stored.outputs],
        "fed": [write.port(port) for port in outline.inputs],
        "given": list(outline.outputs),
        "frames": [write.frame(frame) for frame in outline.frames],
        "keys": list(stored.keys),
        "assumptions": [write.dims(pair) for pair in outline.assumptions],
        "requirements": [[[write.dims(pair) for pair in each.pairs], each.message] for each in outline.requirements],
        "weight_bytes": stored.weight_bytes,
        "hosts": None if stored.hosts is None else _hosts_data(stored.hosts),
        "parameters": list(outline.parameters),
        "is_for_sizes": outline.is_for_sizes,
    }
    return found | {"atoms": write.atoms}


def is_known(type: Type) -> bool:
    """Whether a stored plan can have an input or output of a type."""
    if isinstance(type, SequenceType):
        return is_known(type.element)
    return is_known(type.value) if isinstance(type, MapType) else isinstance(type, TensorType)


class _Writer(DimWriter):
    """Writes the parts of stored plans."""

    def port(self, port: Port) -> list[Any]:
        return [port.name, self.type(port.type), port.is_optional]

    def result(self, result: Result) -> list[Any]:
        if result.shape is None or result.bytes is None:
            return [result.name, result.dtype.name, None, None]
        return [result.name, result.dtype.name, self.dims(result.shape), self.dim(result.bytes)]

    def frame(self, frame: Frame) -> Data:
        layout = frame.layout
        return {
            "inputs": list(frame.inputs),
            "outputs": list(frame.outputs),
            "results": [self.result(result) for result in frame.results],
            "symbols": list(frame.symbols),
            "finds": list(frame.finds),
            "told": frame.told,
            "arena": [[room.name, self.dim(room.bytes)] for room in frame.arena],
            "layout": [layout.place, layout.first, layout.last],
            "work": self.dims(frame.work),
            "is_narrow": frame.is_narrow,
            "safe": frame.safe,
            "aliases": [list(pair) for pair in frame.aliases],
            "first_write": frame.first_write,
        }


def _hosts_data(hosts: StoredHosts) -> Data:
    steps = hosts.steps
    parts = [
        ["host", part.operands, part.results, part.sizes]
        if isinstance(part, HostPart)
        else ["native", part.inputs, part.outputs, part.is_open]
        for part in steps.parts
    ]
    found = {"parts": parts, "places": steps.places, "outputs": steps.outputs, "texts": steps.texts}
    return found | {"graph": hosts.graph, "modules": list(hosts.modules)}


def stored_from_data(data: Data) -> StoredPlan:
    """The inverse of `stored_data`."""
    read = _Reader(data["atoms"])
    outline = Outline(
        inputs=tuple(map(read.port, data["fed"])),
        outputs=tuple(data["given"]),
        frames=tuple(map(read.frame, data["frames"])),
        assumptions=tuple(map(read.pair, data["assumptions"])),
        requirements=tuple(
            Requirement(tuple(map(read.pair, pairs)), message) for pairs, message in data["requirements"]
        ),
        parameters=tuple(data["parameters"]),
        is_for_sizes=data["is_for_sizes"],
    )
    return StoredPlan(
        name=data["name"],
        inputs=tuple(map(read.port, data["inputs"])),
        outputs=tuple(map(read.port, data["outputs"])),
        outline=outline,
        keys=tuple(data["keys"]),
        weight_bytes=data["weight_bytes"],
        hosts=None if data["hosts"] is None else _hosts(data["hosts"]),
    )


def _hosts(data: Data) -> StoredHosts:
    parts = tuple([_step(*part) for part in data["parts"]])
    outputs = tuple([(place, bool(is_view)) for place, is_view in data["outputs"]])
    hosted = Hosted(parts, data["places"], outputs, tuple(data["texts"]))
    return StoredHosts(hosted, data["graph"], tuple(data["modules"]))


def _step(kind: str, read: Sequence[int], made: Sequence[int], more: Any) -> HostPart | NativePart:
    if kind == "host":
        return HostPart(tuple(read), tuple(made), tuple([(result, axis, name) for result, axis, name in more]))
    return NativePart(tuple(read), tuple(made), bool(more))


class _Reader(DimReader):
    """Reads the parts of stored plans."""

    def frame(self, data: Data) -> Frame:
        results = tuple(map(self.result, data["results"]))
        late = [result.shape is None for result in results]
        return Frame(
            inputs=tuple(data["inputs"]),
            outputs=tuple(data["outputs"]),
            results=results,
            late=(*late, False) if data["told"] else tuple(late),
            symbols=tuple(data["symbols"]),
            finds=tuple(data["finds"]),
            told=data["told"],
            arena=tuple([Room(name, self.dim(size)) for name, size in data["arena"]]),
            layout=Layout(*data["layout"]),
            work=self.dims(data["work"]),
            is_narrow=data["is_narrow"],
            safe=data["safe"],
            aliases=tuple([(output, given) for output, given in data["aliases"]]),
            first_write=data["first_write"],
        )

    def port(self, data: Sequence[Any]) -> Port:
        name, type, is_optional = data
        return Port(name, self.type(*type), is_optional)

    def result(self, data: Sequence[Any]) -> Result:
        name, dtype, shape, size = data
        if shape is None:
            return Result(name, DTYPES[dtype], None, None)
        return Result(name, DTYPES[dtype], self.dims(shape), self.dim(size))
