"""MaxUnpool: zeros, and each element at its place."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir.dim import Dim, product
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import row_major, whole
from intaglio.ops.indices import known
from intaglio.targets.c.routine import Parameter, Routine, at_least_one, bits_type, disagreement, reads, writes
from intaglio.targets.c.rules.movement import fill_constant
from intaglio.targets.c.rules.places import inputs_of
from intaglio.targets.c.rules.table import anchor


def _pooled(node: Node) -> tuple[Dim, ...]:
    """The shape that the places count in, which may be smaller than the output."""
    op: Any = node.op
    return op.sizes(inputs_of(node)[0].shape)


def _refuse(node: Node) -> Refusal | None:
    data, _, *shape = inputs_of(node)
    sizes = known(shape[0]) if shape else None
    if shape and sizes is None:
        return Refusal(Cause.SHAPE, "its output shape is not known before the run")
    return (
        None
        if sizes is None or len(sizes) == data.rank
        else Refusal(Cause.FORM, f"{len(sizes)} sizes for rank {data.rank}")
    )


def _reads(node: Node) -> list[Value]:
    return inputs_of(node)[:2]


@anchor("MaxUnpool", refuse=_refuse, reads=_reads)
def max_unpool(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Plane by plane; if a place lies in another plane, all are written once more in order, since the last one wins."""
    data, places = _reads(node)
    bits = bits_type(data.dtype)
    result = context.allocate(node.output)
    strays = whole(context.temporary(INT64, 1, "strays"), (1,))
    fill_constant(context, node.output, np.zeros(1, data.dtype.numpy), result)
    fill_constant(context, places, np.zeros(1, np.int64), strays)
    parameters = [
        reads("data", context.contiguous(data), bits), reads("index", context.contiguous(places)),
        writes("strays", strays), writes("out", result, bits),
    ]  # fmt: skip
    _emit(context, node, parameters, _PLANES, at_least_one(product(data.shape[:2])))
    _emit(context, node, parameters, _AGAIN, 1)


def _emit(context: Context, node: Node, parameters: list[Parameter], body: str, tasks: Size) -> None:
    data, places = _reads(node)
    pooled, output = _pooled(node), node.output.shape
    planes, inner, plane = product(data.shape[:2]), product(data.shape[2:]), product(pooled[2:])
    sizes: list[tuple[str, Size]] = [
        ("mismatch", disagreement([(data.tensor.size, places.tensor.size)], list(zip(pooled, output, strict=True)))),
        ("planes", planes), ("inner", inner), ("plane", plane), ("all", planes * plane),
    ]  # fmt: skip
    if pooled != output:
        for axis, (extent, step) in enumerate(zip(pooled, row_major(output), strict=True)):
            sizes += [(f"extent{axis}", extent), (f"step{axis}", step)]
    routine = Routine("max_unpool", body, parameters, sizes, tasks, 1 + inner * 2, checks=True)
    routine.marks["place"] = _place_text(pooled, output)
    context.emit(routine.call(node, data))


def _place_text(pooled: tuple[Dim, ...], output: tuple[Dim, ...]) -> str:
    """C that moves a place of the pooled shape into the output's."""
    if pooled == output:
        return "const int64_t to = place;"
    lines = ["int64_t rest = place, to = 0;"]
    for axis in reversed(range(len(pooled))):
        lines += [f"            to += rest % extent{axis} * step{axis};", f"            rest /= extent{axis};"]
    return "\n".join(lines)


_SCATTER = """\
            const int64_t place = index[i];
            if (place < 0 || place >= all) {{
                *fault = 1;
                continue;
            }}
{stray}            $place
            out[to] = data[i];"""

_STRAY = """\
            if (place / plane != task) {
                *strays = 1;
                continue;
            }
"""

_PLANES = f"""
    if (mismatch) {{
        *fault = 1;
        return;
    }}
    for (int64_t task = begin; task < end && task < planes; task++)
        for (int64_t i = task * inner; i < (task + 1) * inner; i++) {{
{_SCATTER.format(stray=_STRAY)}
        }}
"""

_AGAIN = f"""
    if (!*strays)
        return;
    for (int64_t i = 0; i < planes * inner; i++) {{
{_SCATTER.format(stray="")}
    }}
"""
