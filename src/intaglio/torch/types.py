# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""Element types of PyTorch and ours."""

from __future__ import annotations

from typing import Any

import torch

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import DTYPES, DType

_NAMES = {
    **{name: name for name in ("float64", "float32", "float16", "bfloat16", "complex64", "complex128", "bool")},
    **{name: name for name in ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")},
    "float8_e4m3fn": "float8e4m3fn",
    "float8_e4m3fnuz": "float8e4m3fnuz",
    "float8_e5m2": "float8e5m2",
    "float8_e5m2fnuz": "float8e5m2fnuz",
}
_OURS = {getattr(torch, name): DTYPES[ours] for name, ours in _NAMES.items()}


def to_dtype(dtype: Any) -> DType:
    """Our element type for one of PyTorch; raises UnsupportedError where there is none."""
    found = _OURS.get(dtype)
    if found is None:
        raise UnsupportedError(f"tensors of {dtype}")
    return found


def from_dtype(dtype: DType) -> Any:
    """PyTorch's element type for one of ours; raises UnsupportedError where there is none."""
    for theirs, ours in _OURS.items():
        if ours == dtype:
            return theirs
    raise UnsupportedError(f"tensors of {dtype} in PyTorch")
