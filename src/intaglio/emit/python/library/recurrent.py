"""Recurrent layers, as ONNX lays out their weights."""

from __future__ import annotations

from typing import Any

from intaglio.emit.python.library.basic import sigmoid


def both_ways(xp: Any, x: Any, direction: str, run: Any) -> tuple[Any, ...]:
    """Run a layer forward, in reverse, or both, and put the results side by side."""
    found = []
    for number in range(2 if direction == "bidirectional" else 1):
        is_reverse = direction == "reverse" or number == 1
        rows, *last = run(number, x[::-1] if is_reverse else x)
        found.append([rows[::-1] if is_reverse else rows, *last])
    return xp.stack([item[0] for item in found], axis=1), *(
        xp.stack(part) for part in list(zip(*found, strict=True))[1:]
    )


def lstm(
    xp: Any,
    x: Any,
    weight: Any,
    recurrence: Any,
    bias: Any = None,
    hidden: Any = None,
    cell: Any = None,
    direction: str = "forward",
) -> tuple[Any, ...]:
    """A layer of long short-term memory over [time, batch, input]: all outputs, the last output and the last cell."""
    size = recurrence.shape[-1]

    def run(number: int, rows: Any) -> tuple[Any, ...]:
        start = xp.zeros((x.shape[1], size), dtype=x.dtype)
        h = start if hidden is None else hidden[number]
        c = start if cell is None else cell[number]
        gates = rows @ weight[number].T
        if bias is not None:
            gates = gates + bias[number, : 4 * size] + bias[number, 4 * size :]
        outputs = xp.zeros((len(rows), x.shape[1], size), dtype=x.dtype)
        for t in range(len(rows)):
            i, o, f, g = xp.split(gates[t] + h @ recurrence[number].T, 4, axis=-1)
            c = sigmoid(xp, f) * c + sigmoid(xp, i) * xp.tanh(g)
            h = sigmoid(xp, o) * xp.tanh(c)
            outputs[t] = h
        return outputs, h, c

    return both_ways(xp, x, direction, run)


def gru(
    xp: Any,
    x: Any,
    weight: Any,
    recurrence: Any,
    bias: Any = None,
    hidden: Any = None,
    direction: str = "forward",
    reset_last: bool = False,
) -> tuple[Any, ...]:
    """A layer of gated recurrent units over [time, batch, input]: all outputs and the last one."""
    size = recurrence.shape[-1]

    def run(number: int, rows: Any) -> tuple[Any, ...]:
        h = xp.zeros((x.shape[1], size), dtype=x.dtype) if hidden is None else hidden[number]
        own = xp.zeros(6 * size, dtype=x.dtype) if bias is None else bias[number]
        inputs = rows @ weight[number].T + own[: 3 * size]
        recurrent_bias = own[3 * size :]
        outer, inner = recurrence[number][: 2 * size].T, recurrence[number][2 * size :].T
        outputs = xp.zeros((len(rows), x.shape[1], size), dtype=x.dtype)
        for t in range(len(rows)):
            both = sigmoid(xp, inputs[t, :, : 2 * size] + h @ outer + recurrent_bias[: 2 * size])
            z, r = xp.split(both, 2, axis=-1)
            if reset_last:
                change = r * (h @ inner + recurrent_bias[2 * size :])
            else:
                change = (r * h) @ inner + recurrent_bias[2 * size :]
            new = xp.tanh(inputs[t, :, 2 * size :] + change)
            h = (1 - z) * new + z * h
            outputs[t] = h
        return outputs, h

    return both_ways(xp, x, direction, run)


def rnn(
    xp: Any, x: Any, weight: Any, recurrence: Any, bias: Any = None, hidden: Any = None, direction: str = "forward"
) -> tuple[Any, ...]:
    """A simple recurrent layer over [time, batch, input]: all outputs and the last one."""
    size = recurrence.shape[-1]

    def run(number: int, rows: Any) -> tuple[Any, ...]:
        h = xp.zeros((x.shape[1], size), dtype=x.dtype) if hidden is None else hidden[number]
        inputs = rows @ weight[number].T
        if bias is not None:
            inputs = inputs + bias[number, :size] + bias[number, size:]
        outputs = xp.zeros((len(rows), x.shape[1], size), dtype=x.dtype)
        for t in range(len(rows)):
            h = xp.tanh(inputs[t] + h @ recurrence[number].T)
            outputs[t] = h
        return outputs, h

    return both_ways(xp, x, direction, run)
