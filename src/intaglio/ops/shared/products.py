"""Matrix products of the reference, the same on every machine."""

from __future__ import annotations

import numpy as np

from intaglio.ir.op import Array

SINGLE_MAX = float(np.finfo(np.float32).max)


def matrix_product(left: Array, right: Array) -> Array:
    """`np.matmul`, single precision summed in double precision and rounded once.

    The library behind NumPy rounds sums in single precision otherwise on each kind of processor, and otherwise in the
    last rows of a matrix than in the first. Where a sum may overflow it is left to that: infinities are then those of
    single precision.
    """
    is_single = left.dtype == right.dtype == np.float32
    if not is_single or _largest(left) * _largest(right) * left.shape[-1] >= SINGLE_MAX:
        return np.matmul(left, right)
    return np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.float32)


def _largest(array: Array) -> float:
    """The largest magnitude; infinite where an element is not finite."""
    if not array.size:
        return 0.0
    found = max(abs(float(array.max())), abs(float(array.min())))
    return found if np.isfinite(found) else np.inf
