"""MelWeightMatrix."""

from __future__ import annotations

from intaglio.ir.dim import floordiv
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.found_sizes import bind_named, bind_sizes, whole_numbers
from intaglio.kernels.plan import Size
from intaglio.kernels.view import whole
from intaglio.targets.c.kernel_file import Value as Setting
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import Routine, memory_type, reader, reads, row_blocks, writes
from intaglio.targets.c.rules.table import anchor, late_sizes


def _inputs(node: Node) -> list[Value]:
    return [value for value in node.inputs if value is not None]


@late_sizes("MelTriangles", reads=lambda node: _inputs(node)[:2])
def mel_sizes(context: Context, node: Node) -> None:
    """The bins of the spectrum, and those on the mel scale."""
    bins, length = _inputs(node)[:2]
    (points,) = bind_named(context, node, ["length"], whole_numbers(context, length), least=1)
    (bands,) = bind_named(context, node, ["bins"], whole_numbers(context, bins))
    bind_sizes(context, node, {0: floordiv(points, 2) + 1, 1: bands})


@anchor("MelTriangles")
def mel_triangles(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The edges of all triangles first, then the rows of the matrix."""
    inputs = _inputs(node)
    rows, bins = node.output.shape
    edges = whole(context.temporary(INT64, bins + 2, "edges"), (bins + 2,))
    names = ("length", "rate", "low", "high")
    parameters = [reads(name, context.contiguous(value)) for name, value in zip(names, inputs[1:], strict=True)]
    sizes: list[tuple[str, Size]] = [("bins", bins), ("rows", rows)]
    instance = kernel("mel_edges", _types(dict(zip(names, inputs[1:], strict=True))))
    parameters.append(writes("edge", edges))
    context.emit(Routine("mel_edges", instance, parameters, sizes, 1, 1 + bins * 50, checks=True).call(node))
    blocks, tasks, cost = row_blocks(rows, bins * 8, 4 + bins * 2)
    parameters = [reads("edge", edges), writes("out", context.allocate(node.output))]
    context.emit(Routine("mel_rows", kernel("mel_rows"), parameters, [*sizes, *blocks], tasks, cost).call(node))


def _types(given: dict[str, Value]) -> dict[str, Setting]:
    """The types of the inputs and how frequencies are read, as parameters of the kernel."""
    types: dict[str, Setting] = {name.upper(): memory_type(value.dtype) for name, value in given.items()}
    return types | {"READ_LOW": reader(given["low"].dtype), "READ_HIGH": reader(given["high"].dtype)}
