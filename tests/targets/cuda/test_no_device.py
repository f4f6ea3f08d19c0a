"""What a machine without a CUDA device says."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import intaglio
from intaglio import backend
from intaglio.errors import DeviceError, InputError, UnsupportedError
from intaglio.targets import cuda_devices

NO_DEVICE = pytest.mark.skipif(bool(cuda_devices()), reason="there is a CUDA device here")


def _model() -> bytes:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


@NO_DEVICE
def test_a_missing_driver_is_named() -> None:
    with pytest.raises(DeviceError, match=r"no NVIDIA driver is installed here .*use device='cpu'"):
        intaglio.load(_model(), device="cuda")


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "CUDA", ""])
def test_devices_of_other_names_are_refused(device: str) -> None:
    with pytest.raises(InputError, match="the devices are 'cpu', 'cuda' and 'cuda:NUMBER'"):
        intaglio.load(_model(), device=device)


def test_the_reference_engine_knows_no_device() -> None:
    with pytest.raises(InputError, match="the reference engine runs on the processor"):
        intaglio.load(_model(), engine="reference", device="cuda")


def test_the_processor_is_a_device_by_name() -> None:
    model = intaglio.load(_model(), device="cpu")
    assert model(np.array([-1, 2], np.float32)).tolist() == [0, 2]


@NO_DEVICE
def test_the_backend_is_honest_about_devices() -> None:
    import onnx

    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    assert not backend.supports_device("CUDA:1")
    with pytest.raises(UnsupportedError, match="the device 'CUDA' is not supported; the devices here are CPU"):
        backend.prepare(onnx.load_from_string(_model()), "CUDA")
