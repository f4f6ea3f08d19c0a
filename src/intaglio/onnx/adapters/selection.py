"""Older versions of the operators that choose elements."""

from __future__ import annotations

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts


@adapts("TopK", before=10)
def top_k_1(b: Builder, X: Value, *, axis: int = -1, k: int, outputs: int = 1) -> Value | tuple[Value, ...]:
    return b.TopK(X, [k], axis=axis, outputs=outputs)
