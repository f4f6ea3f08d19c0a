"""Recurrent layers, where PyTorch does not take them apart."""

from __future__ import annotations

from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.table import aten

LSTM_MODE = 2
"""PyTorch's number for an LSTM; it calls the operator for no other layer."""

GATES = (0, 3, 1, 2)
"""ONNX's order of gates (input, output, forget, cell) in PyTorch's (input, forget, cell, output)."""


@aten("mkldnn_rnn_layer")
def lstm(
    c: AtenCall,
    x: Value,
    weight: Value,
    recurrent: Value,
    bias: Value,
    recurrent_bias: Value,
    hidden: Value,
    cell: Value,
    reverse: bool,
    batch_sizes: Any,
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> tuple[Value | None, ...]:
    """One layer of an LSTM in one direction: all outputs, and the states behind the last step."""
    if mode != LSTM_MODE or batch_sizes or num_layers != 1 or bidirectional or batch_first:
        raise UnsupportedError("a recurrent layer that is no plain LSTM in one direction")
    b = c.b
    w, r = (b.Unsqueeze(_ordered(c, each, hidden_size), [0]) for each in (weight, recurrent))
    biases = [_ordered(c, each, hidden_size) for each in (bias, recurrent_bias)] if has_biases else []
    joined = b.Unsqueeze(b.Concat(*biases, axis=0), [0]) if biases else None
    direction = "reverse" if reverse else "forward"
    y, last, last_cell = b.LSTM(
        x, w, r, joined, None, hidden, cell, hidden_size=hidden_size, direction=direction, outputs=3
    )
    return b.Squeeze(y, [1]), last, last_cell, None


def _ordered(c: AtenCall, value: Value, size: int) -> Value:
    """The rows of four gates in ONNX's order."""
    parts = [c.b.Slice(value, [gate * size], [(gate + 1) * size], [0]) for gate in GATES]
    return c.b.Concat(*parts, axis=0)
