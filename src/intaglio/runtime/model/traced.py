"""Derivatives of Python functions: each is traced into a graph for the types of the arrays that it is called with."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.build import Builder, type_of
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import Type

Parameters = ParamSpec("Parameters")


def also_of_functions(derive: Callable[Parameters, Any]) -> Callable[Parameters, Any]:
    """Let a function that makes a model of a model also take a Python function in the place of the model."""

    @functools.wraps(derive)
    def wrapped(*given: Parameters.args, **named: Parameters.kwargs) -> Any:
        if given and _is_function(given[0]):
            return TracedDerivative(given[0], lambda graph: derive(graph, *given[1:], **named))  # pyright: ignore
        return derive(*given, **named)

    return wrapped


def _is_function(model: Any) -> bool:
    return inspect.isfunction(model) or inspect.ismethod(model) or isinstance(model, functools.partial)


class TracedDerivative:
    """A derivative of a Python function of tensors, to be called with arrays.

    A call traces the function with values of the types of its arrays, and makes a model of that; calls with arrays of
    the same types use it again. The function computes with the functions of `intaglio.ops` and with Python's operators
    on values, and returns one value.
    """

    def __init__(self, function: Callable[..., Any], derive: Callable[[Graph], Any]) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._derive = derive
        self._names = _parameter_names(function)
        self._models: dict[tuple[Type, ...], Any] = {}
        self._lock = threading.Lock()

    def __call__(self, *arrays: Any) -> Any:
        """The derivative at these arrays; what it needs besides the arguments of the function stands behind them."""
        given = [np.asarray(array) for array in arrays]
        if len(given) < len(self._names):
            raise InputError(f"{self._title} takes {len(self._names)} arrays, got {len(given)}")
        return self.model(*given)(*given)

    def model(self, *arrays: Any) -> Any:
        """The model that computes the derivative at arrays of these types."""
        types = tuple(type_of(np.asarray(array)) for array in arrays[: len(self._names)])
        with self._lock:
            if types not in self._models:
                self._models[types] = self._derive(self._traced(types))
            return self._models[types]

    def _traced(self, types: Sequence[Type]) -> Graph:
        graph = Graph(self._title)
        inputs = [graph.add_input(name, type) for name, type in zip(self._names, types, strict=True)]
        builder = Builder(graph)
        with builder.active():
            result = self._function(*inputs)
            if not isinstance(result, Value):
                raise InputError(f"{self._title} returned a {type(result).__name__}, expected one value of the graph")
            graph.set_outputs([builder.Identity(result)])
        return graph

    @property
    def _title(self) -> str:
        return getattr(self._function, "__name__", "function")

    def __repr__(self) -> str:
        return f"<derivative of {self._title}({', '.join(self._names)})>"


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    needed = [each for each in parameters if each.default is each.empty]
    for each in needed:
        if each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
            raise InputError(f"the parameter {each.name} of {function!r} is not one that is given by its position")
    return [each.name for each in needed]
