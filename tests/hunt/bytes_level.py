"""MatMulNBits at accuracy level 4: what is left of its rows in bytes, written as nodes in front of the product.

The level allows a product to round rows in blocks (docs/semantics.md). A model with these nodes says what comes out
then, and is judged as any other: by its own rounding, and not by a tolerance for the bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

LEVEL = 4


def in_bytes(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with rounded rows in front of its products of that level; None where it has none."""
    if not any(_level(node) == LEVEL for node in model.graph.node):
        return None
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    nodes = [made for node in model.graph.node for made in (_around(copy, node) if _level(node) == LEVEL else [node])]
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy


def _level(node: onnx.NodeProto) -> int:
    found = [item.i for item in node.attribute if item.name == "accuracy_level"]
    return found[0] if node.op_type == "MatMulNBits" and found else 0


def _around(model: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes that round the first operand, and the product of what they give."""
    numbers = {item.name: item.i for item in node.attribute}
    depth, block = numbers["K"], numbers["block_size"]
    blocks, prefix = -(-depth // block), f"{node.output[0]}.bytes."
    made: list[onnx.NodeProto] = []

    def constant(name: str, value: Any) -> str:
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), prefix + name))
        return prefix + name

    def add(op: str, name: str, *inputs: str, **attributes: Any) -> str:
        made.append(helper.make_node(op, list(inputs), [prefix + name], **attributes))
        return prefix + name

    zero, x = constant("zero", np.float32(0)), node.input[0]
    rows = add("Reshape", "rows", x, constant("flat", np.array([-1, depth])))
    padded = add("Pad", "padded", rows, constant("pads", np.array([0, 0, 0, blocks * block - depth])))
    parts = add("Reshape", "parts", padded, constant("cut", np.array([-1, blocks, block])))
    most = _greatest(model, add("Abs", "sizes", parts), constant("axes", np.array([2])), prefix + "most")
    made.append(most)
    scale = add("Div", "scale", most.output[0], constant("steps", np.float32(127)))
    over = add("Div", "over", constant("one", np.float32(1)), scale)
    inverse = add("Where", "inverse", add("Greater", "is_some", scale, zero), over, zero)
    whole = add("Round", "whole", add("Mul", "scaled", parts, inverse))
    back = add("Reshape", "back", add("Mul", "kept", whole, scale), constant("join", np.array([-1, blocks * block])))
    cut = [constant(name, np.array([value])) for name, value in (("from", 0), ("to", depth), ("axis", 1))]
    result = add("Reshape", "result", add("Slice", "cut_off", back, *cut), add("Shape", "shape", x))
    product = onnx.NodeProto()
    product.CopyFrom(node)
    product.input[0] = result
    return [*made, product]


def _greatest(model: onnx.ModelProto, x: str, axes: str, name: str) -> onnx.NodeProto:
    """ReduceMax along the last of three axes, which are an attribute before version 18."""
    version = next(item.version for item in model.opset_import if not item.domain)
    if version < 18:
        return helper.make_node("ReduceMax", [x], [name], axes=[2])
    return helper.make_node("ReduceMax", [x, axes], [name])
