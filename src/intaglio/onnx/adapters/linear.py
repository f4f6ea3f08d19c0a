"""Gemm when its broadcasting was an option."""

from __future__ import annotations

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts


@adapts("Gemm", before=7)
def gemm_1(
    b: Builder,
    A: Value,
    B: Value,
    C: Value,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """Until opset 6 C was broadcast only where `broadcast` said so; what was valid then means the same now."""
    del broadcast
    return b.Gemm(A, B, C, alpha=alpha, beta=beta, transA=transA, transB=transB)
