"""What judges are known to get wrong. A model with such a node is not shown to that judge."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import helper
from tests.ops.matrix_judges import DISTRUSTED

from .shaking import CHOICES, MOVES

NAN_LOSERS = ("ReduceMax", "ReduceMin", "ReduceLogSumExp", "MaxPool", "GlobalMaxPool", "TopK", "ArgMax", "ArgMin")
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
REDUCTIONS = tuple(f"Reduce{name}" for name in _REDUCTIONS)

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
    *(
        ("runtime", operator, "", "is off by hundreds of units in the last place, where a length has large factors")
        for operator in ("STFT", "DFT")
    ),
    *(
        ("runtime", f"TreeEnsemble post_transform={number}", "", "takes softmax for logistic, and logistic for softmax")
        for number in (1, 2)
    ),
    ("evaluator", "TreeEnsemble", "", "heeds neither post_transform nor sets of members"),
    ("runtime", "Attention", "DOUBLE", "computes with a scale in single precision"),
    ("runtime", "GroupNormalization", "DOUBLE", "computes in single precision, as its stash_type says"),
    ("runtime", "Softmax", "DOUBLE", "sums rows one element after the other"),
    ("runtime", "Cast", "SPECIAL", "casts what is not finite as the processor does"),
    ("evaluator", "MatMulInteger", "", "takes zero points of rows as those of columns"),
    ("runtime", "Sigmoid", "DOUBLE", "is off by tens of units in the last place"),
    *(("runtime", operator, "EMPTY", "keeps axes without elements that are reduced") for operator in REDUCTIONS),
    ("runtime", "Attention is_causal=1", "FLOAT16", "moves the causal mask by the length of the past"),
    ("runtime", "Einsum", "EMPTY", "ends the process by a division by zero"),
    *(("evaluator", pool, "SPECIAL", "takes NaN for a margin and leaves it out") for pool in ("AveragePool", "LpPool")),
    ("evaluator", "LogSoftmax", "", "takes the logarithm of a softmax that is 0"),
    ("runtime", "GRU", "EMPTY", "ends the process by an abort where there is no batch"),
    ("runtime", "Swish", "DOUBLE", "is off by tens of units in the last place, as its Sigmoid is"),
    ("runtime", "GridSample", "SPECIAL", "takes places that are not finite as the processor converts them"),
    ("evaluator", "GridSample padding_mode=border", "", "moves places of cubic interpolation to the border first"),
    ("evaluator", "Cast", "SPECIAL", "casts what is not finite as the processor does"),
    ("evaluator", "Resize", "SPECIAL", "multiplies infinities with weights of zero"),
    *(("evaluator", "Resize", kind, "rounds to the nearest integer") for kind in ("UINT8", "INT8", "INT32")),
    (
        "runtime",
        "Resize coordinate_transformation_mode=half_pixel_symmetric",
        "",
        "takes places in single precision, which fall below a whole number that they are",
    ),
    (
        "evaluator",
        "Resize coordinate_transformation_mode=half_pixel_symmetric",
        "",
        "takes places that are halves as some that are a rounding above",
    ),
    *(("runtime", "Resize antialias=1", kind, "rounds after each axis") for kind in ("UINT8", "INT8", "INT32")),
    (
        "evaluator",
        "Resize coordinate_transformation_mode=pytorch_half_pixel",
        "",
        "takes the only element of a new axis from -0.5 instead of 0",
    ),
    ("evaluator", "MaxPool", "", "gives results of a wrong size with pads or ceil_mode"),
    *(
        (judge, f"ScatterElements reduction={name}", "SPECIAL", "may lose NaN")
        for judge in ("evaluator", "runtime")
        for name in ("min", "max")
    ),
    *(("runtime", operator, "SPECIAL", "may lose NaN in its activations") for operator in ("GRU", "LSTM", "RNN")),
    ("runtime", "LRN", "", "adds to a running sum over channels and takes away from it, which leaves errors and NaN"),
)
"""The judge, the operator, an element type (SPECIAL for numbers that are not finite, EMPTY for
arrays without elements), the fault; empty for any.

An operator may have an attribute behind its name.
"""


STEPWISE = frozenset(("FLOAT16", "BFLOAT16"))
"""Types in which ONNX's evaluator rounds after each step inside of an operator, and not once."""
SINGLE_STEPS = MOVES | CHOICES | frozenset(("Add", "Sub", "Mul", "Div", "Sqrt", "Cast", "CastLike"))


def distrusted(judge: str, model: onnx.ModelProto, traits: set[str]) -> str:
    """Why a judge may not judge a model whose inputs and outputs have such traits; empty where it may."""
    operators = {name for node in all_nodes(model.graph) for name in names_of(node)}
    types = element_types(model.graph) | traits
    is_stepwise = any(node.op_type not in SINGLE_STEPS for node in all_nodes(model.graph))
    if judge == "evaluator" and types & STEPWISE and is_stepwise:
        return "rounds after each step"
    if judge == "runtime" and "FLOAT16" in types and len(model.graph.node) > 1 and is_stepwise:
        return "computes chains of nodes in single precision, and rounds at their end"
    for by, operator, kind, reason in WRONG:
        if by == judge and (not operator or operator in operators) and (not kind or kind in types):
            return reason
    return ""


def names_of(node: onnx.NodeProto) -> Iterator[str]:
    """What a node is called in the list of faults: its operator, and that with each attribute of one value."""
    yield node.op_type
    for attribute in node.attribute:
        if attribute.type in (onnx.AttributeProto.INT, onnx.AttributeProto.STRING):
            value = helper.get_attribute_value(attribute)
            yield f"{node.op_type} {attribute.name}={value.decode() if isinstance(value, bytes) else value}"


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
