"""Nodes in older versions of ONNX's operator set, where a few other nodes say the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto, helper, numpy_helper

from intaglio.errors import UnsupportedError
from intaglio.tools.document import Node
from intaglio.tools.editing.meaning import has_sizes

Types = Mapping[str, ValueInfoProto]

PARTS_ARE_COUNTED = 18
"""Since this version a Split into equal parts says how many there are."""


class Writer:
    """Collects the nodes that take the place of one; names that it makes are none of the node's."""

    def __init__(self, node: Node) -> None:
        self._taken = {*node.inputs, *node.outputs}
        self.graph = GraphProto(output=[ValueInfoProto(name=name) for name in node.outputs if name])

    def name(self, wished: str) -> str:
        """A name for a value in between."""
        while wished in self._taken:
            wished += "_"
        self._taken.add(wished)
        return wished

    def constant(self, wished: str, array: Any) -> str:
        """A constant; returns its name."""
        name = self.name(wished)
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node; returns its output."""
        self.graph.node.append(helper.make_node(operator, inputs, [output], **attributes))
        return output


def written_by_hand(node: Node, old: int, version: int, types: Types) -> GraphProto | None:
    """The nodes that say what a node says in another version, where there is a rule for that; else None."""
    rule = _RULES.get(node.shell.op_type)
    return None if rule is None else rule(node, old, version, types)


def _split(node: Node, old: int, version: int, types: Types) -> GraphProto | None:
    """Into equal parts: since version 18 it says how many there are; before, all parts had to be equal."""
    if has_sizes(node):
        return None
    new = _without(node, "num_outputs")
    if version >= PARTS_ARE_COUNTED:
        new.attribute.append(helper.make_attribute("num_outputs", len(node.outputs)))
    else:
        axis = next((attribute.i for attribute in new.attribute if attribute.name == "axis"), 0)
        dims = types[node.inputs[0]].type.tensor_type.shape.dim if node.inputs[0] in types else []
        size = dims[axis].dim_value if -len(dims) <= axis < len(dims) else 0
        if not size or size % len(node.outputs):
            raise UnsupportedError("the size that it splits is not known to be a multiple of the number of its parts")
    return _alone(node, new)


def _shape(node: Node, old: int, version: int, types: Types) -> GraphProto | None:
    """A part of a shape is a slice of it."""
    if version < 10 or version >= 15:
        return None
    writer = Writer(node)
    given = {attribute.name: attribute.shell.i for attribute in node.attributes}
    whole = writer.node("Shape", node.inputs, writer.name("whole"))
    starts = writer.constant("start", np.array([given.get("start", 0)], np.int64))
    ends = writer.constant("end", np.array([given.get("end", np.iinfo(np.int64).max)], np.int64))
    writer.node("Slice", [whole, starts, ends], node.outputs[0])
    return writer.graph


def _or_equal(node: Node, old: int, version: int, types: Types) -> GraphProto | None:
    """Greater or equal is one of both, also where a number is none."""
    if not 11 <= version < 12:
        return None
    writer = Writer(node)
    operator = node.shell.op_type.removesuffix("OrEqual")
    strictly = writer.node(operator, node.inputs, writer.name("strictly"))
    equal = writer.node("Equal", node.inputs, writer.name("equal"))
    writer.node("Or", [strictly, equal], node.outputs[0])
    return writer.graph


_RESIZE_11 = {
    "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value", "mode", "nearest_mode",
}  # fmt: skip


def _resize(node: Node, old: int, version: int, types: Types) -> GraphProto | None:
    """Version 11 takes empty tensors for what later versions leave out."""
    given = {attribute.name: attribute.shell for attribute in node.attributes}
    modes = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"}
    mode = given["coordinate_transformation_mode"].s.decode() if "coordinate_transformation_mode" in given else None
    if not 11 <= version < 13 <= old or not given.keys() <= _RESIZE_11 or (mode is not None and mode not in modes):
        return None
    writer, new = Writer(node), node.message()
    inputs = [*node.inputs, *[""] * 3][:4]
    for place in (1, 2):
        inputs[place] = inputs[place] or writer.constant(("", "roi", "scales")[place], np.zeros(0, np.float32))
    new.input[:] = inputs if inputs[3] else inputs[:3]
    writer.graph.node.append(new)
    return writer.graph


_CONSTANTS: dict[str, tuple[str, Any]] = {
    "value_float": ("f", np.float32), "value_floats": ("floats", np.float32), "value_int": ("i", np.int64),
    "value_ints": ("ints", np.int64), "value_string": ("s", object), "value_strings": ("strings", object),
}  # fmt: skip


def _constant(node: Node, old: int, version: int, types: Types) -> GraphProto | None:
    """Numbers and texts are tensors, too."""
    found = [attribute for attribute in node.attributes if attribute.name in _CONSTANTS]
    if len(found) != 1 or found[0].shell.ref_attr_name:
        return None
    field, dtype = _CONSTANTS[found[0].name]
    value = getattr(found[0].shell, field)
    array = np.array(list(value) if field.endswith("s") and field != "s" else value, dtype)
    new = _without(node, found[0].name)
    new.attribute.append(helper.make_attribute("value", numpy_helper.from_array(array)))
    return _alone(node, new)


def _without(node: Node, name: str) -> NodeProto:
    new = node.message()
    kept = [attribute for attribute in new.attribute if attribute.name != name]
    del new.attribute[:]
    new.attribute.extend(kept)
    return new


def _alone(node: Node, new: NodeProto) -> GraphProto:
    writer = Writer(node)
    writer.graph.node.append(new)
    return writer.graph


_RULES: dict[str, Callable[[Node, int, int, Types], GraphProto | None]] = {
    "Constant": _constant,
    "Split": _split,
    "Shape": _shape,
    "GreaterOrEqual": _or_equal,
    "LessOrEqual": _or_equal,
    "Resize": _resize,
}
