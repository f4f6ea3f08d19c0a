"""Files of weights: safetensors or npz, under the names of the model."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from intaglio.emit.names import Keys
from intaglio.errors import InputError
from intaglio.ir.dtype import from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Array

Format = Literal["npz", "safetensors"]

_SAFETENSORS = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8e4m3fn": "F8_E4M3",
    "float8e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}
"""The element types that the format names; others are stored as the bytes that carry them."""


class Weights:
    """The constants that a module reads from its file, each under one key."""

    def __init__(self) -> None:
        self._keys = Keys()
        self._by_value: dict[Value, str] = {}
        self.arrays: dict[str, Array] = {}

    def key(self, value: Value) -> str:
        """The key of a constant, which is then in the file."""
        if value not in self._by_value:
            assert value.constant is not None
            self._by_value[value] = self.add(value.name, value.constant)
        return self._by_value[value]

    def add(self, name: str, array: Array) -> str:
        """Put an array into the file under a key like its name."""
        key = self._keys.give(name)
        self.arrays[key] = array
        return key


def write_weights(path: Path, arrays: Mapping[str, Array], format: Format) -> None:
    """Write arrays to a file; what NumPy does not know is stored as bytes or half words of the same bits."""
    if format == "npz":
        np.savez(path, allow_pickle=False, **{name: _storable(array) for name, array in arrays.items()})
    elif format == "safetensors":
        _write_safetensors(path, arrays)
    else:
        raise InputError(f"there is no format {format!r} for weights; expected npz or safetensors")


def _storable(array: Array) -> Array:
    """An array of a type that NumPy itself has."""
    dtype = from_numpy(array.dtype)
    if dtype.name == "string":
        return array.astype(np.str_)
    return array.view(np.uint16 if array.itemsize == 2 else np.uint8) if dtype.is_narrow else array


def _write_safetensors(path: Path, arrays: Mapping[str, Array]) -> None:
    """The format: eight bytes of length, a header in JSON, then the bytes of all tensors."""
    header: dict[str, object] = {}
    start = 0
    stored = {name: _safe_array(array) for name, array in sorted(arrays.items())}
    for name, (kind, array) in stored.items():
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, start + array.nbytes]}
        start += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, array in stored.values():
            file.write(np.ascontiguousarray(array).tobytes())


def _safe_array(array: Array) -> tuple[str, Array]:
    name = from_numpy(array.dtype).name
    if name == "string":
        raise InputError("safetensors holds no strings: choose npz for the weights")
    if name in _SAFETENSORS:
        return _SAFETENSORS[name], array
    return "U8", array.view(np.uint8)
