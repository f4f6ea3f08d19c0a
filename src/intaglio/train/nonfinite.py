"""Numbers that are not finite: where those of a step come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intaglio.ir.graph import Graph, Node, Value
from intaglio.ops.evaluate import describe, run_node


def first_nonfinite(graph: Graph, inputs: Sequence[Any]) -> str:
    """Which tensor of a run is the first with a NaN, or with an infinity where there is no NaN; for people to read."""
    known: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    infinite = ""
    for value in graph.inputs:
        if not _is_finite(known[value]):
            return f"the input {value.name!r} has {_what(known[value])} already"
    for node in graph.nodes:
        results = run_node(node, known)
        for value, array in zip(node.outputs, results, strict=False):
            if _has_nan(array):
                return f"the first NaN is in {_told(value, node, known)}" + (
                    f"; before it, {infinite}" if infinite else ""
                )
            if not infinite and not _is_finite(array):
                infinite = f"the first infinity is in {_told(value, node, known)}"
            known[value] = array
    return infinite or "the reference engine finds no number that is not finite on the way"


def _is_float(array: Any) -> bool:
    return isinstance(array, np.ndarray) and (array.dtype.kind == "f" or "float" in array.dtype.name)


def _has_nan(array: Any) -> bool:
    return _is_float(array) and bool(np.isnan(array.astype(np.float64)).any())


def _is_finite(array: Any) -> bool:
    return not _is_float(array) or bool(np.isfinite(array.astype(np.float64)).all())


def _what(array: Any) -> str:
    return "NaN" if _has_nan(array) else "infinity"


def _told(value: Value, node: Node, known: dict[Value, Any]) -> str:
    """The tensor, its operator, and the range of what that was given."""
    parts: list[str] = []
    for operand in node.inputs:
        array = None if operand is None else operand.constant if operand.constant is not None else known.get(operand)
        if operand is not None and array is not None and _is_float(array) and array.size:
            wide = array.astype(np.float64)
            parts.append(f"{operand.name!r} from {wide.min():.4g} to {wide.max():.4g}")
    return f"{value.name!r} of {describe(node)}" + (f", which was given {' and '.join(parts[:3])}" if parts else "")
