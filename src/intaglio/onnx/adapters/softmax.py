"""Softmax and its relatives when they took all axes from `axis` on as one."""

from __future__ import annotations

from collections.abc import Callable

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts
from intaglio.ops.shared.indices import resolve_axis


def _flattened(operator: str) -> Callable[..., Value]:
    def adapter(b: Builder, input: Value, *, axis: int = 1) -> Value:
        apply = getattr(b, operator)
        if input.tensor.shape:
            first = resolve_axis(axis, input.rank)
            if first == input.rank - 1:
                return apply(input, axis=-1)
            if all(size == 1 for size in input.shape[first + 1 :]):
                return apply(input, axis=first)
        return b.Reshape(apply(b.Flatten(input, axis=axis), axis=-1), b.Shape(input), allowzero=1)

    return adapter


for _operator in ("Softmax", "LogSoftmax", "Hardmax"):
    adapts(_operator, before=13)(_flattened(_operator))
