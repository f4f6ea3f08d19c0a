"""The array of a Constant node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from intaglio.errors import LoadError
from intaglio.ir.op import Array, Tensor

_NUMPY: dict[str, Any] = {
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_string": object,
    "value_strings": object,
}


def constant_array(attributes: Mapping[str, Any]) -> Array:
    """The array that a Constant's one attribute holds."""
    if len(attributes) != 1:
        names = ", ".join(attributes) or "none"
        raise LoadError(f"a Constant needs exactly one value attribute, got {names}")
    ((name, value),) = attributes.items()
    if isinstance(value, Tensor):
        return value.array
    if name in ("value_string", "value_strings"):
        return _strings(value)
    return np.asarray(value, _NUMPY[name])


def _strings(value: str | tuple[str, ...]) -> Array:
    array = np.empty(() if isinstance(value, str) else len(value), object)
    array[...] = value
    return array
