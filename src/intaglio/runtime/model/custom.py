"""Operators and implementations of the user's own: how they are registered, and how a model chooses among them.

@intaglio.op(domain="my")
def Clamp(x, *, limit: float = 1.0):
    return np.clip(x, -limit, limit)

@intaglio.implementation("Softplus", "stable")
def softplus(X):
    return np.maximum(X, 0) + np.log1p(np.exp(-np.abs(X)))

model = intaglio.load("model.onnx", implementations={"Softplus": "stable"})
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np

from intaglio.errors import InputError, UnsupportedError
from intaglio.ir.op import OPERATORS, Op, Parameter
from intaglio.onnx.schema import defs_has, normal_domain
from intaglio.ops.functions import operator_function
from intaglio.runtime.model.example import infer_by_example

_own: set[tuple[str, str]] = set()
"""The operators that users registered, which may be registered anew."""


def op(
    target: Any = None,
    /,
    *,
    name: str | None = None,
    domain: str = "user",
    outputs: int | Sequence[str] = 1,
    infer: Callable[..., Any] | None = None,
) -> Any:
    """Register an operator, so that models which use it can be read: a decorator for functions and classes.

    A function computes with NumPy arrays. Its positional parameters are the inputs (a default of None marks an optional
    one, a star several), its keyword-only ones the attributes. `infer` gets the same as values with types and returns
    the type of the output, or a tuple of types; without it the function is tried on small arrays. What the decorator
    returns is a function like those of `intaglio.ops`. `outputs` is the number of outputs, or their names.

    A class has the attributes as annotated fields, and either `expand(self, b, *inputs)`, which builds it of other
    operators and is compiled, or `reference(self, *inputs)` on arrays, with `infer(self, *inputs)` if it shall not be
    tried; both if you like. The operator's name is that of the function or class, unless `name` is given.
    """
    if target is None:
        return functools.partial(op, name=name, domain=domain, outputs=outputs, infer=infer)
    title = name or target.__name__
    _check_free(normal_domain(domain), title)
    names = tuple(f"output_{index}" for index in range(outputs)) if isinstance(outputs, int) else tuple(outputs)
    body: dict[str, Any] = {
        "domain": normal_domain(domain),
        "output_names": names if len(names) > 1 else (),
        "host_reason": f"{title} is computed by a Python function",
        "__doc__": target.__doc__ or title,
        "__module__": module_of(target),
        "__qualname__": target.__qualname__,
        "__reduce__": reduce_operator,
    }
    if isinstance(target, type):
        if infer is not None:
            raise InputError(f"{title} is a class: write its type rule as the method `infer`")
        found = _from_class(title, cast("type[Any]", target), body)
    else:
        found = _from_function(title, target, infer, body)
    _own.add((found.domain, title))
    return found if isinstance(target, type) else operator_function(found)


def module_of(target: Any) -> str:
    """The module that something was defined in, or this one where it is none that can be imported."""
    return target.__module__ if target.__module__ in sys.modules else __name__


def _check_free(domain: str, name: str) -> None:
    if "@" in domain or not name.isidentifier():
        raise InputError(f"{name!r} in {domain!r} cannot be the name of an operator")
    if (domain, name) not in _own and ((domain, name) in OPERATORS or defs_has(domain, name)):
        raise InputError(
            f"{name} is an operator of {domain or 'ai.onnx'!r} already; "
            "register an implementation of it with `intaglio.implementation`, or choose another domain"
        )


def _from_function(
    title: str, function: Callable[..., Any], infer: Callable[..., Any] | None, body: dict[str, Any]
) -> type[Op]:
    signature = read_signature(function)
    if signature.takes_any:
        raise InputError(f"{title} takes **{signature.takes_any}; name every attribute")

    def compute(self: Op, *arrays: Any) -> Any:
        return call_on_arrays(function, arrays, attribute_values(self))

    def infer_type(self: Op, *values: Any) -> Any:
        if infer is None:
            return infer_by_example(title, lambda *arrays: compute(self, *arrays), values)
        return infer(*values, **attribute_values(self))

    body |= {"reference": compute, "infer": infer_type, "_parameters": signature.inputs}
    body["__annotations__"] = {name: text for name, (text, _) in signature.attributes.items()}
    body |= {name: default for name, (_, default) in signature.attributes.items() if default is not _REQUIRED}
    return types.new_class(title, (Op,), {}, lambda namespace: namespace.update(body))


def _from_class(title: str, target: type[Any], body: dict[str, Any]) -> type[Op]:
    if issubclass(target, Op):
        raise InputError(f"{title} is a subclass of Op and so registered already; decorate a plain class")
    if not any(hasattr(target, method) for method in ("expand", "reference", "interpret")):
        raise InputError(f"{title} defines neither `expand` nor `reference`, so there is nothing to compute")
    annotations = {
        name: annotation_text(annotation, getattr(target, name, None))
        for base in reversed(target.__mro__)
        for name, annotation in inspect.get_annotations(base).items()
    }
    body["__annotations__"] = annotations
    body |= {name: _frozen(getattr(target, name)) for name in annotations if hasattr(target, name)}
    if len(body["output_names"]) < 2 and hasattr(target, "output_names"):
        del body["output_names"]
    if hasattr(target, "reference"):
        _wrap_reference(title, target, body)
    return types.new_class(title, (target, Op), {}, lambda namespace: namespace.update(body))


def _wrap_reference(title: str, target: type[Any], body: dict[str, Any]) -> None:
    function = target.reference

    @functools.wraps(function)
    def compute(self: Op, *arrays: Any) -> Any:
        return call_on_arrays(functools.partial(function, self), arrays, {})

    body["reference"] = compute
    if not hasattr(target, "infer") and not hasattr(target, "expand"):

        @functools.wraps(function)
        def infer(self: Op, *values: Any) -> Any:
            return infer_by_example(title, lambda *arrays: compute(self, *arrays), values)

        body["infer"] = infer


def reduce_operator(self: Op) -> Any:
    """How an operator that a user registered is pickled: by its place in the table."""
    values = {field.name: getattr(self, field.name) for field in fields(cast("Any", self))}
    return _restore, (type(self).__module__, self.domain, self.name, values)


def _restore(module: str, domain: str, name: str, values: dict[str, Any]) -> Op:
    """An operator that was pickled, in a process where its module may not have been imported yet."""
    if (domain, name) not in OPERATORS:
        importlib.import_module(module)
    if (domain, name) not in OPERATORS:
        raise UnsupportedError(f"the operator {name} of {domain!r} is not registered in this process")
    return OPERATORS[domain, name](**values)


_REQUIRED = object()


@dataclass(frozen=True)
class FunctionSignature:
    """What a function takes: inputs, and attributes as (annotation, default); `takes_any` is the name behind `**`."""

    inputs: tuple[Parameter, ...]
    attributes: Mapping[str, tuple[str, Any]]
    takes_any: str = ""


def read_signature(function: Callable[..., Any], skipped: int = 0) -> FunctionSignature:
    """What a function takes behind its first `skipped` parameters."""
    kinds = inspect.Parameter
    inputs: list[Parameter] = []
    attributes: dict[str, tuple[str, Any]] = {}
    takes_any = ""
    for parameter in list(inspect.signature(function).parameters.values())[skipped:]:
        has_default = parameter.default is not kinds.empty
        if parameter.kind is kinds.VAR_POSITIONAL:
            inputs.append(Parameter(parameter.name, "variadic"))
        elif parameter.kind is kinds.VAR_KEYWORD:
            takes_any = parameter.name
        elif parameter.kind is kinds.KEYWORD_ONLY:
            default = _frozen(parameter.default) if has_default else _REQUIRED
            attributes[parameter.name] = (annotation_text(parameter.annotation, default), default)
        elif has_default and parameter.default is not None:
            raise InputError(
                f"{function.__name__} gives its input {parameter.name!r} the default {parameter.default!r}: "
                "an input has None or no default; an attribute stands behind a bare `*`"
            )
        else:
            inputs.append(Parameter(parameter.name, "optional" if has_default else "single"))
    return FunctionSignature(tuple(inputs), attributes, takes_any)


def annotation_text(annotation: Any, default: Any = None) -> str:
    """An annotation as the fields of operators spell it, or one that fits the default where there is none."""
    if annotation is inspect.Parameter.empty:
        if isinstance(default, (tuple, list)) and default:
            return f"tuple[{type(cast('Sequence[Any]', default)[0]).__name__}, ...]"
        return type(default).__name__ if isinstance(default, (bool, int, float, str)) else "Any"
    text = annotation.__name__ if type(annotation) is type else str(annotation)
    return text.replace("list[", "tuple[").replace("]", ", ...]") if text.startswith("list[") else text


def _frozen(default: Any) -> Any:
    return tuple(cast("list[Any]", default)) if isinstance(default, list) else default


def attribute_values(op: Op) -> dict[str, Any]:
    """The operator's attributes by name."""
    return {attribute.name: getattr(op, attribute.name) for attribute in op.attributes()}


def call_on_arrays(function: Callable[..., Any], arrays: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """What a user's function gives, as arrays; it sees its inputs read-only, since others may hold them too."""
    result = function(*(_read_only(item) for item in arrays), **attributes)
    return tuple(_as_result(item) for item in result) if isinstance(result, tuple) else _as_result(result)


def _read_only(item: Any) -> Any:
    if isinstance(item, list):
        return [_read_only(part) for part in cast("list[Any]", item)]
    if not isinstance(item, np.ndarray):
        return item
    view = cast("np.ndarray[Any, Any]", item).view()
    view.flags.writeable = False
    return view


def _as_result(item: Any) -> Any:
    if isinstance(item, list):
        return [_as_result(part) for part in cast("list[Any]", item)]
    if item is None or isinstance(item, dict):
        return cast("Any", item)
    array = np.asarray(item)
    if array.dtype.kind in "UST":
        return array.astype(object)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
