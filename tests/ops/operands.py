"""Short ways to write operands in tests of single operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir.dtype import FLOAT32
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import TensorType


def arange(*shape, dtype: Any = np.float32):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def ints(*values):
    return np.array(values, np.int64)


def reference(name, *arrays, **attributes):
    return OPERATORS[("", name)](**attributes).reference(*arrays)


def value(b, *shape, dtype=FLOAT32):
    return b.graph.add_input("x", TensorType(dtype, shape))
