"""Values and bindings, beside those of ONNX Runtime."""

from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto

import intaglio
from intaglio import compat
from intaglio.compat.types import TypeHelper

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
TEXT = (
    '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3] x) => (float[n, 3] y, int64[2] s) '
    "{ y = Neg(x) s = Shape(x) }"
)
BYTES = onnx.parser.parse_model(TEXT).SerializeToString()
BOTH = pytest.mark.parametrize("package", [compat, onnxruntime], ids=["intaglio", "onnxruntime"])


def session(package: Any) -> Any:
    return package.InferenceSession(BYTES, providers=["CPUExecutionProvider"])


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, np.bool_, np.float16])
def test_what_a_value_says_of_itself(package: Any, dtype: Any) -> None:
    array = np.ones((2, 3), dtype)
    value = package.OrtValue.ortvalue_from_numpy(array)
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    assert (value.shape(), value.element_type(), value.tensor_size_in_bytes()) == ([2, 3], number, array.nbytes)
    assert (value.device_name(), value.has_value(), value.data_ptr()) == ("cpu", True, array.ctypes.data)
    assert (value.is_tensor(), value.is_sparse_tensor(), value.is_tensor_sequence()) == (True, False, False)
    np.testing.assert_array_equal(value.numpy(), array)
    np.testing.assert_array_equal(np.asarray(value), array)
    assert value.__dlpack_device__() == (1, 0)


@BOTH
def test_a_value_shares_the_memory_of_its_array(package: Any) -> None:
    array = X.copy()
    value = package.OrtValue.ortvalue_from_numpy(array)
    array[0, 0] = 77
    assert value.numpy()[0, 0] == 77
    value.update_inplace(np.full((2, 3), 5, np.float32))
    assert array[1, 2] == 5
    value.update_inplace(package.OrtValue.ortvalue_from_numpy(X))
    np.testing.assert_array_equal(array, X)


@BOTH
def test_values_of_a_shape_and_of_other_types(package: Any) -> None:
    value = package.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    assert (value.shape(), value.data_type()) == ([2, 3], "tensor(float)")
    value = package.OrtValue.ortvalue_from_shape_and_type([4], TensorProto.BFLOAT16)
    assert (value.shape(), value.data_type(), value.element_type()) == ([4], "tensor(bfloat16)", 16)
    bits = np.array([1, 2], np.uint16)
    value = package.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    assert (value.data_type(), value.data_ptr()) == ("tensor(bfloat16)", bits.ctypes.data)
    made = session(package).create_ortvalue_from_shape_and_type([1, 2], np.int64, "cpu")
    assert made.data_type() == "tensor(int64)"


@BOTH
def test_values_come_and_go_by_dlpack(package: Any) -> None:
    array = X.copy()
    value = package.OrtValue.from_dlpack(array)
    assert value.data_ptr() == array.ctypes.data
    assert np.shares_memory(np.from_dlpack(value), array)
    again = package.OrtValue.from_dlpack(value.__dlpack__())
    assert again.data_ptr() == array.ctypes.data


def test_truth_values_come_by_dlpack_too() -> None:
    assert compat.OrtValue.from_dlpack(np.array([True])).data_type() == "tensor(bool)"


def test_values_are_copied() -> None:
    target = compat.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    compat.copy_tensors([compat.OrtValue.ortvalue_from_numpy(X)], [target])
    np.testing.assert_array_equal(target.numpy(), X)


def test_what_a_value_cannot_do_is_refused() -> None:
    value = compat.OrtValue.ortvalue_from_numpy(X.copy())
    refusals: list[Any] = [
        lambda: compat.OrtValue.ortvalue_from_numpy(X, "cuda"),
        lambda: compat.OrtValue.ortvalue_from_numpy(X, "cpu", 1),
        lambda: compat.OrtValue.ortvalue_from_numpy(X, "cpu", 0, 0x10DE),
        lambda: compat.OrtValue.ortvalue_from_shape_and_type([1], np.float32, memory_info=3),  # pyright: ignore[reportArgumentType]
        lambda: compat.OrtValue.ortvalue_from_shape_and_type([1], 1000),
        lambda: compat.OrtValue.ortvalue_from_shape_and_type([1], "no type"),
        lambda: compat.OrtValue.ortvalue_from_numpy_with_onnx_type(X, TensorProto.BFLOAT16),
        lambda: compat.OrtValue.ort_value_from_sparse_tensor(None),
        lambda: compat.OrtValue.from_dlpack(object()),
        value.as_sparse_tensor,
        lambda: value.__dlpack__(stream=3),
        lambda: value.update_inplace(X[:1]),
        lambda: value.update_inplace(X.astype(np.float64)),
        lambda: compat.OrtValue([X]).data_ptr(),
        lambda: compat.copy_tensors([value], []),
        lambda: compat.copy_tensors([value], [value], stream=1),
        lambda: compat.OrtDevice.make("cuda", 0),
        lambda: compat.OrtMemoryInfo("Cuda"),
    ]
    for refused in refusals:
        with pytest.raises(compat.Fail):
            refused()


def test_values_that_are_no_tensors() -> None:
    assert compat.OrtValue([X]).data_type() == "seq(tensor(float))"
    assert compat.OrtValue([X]).is_tensor_sequence()
    assert compat.OrtValue({"a": 1.5}).data_type() == "map(string,tensor(double))"
    assert not compat.OrtValue(None).has_value()


@BOTH
def test_memory_by_address_is_read_and_written(package: Any) -> None:
    x, y, s = X.copy(), np.zeros((2, 3), np.float32), np.zeros(2, np.int64)
    made = session(package)
    binding = made.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, [2, 3], x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, [2, 3], y.ctypes.data)
    binding.bind_output("s", "cpu", 0, TensorProto.INT64, [2], s.ctypes.data)
    for factor in (1, 3):
        x[:] = X * factor
        made.run_with_iobinding(binding)
        np.testing.assert_array_equal(y, -X * factor)
        assert s.tolist() == [2, 3]
    copies = binding.copy_outputs_to_cpu()
    y[:] = 0
    np.testing.assert_array_equal(copies[0], -X * 3)
    assert binding.get_outputs()[0].data_ptr() == y.ctypes.data


@BOTH
def test_values_are_bound(package: Any) -> None:
    made = session(package)
    binding = made.io_binding()
    target = package.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding.bind_ortvalue_input("x", package.OrtValue.ortvalue_from_numpy(X))
    binding.bind_ortvalue_output("y", target)
    binding.bind_output("s", "cpu")
    binding.synchronize_inputs()
    made.run_with_iobinding(binding)
    binding.synchronize_outputs()
    np.testing.assert_array_equal(target.numpy(), -X)
    assert binding.copy_outputs_to_cpu()[1].tolist() == [2, 3]
    assert len(binding.get_outputs_as_ortvaluevector()) == 2
    binding.clear_binding_outputs()
    binding.bind_output("s")
    binding.clear_binding_inputs()
    binding.bind_cpu_input("x", X[:1])
    made.run_with_iobinding(binding)
    assert [array.tolist() for array in binding.copy_outputs_to_cpu()] == [[1, 3]]


@pytest.mark.parametrize(
    ("bind", "words"),
    [
        (lambda b: b.bind_output("q"), "no output 'q'"),
        (lambda b: b.bind_cpu_input("q", X), "no input 'q'"),
        (lambda b: b.bind_output("y", "cuda"), "'cuda'"),
        (lambda b: b.bind_output("y", "cpu", 1), "one CPU"),
        (lambda b: b.bind_input("x", "gpu", 0, np.float32, [2, 3], 1), "'gpu'"),
        (lambda b: b.bind_output("y", buffer_ptr=X.ctypes.data), "element_type"),
        (lambda b: b.bind_output("y", "cpu", 0, np.float32, [-1], X.ctypes.data), "negative"),
        (lambda b: b.bind_output("y", "cpu", 0, np.float32, [2, 3], 0), "address"),
        (lambda b: b.bind_output("y", "cpu", 0, np.str_, [2, 3], X.ctypes.data), "strings"),
    ],
)
def test_what_cannot_be_bound_is_refused(bind: Any, words: str) -> None:
    with pytest.raises(compat.Fail, match=words):
        bind(session(compat).io_binding())


@pytest.mark.parametrize(
    ("element_type", "shape", "is_memory"),
    [
        (np.float32, [2, 2], True),
        (np.float64, [2, 3], True),
        (np.float32, [2, 2], False),
        (np.float64, None, False),
        (None, [1, 3], False),
    ],
)
def test_an_output_that_does_not_fit_its_binding_is_refused(element_type: Any, shape: Any, is_memory: bool) -> None:
    made, memory = session(compat), np.full(12, 9, np.float64)
    binding = made.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y", "cpu", 0, element_type, shape, memory.ctypes.data if is_memory else None)
    with pytest.raises(compat.InvalidArgument, match="'y'"):
        made.run_with_iobinding(binding)
    assert set(memory) == {9}


def test_a_binding_without_outputs_or_of_another_session_is_refused() -> None:
    made, other = session(compat), session(compat)
    binding = made.io_binding()
    binding.bind_cpu_input("x", X)
    with pytest.raises(compat.InvalidArgument, match="no output is bound"):
        made.run_with_iobinding(binding)
    with pytest.raises(compat.InvalidArgument, match="another session"):
        other.run_with_iobinding(binding)


def test_options_hold_for_bound_runs() -> None:
    made, options = session(compat), compat.RunOptions()
    binding = made.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    options.terminate = True
    with pytest.raises(compat.Fail, match="terminate"):
        made.run_with_iobinding(binding, options)


@BOTH
def test_the_binding_of_the_inner_class(package: Any) -> None:
    made = session(package)
    binding = package.SessionIOBinding(made._sess)
    y = np.zeros((2, 3), np.float32)
    device = package.OrtDevice.make("cpu", 0)._get_c_device()
    binding.bind_input("x", X)
    binding.bind_output("y", device, np.float32, [2, 3], y.ctypes.data)
    binding.bind_output("s", device)
    made._sess.run_with_iobinding(binding, None)
    np.testing.assert_array_equal(y, -X)
    assert binding.get_outputs()[1].numpy().tolist() == [2, 3]


@BOTH
def test_a_run_in_another_thread_calls_back(package: Any) -> None:
    made, done, seen = session(package), threading.Event(), list[Any]()

    def tell(results: Any, data: Any, error: str) -> None:
        seen.append((results, data, error, threading.current_thread() is threading.main_thread()))
        done.set()

    for feed in (X, X[:, :2]):
        done.clear()
        made.run_async(["y"], {"x": feed}, tell, "mine")
        assert done.wait(60)
    (results, data, error, is_main), (none, _, message, _) = seen
    np.testing.assert_array_equal(results[0], -X)
    assert (data, error, is_main) == ("mine", "", False)
    assert list(none) == []
    assert "3" in message


def test_values_in_a_row() -> None:
    made = session(compat)
    y = compat.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    fetches = compat.OrtValueVector([y])
    fetches.reserve(4)
    device = compat.OrtDevice.make("cpu", 0)
    made.run_with_ortvaluevector(
        None, ["x"], [compat.OrtValue.ortvalue_from_numpy(X)], ["y", "s"], fetches, [device, device]
    )
    np.testing.assert_array_equal(y.numpy(), -X)
    assert (fetches[1].numpy().tolist(), fetches.element_type_at(1)) == ([2, 3], 7)
    fetches.push_back(np.array([True]).__dlpack__(), is_bool_tensor=True)
    fetches.shrink_to_fit()
    assert fetches.bool_tensor_indices() == [2]
    assert np.from_dlpack(compat.OrtValue.from_dlpack(fetches.dlpack_at(0))).shape == (2, 3)
    assert len(fetches.to_dlpacks(None)) == 3
    with pytest.raises(intaglio.UnsupportedError, match="'cuda'"):
        made.run_with_ortvaluevector(None, ["x"], [y], ["y"], fetches, ["cuda"])


@pytest.mark.parametrize("name", ["float", "double", "int64", "bool", "uint8", "float16", "int32", "int8"])
def test_names_of_types(name: str) -> None:
    pytest.importorskip("torch", reason="ONNX Runtime's own helper imports it")
    from onnxruntime.transformers.io_binding_helper import TypeHelper as Real

    text = f"tensor({name})"
    assert TypeHelper.ort_type_to_numpy_type(text) is np.dtype(Real.ort_type_to_numpy_type(text)).type
    assert TypeHelper.ort_type_to_onnx_type(text) == Real.ort_type_to_onnx_type(text)
    assert TypeHelper.get_input_type(session(compat), "x") == "tensor(float)"
    with pytest.raises(ValueError, match="tensor"):
        TypeHelper.ort_type_to_numpy_type("map")


def test_bfloat16_arrays_are_values() -> None:
    value = compat.OrtValue.ortvalue_from_numpy(np.ones(3, ml_dtypes.bfloat16))
    assert (value.element_type(), value.tensor_size_in_bytes()) == (16, 6)
