"""Nodes in older operator sets: constant inputs that were attributes before, and operators in simpler ones."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from intaglio.emit.export import expand_or_refuse
from intaglio.emit.names import comment
from intaglio.errors import InputError, UnsupportedError
from intaglio.ir.expand import expand_until
from intaglio.ir.graph import Graph, Node
from intaglio.onnx.opsets import minimal_version
from intaglio.onnx.schema import NEWEST, find_schema

OLDEST = 9
"""The oldest operator set that is written."""

_REDUCTIONS = "ReduceMax ReduceMin ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare"

ATTRIBUTES: dict[str, tuple[int, tuple[tuple[str, int], ...]]] = {
    **dict.fromkeys(_REDUCTIONS.split(), (18, (("axes", 1),))),
    "ReduceSum": (13, (("axes", 1),)),
    "Squeeze": (13, (("axes", 1),)),
    "Unsqueeze": (13, (("axes", 1),)),
    "Split": (13, (("split", 1),)),
    "Clip": (11, (("min", 1), ("max", 2))),
    "Pad": (11, (("pads", 1), ("value", 2))),
    "Slice": (10, (("starts", 1), ("ends", 2), ("axes", 3))),
    "TopK": (10, (("k", 1),)),
}
"""Operators whose inputs were attributes before a version: that version, and the attributes with their positions."""


def make_older(graph: Graph, opset: int) -> None:
    """Expand what an operator set does not have; raises UnsupportedError with all nodes for which nothing helps."""
    if not OLDEST <= opset <= NEWEST[""]:
        raise InputError(f"opset {opset} cannot be written; expected {OLDEST} to {NEWEST['']}")
    refused = expand_until(graph, lambda node: is_written(node, opset), expand=expand_or_refuse, bodies=True)
    if refused:
        shown = list(refused)[:20]
        places = [
            f"  {node.op.name} at {comment(str(node.origin))}, which needs {minimal_version(node)}" for node in shown
        ]
        raise UnsupportedError("\n".join([f"opset {opset} is too old for {len(refused)} nodes:", *places]))


def is_written(node: Node, opset: int) -> bool:
    """Whether an operator set has a node, as it is or with constant inputs as attributes."""
    if node.op.domain == "intaglio":
        return False
    if node.op.domain != "" or minimal_version(node) <= opset:
        return True
    since, inputs = ATTRIBUTES.get(node.op.name, (0, ()))
    if node.op.name == "Split" and node.optional(1) is not None and opset >= since:
        return True  # what changed in 18 is about nodes without sizes
    if opset >= since:
        return False
    return _has_attributes(node, inputs, opset)


def _has_attributes(node: Node, inputs: tuple[tuple[str, int], ...], opset: int) -> bool:
    """Whether the inputs of a node are constants that an older version has attributes for."""
    positions = [position for _, position in inputs]
    given = {name: node.inputs[position] for name, position in inputs if node.optional(position) is not None}
    if len(node.inputs) > max(positions) + 1 or any(
        value is None or value.constant is None for value in given.values()
    ):
        return False
    schema = find_schema("", node.op.name, opset)
    if schema is None or not given.keys() <= set(schema.attributes):
        return False
    axes = given.get("axes")
    has_axes = axes is not None and axes.constant is not None and axes.constant.size > 0
    return not getattr(node.op, "num_outputs", None) and (has_axes or not getattr(node.op, "noop_with_empty_axes", 0))


def write_older(model: ModelProto, opset: int) -> None:
    """Write the operator set, and inputs as the attributes that they were in it."""
    for entry in model.opset_import:
        if entry.domain == "":
            entry.version = opset
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in _nodes(model.graph):
        since, inputs = ATTRIBUTES.get(node.op_type, (0, ()))
        if node.domain == "" and opset < since:
            _move_inputs(node, inputs, constants)
    read = {name for node in _nodes(model.graph) for name in node.input} | {value.name for value in model.graph.output}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def _move_inputs(node: NodeProto, inputs: tuple[tuple[str, int], ...], constants: dict[str, onnx.TensorProto]) -> None:
    for name, position in inputs:
        given = node.input[position] if position < len(node.input) else ""
        if given:
            array = numpy_helper.to_array(constants[given])
            is_list = name in ("axes", "split", "pads", "starts", "ends")
            if is_list and array.size == 0 and node.op_type.startswith("Reduce"):
                continue  # no axes are all of them
            item = array.reshape(-1).tolist() if is_list else array.reshape(-1)[0].item()
            kind = onnx.AttributeProto.INTS if is_list else None
            node.attribute.append(helper.make_attribute(name, item, attr_type=kind))
    del node.input[min(position for _, position in inputs) :]
    kept = [attribute for attribute in node.attribute if attribute.name != "noop_with_empty_axes"]
    del node.attribute[:]
    node.attribute.extend(kept)


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
