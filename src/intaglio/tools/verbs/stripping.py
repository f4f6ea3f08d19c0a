"""Weights taken out of a model, so that its structure can be shown to others, and put back."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from intaglio.errors import ExternalDataError, InputError, LoadError
from intaglio.ir.dtype import NUMBERED, DType
from intaglio.ir.op import Array
from intaglio.onnx.write_tensors import raw_bytes
from intaglio.runtime.model.tensor_files import read_tensors
from intaglio.tools.document import Document, Weights, read_document
from intaglio.tools.document.parts import held_tensor, put_bytes
from intaglio.tools.document.weights import checksum, external_location, stored_bytes
from intaglio.tools.document.writing import STRIPPED
from intaglio.tools.verbs.change import Changed, Model, opened

KEPT = 1024
"""Tensors of fewer bytes stay: they are sizes and axes, without which a structure is none."""


def strip(model: Model, *, threshold: int = KEPT) -> Changed:
    """The model without the data of tensors of at least `threshold` bytes.

    Types, shapes, and a checksum of what was taken out stay. The file is valid ONNX whose weights are external and not
    there; `restore` puts them back.
    """
    document = opened(model).document
    weights, count, size = Weights(document), 0, 0
    for place, tensor in enumerate(list(document.tensors())):
        length = stored_bytes(tensor)
        if length < max(threshold, 1) or is_stripped(tensor):
            continue
        try:
            digest = checksum(weights.data(tensor))
        except ExternalDataError:
            digest = None
        count, size = count + 1, size + length
        tensor.CopyFrom(held_tensor(tensor, f"{STRIPPED}{place}"))
        tensor.external_data.add(key="length", value=str(length))
        if digest is not None:
            tensor.external_data.add(key="checksum", value=digest)
    return Changed(document, {"tensors": count, "bytes": size})


def is_stripped(tensor: TensorProto) -> bool:
    """Whether the data of a tensor was taken out."""
    location = external_location(tensor) if tensor.data_location == TensorProto.EXTERNAL else None
    return location is not None and location.startswith(STRIPPED)


def restore(model: Model, weights: Model | Mapping[str, Any] | None = None, *, seed: int | None = None) -> Changed:
    """The model with the weights that `strip` took out, from the model that had them, or a safetensors or npz file.

    Arrays by name can be given too. With `seed`, what is missing is made up: normal numbers, or zeros. Weights that are
    missing otherwise, or of another type or shape, raise InputError; weights that are others than those that were taken
    out are named in the report.
    """
    document = opened(model).document
    found, differs, made_up = _source(weights), list[str](), 0
    missing: list[str] = []
    stripped = [(place, tensor) for place, tensor in enumerate(list(document.tensors())) if is_stripped(tensor)]
    initializers = {id(tensor) for tensor in document.graph.initializers}
    for place, tensor in stripped:
        data = found.data(tensor, f"#{place}")
        if data is None and seed is not None:
            data, made_up = _random(tensor, seed + place), made_up + 1
        if data is None:
            missing.append(tensor.name or f"#{place}")
            continue
        expected = next((entry.value for entry in tensor.external_data if entry.key == "checksum"), None)
        if expected is not None and checksum(data) != expected:
            differs.append(tensor.name or f"#{place}")
        if id(tensor) in initializers:
            tensor.CopyFrom(held_tensor(tensor, document.hold(data)))
        else:
            put_bytes(tensor, data)
    if missing:
        raise InputError(f"{len(missing)} weights are not there: {', '.join(map(repr, missing[:8]))}")
    return Changed(document, {"tensors": len(stripped), "made_up": made_up, "differs": differs})


class _Arrays:
    """Weights as arrays by name."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays

    def data(self, tensor: TensorProto, key: str) -> memoryview | None:
        """The bytes for a tensor; None where there is no array of its name, or of its place for one without a name."""
        array = self._arrays.get(tensor.name) if tensor.name else None
        if array is None:
            array = self._arrays.get(key)
        if array is None:
            return None
        array, size = np.asarray(array), stored_bytes(tensor)
        if array.dtype == np.uint8 and array.shape == (size,) and NUMBERED[tensor.data_type].is_narrow:
            return memoryview(np.ascontiguousarray(array).data).cast("B")  # as it stands in a file
        return memoryview(raw_bytes(_fitting(array, tensor))).cast("B")


class _Original:
    """Weights in the model that had them: by name, and by what they are."""

    def __init__(self, document: Document) -> None:
        self._weights = Weights(document)
        self._by_name = {tensor.name: tensor for tensor in document.graph.initializers}
        self._tensors = list(document.tensors())
        self._by_checksum: dict[str, TensorProto] | None = None

    def data(self, tensor: TensorProto, key: str) -> memoryview | None:
        """The bytes for a tensor; None where the model has none that fits."""
        named = self._by_name.get(tensor.name) if tensor.name else None
        if named is None or is_stripped(named):
            wanted = next((entry.value for entry in tensor.external_data if entry.key == "checksum"), None)
            named = None if wanted is None else self._checksums().get(wanted)
        if named is None:
            return None
        if (named.data_type, tuple(named.dims)) != (tensor.data_type, tuple(tensor.dims)):
            raise InputError(f"{tensor.name!r} is of another type or shape in the model with the weights")
        return self._weights.data(named)

    def _checksums(self) -> dict[str, TensorProto]:
        if self._by_checksum is None:
            whole = [each for each in self._tensors if stored_bytes(each) and not is_stripped(each)]
            self._by_checksum = {checksum(self._weights.data(each)): each for each in whole}
        return self._by_checksum


def _source(weights: Model | Mapping[str, Any] | None) -> _Arrays | _Original:
    if weights is None:
        return _Arrays({})
    if isinstance(weights, Mapping):
        return _Arrays(weights)
    if isinstance(weights, (str, os.PathLike)):
        suffix = Path(weights).suffix
        if suffix == ".safetensors":
            return _Arrays(read_tensors(weights)[0])
        if suffix == ".npz":
            return _Arrays(dict(_npz(weights)))
    return _Original(weights if isinstance(weights, Document) else read_document(weights))


def _npz(path: str | os.PathLike[str]) -> Iterator[tuple[str, Array]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                yield name, archive[name]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise LoadError(f"{os.fspath(path)!r} is no archive of arrays: {error}") from None


def _fitting(array: Array, tensor: TensorProto) -> Array:
    """An array as the tensor's type; narrow types may be stored as the bytes that carry them."""
    dtype: DType = NUMBERED[tensor.data_type]
    if array.shape != tuple(tensor.dims):
        raise InputError(f"{tensor.name!r} is of shape {list(array.shape)}, expected {list(tensor.dims)}")
    if array.dtype == dtype.numpy:
        return array
    if dtype.is_narrow and array.dtype.kind == "u" and array.dtype.itemsize == dtype.numpy.itemsize:
        return array.view(dtype.numpy)
    raise InputError(f"{tensor.name!r} is {array.dtype}, expected {dtype}")


def _random(tensor: TensorProto, seed: int) -> memoryview:
    """Weights of a usual size for a tensor: normal numbers that keep sums near 1 for floats, else zeros."""
    dtype, shape = NUMBERED[tensor.data_type], tuple(tensor.dims)
    if not dtype.is_float:
        return memoryview(bytes(stored_bytes(tensor)))
    scale = float(np.sqrt(max(shape[0] if shape else 1, 1) / max(np.prod(shape), 1)))
    numbers = np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)
    return memoryview(raw_bytes(numbers.astype(dtype.numpy))).cast("B")
