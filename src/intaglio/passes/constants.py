"""Folding of constants: what can be computed before the run, within a budget of memory and time."""

from __future__ import annotations

import math
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np

from intaglio.errors import IntaglioError
from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Array, Work
from intaglio.ir.types import TensorType, Type
from intaglio.ops.counting import amount
from intaglio.ops.evaluate import run_node
from intaglio.ops.shape import ConstantOfShape
from intaglio.passes.driver import ANY, Refusal, Result, rule

SMALL = 64 * 1024
"""Bytes that a result may always have, and that any operator may always be given."""
GROWTH = 2
"""A larger result may have this many times the bytes of the inputs, or take of what is there for growth."""
LARGEST = 1 << 30
"""Bytes that no folded result exceeds."""
SECONDS = 4.0
"""Seconds that folding one graph may take, as estimated, besides moving and converting data."""
GROWN = 64 << 20
"""Bytes that the results of one graph may have beyond those of `GROWTH`."""
BYTES_A_SECOND, OPERATIONS_A_SECOND = 2e8, 1e9
"""What the reference engine is estimated to do: bytes read and written, multiplications."""


class Budget:
    """What is left for folding one graph; `largest` bounds a result, `repeats` says whether repeated elements count."""

    def __init__(
        self, seconds: float | None = None, grown: int | None = None, largest: int = LARGEST, *, repeats: bool = False
    ) -> None:
        self.seconds = self.all_seconds = SECONDS if seconds is None else seconds
        self.bytes = self.all_bytes = GROWN if grown is None else grown
        self.largest, self.repeats = largest, repeats


class _Active(threading.local):
    budget: Budget | None = None


_active = _Active()


@contextmanager
def budget(given: Budget | None = None) -> Generator[None]:
    """Within this context all folded nodes share one budget; outside of it each has its own."""
    outer, _active.budget = _active.budget, given or Budget()
    try:
        yield
    finally:
        _active.budget = outer


@rule(ANY)
def fold(b: Builder, node: Node) -> Result:
    """f(constants) -> constant"""
    inputs = [value for value in node.inputs if value is not None]
    if any(not isinstance(value.constant, np.ndarray) for value in inputs):
        return None
    if node.op.is_random or any(True for _ in node.op.subgraphs()):
        return None
    left = _active.budget or Budget()
    reason = _spend(node, inputs, left)
    if reason:
        return Refusal(reason)
    if left.repeats and isinstance(node.op, ConstantOfShape):
        return b.constant(_repeated(node.op, inputs[0]), name=node.output.name)
    try:
        results = run_node(node, {})
    except (IntaglioError, MemoryError) as error:
        return Refusal(f"it cannot be computed: {error}")
    return _constants(b, node, results)


def _repeated(op: ConstantOfShape, shape: Value) -> Array:
    """The result of ConstantOfShape, which takes no memory beyond one element."""
    element = op.reference(np.ones(0, np.int64))
    return np.broadcast_to(element, tuple(np.asarray(shape.constant).tolist()))


def _spend(node: Node, inputs: Sequence[Value], left: Budget) -> str:
    """Take what a node of constants costs from the budget; why it is not computed before the run where that is over."""
    given = sum(value.constant.nbytes for value in inputs if value.constant is not None)
    sizes = [size_in_bytes(value.type) for value in node.outputs]
    made = [size for size in sizes if size is not None]
    if len(made) < len(sizes) and not node.op.is_bounded:
        return "the size of the result is not known"
    seconds = 0.0 if given <= SMALL and node.op.work is not Work.UNBOUNDED else _seconds(node, given + sum(made))
    largest = max(made, default=0)
    grown = largest if largest > max(SMALL, GROWTH * given) else 0
    if seconds == math.inf:
        return f"{node.op.name} of {given} bytes may take long"
    if largest > left.largest or grown > (0 if node.op.repeats and not left.repeats else left.bytes):
        rest = f"{left.bytes} of {left.all_bytes} are left for larger results"
        return f"the result would have {largest} bytes, from {given}; {rest}"
    if seconds > left.seconds:
        whole = f"{left.all_seconds:.0f} s"
        return f"it would take about {seconds:.1f} s, of {whole} for folding {left.seconds:.1f} s are left"
    left.seconds -= seconds
    left.bytes -= grown
    return ""


def _seconds(node: Node, moved: int) -> float:
    """The estimated time that counts, for so many bytes read and written; infinite where it is not known."""
    if node.op.work is Work.SHORT:
        return 0.0
    if node.op.work is Work.LINEAR:
        return moved / BYTES_A_SECOND
    operations = _multiplications(node)
    return math.inf if operations is None else moved / BYTES_A_SECOND + operations / OPERATIONS_A_SECOND


def _multiplications(node: Node) -> int | None:
    """How many multiplications a product or a convolution takes."""
    if node.op.domain or node.op.name not in ("Conv", "Gemm", "MatMul") or not node.output.tensor.is_static:
        return None
    macs = amount(node).macs
    return macs if isinstance(macs, int) else None


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
