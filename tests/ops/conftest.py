"""ONNX Runtime and the ONNX reference evaluator as judges of single operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph

Judge = Callable[..., list[Any]]


@pytest.fixture
def b() -> Builder:
    """A builder of an empty graph."""
    return Builder(Graph())


def single_node_model(
    operator: str, inputs: Sequence[Any], opset: int, domain: str, outputs: int, attributes: dict[str, Any]
) -> onnx.ModelProto:
    names = ["" if array is None else f"input_{position}" for position, array in enumerate(inputs)]
    results = [f"output_{position}" for position in range(outputs)]
    node = helper.make_node(operator, names, results, domain=domain, **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, inputs, strict=True)
        if array is not None
    ]
    graph = helper.make_graph([node], "single", infos, [onnx.ValueInfoProto(name=name) for name in results])
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def feeds(inputs: Sequence[Any]) -> dict[str, Any]:
    return {f"input_{position}": array for position, array in enumerate(inputs) if array is not None}


@pytest.fixture
def runtime() -> Judge:
    """runtime("Add", a, b, opset=21, outputs=1, **attributes): the outputs that ONNX Runtime computes."""

    def judge(
        operator: str,
        *inputs: Any,
        opset: int = 21,
        domain: str = "",
        outputs: int = 1,
        attributes: dict[str, Any] | None = None,
        **named: Any,
    ) -> list[Any]:
        model = single_node_model(operator, inputs, opset, domain, outputs, {**(attributes or {}), **named})
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return list(session.run(None, feeds(inputs)))

    return judge


@pytest.fixture
def evaluator() -> Judge:
    """evaluator("Add", a, b, opset=26, outputs=1, **attributes): the outputs of ONNX's reference evaluator."""

    def judge(operator: str, *inputs: Any, opset: int = 26, outputs: int = 1, **attributes: Any) -> list[Any]:
        model = single_node_model(operator, inputs, opset, "", outputs, attributes)
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(model).run(None, feeds(inputs)))

    return judge
