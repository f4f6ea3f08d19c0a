"""Older versions of the operators that read and write at indices."""

from __future__ import annotations

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts


@adapts("Scatter", before=12)
def scatter_9(b: Builder, data: Value, indices: Value, updates: Value, *, axis: int = 0) -> Value:
    """The operator was renamed in opset 11."""
    return b.ScatterElements(data, indices, updates, axis=axis)
