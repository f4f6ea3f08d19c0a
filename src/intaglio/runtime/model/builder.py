"""`build`: models written by hand.

with intaglio.build("mlp", inputs={"x": "float32[N, 16]"}) as g:
    h = ops.Relu(ops.Gemm(g["x"], w1, b1))
    g.output(y=ops.Softmax(ops.Gemm(h, w2, b2)))
model = g.model()
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.autodiff.reverse import remove_unread
from intaglio.errors import GraphError, InputError, IntaglioError
from intaglio.ir.build import Builder
from intaglio.ir.clone import clone
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import OPERATORS, Op
from intaglio.ir.origin import Origin
from intaglio.ir.parse import read_type
from intaglio.ir.text import summary
from intaglio.ir.types import Type
from intaglio.ir.verify import verify
from intaglio.onnx.reader import ModelProto
from intaglio.onnx.writer import save_model, write_model
from intaglio.ops.functions import add_to
from intaglio.runtime.engine.limits import settled
from intaglio.runtime.model.loading import import_source, load
from intaglio.runtime.model.model import Model

if TYPE_CHECKING:
    from intaglio.onnx.reader import Source


def build(name: str = "model", inputs: Mapping[str, str | Type] | None = None, doc: str = "") -> ModelBuilder:
    """Begin a model: inside `with build(...) as g:` the functions of `intaglio.ops` add nodes to it.

    `inputs` are types by name, as text: the element type, and in brackets the dimensions, each a number, a symbol or
    an expression in symbols: `float32[N, 3, 2*H]`; `float32[]` is a scalar, `float32[...]` has any rank.
    """
    return ModelBuilder(Graph(name), inputs or {}, doc)


def extend(model: Model | Source | Graph, **options: Any) -> ModelBuilder:
    """Begin with a copy of a model: `g["features"]` is any tensor of it, and it is given new outputs.

    What the new outputs do not need is left out. `model` is a Model, or what `load` reads; `limits` may bound reading.
    """
    source = model.graph if isinstance(model, Model) else import_source(model, settled(options.get("limits"))).graph
    graph = clone(source)
    graph.set_outputs(())
    return ModelBuilder(graph, {}, graph.doc, is_copy=True)


class _NamingBuilder(Builder):
    """A builder whose nodes are named after their first output, and that takes operands as `intaglio.ops` does."""

    def apply(self, cls: type[Op], *operands: Any, outputs: int = 1, **named: Any) -> Any:
        """Add one node; a Value, or a tuple of them where `outputs` is more than 1."""
        return add_to(self, cls, operands, named, outputs)

    def add(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        outputs: int = 1,
        names: Sequence[str] = (),
        origin: Origin | None = None,
    ) -> tuple[Value, ...]:
        """Add a node as Builder does."""
        values = super().add(op, inputs, outputs, names, origin)
        producer = values[0].producer
        if producer is not None and not producer.origin:
            producer.origin = Origin(f"{values[0].name} ({op.name})", op.name)
        return values


class ModelBuilder:
    """A model under construction; `graph` is what it holds so far."""

    def __init__(self, graph: Graph, inputs: Mapping[str, str | Type], doc: str = "", *, is_copy: bool = False) -> None:
        self.graph = graph
        self._given = {v.name: v for v in (*graph.constants(), *graph.values())} if is_copy else {}
        self.graph.doc = doc
        self._builder = _NamingBuilder(graph)
        self._contexts: list[ExitStack] = []
        for name, type in inputs.items():
            self.input(name, type)

    def __enter__(self) -> ModelBuilder:
        stack = ExitStack()
        stack.enter_context(self._builder.active())
        self._contexts.append(stack)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._contexts.pop().close()

    def __getitem__(self, name: str) -> Value:
        """The input of that name, or any tensor of an extended model; raises InputError where there is none."""
        known = self._given | {value.name: value for value in self.graph.inputs}
        if name in known:
            return known[name]
        near = get_close_matches(name, known, 1)
        names = ", ".join(repr(value.name) for value in self.graph.inputs)
        hint = f"did you mean {near[0]!r}?" if near else f"the inputs are {names or 'none'}"
        raise InputError(f"there is no {'tensor' if self._given else 'input'} {name!r}; {hint}")

    def input(self, name: str, type: str | Type, default: Any = None) -> Value:
        """Add an input; with a `default` it may be left out when the model is run."""
        self._claim(name)
        value = self.graph.add_input(name, _parse_type(name, type))
        if default is not None:
            value.default = np.array(default, dtype=value.dtype.numpy)
        return value

    def constant(self, data: Any, name: str = "constant") -> Value:
        """A constant of the model with a name of its own: weights, say. Arrays given to operators need none."""
        return self.graph.constant(np.array(data), name)

    def output(self, *values: Any, **named: Any) -> None:
        """Add outputs: values under their own names, or under those given."""
        for value in values:
            self._add_output(_need_value(value), None)
        for name, value in named.items():
            self._add_output(_need_value(value), name)

    def _add_output(self, value: Value, name: str | None) -> None:
        if name is not None and name != value.name:
            self._claim(name)
            if value.producer is None or value.is_output or value.producer.graph is not self.graph:
                (value,) = self._builder.add(OPERATORS["", "Identity"](), [value])
            value.name = self.graph.unique_name(name)
        self.graph.set_outputs((*self.graph.outputs, value))

    def _claim(self, name: str) -> None:
        if not name or name in self.graph.names:
            raise GraphError(f"the name {name!r} is taken" if name else "a name must not be empty")

    def body(self, name: str = "body", inputs: Mapping[str, str | Type] | None = None) -> ModelBuilder:
        """Begin a subgraph, for operators such as If and Loop: it may read the values of this graph.

        Give what it returns as the attribute: `ops.If(condition, then_branch=first, else_branch=second)`.
        """
        return ModelBuilder(Graph(name, outer=self.graph), inputs or {})

    def check(self) -> None:
        """Raise GraphError where the model is not complete: no outputs, or values of another model."""
        if not self.graph.outputs:
            raise GraphError(f"{self.graph.name!r} has no outputs: say `g.output(y=...)`")
        if self._given:
            remove_unread(self.graph, self.graph.outputs)
        verify(self.graph)

    def model(self, **options: Any) -> Model:
        """The model, ready to run; the options are those of `intaglio.load`."""
        self.check()
        return load(self.graph, **options)

    def to_onnx(self, opset: int | None = None) -> ModelProto:
        """The model as an ONNX message, at the lowest operator set that has its operators, or at `opset`."""
        self.check()
        return write_model(self.graph, opset=opset)

    def save(
        self, path: str | os.PathLike[str], opset: int | None = None, external_data: bool | int | None = None
    ) -> None:
        """Write the model to a file; `external_data=True` puts large weights in a file beside it."""
        self.check()
        save_model(self.graph, path, opset=opset, external_data=external_data)

    def __str__(self) -> str:
        return summary(self.graph)


def _parse_type(name: str, type: str | Type) -> Type:
    if not isinstance(type, str):
        return type
    try:
        return read_type(type)
    except IntaglioError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"the type of the input {name!r}, {type!r}, cannot be read: {reason}") from None


def _need_value(value: Any) -> Value:
    if not isinstance(value, Value):
        raise InputError(f"an output must be a value of the graph, got a {type(value).__name__}")
    return value
