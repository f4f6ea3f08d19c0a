"""Inputs and answers that an exported folder tests itself with."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.emit.c.program import Example
from intaglio.errors import IntaglioError
from intaglio.ir.dim import Dim, symbols
from intaglio.ir.graph import Graph, Value
from intaglio.ir.substitution import evaluate
from intaglio.ops.evaluate import evaluate as evaluate_graph
from intaglio.runtime.engine.binding import bind
from intaglio.runtime.model.random_inputs import index_limit, random_array

FIRST_SIZE, OTHER_SIZE, IMAGE_SIZE = 2, 8, 32
"""Sizes that the caller gives: of first axes, of others, and of images."""


def example_of(graph: Graph, sizes: list[str]) -> Example | None:
    """Random inputs and the reference's answers; None where the reference refuses all that was tried."""
    for seed in range(3):
        bindings: dict[str, int] = {}
        generator = np.random.default_rng(seed)
        try:
            made = {value: _made(value, bindings, generator) for value in sorted(graph.inputs, key=_has_no_default)}
            inputs = [made[value] for value in graph.inputs]
            with np.errstate(all="ignore"):
                outputs = [np.asarray(array) for array in evaluate_graph(graph, inputs)]
        except IntaglioError:
            continue
        is_random = any(node.op.is_random for node in graph.all_nodes())
        is_rounded = any(value.dtype.is_float for value in graph.values() if hasattr(value.type, "dtype"))
        known = {name: bindings.get(name, 0) for name in sizes}
        return Example(known, inputs, None if is_random else outputs, is_rounded)
    return None


def _has_no_default(value: Value) -> bool:
    """Defaults come first: they have sizes that others must have too."""
    return value.default is None


def _made(value: Value, bindings: dict[str, int], generator: np.random.Generator) -> Any:
    if value.default is not None:
        bind(value.shape, value.default.shape, bindings, value.name)
        return value.default
    rank = len(value.shape)
    shape = [_extent(dim, axis, rank, bindings) for axis, dim in enumerate(value.shape)]
    return random_array(value.dtype, shape, generator, index_limit(value))


def _extent(dim: Dim, axis: int, rank: int, bindings: dict[str, int]) -> int:
    for name in sorted(symbols(dim)):
        bindings.setdefault(name, FIRST_SIZE if axis == 0 else IMAGE_SIZE if rank == 4 and axis >= 2 else OTHER_SIZE)
    return max(0, evaluate(dim, bindings))
