"""The official tests of functions written out in simpler operators, simplified and then judged by their stored data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from onnx.backend.test import loader

from intaglio.ir.text import format_graph, parse_graph
from intaglio.ir.verify import verify
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate
from intaglio.passes import simplify

FAMILIES = (
    "attention_4d",
    "layer_normalization",
    "rms_normalization",
    "gelu",
    "swish",
    "mish",
    "hardswish",
    "softplus",
)


@pytest.fixture(scope="module")
def cases() -> list:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making the official cases overflows on purpose
        found = loader.load_model_tests(kind="node")
    return [case for case in found if case.name.endswith("expanded") and any(part in case.name for part in FAMILIES)]


def _tolerance(array: np.ndarray) -> float:
    return {"float16": 2e-3, "bfloat16": 2**-6}.get(array.dtype.name, 1e-5)


def _faults(case) -> list[str]:
    graph = read_model(case.model).graph
    verify(graph)
    assert format_graph(parse_graph(format_graph(graph))) == format_graph(graph)
    names = [value.name for value in graph.outputs]
    simplify(graph)
    verify(graph)
    assert names == [value.name for value in graph.outputs]
    inputs, expected = case.data_sets[0]
    faults = []
    for name, want, got in zip(names, expected, evaluate(graph, inputs), strict=True):
        scale = _tolerance(want)
        want, got = want.astype(np.float64), got.astype(np.float64)
        if want.shape != got.shape or not np.allclose(got, want, rtol=scale, atol=scale, equal_nan=True):
            faults.append(f"{case.name} {name}")
    return faults


def test_simplified_functions_give_the_stored_results(cases: list) -> None:
    assert len(cases) > 60
    assert [fault for case in cases for fault in _faults(case)] == []


def test_written_out_functions_are_recognised_again(cases: list) -> None:
    remaining = {}
    for case in cases:
        graph = read_model(case.model).graph
        simplify(graph)
        remaining[case.name] = {node.op.name for node in graph.nodes}
    assert remaining["test_mish_expanded"] == {"Mish"}
    assert remaining["test_hardswish_expanded"] == {"HardSwish"}
    assert remaining["test_swish_expanded"] == {"Swish"}
    assert remaining["test_gelu_default_1_expanded"] == {"Gelu"}
    assert remaining["test_gelu_tanh_1_expanded"] == {"Gelu"}
    assert remaining["test_attention_4d_expanded"] == {"Attention"}
    assert remaining["test_rms_normalization_2d_axis1_expanded"] == {"RMSNormalization"}
