"""Windows over axes whose sizes only the run knows: their pads as values, and data with those pads written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.ops.shared.operand import ints


@dataclass(frozen=True)
class RunTimePads:
    """Pads along the spatial axes, as vectors: before and behind the data, and for windows that reach still further."""

    begin: Value
    end: Value
    overhang: Value

    def pad(self, b: Builder, x: Value) -> Value:
        """The data with zeros around it, so that every window lies inside."""
        axes = list(range(2, x.rank))
        return b.Pad(x, b.Concat(self.begin, self.end + self.overhang, axis=0), None, axes)

    def counted(self, b: Builder, x: Value, with_pads: bool) -> Value:
        """One for each element of the padded data that counts, zero for the others; an overhang never counts."""
        axes, one = list(range(2, x.rank)), b.constant(1, x.dtype)
        ones = b.Expand(one, b.Concat(b.constant([1, 1]), b.Shape(x, start=2), axis=0))
        if not with_pads:
            return self.pad(b, ones)
        inner = b.Pad(ones, b.Concat(self.begin, self.end, axis=0), one, axes)
        return b.Pad(inner, b.Concat(b.constant([0] * len(axes)), self.overhang, axis=0), None, axes)


def run_time_pads(b: Builder, op: Any, x: Value, kernel: Value) -> RunTimePads:
    """The pads of a Conv or a pool over `x`; `kernel` are the sizes of its windows."""
    count = x.rank - 2
    stride, dilation = (_vector(b, ints(given, count, 1, "")) for given in (op.strides, op.dilations))
    size, extent = b.Shape(x, start=2), (kernel - 1) * dilation + 1
    nothing = b.constant([0] * count)
    if op.auto_pad.startswith("SAME"):
        total = b.Max((_rounded_up(size, stride) - 1) * stride + extent - size, nothing)
        small = total / b.constant([2])
        pair = (small, total - small) if op.auto_pad == "SAME_UPPER" else (total - small, small)
        return RunTimePads(*pair, nothing)
    given = ints(op.pads, 2 * count, 0, "pads") if op.auto_pad == "NOTSET" else (0,) * (2 * count)
    begin, end = _vector(b, given[:count]), _vector(b, given[count:])
    if not getattr(op, "ceil_mode", 0):
        return RunTimePads(begin, end, nothing)
    fitting = _rounded_up(size + begin + end - extent, stride) + 1
    windows = b.Min(fitting, _rounded_up(size + begin, stride))
    reach = b.Max((windows - 1) * stride + extent, nothing)
    return RunTimePads(begin, end, b.Max(reach - begin - size - end, nothing))


def _vector(b: Builder, numbers: Sequence[int]) -> Value:
    return b.constant(np.array(numbers, np.int64))


def _rounded_up(size: Value, stride: Value) -> Value:
    """The quotient rounded up, of sizes that are at least 1 - stride."""
    return (size + stride - 1) / stride
