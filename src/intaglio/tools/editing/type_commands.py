"""Commands on what a file says of its values: shapes that follow from other shapes, and layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import NodeProto, TensorShapeProto, ValueInfoProto, helper

from intaglio.errors import InputError
from intaglio.tools.document import Attribute, Document, Node
from intaglio.tools.document.parts import copied
from intaglio.tools.editing.changes import Inserted, Replaced
from intaglio.tools.editing.journal import command
from intaglio.tools.editing.names import did_you_mean
from intaglio.tools.editing.selection import FreshNames, constants_of
from intaglio.tools.editing.tidy_commands import TidyCommands
from intaglio.tools.editing.types import value_types

CHANNELS_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
"""From channels first to channels last, by rank."""


class TypeCommands(TidyCommands):
    """Commands that change what inputs and outputs look like."""

    @command
    def infer_types(self) -> None:
        """Say of outputs and values in between what follows from the inputs, in place of what the file said before.

        What does not follow keeps its element type and loses its shape; values in between are left out then.
        """
        bare = self.document.copy()
        bare.graph.infos.clear()
        bare.graph.outputs[:] = [_without_shape(info) for info in bare.graph.outputs]
        types = value_types(bare)
        graph = self.document.graph
        for place, info in enumerate(graph.outputs):
            new = _described(info, types.get(info.name))
            if new != info:
                self.journal.change(Replaced(graph.outputs, place, info, new))
        known = [_described(info, types[info.name]) for info in graph.infos if info.name in types]
        if known != graph.infos:
            self.refill(graph.infos, known)

    @command
    def set_shapes(self, shapes: Mapping[str, Sequence[int | str | None]]) -> None:
        """Give inputs other shapes, and everything that follows from them."""
        graph = self.document.graph
        for name, shape in shapes.items():
            place = _input_place(self.document, name)
            info = copied(graph.inputs[place])
            if info.type.WhichOneof("value") not in (None, "tensor_type"):
                raise InputError(f"{name!r} is no tensor, so it has no shape")
            self._check_rank(info, shape)
            info.type.tensor_type.shape.CopyFrom(_shape(shape))
            self.journal.change(Replaced(graph.inputs, place, graph.inputs[place], info))
        self.infer_types()

    def _check_rank(self, info: ValueInfoProto, shape: Sequence[int | str | None]) -> None:
        if any(isinstance(size, int) and size < 0 for size in shape):
            raise InputError(f"{info.name!r} cannot have a size below 0; an unknown one is None")
        tensor = info.type.tensor_type
        if tensor.HasField("shape") and len(tensor.shape.dim) != len(shape):
            raise InputError(f"{info.name!r} has {len(tensor.shape.dim)} dimensions, and {len(shape)} sizes were given")

    @command
    def transpose_input(self, name: str, permutation: Sequence[int]) -> None:
        """Let an input be given with its axes in another order: a Transpose makes of it what the model reads.

        Axis i of the new input is axis `permutation[i]` of the old one. The name stays.
        """
        graph = self.document.graph
        place = _input_place(self.document, name)
        if name in constants_of(graph):
            raise InputError(f"{name!r} has a default value: only inputs without one can be transposed")
        info = graph.inputs[place]
        new = _permuted(info, permutation)
        inner = FreshNames(self.document).take(f"{name}_transposed")
        self.rename_values({name: inner})
        self.journal.change(Replaced(graph.inputs, place, graph.inputs[place], new))
        if any(each.name == inner for each in graph.outputs):  # an input that is an output keeps its name there
            raise InputError(f"{name!r} is an output too: only one of both can be transposed")
        self.insert(_transpose(self.document, name, inner, _inverse(permutation)), graph.nodes, 0)
        inner_info = copied(info)
        inner_info.name = inner
        self.journal.change(Inserted(graph.infos, len(graph.infos), inner_info))

    @command
    def transpose_output(self, name: str, permutation: Sequence[int]) -> None:
        """Let an output come with its axes in another order; the name stays. See `transpose_input`."""
        graph = self.document.graph
        place = next((i for i, info in enumerate(graph.outputs) if info.name == name), None)
        if place is None:
            known = [info.name for info in graph.outputs]
            raise InputError(f"there is no output {name!r}{did_you_mean(name, known)}")
        info = graph.outputs[place]
        if any(each.name == name for each in graph.inputs):
            raise InputError(f"{name!r} is an input too: only one of both can be transposed")
        inner = FreshNames(self.document).take(f"{name}_transposed")
        self.rename_values({name: inner})
        self.journal.change(Replaced(graph.outputs, place, graph.outputs[place], _permuted(info, permutation)))
        self.insert(_transpose(self.document, inner, name, permutation), graph.nodes, len(graph.nodes))


def _input_place(document: Document, name: str) -> int:
    for place, info in enumerate(document.graph.inputs):
        if info.name == name:
            return place
    known = [info.name for info in document.graph.inputs]
    raise InputError(f"there is no input {name!r}{did_you_mean(name, known)}; the inputs are {', '.join(known)}")


def _shape(sizes: Sequence[int | str | None]) -> TensorShapeProto:
    shape = TensorShapeProto()
    for size in sizes:
        dimension = shape.dim.add()
        if isinstance(size, str):
            dimension.dim_param = size
        elif size is not None:
            dimension.dim_value = size
    return shape


def _without_shape(info: ValueInfoProto) -> ValueInfoProto:
    new = copied(info)
    if new.type.WhichOneof("value") == "tensor_type":
        new.type.tensor_type.ClearField("shape")
    return new


def _described(info: ValueInfoProto, known: ValueInfoProto | None) -> ValueInfoProto:
    """The information about a value with the type that is known of it."""
    if known is None:
        return _without_shape(info)
    new = copied(info)
    new.type.CopyFrom(known.type)
    return new


def _permuted(info: ValueInfoProto, permutation: Sequence[int]) -> ValueInfoProto:
    shape = info.type.tensor_type.shape
    if info.type.WhichOneof("value") != "tensor_type" or not info.type.tensor_type.HasField("shape"):
        raise InputError(f"the shape of {info.name!r} is not known: use set_type first")
    if sorted(permutation) != list(range(len(shape.dim))):
        raise InputError(f"{info.name!r} has {len(shape.dim)} dimensions, which {list(permutation)} does not order")
    new = copied(info)
    del new.type.tensor_type.shape.dim[:]
    new.type.tensor_type.shape.dim.extend(shape.dim[axis] for axis in permutation)
    return new


def _inverse(permutation: Sequence[int]) -> list[int]:
    return [list(permutation).index(axis) for axis in range(len(permutation))]


def _transpose(document: Document, value: str, result: str, permutation: Sequence[int]) -> Node:
    shell = NodeProto(op_type="Transpose", input=[value], output=[result])
    attribute = Attribute(helper.make_attribute("perm", list(permutation)))
    return Node(document.numbers.take(), shell, [attribute])
