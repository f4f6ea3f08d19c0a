"""Every operator of a broad table, on generated inputs, against ONNX Runtime.

What ONNX Runtime does not implement is judged by ONNX's reference evaluator. Who judged how many cases is recorded with
each test and printed (`pytest -rP`); an operator that is hardly judged at all fails.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplementedInOnnxRuntime

from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

from . import agreement_layers as agreement_layers
from .agreement_cases import MAKERS, Case, case_strategy

OPSETS = {"RMSNormalization": 23}
"""The operator set of each operator; 21 is where ONNX Runtime implements most."""
OLDER_FAULTS: dict[str, Callable[[Case], bool]] = {
    "Conv": lambda case: case.attributes.get("auto_pad", "NOTSET") != "NOTSET",  # pads one axis as another
    "OneHot": lambda case: bool(
        np.any(np.abs(case.inputs[0] + 0.5) > case.inputs[1])
    ),  # out of range: modulo the depth
}
"""What ONNX's evaluator of version 1.20 gets wrong, so that it does not judge these cases."""
EVALUATOR_FAULTS = OLDER_FAULTS if onnx.__version__.startswith("1.20.") else {}
QUICK, LONG = 15, 300
EVERY_HEALTH_CHECK = cast("list[HealthCheck]", list(HealthCheck))
STEPS = {"float64": 1e-6, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""How far elementwise results may differ, relative to their size."""

REFUSALS = (NotImplementedInOnnxRuntime, InvalidGraph, Fail, InvalidArgument, RuntimeError)
"""How ONNX Runtime says no; RuntimeError for bfloat16, which it cannot make a NumPy array of."""

Feeds = dict[str, Any]


def model_of(case: Case) -> tuple[onnx.ModelProto, Feeds]:
    names = ["" if array is None else f"x{i}" for i, array in enumerate(case.inputs)]
    while names and not names[-1]:
        names.pop()
    feeds = {f"x{i}": array for i, array in enumerate(case.inputs) if array is not None}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in feeds.items()
    ]
    results = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.operator, names, results, **case.attributes)
    graph = helper.make_graph([node], case.operator, infos, [onnx.ValueInfoProto(name=name) for name in results])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSETS.get(case.operator, 21))], ir_version=10
    ), feeds


def ask_runtime(model: onnx.ModelProto, feeds: Feeds) -> list[Any] | None:
    """What ONNX Runtime computes; None where it does not take the operator, its types or its sizes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return list(session.run(None, feeds))
    except REFUSALS:
        return None


def ask_evaluator(model: onnx.ModelProto, feeds: Feeds) -> list[Any] | None:
    """What ONNX's reference evaluator computes; None where it fails."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(item) for item in ReferenceEvaluator(model).run(None, feeds)]
        except Exception:  # it fails in many ways on inputs that are valid
            return None


def compare(case: Case, ours: Any, theirs: Any) -> None:
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    step = STEPS.get(str(ours.dtype))
    if step is None:
        np.testing.assert_array_equal(ours, theirs)
        return
    rtol = max(step, case.rtol)
    ours, theirs = (array.astype(np.float64) for array in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)


def judge(case: Case) -> str:
    """Who judged the case; raises AssertionError where we differ."""
    model, feeds = model_of(case)
    graph = read_model(model).graph
    ours = evaluate(graph, [feeds[value.name] for value in graph.inputs])
    judges: dict[str, Callable[..., Any]] = {"onnxruntime": ask_runtime, "evaluator": ask_evaluator}
    if EVALUATOR_FAULTS.get(case.operator, lambda case: False)(case):
        del judges["evaluator"]
    for name, ask in judges.items():
        theirs = ask(model, feeds)
        if theirs is None:
            continue
        for mine, other in zip(ours, theirs, strict=True):
            compare(case, mine, np.asarray(other))
        return name
    return "nobody"


def check_operator(operator: str, count: int, record: Callable[[str, Any], None]) -> None:
    judges: Counter[str] = Counter()

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=EVERY_HEALTH_CHECK,
    )
    @given(case_strategy(operator))
    def check(case: Case) -> None:
        judges[judge(case)] += 1

    check()
    record("judges", dict(judges))
    print(operator, dict(judges))
    assert judges["nobody"] <= judges.total() / 2, judges


@pytest.mark.parametrize("operator", sorted(MAKERS))
def test_agrees(operator: str, record_property: Callable[[str, Any], None]) -> None:
    check_operator(operator, QUICK, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("operator", sorted(MAKERS))
def test_agrees_on_many(operator: str, record_property: Callable[[str, Any], None]) -> None:
    check_operator(operator, LONG, record_property)
