"""What weights begin with where a model comes without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.graph import Graph, Node, Value

Array = np.ndarray[Any, Any]
Generator = np.random.Generator


def kaiming_uniform(shape: Sequence[int], generator: Generator, fan_in: int | None = None) -> Array:
    """Uniform between plus and minus 1 / sqrt(fan_in), as PyTorch's layers begin.

    `fan_in` is how many inputs an output is made of; by default the weight is read as rows of inputs: [in, out].
    """
    bound = 1 / math.sqrt(max(1, shape[0] if fan_in is None else fan_in))
    return generator.uniform(-bound, bound, tuple(shape)).astype(np.float32)


def xavier_uniform(shape: Sequence[int], generator: Generator) -> Array:
    """Uniform, with the variance that keeps signals alike in both directions of a matrix [in, out]."""
    bound = math.sqrt(6 / max(1, shape[0] + shape[-1]))
    return generator.uniform(-bound, bound, tuple(shape)).astype(np.float32)


def normal(shape: Sequence[int], generator: Generator, deviation: float = 0.02) -> Array:
    """Normal, as the embeddings of language models begin."""
    return (generator.standard_normal(tuple(shape)) * deviation).astype(np.float32)


_ONES = {"BatchNormalization": (1, 4), "LayerNormalization": (1,), "InstanceNormalization": (1,),
         "GroupNormalization": (1,), "RMSNormalization": (1,)}  # fmt: skip
_ZEROS = {"BatchNormalization": (2, 3), "LayerNormalization": (2,), "InstanceNormalization": (2,),
          "GroupNormalization": (2,)}  # fmt: skip


def initial_value(graph: Graph, value: Value, generator: Generator) -> Array:
    """What a weight begins with, by the operator that reads it first: as PyTorch's layers begin."""
    shape = value.tensor.shape
    if shape is None or not all(isinstance(dim, int) for dim in shape):
        raise InputError(f"the weight {value.name!r} is {value.type}: its shape must be known to make a first value")
    sizes = [int(dim) for dim in shape]  # pyright: ignore[reportArgumentType]
    node, place = next(((n, i) for n in graph.nodes for i, v in enumerate(n.inputs) if v is value), (None, 0))
    if node is None:
        raise InputError(f"the weight {value.name!r} is read by no node of the graph, so nothing says how it begins")
    if place in _ONES.get(node.op.name, ()):
        return np.ones(sizes, value.dtype.numpy)
    if place in _ZEROS.get(node.op.name, ()):
        return np.zeros(sizes, value.dtype.numpy)
    if node.op.name == "Gather":
        return generator.standard_normal(tuple(sizes)).astype(value.dtype.numpy)
    return kaiming_uniform(sizes, generator, _fan_in(node, place, sizes)).astype(value.dtype.numpy)


def _fan_in(node: Node, place: int, sizes: Sequence[int]) -> int:
    """How many numbers each output of a node is made of."""
    if place == 2 and node.op.name in ("Conv", "Gemm", "ConvTranspose"):
        return _fan_in(node, 1, [int(dim) for dim in node.needed(1).shape])  # pyright: ignore[reportArgumentType]
    if node.op.name == "Conv":
        return math.prod(sizes[1:])
    if node.op.name == "ConvTranspose":
        return sizes[1] * math.prod(sizes[2:])
    if node.op.name == "Gemm":
        return sizes[1] if node.op.transB else sizes[0]
    if node.op.name == "MatMul":
        return sizes[-2] if len(sizes) > 1 and place == 1 else sizes[-1]
    if node.op.name in ("LSTM", "GRU", "RNN"):
        return int(node.op.hidden_size or sizes[-1])
    return max(1, sizes[-1] if sizes else 1)
