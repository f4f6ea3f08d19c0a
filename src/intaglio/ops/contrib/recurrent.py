"""Recurrent layers of ONNX Runtime (domain com.microsoft)."""

from __future__ import annotations

from typing import ClassVar

from intaglio.ir.build import Builder
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Value
from intaglio.ops.contrib.fused import DOMAIN, needed
from intaglio.ops.contrib.quantize import quantized_product
from intaglio.ops.recurrent import LSTM, RecurrentAttributes
from intaglio.ops.shared.recurrent_scan import Multiply


class DynamicQuantizeLSTM(RecurrentAttributes):
    """An LSTM with quantized weights, which quantizes its inputs, and its state in every step, by their own range.

    All inputs are quantized together, and so are the states of the whole batch. ONNX Runtime does the same on a single
    thread; where it has several, each of them has a part of the batch for itself.
    """

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("Y", "Y_h", "Y_c")
    input_forget: int = 0

    def expand(
        self,
        b: Builder,
        X: Value,
        W: Value,
        R: Value,
        B: Value | None = None,
        sequence_lens: Value | None = None,
        initial_h: Value | None = None,
        initial_c: Value | None = None,
        P: Value | None = None,
        W_scale: Value | None = None,
        W_zero_point: Value | None = None,
        R_scale: Value | None = None,
        R_zero_point: Value | None = None,
    ) -> tuple[Value, ...]:
        layer = LSTM(**vars(self))
        inputs = needed(W_scale, "W_scale"), needed(W_zero_point, "W_zero_point")
        states = needed(R_scale, "R_scale"), needed(R_zero_point, "R_zero_point")
        products = [
            (_quantized(b, *inputs, direction), _quantized(b, *states, direction))
            for direction in range(layer.directions)
        ]
        rows = [b.Transpose(weights, perm=(0, 2, 1)) for weights in (W, R)]
        return layer.scan(b, (X, *rows, B, sequence_lens, P), (initial_h, initial_c), products)


def _quantized(b: Builder, scale: Value, zero_point: Value, direction: int) -> Multiply:
    """The product with quantized weights; the scale has an element for each direction, or for each of its gates."""
    index = b.constant(direction, INT64)
    steps, zeros = (b.Gather(parameter, index, axis=0) for parameter in (scale, zero_point))

    def multiply(b: Builder, x: Value, weights: Value) -> Value:
        return quantized_product(b, x, b.Transpose(weights, perm=(1, 0)), steps, zeros)

    return multiply
