"""Reductions whose axes were an attribute."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts


def _axes_as_input(operator: str) -> Callable[..., Value]:
    def adapter(b: Builder, data: Value, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Value:
        given = None if axes is None else list(axes)
        return getattr(b, operator)(data, given, keepdims=keepdims)

    return adapter


adapts("ReduceSum", before=13)(_axes_as_input("ReduceSum"))

for _operator in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare"):
    adapts(f"Reduce{_operator}", before=18)(_axes_as_input(f"Reduce{_operator}"))
