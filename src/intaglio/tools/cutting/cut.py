"""A model of some nodes of another one; what they read of the others becomes inputs or constants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto, TensorProto, TypeProto, ValueInfoProto

from intaglio.ir.dtype import from_numpy
from intaglio.onnx.external import ExternalData
from intaglio.onnx.tensors import read_tensor
from intaglio.onnx.write_tensors import TensorWriter
from intaglio.tools.document import Document, Graph, Node
from intaglio.tools.document.parts import copied
from intaglio.tools.editing.names import defined

TypeOf = Callable[[str], TypeProto | None]
"""What is known of the type of a value."""


@dataclass(frozen=True)
class Plan:
    """Some nodes of a graph, by their places, and the names of what goes in and out."""

    places: tuple[int, ...]
    inputs: tuple[str, ...]
    """What the nodes read that no node of theirs makes and no initializer is."""
    weights: tuple[str, ...]
    outputs: tuple[str, ...]


def reads_of(node: Node) -> list[str]:
    """The names that a node reads, itself or from within its bodies."""
    found = dict.fromkeys(name for name in node.shell.input if name)
    for body in node.bodies():
        found.update(dict.fromkeys(_captures(body)))
    return list(found)


def _captures(graph: Graph) -> Iterator[str]:
    """The names that a body reads and does not define."""
    own = defined(graph)
    for node in graph.nodes:
        yield from (name for name in reads_of(node) if name not in own)
    yield from (info.name for info in graph.outputs if info.name not in own)


def plan_cut(document: Document, places: Collection[int]) -> Plan:
    """What a model of the nodes at these places reads and gives.

    It gives what the other nodes or the caller of the model read, unless its own nodes read that too; all that its last
    nodes make where that is nothing.
    """
    graph, kept = document.graph, sorted(places)
    made = {name for place in kept for name in graph.nodes[place].shell.output if name}
    read = dict.fromkeys(name for place in kept for name in reads_of(graph.nodes[place]))
    weights = weight_names(graph)
    inside = set(read)
    asked = {info.name for info in graph.outputs}
    for place, node in enumerate(graph.nodes):
        if place not in places:
            asked.update(reads_of(node))
    finals = {info.name for info in graph.outputs}
    order = [name for place in kept for name in graph.nodes[place].shell.output if name]
    outputs = [name for name in order if name in finals or (name in asked and name not in inside)]
    outputs = outputs or [name for name in order if name not in inside]
    inputs = tuple(name for name in read if name not in made and name not in weights)
    return Plan(
        tuple(kept), inputs, tuple(name for name in read if name in weights and name not in made), tuple(outputs)
    )


def weight_names(graph: Graph) -> set[str]:
    """The names of a graph's initializers."""
    return {each.name for each in graph.initializers} | {each.values.name for each in graph.sparse_initializers}


def cut(
    document: Document,
    plan: Plan,
    recorded: Mapping[str, Any],
    *,
    constants: Collection[str] = (),
    type_of: TypeOf = lambda name: None,
) -> ModelProto:
    """The model of a plan.

    Inputs among `constants` become initializers with their recorded arrays. Inputs and outputs of the whole model are
    declared as they were, others by `type_of`, else by the recorded array.
    """
    graph = document.graph
    message = copied(document.shell)
    new = message.graph
    new.name = graph.shell.name or "part"
    new.node.extend(graph.nodes[place].message() for place in plan.places)
    declared = {info.name: info for info in (*graph.inputs, *graph.outputs)}
    fed = [name for name in plan.inputs if name not in constants]
    new.input.extend(_info(name, declared, recorded, type_of) for name in fed)
    new.output.extend(_info(name, declared, recorded, type_of) for name in plan.outputs)
    new.initializer.extend(_weights(document, plan.weights))
    new.sparse_initializer.extend(each for each in graph.sparse_initializers if each.values.name in plan.weights)
    new.initializer.extend(TensorWriter().write(name, recorded[name]) for name in plan.inputs if name in constants)
    message.functions.extend(each.message() for each in document.functions)
    return message


def _info(name: str, declared: Mapping[str, ValueInfoProto], recorded: Mapping[str, Any], type_of: TypeOf) -> Any:
    if name in declared:
        return declared[name]
    info, known = ValueInfoProto(name=name), type_of(name)
    array = recorded.get(name)
    if known is not None:
        info.type.CopyFrom(known)
    elif array is not None and hasattr(array, "dtype"):
        info.type.tensor_type.elem_type = from_numpy(array.dtype).number
        info.type.tensor_type.shape.SetInParent()
        for size in array.shape:
            info.type.tensor_type.shape.dim.add().dim_value = size
    return info


def _weights(document: Document, names: Sequence[str]) -> Iterator[TensorProto]:
    wanted, external = set(names), ExternalData(document.folder)
    for tensor in document.graph.initializers:
        if tensor.name in wanted:
            yield whole_tensor(document, tensor, external)


def whole_tensor(document: Document, tensor: TensorProto, external: ExternalData) -> TensorProto:
    """A tensor with its data inside of it, wherever that was."""
    held = document.held_bytes(tensor)
    if held is None and tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    array = weight_array(document, tensor, external)
    return TensorWriter().write(tensor.name, array)


def weight_array(document: Document, tensor: TensorProto, external: ExternalData) -> Any:
    """The elements of a tensor of the file, without a copy where they lie in a mapped file."""
    held = document.held_bytes(tensor)
    if held is None:
        return read_tensor(tensor, external)
    bare = copied(tensor)
    bare.ClearField("data_location")
    bare.ClearField("external_data")
    return read_tensor(bare, external, raw_data=held)
