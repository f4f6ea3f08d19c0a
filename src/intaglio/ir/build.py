"""Building graphs: `Builder` adds typed nodes, `EagerBuilder` computes them at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from intaglio.errors import GraphError, IntaglioError, ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir import substitution
from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.graph import CONTENTS_LIMIT, Graph, Node, Operand, Value
from intaglio.ir.op import Op
from intaglio.ir.operator_methods import OperatorMethods
from intaglio.ir.origin import UNKNOWN, Origin, as_origin
from intaglio.ir.resize import own_symbols, rewritten_type, type_symbols
from intaglio.ir.types import SequenceType, TensorType, Type


class _Active(threading.local):
    def __init__(self) -> None:
        self.builders: list[Builder] = []


_active = _Active()


def current_builder() -> Builder:
    """The builder that arithmetic on values adds its nodes to."""
    if not _active.builders:
        raise GraphError("arithmetic on values needs an active builder: use `with builder.active():`")
    return _active.builders[-1]


class Builder(OperatorMethods):
    """Adds nodes to a graph, at its end or before a given node: `b.Exp(x)`, `b.ReduceSum(x, axes=[1])`, `x + 1`.

    An operand may be a Value, a number or a nested list: numbers become constants of the first value's element type,
    lists of integers int64 tensors. A keyword is an attribute, or an input by its ONNX name.
    """

    def __init__(self, graph: Graph, before: Node | None = None, origin: Origin | str = UNKNOWN) -> None:
        self.graph = graph
        self.before = before
        self.origin = as_origin(origin)

    @contextmanager
    def active(self):
        """Within this context arithmetic on values adds nodes here."""
        _active.builders.append(self)
        try:
            yield self
        finally:
            _active.builders.pop()

    def apply(self, cls: type[Op], *operands: Operand | None, outputs: int = 1, **named: Any) -> Any:
        """Add one node; a Value, or a tuple of them where `outputs` is more than 1."""
        inputs = self._operands(cls, operands, named)
        if cls.variadic_outputs:
            named["output_count"] = outputs
        attributes = {name: tuple(value) if isinstance(value, list) else value for name, value in named.items()}
        values = self.add(cls(**attributes), inputs, outputs)
        return values[0] if outputs == 1 else values

    def _operands(self, cls: type[Op], operands: Sequence[Operand | None], named: dict[str, Any]) -> list[Value | None]:
        given = list(operands)
        for position, parameter in enumerate(cls.parameters()):
            if parameter.name in named:
                given += [None] * (position + 1 - len(given))
                given[position] = named.pop(parameter.name)
        first = next((v for v in given if isinstance(v, Value) and isinstance(v.type, TensorType)), None)
        result = [self._value(operand, first) for operand in given]
        while result and result[-1] is None:
            result.pop()
        return result

    def _value(self, operand: Operand | None, like: Value | None) -> Value | None:
        if operand is None or isinstance(operand, Value):
            return operand
        if isinstance(operand, (bool, int, float)) and like is not None:
            return self.constant(operand, like.dtype)
        array = np.asarray(operand)
        is_index_list = isinstance(operand, (int, list, tuple)) and (array.dtype.kind in "iu" or array.size == 0)
        return self.constant(array.astype(np.int64) if is_index_list else array)

    def constant(self, value: Any, dtype: DType | None = None, name: str = "constant") -> Value:
        """A constant of the given element type (NumPy's choice if None)."""
        array = np.asarray(value)
        return self.graph.constant(array if dtype is None else array.astype(dtype.numpy), name)

    def add(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        outputs: int = 1,
        names: Sequence[str] = (),
        origin: Origin | None = None,
    ) -> tuple[Value, ...]:
        """Add a node with inferred types and return its outputs; `names` are hints, made unique."""
        hints = list(names) + [op.name.lower()] * (outputs - len(names))
        unique = [self.graph.unique_name(hint or op.name.lower()) for hint in hints]
        node = Node(op, inputs, self.origin if origin is None else origin)
        try:
            types = infer_types(op, inputs, outputs, unique[0])
        except BaseException:
            node.set_inputs(())
            raise
        node.outputs = tuple(Value(name, type, node) for name, type in zip(unique, types, strict=True))
        set_contents(node)
        self.graph.insert(node, self.before)
        return node.outputs


def infer_types(op: Op, inputs: Sequence[Value | None], outputs: int, name: str) -> tuple[Type, ...]:
    """The types of a node's outputs; an error names the operator and what it was given."""
    check_arity(op, inputs)
    try:
        with dims.naming(name):
            result = op.infer(*inputs)
    except (ShapeError, GraphError) as error:
        raise ShapeError(f"{op.name} cannot take {describe_types(inputs)}: {error}") from None
    except dims.UndecidableError as error:
        raise ShapeError(f"{op.name} with {describe_types(inputs)}: {error}") from None
    types = result if isinstance(result, tuple) else (result,)
    if len(types) < outputs:
        raise GraphError(f"{op.name} has {len(types)} outputs, the node asks for {outputs}")
    return types[:outputs]


def check_arity(op: Op, inputs: Sequence[Value | None]) -> None:
    """Raise GraphError where required inputs are missing or there are too many."""
    parameters = op.parameters()
    is_variadic = bool(parameters) and parameters[-1].kind == "variadic"
    if len(inputs) > len(parameters) and not is_variadic:
        raise GraphError(f"{op.name} takes at most {len(parameters)} inputs, got {len(inputs)}")
    for position, parameter in enumerate(parameters):
        given = inputs[position] if position < len(inputs) else None
        if parameter.kind == "single" and given is None:
            raise GraphError(f"{op.name} needs its input {parameter.name!r}")


def describe_types(inputs: Sequence[Value | None]) -> str:
    """The inputs' names and types on one line, for messages."""
    return "(" + ", ".join("nothing" if value is None else repr(value) for value in inputs) + ")"


def set_contents(node: Node) -> None:
    """Compute the known contents of a node's outputs from those of its inputs."""
    if not node.op.symbolic or not all(_may_have_contents(value) for value in node.outputs):
        return
    try:
        result = node.op.dims(*node.inputs)
    except (dims.UndecidableError, IntaglioError, TypeError, ValueError, IndexError):
        return
    if result is None:
        return
    for value, array in zip(node.outputs, result if isinstance(result, tuple) else (result,), strict=False):
        contents = np.asarray(array, dtype=object)
        if contents.size <= CONTENTS_LIMIT and all(isinstance(item, (int, dims.Expr)) for item in contents.flat):
            value.contents = contents


def _may_have_contents(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype.kind in ("int", "uint", "bool")


def infer_node(node: Node) -> None:
    """Infer a node's output types anew after its inputs changed; raises where the operator cannot take them."""
    types = infer_types(node.op, node.inputs, len(node.outputs), node.outputs[0].name)
    for value, type in zip(node.outputs, types, strict=True):
        value.type = type
        value.contents = None
    set_contents(node)


RunBody: TypeAlias = Callable[[Graph, Sequence[Any]], list[Any]]
"""What evaluates a subgraph on arrays."""


class Runner:
    """What `interpret` runs subgraphs with: `run(graph, arrays)`; `known` has the arrays of values around the node."""

    def __init__(self, run: RunBody, known: Mapping[Value, Any] | None = None) -> None:
        self._run = run
        self.known: Mapping[Value, Any] = known or {}

    def __call__(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a subgraph for its inputs."""
        return self._run(graph, inputs)


_runners: list[RunBody] = []


def set_runner(run: RunBody) -> None:
    """Say what evaluates subgraphs for eager builders: the reference engine, which stands above the IR."""
    _runners[:] = [run]


class EagerBuilder(Builder):
    """A builder whose values are constants: each node is computed by its reference when it is added."""

    def __init__(self) -> None:
        super().__init__(Graph("eager"))

    def add(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        outputs: int = 1,
        names: Sequence[str] = (),
        origin: Origin | None = None,
    ) -> tuple[Value, ...]:
        """Compute the operator and return its outputs as constants."""
        del names, origin
        check_arity(op, inputs)
        arrays = [None if value is None else value.constant for value in inputs]
        result = op.interpret(Runner(_runners[0]), *arrays) if op.has("interpret") else op.reference(*arrays)
        results = result if isinstance(result, tuple) else (result,)
        return tuple(constant_value(item) for item in results[:outputs])


def constant_value(data: Any) -> Value:
    """A constant that stands alone: an array, or a sequence as a list of arrays."""
    if isinstance(data, list):
        element = type_of(data[0]) if data else TensorType(from_numpy(np.dtype(np.float32)), None)
        value = Value("eager", SequenceType(element))
        value.constant = data  # pyright: ignore[reportAttributeAccessIssue]
        return value
    return Value("eager", type_of(data), constant=np.asarray(data))


def type_of(data: Any) -> Type:
    """The type of a run-time value: an array, or a list of them."""
    if isinstance(data, list):
        return SequenceType(type_of(data[0]))
    array = np.asarray(data)
    return TensorType(from_numpy(array.dtype), array.shape)


def reference_by_expansion(op: Op, inputs: Sequence[Any]) -> Any:
    """The meaning of a composite operator: its expansion, computed step by step."""
    if not op.has("expand"):
        raise UnsupportedError(f"{op.name} has no reference implementation")
    builder = EagerBuilder()
    values = [None if item is None else constant_value(item) for item in inputs]
    with builder.active():
        result = op.expand(builder, *values)
    if isinstance(result, tuple):
        return tuple(value.constant for value in result)
    return result.constant


def infer_by_expansion(op: Op, inputs: Sequence[Value | None]) -> Any:
    """The types of a composite operator: those of its expansion, built in a scratch graph.

    Where the expansion needs a rank that is not known, only the element types are.
    """
    if not op.has("expand"):
        raise UnsupportedError(f"{op.name} has no type rule")
    try:
        return _expansion_types(op, inputs)
    except ShapeError:
        if not any(value is not None and _is_unranked(value) for value in inputs):
            raise
    named = zip((parameter.name for parameter in op.parameters()), inputs, strict=False)
    given = {name: value for name, value in named if value is not None}
    return tuple(TensorType(dtype, None) for dtype in op.element_types(given))


def _is_unranked(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.shape is None


def _expansion_types(op: Op, inputs: Sequence[Value | None]) -> Any:
    scratch = Graph("scratch")
    values = [None if value is None else _scratch_input(scratch, value) for value in inputs]
    builder = Builder(scratch)
    with builder.active():
        result = op.expand(builder, *values)
    found = result if isinstance(result, tuple) else (result,)
    known = {name for value in values if value is not None for name in own_symbols(value)}
    told = dict.fromkeys(name for value in found for name in sorted(type_symbols(value.type)) if name not in known)
    fresh: dict[str, dims.Dim] = {
        name: dims.fresh() for name in told
    }  # the scratch graph names those of all nodes alike
    types = tuple(rewritten_type(value.type, lambda dim: substitution.substitute(dim, fresh)) for value in found)
    return types if isinstance(result, tuple) else types[0]


def _scratch_input(scratch: Graph, value: Value) -> Value:
    copy = Value(scratch.unique_name(value.name), value.type, constant=value.constant)
    copy.contents = value.contents
    return copy


def take_place(old: Value, new: Value) -> None:
    """Make `old`, which keeps its name and type, the output of the node that gives `new`."""
    producer = new.producer
    assert producer is not None
    producer.outputs = tuple(old if value is new else value for value in producer.outputs)
    old.producer = producer
    new.replace_uses(old)
    if old.contents is None:
        old.contents = new.contents


def with_output_count(op: Op, outputs: int) -> Op:
    """The operator for a node with so many outputs, where that number is the node's to say."""
    return op.changed(output_count=outputs) if op.variadic_outputs else op
