"""Folding of constants: what can be computed before the run, within a budget of memory and time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from intaglio.errors import IntaglioError
from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.ir.types import TensorType, Type
from intaglio.ops.evaluate import run_node
from intaglio.passes.driver import ANY, Refusal, Result, rule

SMALL = 64 * 1024
"""Bytes that a result may always have, and that any operator may always be given."""
GROWTH = 2
"""A larger result may have this many times the bytes of the inputs."""
LARGEST = 1 << 30
"""Bytes that no folded result exceeds."""
# fmt: off
LINEAR = frozenset({
    "Abs", "Add", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Clip",
    "Concat", "Constant", "DequantizeLinear", "Div", "Exp", "Expand", "Flatten", "Floor", "Gather", "Identity",
    "Log", "Mul", "Neg", "Not", "Pad", "Reciprocal", "Relu", "Reshape", "Shape", "Sign", "Size", "Slice", "Split",
    "Sqrt", "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze", "Where",
})
# fmt: on
"""Operators whose time is linear in their data, so that large constants may be folded through them."""
BOUNDED = frozenset({"NonZero", "Unique", "Compress"})
"""Operators whose output depends on data but is no larger than a few times their input."""
COSTLY = frozenset({"Einsum"})
"""Operators whose time is not bounded by the sizes of their inputs and outputs."""


@rule(ANY)
def fold(b: Builder, node: Node) -> Result:
    """f(constants) -> constant"""
    inputs = [value for value in node.inputs if value is not None]
    if any(not isinstance(value.constant, np.ndarray) for value in inputs):
        return None
    if node.op.is_random or any(True for _ in node.op.subgraphs()):
        return None
    reason = _over_budget(node, inputs)
    if reason:
        return Refusal(reason)
    try:
        results = run_node(node, {})
    except (IntaglioError, MemoryError) as error:
        return Refusal(f"it cannot be computed: {error}")
    return _constants(b, node, results)


def _over_budget(node: Node, inputs: Sequence[Value]) -> str:
    """Why a node of constants is not computed before the run."""
    given = sum(value.constant.nbytes for value in inputs if value.constant is not None)
    if node.op.name in COSTLY or (given > SMALL and node.op.name not in LINEAR):
        return f"{node.op.name} of {given} bytes may take long"
    made = [size_in_bytes(value.type) for value in node.outputs]
    if None in made and node.op.name not in BOUNDED:
        return "the size of the result is not known"
    largest = max((size for size in made if size is not None), default=0)
    if largest > min(max(SMALL, GROWTH * given), LARGEST):
        return f"the result would have {largest} bytes, from {given}"
    return ""


def size_in_bytes(type: Type) -> int | None:
    """The bytes that a tensor of this type takes, None where its dimensions are not known."""
    if not isinstance(type, TensorType) or not type.is_static:
        return None
    return math.prod(int(dim) for dim in type.dims) * type.dtype.itemsize


def _constants(b: Builder, node: Node, results: Sequence[object]) -> Result:
    if any(not isinstance(item, np.ndarray) for item in results):
        return Refusal("the result is not a tensor")
    values = [b.constant(item, name=old.name) for item, old in zip(results, node.outputs, strict=False)]
    return tuple(values) if len(values) == len(node.outputs) else None
