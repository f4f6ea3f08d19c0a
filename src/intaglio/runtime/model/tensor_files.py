"""Tensors by name in files of the format safetensors: plain data, which is safe to read from anybody."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from intaglio.errors import InputError, LoadError, ModelNotFoundError

Array = np.ndarray[Any, Any]

_DTYPES: dict[str, Any] = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "U32": np.uint32,
    "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F16": np.float16, "F32": np.float32, "F64": np.float64,
    "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a file at once or not at all: who reads the path sees the old file or the whole new one."""
    from safetensors.numpy import save

    for name, array in tensors.items():
        if array.dtype not in [np.dtype(each) for each in _DTYPES.values()]:
            raise InputError(f"{name!r} is {array.dtype}, which a file of safetensors cannot hold")
    replace_file(
        path, save({name: np.array(array, order="C") for name, array in tensors.items()}, dict(metadata or {}))
    )


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Put a file in the place of another, on disk before it has the name."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent or ".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, str]]:
    """The tensors of a file in the order of their names, and its metadata."""
    from safetensors import SafetensorError, deserialize, safe_open

    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ModelNotFoundError(f"there is no file {os.fspath(path)!r}") from None
    try:
        entries = deserialize(data)
        with safe_open(os.fspath(path), "np") as file:
            metadata = dict(file.metadata() or {})
    except SafetensorError as error:
        raise LoadError(f"{os.fspath(path)!r} is no file of safetensors: {error}") from None
    entries.sort(key=lambda pair: pair[0])  # the library gives them in an order that changes from run to run
    return {name: _array(name, entry) for name, entry in entries}, metadata


def _array(name: str, entry: Mapping[str, Any]) -> Array:
    dtype = _DTYPES.get(entry["dtype"])
    if dtype is None:
        raise LoadError(f"{name!r} is of the type {entry['dtype']}, which is not supported")
    return np.frombuffer(bytearray(entry["data"]), dtype).reshape(entry["shape"])
