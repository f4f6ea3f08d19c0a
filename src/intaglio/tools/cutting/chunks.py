"""The tensors of a model in parts that take little memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from intaglio.ir.dim import symbols
from intaglio.ir.graph import Graph
from intaglio.ir.substitution import evaluate
from intaglio.ir.types import TensorType, Type
from intaglio.runtime.engine.binding import bind

CHUNK_BYTES = 256 << 20
"""Tensors of about so many bytes are asked for at a time."""
UNKNOWN_BYTES = 1 << 20
"""What a tensor counts whose size is not known before the run."""


def chunked(graph: Graph, names: Iterable[str], feeds: Mapping[str, Any], memory: int) -> Iterator[list[str]]:
    """The names of tensors, in parts of about so many bytes for these inputs."""
    sizes = _tensor_bytes(graph, feeds)
    part, held = list[str](), 0
    for name in names:
        size = sizes.get(name, UNKNOWN_BYTES)
        if part and held + size > memory:
            yield part
            part, held = [], 0
        part.append(name)
        held += size
    if part:
        yield part


def _tensor_bytes(graph: Graph, feeds: Mapping[str, Any]) -> dict[str, int]:
    bindings: dict[str, int] = {}
    for value in graph.inputs:
        if isinstance(value.type, TensorType) and isinstance(feeds.get(value.name), np.ndarray):
            bind(value.type.shape, feeds[value.name].shape, bindings, f"input {value.name!r}")
    return {value.name: _bytes(value.type, bindings) for value in graph.values()}


def _bytes(type: Type, bindings: Mapping[str, int]) -> int:
    if not isinstance(type, TensorType) or type.shape is None:
        return UNKNOWN_BYTES
    if any(name not in bindings for dim in type.shape for name in symbols(dim)):
        return UNKNOWN_BYTES
    count = 1
    for dim in type.shape:
        count *= max(0, evaluate(dim, dict(bindings)))
    return count * type.dtype.itemsize
