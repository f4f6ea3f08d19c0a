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
from intaglio.ir.types import TensorType
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


_FLATTENING = frozenset({"Softmax", "LogSoftmax", "Hardmax"})
"""Operators that took all axes from theirs on as one before operator set 13."""


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
    for node in graph.all_nodes():
        if node.op.domain == "" and node.op.name in _FLATTENING and opset < 13:
            node.op = node.op.changed(axis=node.op.axis % node.input.rank)


def is_written(node: Node, opset: int) -> bool:
    """Whether an operator set has a node, as it is or with constant inputs as attributes."""
    if node.op.domain == "intaglio":
        return False
    if node.op.domain != "" or minimal_version(node) <= opset:
        return True
    if _is_unchanged(node, opset):
        return True
    since, inputs = ATTRIBUTES.get(node.op.name, (0, ()))
    if node.op.name == "Split" and node.optional(1) is not None and opset >= since:
        return True  # what changed in 18 is about nodes without sizes
    if opset >= since:
        return False
    return _has_attributes(node, inputs, opset)


def _is_unchanged(node: Node, opset: int) -> bool:
    """Whether an older version means the same of a node like this one, although it does not of others."""
    op = node.op
    if op.name in _FLATTENING:
        shape = node.input.type.shape if isinstance(node.input.type, TensorType) else None
        return bool(shape) and all(size == 1 for size in shape[op.axis % len(shape) + 1 :])
    if op.name == "BatchNormalization":
        return opset >= 9 and not op.training_mode and len(node.outputs) == 1
    return op.name == "Resize" and _is_older_resize(node, opset)


def _is_older_resize(node: Node, opset: int) -> bool:
    """Whether Resize of operator sets 11 and 12 takes a node, or before it Resize of 10 or Upsample of 9."""
    op = node.op
    if op.antialias or op.axes or op.keep_aspect_ratio_policy != "stretch":
        return False
    if opset >= 11:
        has_one = (node.optional(2) is None) != (node.optional(3) is None)
        return has_one and op.coordinate_transformation_mode != "half_pixel_symmetric"
    scales = None if node.optional(2) is None else node.needed(2).constant
    grows = scales is not None and bool((scales >= 1).all())
    is_alike = op.coordinate_transformation_mode == "asymmetric" and op.mode in ("nearest", "linear")
    return grows and is_alike and (op.mode == "linear" or op.nearest_mode == "floor") and len(node.inputs) == 3


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
        if node.domain == "" and node.op_type == "Resize" and opset < 13:
            _write_resize(model, node, opset)
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


def _write_resize(model: ModelProto, node: NodeProto, opset: int) -> None:
    """Resize as it was until operator set 12, where region and scales had to be there, or Upsample."""
    if opset < 11:
        given = [attribute for attribute in node.attribute if attribute.name == "mode"]
        del node.attribute[:]
        node.attribute.extend(given)
        inputs = [node.input[0], node.input[2]]
        node.op_type = "Upsample" if opset < 10 else "Resize"
    else:
        inputs = [name or _empty(model) for name in node.input]
    del node.input[:]
    node.input.extend(inputs)


def _empty(model: ModelProto) -> str:
    """The name of an initializer without elements, which is added where there is none."""
    name = "intaglio.empty"
    if all(tensor.name != name for tensor in model.graph.initializer):
        model.graph.initializer.append(helper.make_tensor(name, onnx.TensorProto.FLOAT, [0], []))
    return name


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
