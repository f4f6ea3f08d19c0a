"""Tensors of PyTorch in and out of models: the same memory, every type, any strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser

import intaglio
from intaglio.runtime.model.tensors import array_of, has_tensor, tensor_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128", "bool"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3)])
def test_the_memory_is_the_same_both_ways(name: str, shape: tuple[int, ...]) -> None:
    tensor = torch.ones(shape).to(getattr(torch, name))
    array = array_of(tensor)
    assert array.ctypes.data == tensor.data_ptr() or tensor.numel() == 0
    assert array.shape == shape
    back = tensor_of(array)
    assert back.dtype == tensor.dtype
    assert back.shape == tensor.shape
    assert back.data_ptr() == tensor.data_ptr()


def test_strides_survive() -> None:
    tensor = torch.arange(120.0).reshape(2, 3, 4, 5)
    for view in (tensor.to(memory_format=torch.channels_last), tensor[:, ::2], tensor.permute(3, 1, 0, 2)):
        array = array_of(view)
        assert array.ctypes.data == view.data_ptr()
        np.testing.assert_array_equal(array, view.tolist())


def test_lazy_views_are_resolved() -> None:
    values = torch.tensor([1 + 2j, 3 - 1j])
    np.testing.assert_array_equal(array_of(values.conj()), [1 - 2j, 3 + 1j])
    np.testing.assert_array_equal(array_of(values.conj().imag), [-2, 1])


def make(text: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')


@pytest.fixture(params=["native", "reference"])
def model(request: pytest.FixtureRequest) -> intaglio.Model:
    text = "g (float[n, m] x, float[n, m] z) => (float[n, m] y, float s) { y = Add(x, z) s = ReduceSum<keepdims=0>(y) }"
    return intaglio.load(make(text), engine=request.param)


def test_tensors_give_tensors(model: intaglio.Model) -> None:
    x, z = torch.rand(2, 3), torch.rand(2, 3)
    for _ in range(2):
        y, s = model(x, z)
        assert isinstance(y, torch.Tensor)
        assert isinstance(s, torch.Tensor)
        assert s.shape == ()
        torch.testing.assert_close(y, x + z)
    named = model.run({"x": x, "z": z})
    torch.testing.assert_close(named["s"], (x + z).sum())
    torch.testing.assert_close(model(x, z=z)[0], x + z)


def test_one_tensor_is_enough_and_arrays_give_arrays(model: intaglio.Model) -> None:
    x, z = torch.rand(2, 3), torch.rand(2, 3)
    assert isinstance(model(x.numpy(), z)[0], torch.Tensor)
    assert isinstance(model(x.numpy(), z.numpy())[0], np.ndarray)
    assert not has_tensor([x.numpy(), [z.numpy()]])
    assert has_tensor([[x]])


def test_tensors_with_strides_and_gradients(model: intaglio.Model) -> None:
    x = torch.rand(3, 2, requires_grad=True)
    z = torch.rand(2, 6)[:, ::2]
    y, _ = model(x.t(), z)
    assert not y.requires_grad
    torch.testing.assert_close(y, (x.t() + z).detach())


def test_outputs_belong_to_the_caller(model: intaglio.Model) -> None:
    x, z = torch.rand(2, 3), torch.rand(2, 3)
    first, _ = model(x, z)
    kept = first.clone()
    model(x * 2, z)
    first += 0  # writable
    torch.testing.assert_close(first, kept)


def test_sequences_of_tensors() -> None:
    text = "g (seq(float[n]) xs) => (seq(float[n]) ys) { ys = Identity(xs) }"
    found = intaglio.load(make(text))([torch.ones(2), torch.zeros(2)])
    assert [item.tolist() for item in found] == [[1, 1], [0, 0]]
    assert all(isinstance(i, torch.Tensor) for i in found)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_tensors_without_elements_lie_as_those_of_pytorch(engine: str, fresh: None) -> None:
    def program(x: Any) -> Any:
        return torch.nn.functional.softplus(x).view(torch.int16)

    compiled = torch.compile(program, backend="intaglio", options={"engine": engine}, dynamic=True)
    for rows in (3, 0, 2):
        x = torch.ones(rows, 1)
        assert compiled(x).stride() == program(x).stride()
        torch.testing.assert_close(compiled(x).view(torch.float32), program(x).view(torch.float32))
