"""Recurrent layers: RNN, GRU and LSTM in one or both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import INT32
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import same_dtype
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.operand import known_shape, like, require_equal, require_float, require_shape
from intaglio.ops.shared.recurrent_scan import (
    CellFunction,
    Multiply,
    activation,
    gru_step,
    lstm_step,
    rnn_step,
    scan_layer,
)

T = TypeVar("T")
Activation: TypeAlias = Callable[[Array], Array]

_PARAMETERS: dict[str, tuple[float | None, float | None]] = {
    "affine": (1.0, 0.0),
    "elu": (1.0, None),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01, None),
    "relu": (None, None),
    "scaledtanh": (1.0, 1.0),
    "sigmoid": (None, None),
    "softplus": (None, None),
    "softsign": (None, None),
    "tanh": (None, None),
    "thresholdedrelu": (1.0, None),
}
"""The defaults of alpha and beta by activation; None where it has no such parameter."""


def _sigmoid(x: Array) -> Array:
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


_FUNCTIONS: dict[str, Callable[[Array, Any, Any], Array]] = {
    "affine": lambda x, alpha, beta: alpha * x + beta,
    "elu": lambda x, alpha, beta: np.where(x >= 0, x, alpha * np.expm1(x)),
    "hardsigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "leakyrelu": lambda x, alpha, beta: np.where(x >= 0, x, alpha * x),
    "relu": lambda x, alpha, beta: np.maximum(x, 0),
    "scaledtanh": lambda x, alpha, beta: alpha * np.tanh(beta * x),
    "sigmoid": lambda x, alpha, beta: _sigmoid(x),
    "softplus": lambda x, alpha, beta: np.logaddexp(x, 0),
    "softsign": lambda x, alpha, beta: x / (1 + np.abs(x)),
    "tanh": lambda x, alpha, beta: np.tanh(x),
    "thresholdedrelu": lambda x, alpha, beta: np.where(x >= alpha, x, 0),
}


def _activation(key: str, alpha: float | None, beta: float | None, clip: float | None) -> Activation:
    """An activation in NumPy, its input clipped."""

    def apply(x: Array) -> Array:
        bounded = x if clip is None else np.clip(x, -clip, clip)
        return _FUNCTIONS[key](bounded, alpha, beta).astype(x.dtype)

    return apply


class RecurrentAttributes(Op, abstract=True):
    """What all recurrent layers are told."""

    activation_alpha: tuple[float, ...] | None = None
    activation_beta: tuple[float, ...] | None = None
    activations: tuple[str, ...] | None = None
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None


class _Recurrent(RecurrentAttributes, abstract=True):
    """What the three layers share: directions, layout, lengths of sequences, activations."""

    layout: int = 0

    gates: ClassVar[int] = 1
    defaults: ClassVar[tuple[str, ...]] = ("Tanh",)

    @property
    def directions(self) -> int:
        """The number of directions."""
        return 2 if self.direction == "bidirectional" else 1

    def activation_names(self) -> tuple[str, ...]:
        """The activations of all directions."""
        count = len(self.defaults)
        given = self.activations or self.defaults * self.directions
        return tuple(given[: count * self.directions])

    def infer(
        self,
        X: Value,
        W: Value,
        R: Value,
        B: Value | None = None,
        sequence_lens: Value | None = None,
        initial_h: Value | None = None,
    ) -> Any:
        return self.infer_types(X, W, R, sequence_lens, (B, initial_h))

    def reference(
        self,
        X: Array,
        W: Array,
        R: Array,
        B: Array | None = None,
        sequence_lens: Array | None = None,
        initial_h: Array | None = None,
    ) -> Any:
        return self.run(X, W, R, B, sequence_lens, (initial_h,))

    def expand(
        self,
        b: Builder,
        X: Value,
        W: Value,
        R: Value,
        B: Value | None = None,
        sequence_lens: Value | None = None,
        initial_h: Value | None = None,
    ) -> Any:
        return self.scan(b, (X, W, R, B, sequence_lens, None), (initial_h,))

    def infer_types(self, X: Value, W: Value, R: Value, sequence_lens: Value | None, others: Sequence[Any]) -> Any:
        """The types of Y and of a final state."""
        require_float(X, W, R, *others)
        dtype = same_dtype(X, W, R, *others)
        self._check(sequence_lens)
        x, r = known_shape(X, rank=3), known_shape(R, rank=3)
        w = known_shape(W, rank=3)
        hidden = r[2] if r is not None else self.hidden_size if self.hidden_size is not None else dims.fresh()
        for shape in (w, r):
            if shape is not None:
                require_equal(shape[0], self.directions, "the directions of the weights and of the layer")
                require_equal(shape[1], hidden * self.gates, "the rows of the weights and the hidden size times gates")
        if self.hidden_size is not None:
            require_equal(hidden, self.hidden_size, "hidden_size and the recurrence weights")
        if x is None:
            return TensorType(dtype, None), TensorType(dtype, None)
        if w is not None:
            require_equal(x[2], w[2], "the last axes of X and W")
        self._check_others(x[0] if self.layout else x[1], hidden, sequence_lens, others)
        if self.layout:
            return (
                TensorType(dtype, (x[0], x[1], self.directions, hidden)),
                TensorType(dtype, (x[0], self.directions, hidden)),
            )
        return (
            TensorType(dtype, (x[0], self.directions, x[1], hidden)),
            TensorType(dtype, (self.directions, x[1], hidden)),
        )

    def _check_others(self, batch: Dim, hidden: Dim, sequence_lens: Value | None, others: Sequence[Any]) -> None:
        """Raise ShapeError where bias, lengths, states or peepholes do not fit the layer."""
        count = self.directions
        state = (batch, count, hidden) if self.layout else (count, batch, hidden)
        shapes = ((count, hidden * 2 * self.gates), state, state, (count, hidden * 3))
        require_shape(sequence_lens, (batch,))
        for value, shape in zip(others, shapes, strict=False):
            require_shape(value, shape)

    def _check(self, sequence_lens: Value | None) -> None:
        if self.direction not in ("forward", "reverse", "bidirectional"):
            raise ShapeError(f"direction is {self.direction!r}, it must be forward, reverse or bidirectional")
        names = self.activation_names()
        if len(names) != len(self.defaults) * self.directions:
            raise ShapeError(f"activations names {len(names)} functions, {len(self.defaults) * self.directions} needed")
        for name in names:
            if name.lower() not in _PARAMETERS:
                raise ShapeError(f"the activation {name!r} is not known; known are {', '.join(sorted(_PARAMETERS))}")
        if sequence_lens is not None and sequence_lens.dtype != INT32:
            raise ShapeError(f"sequence_lens is {sequence_lens.dtype}, int32 is needed")

    def _functions(self, make: Callable[[str, float | None, float | None, float | None], T]) -> list[list[T]]:
        """The activations of each direction, made from name, alpha, beta and clip.

        Parameters are taken from their lists in order. `clip` bounds the inputs of gates; the third activation, of an
        LSTM's cell, is left alone as everywhere else.
        """
        alphas, betas = iter(self.activation_alpha or ()), iter(self.activation_beta or ())
        count, found = len(self.defaults), list[T]()
        for i, name in enumerate(self.activation_names()):
            alpha, beta = _PARAMETERS[name.lower()]
            alpha = None if alpha is None else next(alphas, alpha)
            beta = None if beta is None else next(betas, beta)
            found.append(make(name.lower(), alpha, beta, None if i % count == 2 else self.clip))
        return [found[count * i : count * (i + 1)] for i in range(self.directions)]

    def scan(
        self,
        b: Builder,
        operands: Sequence[Value | None],
        states: Sequence[Value | None],
        products: Sequence[tuple[Multiply, Multiply]] = (),
    ) -> Any:
        """The layer as a Scan; `operands` are X, W, R, B, sequence_lens, peepholes, `products` as in `scan_layer`."""
        reverse = {"forward": (False,), "reverse": (True,)}.get(self.direction, (False, True))
        activations = self._functions(activation)
        given: Any = tuple(operands)
        if not products:
            vectors = (0, self.gates, self.gates, 2 * self.gates, 0, 3)
            given = tuple(_by_hidden(b, value, operands[2], n) for value, n in zip(operands, vectors, strict=True))
        return scan_layer(b, self.scan_step(), given, states, activations, reverse, bool(self.layout), products)

    def run(self, X: Array, W: Array, R: Array, B: Array | None, lengths: Array | None, states: Sequence[Any]) -> Any:
        """Y and the final states, all directions together; `states` are initial ones or None."""
        x = widen(X).swapaxes(0, 1) if self.layout else widen(X)
        steps, batch, hidden = x.shape[0], x.shape[1], R.shape[2]
        valid = np.full(batch, steps) if lengths is None else _checked_lengths(lengths, steps)
        starts = [self._start(state, batch, hidden, x.dtype) for state in states]
        bias = np.zeros((self.directions, 2 * self.gates * hidden), x.dtype) if B is None else widen(B)
        y = np.zeros((steps, self.directions, batch, hidden), x.dtype)
        ends = [np.zeros((self.directions, batch, hidden), x.dtype) for _ in states]
        for i, functions in enumerate(self._functions(_activation)):
            current = [start[i] for start in starts]
            is_reverse = self.direction == "reverse" or i == 1
            for t in range(steps - 1, -1, -1) if is_reverse else range(steps):
                fresh = self.step(x[t], current, widen(W)[i], widen(R)[i], bias[i], functions)
                is_active = (t < valid)[:, None]
                y[t, i] = np.where(is_active, fresh[0], 0)
                current = [np.where(is_active, new, old) for new, old in zip(fresh, current, strict=True)]
            for end, state in zip(ends, current, strict=True):
                end[i] = state
        if self.layout:
            y, ends = y.transpose(2, 0, 1, 3), [end.swapaxes(0, 1) for end in ends]
        return like(y, X), *(like(end, X) for end in ends)

    def _start(self, state: Array | None, batch: int, hidden: int, dtype: Any) -> Array:
        if state is None:
            return np.zeros((self.directions, batch, hidden), dtype)
        return widen(state).swapaxes(0, 1) if self.layout else widen(state)

    def step(
        self,
        x: Array,
        states: Sequence[Array],
        w: Array,
        r: Array,
        bias: Array,
        functions: Sequence[Activation],
    ) -> tuple[Array, ...]:
        """The states after one time step; the first of them is the output."""
        raise NotImplementedError

    def scan_step(self) -> CellFunction:
        """A time step as operators."""
        raise NotImplementedError


def _by_hidden(b: Builder, value: Value | None, R: Value | None, vectors: int) -> Value | None:
    """Weights of so many vectors of the hidden size, which the type rule has compared, with a type that says so."""
    if value is None or R is None or not vectors or known_shape(value) is None or known_shape(R) is None:
        return value
    if value.shape[1] == R.shape[2] * vectors:
        return value
    rows = b.Shape(R, start=2, end=3) * vectors
    return b.Reshape(value, b.Concat(b.Shape(value, end=1), rows, b.Shape(value, start=2), axis=0), allowzero=1)


def _checked_lengths(lengths: Array, steps: int) -> Array:
    if lengths.size and not (lengths.min() >= 0 and lengths.max() <= steps):
        raise OperatorError(f"sequence_lens is {lengths.tolist()}, each number must be in [0, {steps}]")
    return lengths


class RNN(_Recurrent):
    """A layer whose hidden state is f(x W' + h R' + b)."""

    keeps_rows = Rows.RECURRENT

    output_names = ("Y", "Y_h")
    activations: tuple[str, ...] = ("Tanh", "Tanh")

    def scan_step(self) -> CellFunction:
        return rnn_step

    def step(
        self,
        x: Array,
        states: Sequence[Array],
        w: Array,
        r: Array,
        bias: Array,
        functions: Sequence[Activation],
    ) -> tuple[Array, ...]:
        size = r.shape[1]
        return (functions[0](x @ w.T + states[0] @ r.T + bias[:size] + bias[size:]),)


class GRU(_Recurrent):
    """A layer with an update and a reset gate."""

    keeps_rows = Rows.RECURRENT

    output_names = ("Y", "Y_h")
    linear_before_reset: int = 0

    gates = 3
    defaults = ("Sigmoid", "Tanh")

    def scan_step(self) -> CellFunction:
        return partial(gru_step, linear_before_reset=bool(self.linear_before_reset))

    def step(
        self,
        x: Array,
        states: Sequence[Array],
        w: Array,
        r: Array,
        bias: Array,
        functions: Sequence[Activation],
    ) -> tuple[Array, ...]:
        h, (f, g) = states[0], functions
        input_bias, state_bias = np.split(bias, 2)
        z_x, r_x, h_x = np.split(x @ w.T + input_bias, 3, axis=1)
        r_z, r_r, r_h = np.split(r, 3)
        b_z, b_r, b_h = np.split(state_bias, 3)
        update = f(z_x + h @ r_z.T + b_z)
        reset = f(r_x + h @ r_r.T + b_r)
        past = reset * (h @ r_h.T + b_h) if self.linear_before_reset else (reset * h) @ r_h.T + b_h
        return ((1 - update) * g(h_x + past) + update * h,)


class LSTM(_Recurrent):
    """A layer with a cell and input, output and forget gates, which may look at the cell through peepholes."""

    keeps_rows = Rows.RECURRENT

    output_names = ("Y", "Y_h", "Y_c")
    input_forget: int = 0

    gates = 4
    defaults = ("Sigmoid", "Tanh", "Tanh")

    def infer(
        self,
        X: Value,
        W: Value,
        R: Value,
        B: Value | None = None,
        sequence_lens: Value | None = None,
        initial_h: Value | None = None,
        initial_c: Value | None = None,
        P: Value | None = None,
    ) -> Any:
        y, state = self.infer_types(X, W, R, sequence_lens, (B, initial_h, initial_c, P))
        return y, state, state

    def reference(
        self,
        X: Array,
        W: Array,
        R: Array,
        B: Array | None = None,
        sequence_lens: Array | None = None,
        initial_h: Array | None = None,
        initial_c: Array | None = None,
        P: Array | None = None,
    ) -> Any:
        hidden, dtype = R.shape[2], widen(X).dtype
        bias = np.zeros((self.directions, 8 * hidden), dtype) if B is None else widen(B)
        peepholes = np.zeros((self.directions, 3 * hidden), dtype) if P is None else widen(P)
        joined = np.concatenate((bias, peepholes), axis=1)
        return self.run(X, W, R, joined, sequence_lens, (initial_h, initial_c))

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
    ) -> Any:
        return self.scan(b, (X, W, R, B, sequence_lens, P), (initial_h, initial_c))

    def scan_step(self) -> CellFunction:
        return partial(lstm_step, input_forget=bool(self.input_forget))

    def step(
        self,
        x: Array,
        states: Sequence[Array],
        w: Array,
        r: Array,
        bias: Array,
        functions: Sequence[Activation],
    ) -> tuple[Array, ...]:
        (h, c), (f, g, activate) = states, functions
        size = r.shape[0]
        peep_i, peep_o, peep_f = np.split(bias[2 * size :], 3)
        gate_i, gate_o, gate_f, gate_c = np.split(x @ w.T + h @ r.T + bias[:size] + bias[size : 2 * size], 4, axis=1)
        enter = f(gate_i + peep_i * c)
        forget = 1 - enter if self.input_forget else f(gate_f + peep_f * c)
        cell = forget * c + enter * g(gate_c)
        return f(gate_o + peep_o * cell) * activate(cell), cell
