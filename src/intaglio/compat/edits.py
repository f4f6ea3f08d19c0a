"""Changes of a model that session options ask for, made before it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.errors import InputError, LoadError, UnsupportedError

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto, ValueInfoProto

    from intaglio.compat.options import SessionOptions

_PROTOBUF_LIMIT = 1 << 31


def edited(source: Any, options: SessionOptions) -> tuple[Any, str | None]:
    """What `load` is to read, and the folder of its external data; the source itself where nothing is to be changed."""
    folder = str(Path(source).parent) if isinstance(source, (str, os.PathLike)) else None
    if not (options._sizes or options._denoted_sizes or options._initializers or options._files):
        return source, None
    model = _parsed(source)
    _set_sizes(model, options._sizes, options._denoted_sizes)
    _set_initializers(model, options)
    _set_files(model, options._files)
    return model.SerializeToString() if model.ByteSize() < _PROTOBUF_LIMIT else model, folder


def _parsed(source: Any) -> ModelProto:
    import onnx

    from intaglio.runtime.artifact.reading import is_compiled

    if is_compiled(source):
        raise UnsupportedError(
            "a compiled model cannot be changed: give the sizes and initializers before it is compiled"
        )
    if isinstance(source, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(source)
        return copy
    try:
        if isinstance(source, (str, os.PathLike)):
            return onnx.load(os.fspath(source), load_external_data=False)
        return onnx.ModelProto.FromString(bytes(source))
    except Exception as error:
        raise LoadError(f"the model cannot be read: {error}") from error


def _set_sizes(model: ModelProto, sizes: Mapping[str, int], denoted: Mapping[str, int]) -> None:
    graph = model.graph
    used: set[str] = set()
    for info in graph.input:
        for dim in info.type.tensor_type.shape.dim:
            for wanted, name in ((sizes, dim.dim_param), (denoted, dim.denotation)):
                if name and name in wanted:
                    used.add(name)
                    dim.dim_value = wanted[name]
    missing = (sizes.keys() | denoted.keys()) - used
    if missing:
        raise InputError(f"no input of the model has a dimension {', '.join(map(repr, sorted(missing)))}")
    for info in (*graph.output, *graph.value_info):
        _replace_names(info, sizes)


def _replace_names(info: ValueInfoProto, sizes: Mapping[str, int]) -> None:
    for dim in info.type.tensor_type.shape.dim:
        if dim.dim_param in sizes:
            dim.dim_value = sizes[dim.dim_param]


def _set_initializers(model: ModelProto, options: SessionOptions) -> None:
    from onnx import TensorProto

    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, value in options._initializers.items():
        if name not in tensors:
            raise InputError(f"the model has no initializer {name!r}")
        array, tensor = np.asarray(value.numpy()), tensors[name]
        if value.element_type() != tensor.data_type or list(array.shape) != list(tensor.dims):
            raise InputError(
                f"the initializer {name!r} is {TensorProto.DataType.Name(tensor.data_type)}{list(tensor.dims)} in the "
                f"model, got {value.data_type()}{list(array.shape)}"
            )
        tensor.CopyFrom(_tensor(name, array, tensor))


def _tensor(name: str, array: Any, before: TensorProto) -> TensorProto:
    from onnx import TensorProto

    if array.dtype.hasobject:
        text = [item if isinstance(item, bytes) else str(item).encode() for item in array.reshape(-1).tolist()]
        return TensorProto(name=name, data_type=before.data_type, dims=before.dims, string_data=text)
    return TensorProto(name=name, data_type=before.data_type, dims=before.dims, raw_data=_packed(array, before))


def _packed(array: Any, before: TensorProto) -> bytes:
    from intaglio.ir.dtype import NUMBERED

    if NUMBERED[before.data_type].bits < 8:
        raise UnsupportedError(f"an initializer of {array.dtype} cannot be replaced")
    return np.ascontiguousarray(array).tobytes()


def _set_files(model: ModelProto, files: Mapping[str, bytes]) -> None:
    from onnx import TensorProto

    used: set[str] = set()
    for tensor in _external(model):
        entry = {item.key: item.value for item in tensor.external_data}
        content = files.get(entry.get("location", ""))
        if content is None:
            continue
        used.add(entry["location"])
        start = int(entry.get("offset", 0))
        length = int(entry.get("length", len(content) - start))
        if start < 0 or length < 0 or start + length > len(content):
            raise InputError(f"the tensor {tensor.name!r} lies outside of the {len(content)} bytes of its file")
        tensor.raw_data = content[start : start + length]
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]
    missing = files.keys() - used
    if missing:
        raise InputError(f"no initializer of the model is in the file {', '.join(map(repr, sorted(missing)))}")


def _external(model: ModelProto) -> Iterator[TensorProto]:
    from onnx import TensorProto

    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            yield tensor
