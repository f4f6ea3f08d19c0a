"""What users feed, as the arrays that engines take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from intaglio.runtime.engine.binding import format_shape
from intaglio.runtime.model.tensors import array_of

if TYPE_CHECKING:
    from intaglio.ir.graph import Value
    from intaglio.runtime.engine.outline import Port

    Input: TypeAlias = Value | Port


class Typed(Protocol):
    """What has a name and a type."""

    @property
    def name(self) -> str:
        """The name."""
        ...

    @property
    def type(self) -> Type:
        """The type."""
        ...


def all_arrays(values: Sequence[Any]) -> bool:
    """Whether all values are arrays of NumPy, and nothing that only behaves like one."""
    return all(type(value) is np.ndarray for value in values)


def as_input(value: Typed, data: Any) -> Any:
    """What the engine gets for an input; raises InputError naming it, what was got and what was expected."""
    return _convert(value.type, data, f"input {value.name!r}")


def _convert(type: Type, data: Any, place: str) -> Any:
    if isinstance(type, TensorType):
        return _as_tensor(type, data, place)
    if isinstance(type, SequenceType):
        if not isinstance(data, (list, tuple)):
            raise InputError(f"{place} is {_describe(data)}, expected a list for {type}")
        return [_convert(type.element, item, f"item {index} of {place}") for index, item in enumerate(data)]
    if isinstance(type, OptionalType):
        return None if data is None else _convert(type.element, data, place)
    return _as_map(type, data, place)


def _as_map(type: MapType, data: Any, place: str) -> dict[Any, Any]:
    if not isinstance(data, dict):
        raise InputError(f"{place} is {_describe(data)}, expected a dictionary for {type}")
    kinds = str if type.key.kind == "string" else (int, np.integer)
    items = cast("dict[Any, Any]", data)
    for key in items:
        if not isinstance(key, kinds):
            raise InputError(f"{place} has the key {key!r}, which is {_describe(key)}, expected {type.key} for {type}")
    return {key: _convert(type.value, item, f"item {key!r} of {place}") for key, item in items.items()}


def _as_tensor(type: TensorType, data: Any, place: str) -> np.ndarray[Any, Any]:
    array = to_array(data, type.dtype, place)
    found = from_numpy(array.dtype) if array.dtype.kind != "V" or array.dtype.num >= 256 else None
    if found != type.dtype:
        raise InputError(
            f"{place} has dtype {array.dtype}, expected {type.dtype}; "
            f"convert it with .astype({_dtype_text(type.dtype)}) if that is meant"
        )
    if type.shape is not None and len(type.shape) != array.ndim:
        raise InputError(
            f"{place} has rank {array.ndim} (shape {list(array.shape)}), expected {len(type.shape)}: "
            f"{format_shape(type.shape)}"
        )
    for axis, (dim, size) in enumerate(zip(type.shape or (), array.shape, strict=False)):
        if isinstance(dim, int) and dim != size:
            raise InputError(
                f"{place} has {size} in dimension {axis}, expected {dim}: {format_shape(type.shape or ())}"
            )
    return array


def _dtype_text(dtype: DType) -> str:
    return f"ml_dtypes.{dtype.numpy}" if dtype.is_narrow else f"numpy.{dtype.numpy.name}"


def to_array(data: Any, dtype: DType, place: str) -> np.ndarray[Any, Any]:
    """Anything array-like as a NumPy array in native byte order; plain Python numbers take the expected dtype."""
    if isinstance(data, np.ndarray):
        array = data
    elif isinstance(data, (list, tuple, int, float, bool, complex, str, bytes)):
        array = _from_python(data, dtype, place)
    elif type(data).__module__.partition(".")[0] == "torch":
        array = _from_torch(data, place)
    else:
        array = _from_others(data, place)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return _as_text(array, place) if dtype.kind == "string" and array.dtype.kind in "USTO" else array


def _from_others(data: Any, place: str) -> np.ndarray[Any, Any]:
    """What another library calls an array."""
    if not any(hasattr(data, name) for name in ("__array_interface__", "__array__", "__dlpack__")):
        raise InputError(f"{place} is {_describe(data)}, expected something that NumPy can read as an array")
    try:
        is_array = hasattr(data, "__array_interface__") or hasattr(data, "__array__")
        return np.asarray(data) if is_array else np.from_dlpack(data)
    except Exception as error:  # whatever the other library raises
        raise InputError(f"{place} is {_describe(data)}, which cannot be read as an array: {error}") from error


def _from_torch(data: Any, place: str) -> np.ndarray[Any, Any]:
    """A tensor of PyTorch, without its gradient; types that NumPy lacks keep their bits."""
    kind = getattr(getattr(data, "device", None), "type", "cpu")
    if kind != "cpu":
        raise InputError(f"{place} is a tensor on {data.device}; Intaglio computes on the CPU: give it tensor.cpu()")
    try:
        return array_of(data)
    except Exception as error:  # sparse and quantized tensors, types that ml_dtypes lacks
        raise InputError(f"{place} is a tensor of {data.dtype}, which cannot be read as an array: {error}") from error


def _as_text(array: np.ndarray[Any, Any], place: str) -> np.ndarray[Any, Any]:
    """Strings as objects; bytes are decoded, and what is not UTF-8 survives as surrogates, as in a model's strings."""
    if array.dtype.kind in "UT":
        return array.astype(object)
    items = [_decoded(item) for item in array.ravel().tolist()]
    wrong = next((item for item in items if not isinstance(item, str)), "")
    if not isinstance(wrong, str):
        raise InputError(f"{place} holds {_describe(wrong)}, expected strings")
    if array.dtype.kind == "O" and all(new is old for new, old in zip(items, array.ravel().tolist(), strict=True)):
        return array
    found = np.empty(len(items), dtype=object)
    found[:] = items
    return found.reshape(array.shape)


def _decoded(item: Any) -> Any:
    return item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else item


def _from_python(data: Any, dtype: DType, place: str) -> np.ndarray[Any, Any]:
    try:
        plain = np.asarray(data)
    except ValueError as error:
        raise InputError(f"{place} is a list whose parts have different lengths: {error}") from None
    if dtype.kind == "string":
        return np.asarray(data, dtype=object)
    if plain.dtype == dtype.numpy:
        return plain
    if plain.dtype.kind not in "biufc" or (
        plain.dtype.kind in "fc" and not (dtype.is_float or dtype.kind == "complex")
    ):
        raise InputError(f"{place} holds {plain.dtype} values, expected {dtype}")
    result = plain.astype(dtype.numpy)
    if dtype.is_integer and not np.array_equal(result.astype(object), plain.astype(object)):
        raise InputError(f"{place} holds values that {dtype} cannot represent")
    return result


def _describe(data: Any) -> str:
    return "None" if data is None else f"a {type(data).__name__}"


def order_feeds(inputs: Sequence[Input], feeds: Mapping[str, Any]) -> list[Any]:
    """The fed values in the order of the inputs; raises InputError for unknown and missing names at once."""
    names = [value.name for value in inputs]
    problems = [unknown_name(name, names) for name in feeds if name not in names]
    missing = [value.name for value in inputs if value.name not in feeds and value.default is None]
    if missing:
        problems.append(f"no value for {', '.join(repr(name) for name in missing)}")
    if problems:
        raise InputError("; ".join(problems) + f"; the inputs are {', '.join(repr(n) for n in names) or 'none'}")
    return [as_input(v, feeds[v.name]) if v.name in feeds else v.default for v in inputs]


def unknown_name(name: str, names: Sequence[str]) -> str:
    """Says that no input has a name, with the nearest that one has."""
    import difflib

    near = difflib.get_close_matches(name, names, 1)
    return f"there is no input {name!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
