"""TensorProto to arrays and back, judged by onnx.numpy_helper."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from intaglio.errors import LoadError
from intaglio.ir.dtype import DTYPES, NUMBERED, STRING, DType
from intaglio.onnx.external import ExternalData
from intaglio.onnx.tensors import pack, read_sparse, read_tensor, unpack
from intaglio.onnx.write_tensors import TensorWriter

NOWHERE = ExternalData(None)
DEFINED = set(TensorProto.DataType.values())
"""The element types of the installed onnx: those of 6 bits came with 1.23."""

NUMERIC = [dtype for dtype in DTYPES.values() if dtype is not STRING and dtype.number in DEFINED]


def random_bits(dtype: DType, count: int, seed: int = 0) -> np.ndarray:
    """Elements of any bit pattern that the type has."""
    numbers = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return numbers.integers(0, 2, count).astype(bool)
    if dtype.bits < 8:
        return numbers.integers(0, 2**dtype.bits, count).astype(np.uint8).view(dtype.numpy)
    return np.frombuffer(numbers.bytes(count * dtype.itemsize), dtype.numpy)


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def test_every_element_type_of_onnx_is_known() -> None:
    assert {number for number in DEFINED if number} <= set(NUMBERED)
    for number, dtype in NUMBERED.items():
        if number in DEFINED:
            assert helper.tensor_dtype_to_np_dtype(number) == dtype.numpy


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 5), (7, 0, 2)])
@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_raw_data_reads_as_numpy_helper_reads_it(dtype: DType, shape: tuple[int, ...]) -> None:
    array = random_bits(dtype, int(np.prod(shape))).reshape(shape)
    proto = TensorWriter().write("t", array)
    read = read_tensor(proto, NOWHERE)
    assert read.shape == shape
    assert read.dtype == dtype.numpy
    assert bits(read) == bits(array) == bits(numpy_helper.to_array(proto))


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_raw_data_is_written_as_onnx_writes_it(dtype: DType) -> None:
    array = random_bits(dtype, 7)
    assert TensorWriter().write("t", array).raw_data == numpy_helper.from_array(array).raw_data


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_typed_fields_read_as_numpy_helper_reads_them(dtype: DType) -> None:
    array = np.asarray([0, 1, 1, 0, 1], dtype.numpy)
    proto = helper.make_tensor("t", dtype.number, [5], array)
    assert not proto.HasField("raw_data")
    assert bits(read_tensor(proto, NOWHERE)) == bits(numpy_helper.to_array(proto)) == bits(array)


@pytest.mark.parametrize("bad", [300, -200])
def test_typed_integer_out_of_range_is_refused(bad: int) -> None:
    proto = TensorProto(name="t", data_type=TensorProto.INT8, dims=[1], int32_data=[bad])
    with pytest.raises(LoadError, match="out of its range"):
        read_tensor(proto, NOWHERE)


def test_strings_survive_even_when_they_are_not_utf8() -> None:
    proto = TensorProto(name="t", data_type=TensorProto.STRING, dims=[2], string_data=["é".encode(), b"a\xff"])
    array = read_tensor(proto, NOWHERE)
    assert array.dtype == object
    assert array[0] == "é"
    assert list(TensorWriter().write("t", array).string_data) == ["é".encode(), b"a\xff"]


def test_raw_data_is_not_copied_and_read_only() -> None:
    array = read_tensor(numpy_helper.from_array(np.arange(5.0)), NOWHERE)
    assert not array.flags.owndata
    assert not array.flags.writeable


@given(st.sampled_from([2, 4, 6]), st.integers(0, 40), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_unpack_inverts_pack(width: int, count: int, seed: int) -> None:
    dtype = {2: DTYPES["uint2"], 4: DTYPES["float4e2m1"], 6: DTYPES["float6e3m2"]}[width]
    array = random_bits(dtype, count, seed)
    packed = np.frombuffer(pack(array, dtype), np.uint8)
    assert packed.size == -(-count * width // 8)
    assert bits(unpack(packed, dtype, count)) == bits(array)


def sparse_proto(values: np.ndarray, indices: np.ndarray, dims: list[int]):
    return helper.make_sparse_tensor(
        numpy_helper.from_array(values, "s"), numpy_helper.from_array(indices.astype(np.int64), "i"), dims
    )


@pytest.mark.parametrize(
    ("indices", "dims"), [([1, 5], [6]), ([1, 5], [2, 3]), ([[0, 1], [1, 2]], [2, 3]), ([], [2, 3])]
)
def test_sparse_tensors_become_dense(indices: list, dims: list[int]) -> None:
    where = np.asarray(indices, np.int64)
    values = np.asarray([7.0, 8.0][: len(indices)], np.float32)
    dense = read_sparse(sparse_proto(values, where, dims), NOWHERE, 1000)
    expected = np.zeros(6, np.float32)
    expected[[1, 5][: len(indices)]] = values
    np.testing.assert_array_equal(dense, expected.reshape(dims))


def test_sparse_strings_are_empty_between() -> None:
    proto = helper.make_sparse_tensor(
        helper.make_tensor("s", TensorProto.STRING, [1], np.array(["a"], object)),
        numpy_helper.from_array(np.asarray([1]), "i"),
        [3],
    )
    assert read_sparse(proto, NOWHERE, 1000).tolist() == ["", "a", ""]


def test_bfloat16_keeps_nan_payload() -> None:
    array = np.frombuffer(b"\xc1\x7f\x81\xff", ml_dtypes.bfloat16)
    assert bits(read_tensor(TensorWriter().write("t", array), NOWHERE)) == b"\xc1\x7f\x81\xff"
