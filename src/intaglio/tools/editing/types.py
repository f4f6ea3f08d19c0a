"""Types of values that a file does not state: inferred where they can be, and left open where they cannot."""

from __future__ import annotations

from collections.abc import Iterable

import onnx.shape_inference
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

from intaglio.ir.dtype import NUMBERED
from intaglio.tools.document.parts import Document, copied

TypesByGraph = list[dict[str, ValueInfoProto]]
"""For every graph of a document, in the order of `Graph.all_graphs`, the types of its values by name."""


def value_types(document: Document) -> dict[str, ValueInfoProto]:
    """The types of the values of the model's graph by name: what the file says, and what follows from it."""
    return types_by_graph(document)[0]


def types_by_graph(document: Document) -> TypesByGraph:
    """The types of the values of every graph, those that bodies see from outside included.

    Results of operators that nobody knows, and what follows from them, have none.
    """
    message = inferred(document.bare_message())
    found: TypesByGraph = []
    waiting: list[tuple[GraphProto, dict[str, ValueInfoProto]]] = [(message.graph, {})]
    while waiting:  # in the order of Graph.all_graphs
        graph, outer = waiting.pop()
        types = outer | _stated(graph)
        found.append(types)
        waiting += [(body, types) for body in _bodies(graph)]
    return found


def inferred(message: ModelProto) -> ModelProto:
    """A message with the types that follow from those it states; the same one where nothing can be inferred."""
    try:
        return onnx.shape_inference.infer_shapes(message, data_prop=True)
    except Exception:  # the graph may be broken in any way, and onnx raises what it likes
        return message


def _bodies(graph: GraphProto) -> Iterable[GraphProto]:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
            yield from attribute.graphs


def _stated(graph: GraphProto) -> dict[str, ValueInfoProto]:
    """What a graph says of its values; constants are of the types of their tensors."""
    types = {tensor.name: tensor_info(tensor) for tensor in graph.initializer}
    for info in (*graph.value_info, *graph.output, *graph.input):
        if info.HasField("type") and info.type.WhichOneof("value") is not None:
            types.setdefault(info.name, info)
    return types


def tensor_info(tensor: TensorProto) -> ValueInfoProto:
    """The type of a constant."""
    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))


def renamed_info(info: ValueInfoProto, name: str) -> ValueInfoProto:
    """The same type for another name."""
    new = copied(info)
    new.name = name
    return new


def type_text(info: ValueInfoProto | None) -> str:
    """A type as people read it, such as `float32[N, 3]`."""
    if info is None or not info.HasField("type"):
        return "unknown"
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        return str(kind or "unknown").removesuffix("_type")
    tensor = info.type.tensor_type
    element = NUMBERED.get(tensor.elem_type)
    name = "unknown" if element is None else element.name
    if not tensor.HasField("shape"):
        return f"{name}[...]"
    sizes = [str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim]
    return f"{name}[{', '.join(sizes)}]"


def contradiction(one: ValueInfoProto | None, other: ValueInfoProto | None) -> str | None:
    """Why two types cannot be of one value; None where nothing says that."""
    if one is None or other is None or not (one.HasField("type") and other.HasField("type")):
        return None
    texts = f"{type_text(one)} and {type_text(other)}"
    kinds = {one.type.WhichOneof("value"), other.type.WhichOneof("value")}
    if None in kinds:
        return None
    if kinds != {"tensor_type"}:
        return texts if len(kinds) > 1 else None
    first, second = one.type.tensor_type, other.type.tensor_type
    if first.elem_type and second.elem_type and first.elem_type != second.elem_type:
        return texts
    if not (first.HasField("shape") and second.HasField("shape")):
        return None
    if len(first.shape.dim) != len(second.shape.dim):
        return texts
    pairs = zip(first.shape.dim, second.shape.dim, strict=True)
    fixed = [(a.dim_value, b.dim_value) for a, b in pairs if a.HasField("dim_value") and b.HasField("dim_value")]
    return texts if any(a != b for a, b in fixed) else None
