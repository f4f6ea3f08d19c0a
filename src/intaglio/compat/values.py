"""Values that live between runs: `OrtValue` and vectors of them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from intaglio.compat.devices import OrtDevice, OrtMemoryInfo, check_device
from intaglio.compat.naming import dtype_name, numpy_type
from intaglio.errors import InputError, UnsupportedError
from intaglio.ir.dtype import from_numpy
from intaglio.ir.op import Array


class OrtValue:
    """A value: an array, a list or map of them, or nothing."""

    def __init__(self, ortvalue: Any, numpy_obj: Any = None, session: Any = None) -> None:
        self._value = ortvalue._value if isinstance(ortvalue, OrtValue) else ortvalue
        self._kept = numpy_obj, session

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Any, /, device_type: str | OrtDevice = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Hold an array, without a copy."""
        check_device(device_type, device_id, vendor_id)
        return cls(np.asarray(numpy_obj))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Any, /, onnx_element_type: int) -> OrtValue:
        """Hold the memory of an array as elements of another type of the same size, without a copy."""
        dtype = numpy_type(onnx_element_type)
        if dtype.itemsize != data.dtype.itemsize:
            raise InputError(
                f"an element of {dtype} has {dtype.itemsize} bytes, the array's have {data.dtype.itemsize}"
            )
        return cls(data.view(dtype), data)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> OrtValue:
        """Hold a new array of zeros; the element type is NumPy's or ONNX's number."""
        check_device(device_type, device_id, vendor_id)
        if memory_info is not None and not isinstance(memory_info, OrtMemoryInfo):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"memory_info is a {type(memory_info).__name__}, expected an OrtMemoryInfo")
        return cls(np.zeros(tuple(shape), numpy_type(element_type)))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: Any) -> OrtValue:
        """Always refused: no value is sparse."""
        raise UnsupportedError("sparse values are not supported; make the tensor dense")

    @classmethod
    def from_dlpack(cls, data: Any, /, is_bool_tensor: bool = False) -> OrtValue:
        """Hold the memory of a tensor of another library, without a copy: the tensor, or its DLPack capsule.

        As the protocol has it, the memory may be written unless it is NumPy's and must not be.
        """
        source = data if hasattr(data, "__dlpack__") else _Capsule(data)
        try:
            array = np.from_dlpack(source)
        except (TypeError, ValueError, BufferError, RuntimeError) as error:
            raise InputError(f"{type(data).__name__} cannot be taken by way of DLPack: {error}") from error
        if not (array.flags.writeable or isinstance(data, np.ndarray)) and array.flags.c_contiguous:
            array, data = memory_at(array.ctypes.data, array.dtype, array.shape), (data, array)
        return cls(array.view(np.bool_) if is_bool_tensor else array, data)

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        if stream is not None:
            raise UnsupportedError("the CPU has no streams")
        return self._array().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def to_dlpack(self) -> Any:
        """The array as a DLPack capsule."""
        return self._array().__dlpack__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array(), dtype=dtype, copy=copy)

    def _array(self) -> Array:
        if not isinstance(self._value, np.ndarray):
            raise InputError(f"the value is a {type(self._value).__name__} and no tensor")
        return cast("Array", self._value)

    def _get_c_value(self) -> OrtValue:
        return self

    @property
    def _ortvalue(self) -> OrtValue:
        return self

    def numpy(self) -> Any:
        """The array itself, or the list or map."""
        return self._value

    def shape(self) -> list[int]:
        """The array's shape; of a list its length."""
        return [len(self._value)] if isinstance(self._value, list) else list(self._array().shape)

    def data_type(self) -> str:
        """The type as text, such as `tensor(float)`."""
        return _type_of(self._value)

    def element_type(self) -> int:
        """ONNX's number of the array's element type."""
        return from_numpy(self._array().dtype).number

    def tensor_size_in_bytes(self) -> int:
        """The bytes of the array."""
        return self._array().nbytes

    def data_ptr(self) -> int:
        """The address of the array's first element."""
        return self._array().ctypes.data

    def device_name(self) -> str:
        """Always `cpu`."""
        return "cpu"

    def has_value(self) -> bool:
        """Whether there is anything."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether it is an array."""
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """Never: no value is sparse."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Whether it is a list of arrays."""
        return isinstance(self._value, list)

    def as_sparse_tensor(self) -> Any:
        """Always refused: no value is sparse."""
        raise UnsupportedError("the value is not sparse")

    def update_inplace(self, data: Any) -> None:
        """Overwrite the array's elements with those of an array or value of the same shape and type."""
        write(self._array(), data.numpy() if isinstance(data, OrtValue) else data, "the value")


class _Capsule:
    """A DLPack capsule as NumPy takes it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def _type_of(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"tensor({dtype_name(from_numpy(value.dtype))})"
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return f"seq({_type_of(items[0])})" if items else "seq(tensor(float))"
    if isinstance(value, Mapping):
        key, item = next(iter(cast("Mapping[Any, Any]", value).items()), (0, np.float32(0)))
        return f"map({'string' if isinstance(key, str) else 'int64'},{_type_of(np.asarray(item))})"
    raise InputError(f"a {type(value).__name__} has no type")


def write(target: Array, data: Any, place: str) -> None:
    """Overwrite an array; raises InputError where shape or type are others."""
    array = np.asarray(data)
    if array.shape != target.shape or array.dtype != target.dtype:
        got, expected = (f"{each.dtype}{list(each.shape)}" for each in (array, target))
        raise InputError(f"{place} is {expected} and cannot take {got}")
    if not target.flags.writeable:
        raise InputError(f"{place} is memory that must not be written")
    np.copyto(target, array)


def memory_at(address: int, element_type: Any, shape: Iterable[int]) -> Array:
    """The memory at an address as an array; its owner must keep it."""
    dtype, sizes = numpy_type(element_type), tuple(int(size) for size in shape)
    if dtype.hasobject:
        raise InputError("memory at an address cannot hold strings")
    if min(sizes, default=1) < 0:
        raise InputError(f"the shape {list(sizes)} has a negative size")
    size = int(np.prod(sizes, dtype=object)) * dtype.itemsize
    if size and not address:
        raise InputError("the address of the memory is 0")
    memory: Any = (ctypes.c_uint8 * size).from_address(int(address)) if size else bytearray()
    return np.frombuffer(memory, np.uint8).view(dtype).reshape(sizes)


class OrtValueVector(list[OrtValue]):
    """Values in a row."""

    def push_back(self, value: Any, is_bool_tensor: bool = False) -> None:
        """Add a value, or a DLPack capsule."""
        self.append(value if isinstance(value, OrtValue) else OrtValue.from_dlpack(value, is_bool_tensor))

    def reserve(self, count: int) -> None:
        """Room for more values: a list makes it by itself."""
        if count < 0:
            raise InputError(f"the count is {count}, expected at least 0")

    def shrink_to_fit(self) -> None:
        """Give back room: a list does so by itself."""

    def element_type_at(self, idx: int) -> int:
        """ONNX's number of the element type of one value."""
        return self[idx].element_type()

    def bool_tensor_indices(self) -> list[int]:
        """Which of the values are truth values."""
        return [index for index, value in enumerate(self) if value.data_type() == "tensor(bool)"]

    def dlpack_at(self, idx: int) -> Any:
        """One value as a DLPack capsule."""
        return self[idx].to_dlpack()

    def to_dlpacks(self, to_tensor: Any) -> list[Any]:
        """All values as DLPack capsules, or what a function makes of these."""
        capsules = [value.to_dlpack() for value in self]
        return capsules if to_tensor is None else [to_tensor(capsule) for capsule in capsules]


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Overwrite the arrays of some values with those of others."""
    if stream is not None:
        raise UnsupportedError("the CPU has no streams")
    if len(src) != len(dst):
        raise InputError(f"{len(src)} values to copy into {len(dst)}, expected as many")
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source)
