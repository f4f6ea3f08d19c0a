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
from intaglio.ops.shared.indices import known
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import (
    Parameter,
    Routine,
    at_least_one,
    bits_type,
    disagreement,
    numbered,
    reads,
    writes,
)
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
    _emit(context, node, parameters, at_least_one(product(data.shape[:2])))
    _emit(context, node, parameters, 1, is_again=True)


def _emit(context: Context, node: Node, parameters: list[Parameter], tasks: Size, *, is_again: bool = False) -> None:
    data, places = _reads(node)
    pooled, output = _pooled(node), node.output.shape
    planes, inner, plane = product(data.shape[:2]), product(data.shape[2:]), product(pooled[2:])
    sizes: list[tuple[str, Size]] = [
        ("mismatch", disagreement([(data.tensor.size, places.tensor.size)], list(zip(pooled, output, strict=True)))),
        ("planes", planes), ("inner", inner), ("plane", plane),
    ]  # fmt: skip
    is_moved, bits = pooled != output, bits_type(data.dtype)
    if is_moved:
        sizes += [*numbered("extent", pooled), *numbered("step", row_major(output))]
    instance = kernel("max_unpool", ELEMENT=bits, IS_AGAIN=is_again, IS_MOVED=is_moved, AXES=len(pooled))
    routine = Routine("max_unpool", instance, parameters, sizes, tasks, 1 + inner * 2, checks=True)
    context.emit(routine.call(node, data))
