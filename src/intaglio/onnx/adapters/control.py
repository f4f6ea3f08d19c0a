"""Older versions of the operators with subgraphs."""

from __future__ import annotations

from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph, Value
from intaglio.onnx.adapters import adapts
from intaglio.ops.control import scan_slice


@adapts("Scan", since=8, before=9)
def scan_8(
    b: Builder,
    sequence_lens: Value | None = None,
    *initial_state_and_scan_inputs: Value,
    body: Graph,
    directions: tuple[int, ...] | None = None,
    num_scan_inputs: int,
    outputs: int = 1,
) -> tuple[Value, ...]:
    """Version 8 scanned axis 1 of each element of a batch on its own: a scan of the batch around today's scan."""
    given = [*initial_state_and_scan_inputs, *([] if sequence_lens is None else [sequence_lens])]
    batch = Graph("batch", outer=b.graph)
    items = [batch.add_input(f"{value.name}_item", scan_slice(value, 0)[1]) for value in given]
    inner = Builder(batch, origin=b.origin)
    states = len(initial_state_and_scan_inputs) - num_scan_inputs
    with inner.active():
        length = None if sequence_lens is None else inner.Reshape(items.pop(), [1])
        results = _scan(inner, items, length, body, directions, num_scan_inputs, outputs)
        if length is not None:
            total = inner.Shape(items[-1], end=1)
            results = (*results[:states], *(_padded(inner, value, total - length) for value in results[states:]))
    batch.set_outputs(results)
    result = b.Scan(*given, body=batch, num_scan_inputs=len(given), outputs=outputs)
    return result if isinstance(result, tuple) else (result,)


def _scan(
    b: Builder,
    items: list[Value],
    length: Value | None,
    body: Graph,
    directions: tuple[int, ...] | None,
    num_scan_inputs: int,
    outputs: int,
) -> tuple[Value, ...]:
    """One element's scan, over its first `length` slices."""
    states, scanned = items[: len(items) - num_scan_inputs], items[len(items) - num_scan_inputs :]
    if length is not None:
        scanned = [b.Slice(value, [0], length, [0]) for value in scanned]
    result = b.Scan(
        *states,
        *scanned,
        outputs=outputs,
        body=body,
        num_scan_inputs=num_scan_inputs,
        scan_input_directions=directions,
    )
    return result if isinstance(result, tuple) else (result,)


def _padded(b: Builder, value: Value, count: Value) -> Value:
    """The scan output with zeros behind it."""
    return b.Pad(value, b.Concat([0], count, axis=0), None, [0])
