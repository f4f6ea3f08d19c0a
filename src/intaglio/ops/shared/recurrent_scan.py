"""Recurrent layers as a Scan over time: the expansion of RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, INT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.ops.control import Scan
from intaglio.ops.shared.operand import cast, wide

Activate: TypeAlias = Callable[[Builder, Value], Value]


Multiply: TypeAlias = Callable[[Builder, Value, Value], Value]
"""The product of rows with weights as [outputs, inputs]."""


def plain_product(b: Builder, x: Value, weights: Value) -> Value:
    """x times the transpose of the weights."""
    return x @ b.Transpose(weights, perm=(1, 0))


@dataclass(frozen=True)
class Cell:
    """What one direction of a layer needs in each step; all in the type to compute in."""

    recurrence: Value
    bias: Value | None
    peepholes: Value | None
    activations: Sequence[Activate]
    multiply: Multiply


CellFunction: TypeAlias = Callable[[Builder, Value, Sequence[Value], Cell], tuple[Value, ...]]
"""The states after a step, the output first, from x W' + b and the states before."""


def activation(name: str, alpha: float | None, beta: float | None, clip: float | None) -> Activate:
    """An activation as operators; the parameters that it has are given."""

    def apply(b: Builder, x: Value) -> Value:
        x = x if clip is None else b.Clip(x, b.constant(-clip, x.dtype), b.constant(clip, x.dtype))
        if name == "affine":
            return x * float(alpha or 0) + float(beta or 0)
        if name == "scaledtanh":
            return b.Tanh(x * float(beta or 0)) * float(alpha or 0)
        given = {"alpha": alpha, "beta": beta}
        options = {key: float(value) for key, value in given.items() if value is not None}
        return getattr(b, _OPERATORS[name])(x, **options)

    return apply


_NAMES = ("Elu", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh", "ThresholdedRelu")
_OPERATORS = {name.lower(): name for name in _NAMES}


def scan_layer(
    b: Builder,
    step: CellFunction,
    operands: tuple[Value, Value, Value, Value | None, Value | None, Value | None],
    states: Sequence[Value | None],
    activations: Sequence[Sequence[Activate]],
    reverse: Sequence[bool],
    is_batch_first: bool,
    products: Sequence[tuple[Multiply, Multiply]] = (),
) -> tuple[Value, ...]:
    """Y and the final states of a layer; `operands` are X, W, R, B, sequence_lens and peepholes.

    `products` are how the inputs and the state of each direction are multiplied with W and R.
    """
    X, W, R, B, lengths, P = operands
    x = b.Transpose(wide(b, X), perm=(1, 0, 2)) if is_batch_first else wide(b, X)
    starts = [_start(b, state, x, R, len(reverse), is_batch_first) for state in states]
    active = None if lengths is None else _active(b, x, lengths)
    found: list[Sequence[Value]] = []
    for i, is_reverse in enumerate(reverse):
        weights, recurrence = (_part(b, value, i) for value in (W, R))
        biases = (None, None) if B is None else b.Split(_part(b, B, i), num_outputs=2, axis=0, outputs=2)
        project, multiply = products[i] if products else (plain_product, plain_product)
        projected = project(b, x, weights)
        projected = projected if biases[0] is None else projected + biases[0]
        cell = Cell(recurrence, biases[1], None if P is None else _part(b, P, i), activations[i], multiply)
        initial = [_part(b, start, i) for start in starts]
        found.append(_scan(b, step, cell, initial, projected, active, is_reverse))
    return _joined(b, found, X, is_batch_first)


def _part(b: Builder, value: Value, direction: int) -> Value:
    return wide(b, b.Gather(value, b.constant(direction, INT64), axis=0))


def _start(b: Builder, state: Value | None, x: Value, R: Value, count: int, is_batch_first: bool) -> Value:
    """The initial states of all directions as [direction, batch, hidden]."""
    if state is not None:
        turned = b.Transpose(state, perm=(1, 0, 2)) if is_batch_first else state
        return _renamed(b, _renamed(b, turned, 1, x, 1), 2, R, 2)
    shape = b.Concat(b.constant(np.array([count])), b.Shape(x, start=1, end=2), b.Shape(R, start=2), axis=0)
    return b.Expand(b.constant(0, x.dtype), shape)


def _renamed(b: Builder, state: Value, axis: int, other: Value, other_axis: int) -> Value:
    """A state whose axis is as long as another's, by its name too; a run in which it is not is refused."""
    if state.shape[axis] == other.shape[other_axis]:
        return state
    sizes = [b.Shape(state, start=i, end=i + 1) for i in range(state.rank)]
    sizes[axis] = b.Shape(other, start=other_axis, end=other_axis + 1)
    return b.Reshape(state, b.Concat(*sizes, axis=0), allowzero=1)


def _active(b: Builder, x: Value, lengths: Value) -> Value:
    """[time, batch, 1]: whether a sequence still runs at a time; a length that is no number of steps is refused."""
    steps = b.Range(b.constant(0, INT64), b.Squeeze(b.Shape(x, start=0, end=1), [0]), b.constant(1, INT64))
    times = b.Expand(b.Unsqueeze(steps, [1]), b.Shape(x, start=0, end=2))
    long = b.Reshape(cast(b, lengths, INT64), b.Shape(x, start=1, end=2), allowzero=1)
    return b.Unsqueeze(b.Less(b.ReverseSequence(times, long), long), [2])  # reversed, those below a length stay there


def _scan(
    b: Builder,
    step: CellFunction,
    cell: Cell,
    initial: Sequence[Value],
    projected: Value,
    active: Value | None,
    is_reverse: bool,
) -> tuple[Value, ...]:
    """The final states and the outputs of all times of one direction."""
    body = Graph("step", outer=b.graph)
    inner = Builder(body, origin=b.origin)
    states = [body.add_input("state", value.type) for value in initial]
    gates = body.add_input("gates", projected.tensor.with_shape(projected.shape[1:]))
    with inner.active():
        if active is None:
            after = step(inner, gates, states, cell)
            output = inner.Identity(after[0])
        else:
            runs = body.add_input("runs", TensorType(BOOL, active.shape[1:]))
            fresh = step(inner, gates, states, cell)
            after = tuple(inner.Where(runs, new, old) for new, old in zip(fresh, states, strict=True))
            output = inner.Where(runs, fresh[0], inner.constant(0, gates.dtype))
    body.set_outputs([*after, output])
    scanned = [projected] if active is None else [projected, active]
    flags = (int(is_reverse),) * len(scanned)
    options = {"scan_input_directions": flags, "scan_output_directions": flags[:1], "num_scan_inputs": len(scanned)}
    return b.apply(Scan, *initial, *scanned, body=body, outputs=len(initial) + 1, **options)


def _joined(b: Builder, found: Sequence[Sequence[Value]], X: Value, is_batch_first: bool) -> tuple[Value, ...]:
    """Y and the final states, all directions together, in the layer's layout and type."""
    y = b.Concat(*(b.Unsqueeze(direction[-1], [1]) for direction in found), axis=1)
    y = b.Transpose(y, perm=(2, 0, 1, 3)) if is_batch_first else y
    ends: list[Any] = []
    for states in list(zip(*found, strict=True))[:-1]:
        axis = 1 if is_batch_first else 0
        ends.append(b.Concat(*(b.Unsqueeze(state, [axis]) for state in states), axis=axis))
    return tuple(cast(b, value, X.dtype) for value in (y, *ends))


def _recurrent(b: Builder, h: Value, cell: Cell) -> Value:
    product = cell.multiply(b, h, cell.recurrence)
    return product if cell.bias is None else product + cell.bias


def rnn_step(b: Builder, gates: Value, states: Sequence[Value], cell: Cell) -> tuple[Value, ...]:
    """One step of an RNN."""
    return (cell.activations[0](b, gates + _recurrent(b, states[0], cell)),)


def gru_step(
    b: Builder, gates: Value, states: Sequence[Value], cell: Cell, linear_before_reset: bool
) -> tuple[Value, ...]:
    """One step of a GRU."""
    (h,), (f, g) = states, cell.activations
    update_x, reset_x, hidden_x = b.Split(gates, num_outputs=3, axis=1, outputs=3)
    update_h, reset_h, hidden_h = b.Split(_recurrent(b, h, cell), num_outputs=3, axis=1, outputs=3)
    update, reset = f(b, update_x + update_h), f(b, reset_x + reset_h)
    if linear_before_reset:
        past = reset * hidden_h
    else:
        weights = b.Split(cell.recurrence, num_outputs=3, axis=0, outputs=3)[2]
        past = (reset * h) @ b.Transpose(weights, perm=(1, 0))
        past = past if cell.bias is None else past + b.Split(cell.bias, num_outputs=3, axis=0, outputs=3)[2]
    return ((1 - update) * g(b, hidden_x + past) + update * h,)


def lstm_step(b: Builder, gates: Value, states: Sequence[Value], cell: Cell, input_forget: bool) -> tuple[Value, ...]:
    """One step of an LSTM."""
    (h, c), (f, g, activate) = states, cell.activations
    gate_i, gate_o, gate_f, gate_c = b.Split(gates + _recurrent(b, h, cell), num_outputs=4, axis=1, outputs=4)
    peepholes = cell.peepholes
    looks = (None,) * 3 if peepholes is None else b.Split(peepholes, num_outputs=3, axis=0, outputs=3)

    def seeing(gate: Value, look: Value | None, at: Value) -> Value:
        return f(b, gate if look is None else gate + look * at)

    enter = seeing(gate_i, looks[0], c)
    forget = 1 - enter if input_forget else seeing(gate_f, looks[2], c)
    new = forget * c + enter * g(b, gate_c)
    return seeing(gate_o, looks[1], new) * activate(b, new), new
