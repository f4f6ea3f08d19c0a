"""Operators as Python functions: on arrays they compute at once, on values of a graph they add nodes.

ops.Conv(x, w, strides=[2, 2])
ops.domain("ai.onnx.ml").Scaler(x, offset=[1.0], scale=[0.5])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeAlias, cast

import numpy as np

from intaglio.errors import GraphError, InputError
from intaglio.ir.build import Builder, constant_value, current_builder, infer_types
from intaglio.ir.dtype import DTYPES, DType, from_numpy
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import OPERATORS, Array, Op, Tensor, is_required
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import run_node

OperatorFunction: TypeAlias = Callable[..., Any]


class Domain:
    """The operators of one domain as functions: `domain("ai.onnx.ml").Scaler(x, ...)`."""

    def __init__(self, name: str) -> None:
        self._name = "" if name == "ai.onnx" else name

    def __getattr__(self, operator: str) -> OperatorFunction:
        return find_function(operator, self._name)

    def __dir__(self) -> list[str]:
        return operator_names(self._name)

    def __repr__(self) -> str:
        return f"<the operators of {self._name or 'ai.onnx'}>"


def domain(name: str) -> Domain:
    """The operators of one domain as functions; those of ONNX's own are attributes of `intaglio.ops` itself."""
    return Domain(name)


def operator_names(domain: str = "") -> list[str]:
    """The names of a domain's operators, in alphabetical order."""
    return sorted(name for known, name in OPERATORS if known == domain)


def find_function(name: str, domain: str = "") -> OperatorFunction:
    """The function of an operator; raises AttributeError with the nearest name where there is none."""
    operator = OPERATORS.get((domain, name))
    if operator is None:
        near = get_close_matches(name, operator_names(domain), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise AttributeError(f"there is no operator {name!r} in {domain or 'ai.onnx'!r}{hint}")
    return operator_function(operator)


@cache
def operator_function(operator: type[Op]) -> OperatorFunction:
    """The function that applies an operator to arrays or values."""

    def call(*operands: Any, outputs: int = 1, **named: Any) -> Any:
        return apply(operator, operands, named, outputs)

    call.__name__ = call.__qualname__ = operator.__name__
    call.__module__ = "intaglio.ops" if not operator.domain else operator.__module__
    call.__doc__ = f"{inspect.getdoc(operator) or operator.__name__}\n\n{_CALLING}"
    call.__signature__ = _signature(operator)  # pyright: ignore[reportFunctionMemberAccess]
    call.operator = operator  # pyright: ignore[reportFunctionMemberAccess]
    return call


_CALLING = """Given arrays, or anything that NumPy reads as an array, it computes; given a value of the graph that is
being built, it adds a node. A keyword is an attribute or an input by name. A plain number takes the element type of the
first tensor. With `outputs=n` the first n outputs come as a tuple."""


def _signature(operator: type[Op]) -> inspect.Signature:
    kinds = {"single": inspect.Parameter.empty, "optional": None}
    found = [
        inspect.Parameter(each.name, inspect.Parameter.VAR_POSITIONAL)
        if each.kind == "variadic"
        else inspect.Parameter(each.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=kinds[each.kind])
        for each in operator.parameters()
    ]
    for field in operator.attributes():
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        found.append(
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type)
        )
    found.append(inspect.Parameter("outputs", inspect.Parameter.KEYWORD_ONLY, default=1, annotation="int"))
    return inspect.Signature(found)


def apply(operator: type[Op], operands: Sequence[Any], named: dict[str, Any], outputs: int = 1) -> Any:
    """An operator on arrays (computed) or values (a node added); a tuple where `outputs` is more than 1."""
    given, op = _read_arguments(operator, operands, named, outputs)
    return _finish(op, given, _builder_for(operator, given), outputs)


def add_to(
    builder: Builder, operator: type[Op], operands: Sequence[Any], named: dict[str, Any], outputs: int = 1
) -> Any:
    """Like `apply`, always as a node of the given builder's graph."""
    given, op = _read_arguments(operator, operands, named, outputs)
    return _finish(op, given, builder, outputs)


def _read_arguments(
    operator: type[Op], operands: Sequence[Any], named: dict[str, Any], outputs: int
) -> tuple[list[Any], Op]:
    if outputs < 1:
        raise InputError(f"{operator.__name__} cannot have {outputs} outputs")
    attributes = dict(named)
    given = _place_inputs(operator, operands, attributes)
    return given, make_operator(operator, attributes, outputs)


def _finish(op: Op, given: Sequence[Any], builder: Builder | None, outputs: int) -> Any:
    inputs = as_values(type(op), given, builder)
    results = _compute(op, inputs, outputs) if builder is None else builder.add(op, inputs, outputs)
    return results[0] if outputs == 1 else tuple(results)


def _place_inputs(operator: type[Op], operands: Sequence[Any], named: dict[str, Any]) -> list[Any]:
    """The inputs in the operator's order; those given by name are taken out of `named`."""
    given = list(operands)
    for position, parameter in enumerate(operator.parameters()):
        if parameter.name not in named:
            continue
        if position < len(operands):
            raise InputError(f"{operator.__name__} got its input {parameter.name!r} by position and by name")
        given += [None] * (position + (parameter.kind != "variadic") - len(given))
        value = named.pop(parameter.name)
        if parameter.kind == "variadic":
            given[position:] = list(value)
        else:
            given[position] = value
    while given and given[-1] is None:
        given.pop()
    return given


def make_operator(operator: type[Op], attributes: dict[str, Any], outputs: int = 1) -> Op:
    """The operator with its attributes, converted to what its fields hold; raises InputError for unknown ones."""
    known = {field.name: field for field in operator.attributes()}
    for name in attributes:
        if name not in known:
            choices = [*known, *(parameter.name for parameter in operator.parameters())]
            near = get_close_matches(name, choices, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(choices) or 'none'}"
            raise InputError(f"{operator.__name__} has no attribute or input {name!r}; {hint}")
    missing = [name for name, field in known.items() if is_required(field) and name not in attributes]
    if missing:
        raise InputError(f"{operator.__name__} needs the attribute {', '.join(map(repr, missing))}")
    values = {name: _attribute(operator, name, str(known[name].type), item) for name, item in attributes.items()}
    if operator.variadic_outputs:
        values["output_count"] = outputs
    return operator(**values)


def _attribute(operator: type[Op], name: str, annotation: str, value: Any) -> Any:
    """What a field of this annotation holds for a value that people write."""
    plain = annotation.removesuffix(" | None")
    if value is None and plain != annotation:
        return None
    try:
        if plain.startswith("tuple["):
            item = plain.removeprefix("tuple[").partition(",")[0]
            return tuple(_converted(item, part) for part in _items(value))
        return _converted(plain, value)
    except TypeError:
        raise InputError(
            f"{operator.__name__} takes {annotation} for its attribute {name!r}, got {str(value)[:60]!r}"
        ) from None


def _items(value: Any) -> list[Any]:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise TypeError
    return list(value)


def _converted(kind: str, value: Any) -> Any:
    if kind == "int":
        return _integer(value)
    if kind == "bool" and isinstance(value, (bool, int, np.bool_)):
        return bool(value)
    if kind == "float" and isinstance(value, (bool, int, float, np.number)):
        return float(cast("float", value))
    if kind == "str" and isinstance(value, str):
        return value
    if kind == "Tensor":
        return value if isinstance(value, Tensor) else Tensor(_plain_array(value))
    if kind == "Graph":
        graph = value if isinstance(value, Graph) else getattr(value, "graph", None)
        if isinstance(graph, Graph):
            return graph
    if kind in ("int", "bool", "float", "str", "Graph"):
        raise TypeError
    return value


def _integer(value: Any) -> int:
    """An integer, or the number of an element type that is given by its name or NumPy dtype."""
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        return int(value)
    if isinstance(value, DType):
        return value.number
    if isinstance(value, str) and value in DTYPES:
        return DTYPES[value].number
    if isinstance(value, (type, np.dtype)):
        return from_numpy(np.dtype(value)).number
    raise TypeError


def _builder_for(operator: type[Op], given: Sequence[Any]) -> Builder | None:
    """The builder to add a node to: the active one where some input is a value or there are no inputs, else None."""
    has_values = any(isinstance(item, Value) for item in given)
    if not has_values and given:
        return None
    try:
        return current_builder()
    except GraphError:
        if not has_values:
            return None
        name = next(item.name for item in given if isinstance(item, Value))
        raise GraphError(
            f"{operator.__name__} was given %{name}, a value of a graph, but no graph is being built: "
            "call it inside `with intaglio.build(...) as g:`"
        ) from None


def as_values(operator: type[Op], given: Sequence[Any], builder: Builder | None) -> list[Value | None]:
    """The inputs as values: arrays become constants of the graph that is built, or constants that stand alone."""
    known = [dtype for dtype in map(_dtype_of, given) if dtype is not None]
    values: list[Value | None] = []
    for position, item in enumerate(given):
        if item is None or isinstance(item, Value):
            values.append(item)
            continue
        data = as_data(operator, item, known)
        if builder is None or isinstance(data, list):
            value = constant_value(data)
            value.name = _input_name(operator, position)
            values.append(value)
        else:
            values.append(builder.constant(data.copy() if data is item else data))
    return values


def _input_name(operator: type[Op], position: int) -> str:
    parameters = operator.parameters()
    last = len(parameters) - 1
    if position < last or (position == last and parameters[last].kind != "variadic"):
        return parameters[position].name
    return f"{parameters[last].name if parameters else 'input'}_{position}"


def _dtype_of(item: Any) -> DType | None:
    """The element type of an operand that has one by itself; plain numbers and lists take that of others."""
    if isinstance(item, Value):
        return item.type.dtype if isinstance(item.type, TensorType) else None
    if isinstance(item, (bool, int, float, list, tuple, str)) and not isinstance(item, np.generic):
        return None
    if item is None:
        return None
    try:
        return from_numpy(_plain_array(item).dtype)
    except (TypeError, ValueError):
        return None  # reported where the operand itself is read


def as_data(operator: type[Op], item: Any, known: Sequence[DType]) -> Any:
    """An operand as an array, or a list of arrays where it is a sequence; `known` are the other operands' types."""
    if isinstance(item, (list, tuple)):
        parts = cast("list[Any]", item)
        if any(isinstance(part, Value) for part in parts):
            raise InputError(f"{operator.__name__} was given a list of values; give them as arguments of their own")
        if parts and all(isinstance(part, np.ndarray) for part in parts):
            return [_plain_array(part) for part in parts]
    try:
        array = _plain_array(item)
    except (TypeError, ValueError) as error:
        raise InputError(f"{operator.__name__} cannot take a {type(item).__name__}: {error}") from None
    is_plain = isinstance(item, (bool, int, float, list, tuple)) and not isinstance(item, np.generic)
    return _typed(operator, array, known) if is_plain else array


def _typed(operator: type[Op], array: Array, known: Sequence[DType]) -> Array:
    """Plain Python numbers in the element type of the other operands; lists of integers are int64, as in ONNX."""
    numeric = [dtype for dtype in known if dtype.kind not in ("bool", "string")]
    if array.dtype.kind == "f" and (array.size or array.ndim == 0):
        fitting = [dtype for dtype in numeric if not dtype.is_integer]
        if numeric and not fitting:
            raise InputError(f"{operator.__name__} was given the number {array.flat[0]} beside {numeric[0]} tensors")
        return array.astype(fitting[0].numpy if fitting else np.float32)
    if array.dtype.kind == "b":
        return array if array.ndim or not numeric else array.astype(numeric[0].numpy)
    if array.ndim == 0 and numeric:
        result = array.astype(numeric[0].numpy)
        if numeric[0].is_integer and int(result) != int(array):
            raise InputError(f"{operator.__name__} was given {array}, which {numeric[0]} cannot represent")
        return result
    return array.astype(np.int64) if array.dtype.kind in "iu" or array.size == 0 else array


def _plain_array(item: Any) -> Array:
    """Anything array-like in native byte order; strings as an object array."""
    array = np.asarray(item)
    if array.dtype.kind in "UST":
        return array.astype(object)
    from_numpy(array.dtype)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _compute(op: Op, inputs: Sequence[Value | None], outputs: int) -> list[Any]:
    """The operator's reference on constants; type errors are found first, as in a model."""
    types = infer_types(op, inputs, outputs, op.name)
    node = Node(op, inputs)
    node.outputs = tuple(Value(op.name, type, node) for type in types)
    taken = {id(value.constant) for value in inputs if value is not None}
    return [_own(result, taken) for result in run_node(node, {})]


def _own(result: Any, taken: set[int]) -> Any:
    """A result that is the caller's to change."""
    if not isinstance(result, np.ndarray):
        return result
    array = cast("Array", result)
    return array.copy() if id(array) in taken or array.base is not None or not array.flags.writeable else array
