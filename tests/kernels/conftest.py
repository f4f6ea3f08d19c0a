"""Single-operator models run by the native engine, with no host node, and judged by the reference and ONNX Runtime."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model

Array = np.ndarray[Any, Any]
Judge = Callable[..., Model]


def single_node(
    op: str,
    shapes: Mapping[str, tuple[Any, Sequence[int | str]]],
    attributes: Mapping[str, Any] | None = None,
    constants: Mapping[str, Array] | None = None,
    outputs: Sequence[tuple[str, Any]] = (("y", np.float32),),
    order: Sequence[str] | None = None,
    opset: int = 21,
) -> onnx.ModelProto:
    """A model of one node; `shapes` gives the dtype and shape of each input, `constants` the initializers."""
    kept = dict(constants or {})
    names = list(order) if order is not None else [*shapes, *kept]
    node = helper.make_node(op, names, [name for name, _ in outputs], **(attributes or {}))
    graph = helper.make_graph(
        [node],
        op,
        [helper.make_tensor_value_info(name, _number(dtype), shape) for name, (dtype, shape) in shapes.items()],
        [helper.make_tensor_value_info(name, _number(dtype), None) for name, dtype in outputs],
        [numpy_helper.from_array(array, name) for name, array in kept.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def _number(dtype: Any) -> int:
    return TensorProto.BFLOAT16 if str(dtype) == "bfloat16" else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


@pytest.fixture
def make_model() -> Callable[..., onnx.ModelProto]:
    """`single_node`, for tests."""
    return single_node


@pytest.fixture
def judge() -> Judge:
    """A function that runs a model natively on several feeds and compares with the reference and ONNX Runtime."""
    return run_and_compare


def run_and_compare(
    model: onnx.ModelProto,
    feeds: Sequence[Mapping[str, Array]],
    *,
    ort: bool = True,
    exact: bool = True,
    threads: int = 2,
) -> Model:
    native, reference = load(model, engine="native", strict=True, threads=threads), load(model, engine="reference")
    session = _ort(model) if ort else None
    for feed in feeds:
        got, expected = native.run(feed), reference.run(feed)
        for name, array in expected.items():
            _compare(got[name], array, exact, name)
        if session is not None:
            for name, array in zip(expected, session.run(None, dict(feed)), strict=True):
                _compare(got[name], array, exact, f"{name} by ONNX Runtime")
    return native


def _ort(model: onnx.ModelProto) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _compare(got: Array, expected: Array, exact: bool, name: str) -> None:
    assert got.dtype == expected.dtype, name
    assert got.shape == expected.shape, name
    if exact or got.dtype.kind not in "fV":
        np.testing.assert_array_equal(got, expected, err_msg=name)
    else:
        np.testing.assert_allclose(
            got.astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=1e-6, err_msg=name
        )
