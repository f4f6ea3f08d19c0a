"""DFT when its axis was an attribute."""

from __future__ import annotations

from intaglio.ir.build import Builder
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts


@adapts("DFT", before=20)
def dft_17(
    b: Builder, input: Value, dft_length: Value | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Value:
    return b.DFT(input, dft_length, b.constant(axis, INT64), inverse=inverse, onesided=onesided)
