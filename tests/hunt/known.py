"""What judges are known to get wrong. A model with such a node is not shown to that judge."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from tests.ops.matrix_judges import DISTRUSTED

NAN_LOSERS = ("ReduceMax", "ReduceMin", "ReduceLogSumExp", "MaxPool", "GlobalMaxPool", "TopK", "ArgMax", "ArgMin")

WRONG: tuple[tuple[str, str, str, str], ...] = (
    *((judge, operator.partition("-")[0], "", reason) for judge, operator, _, reason in DISTRUSTED),
    ("evaluator", "GlobalMaxPool", "", "reduces the channels of inputs with one spatial axis"),
    *(("evaluator", operator, "", "does not heed the lengths of sequences") for operator in ("GRU", "LSTM", "RNN")),
    ("evaluator", "LpNormalization", "", "takes no absolute values for odd p"),
    *(("runtime", operator, "SPECIAL", "may lose NaN") for operator in NAN_LOSERS),
    ("runtime", "Clip", "SPECIAL", "makes infinities the largest finite number where a bound is left out"),
    ("runtime", "Resize", "SPECIAL", "multiplies infinities with weights of zero"),
    ("evaluator", "OneHot", "", "adds and subtracts the values instead of choosing one"),
    ("evaluator", "", "DOUBLE", "computes many operators in single precision"),
    ("runtime", "Gelu", "DOUBLE", "computes with factors in single precision"),
    ("runtime", "Shrink", "DOUBLE", "computes in single precision"),
    ("runtime", "DFT", "DOUBLE", "computes with angles in single precision"),
    ("runtime", "Attention", "DOUBLE", "computes with a scale in single precision"),
    ("runtime", "GroupNormalization", "DOUBLE", "computes in single precision, as its stash_type says"),
    ("runtime", "Softmax", "DOUBLE", "sums rows one element after the other"),
    ("runtime", "Cast", "SPECIAL", "casts what is not finite as the processor does"),
    ("evaluator", "MatMulInteger", "", "takes zero points of rows as those of columns"),
    ("runtime", "Sigmoid", "DOUBLE", "is off by tens of units in the last place"),
)
"""The judge, the operator, an element type (SPECIAL for numbers that are not finite), the fault; empty for any."""


def distrusted(judge: str, model: onnx.ModelProto, is_special: bool) -> str:
    """Why a judge may not judge a model, in which numbers may be not finite; empty where it may."""
    operators = {node.op_type for node in all_nodes(model.graph)}
    types = element_types(model.graph) | ({"SPECIAL"} if is_special else set())
    for by, operator, kind, reason in WRONG:
        if by == judge and (not operator or operator in operators) and (not kind or kind in types):
            return reason
    return ""


def element_types(graph: onnx.GraphProto) -> set[str]:
    """The element types of inputs and constants."""
    numbers = [info.type.tensor_type.elem_type for info in graph.input] + [item.data_type for item in graph.initializer]
    return {onnx.TensorProto.DataType.Name(number) for number in numbers}


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of the bodies in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g)


def captured(node: onnx.NodeProto) -> list[str]:
    """What the bodies of a node read from outside."""
    found: list[str] = []
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            found += _free_names(attribute.g)
    return found


def _free_names(graph: onnx.GraphProto) -> list[str]:
    known = {item.name for item in (*graph.input, *graph.initializer)}
    found = []
    for node in graph.node:
        found += [name for name in (*node.input, *captured(node)) if name and name not in known]
        known |= set(node.output)
    return found + [info.name for info in graph.output if info.name not in known]
