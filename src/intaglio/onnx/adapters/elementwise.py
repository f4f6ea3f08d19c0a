"""Older versions of elementwise operators."""

from __future__ import annotations

import numpy as np

from intaglio.errors import LoadError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import DTYPES
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts
from intaglio.ops.cast import convert

UNARY_X = ("Abs", "Neg", "Ceil", "Floor", "Reciprocal", "Sqrt", "Relu", "Sigmoid")
UNARY_INPUT = ("Exp", "Log", "Tanh")
VARIADIC = ("Min", "Max", "Sum", "Mean")
ARITHMETIC = ("Add", "Sub", "Mul", "Div")
COMPARISON = ("Pow", "Equal", "Less", "Greater", "And", "Or", "Xor")


def _register_unary(name: str) -> None:
    """Until opset 5 a list said which inputs may be overwritten; it never had a meaning."""

    if name in UNARY_X:

        @adapts(name, before=6)
        def unary_x(b: Builder, X: Value, *, consumed_inputs: tuple[int, ...] | None = None) -> Value:
            return getattr(b, name)(X)

    else:

        @adapts(name, before=6)
        def unary_input(b: Builder, input: Value, *, consumed_inputs: tuple[int, ...] | None = None) -> Value:
            return getattr(b, name)(input)


def _register_variadic(name: str) -> None:
    @adapts(name, before=6)
    def variadic(b: Builder, *data_0: Value, consumed_inputs: tuple[int, ...] | None = None) -> Value:
        return getattr(b, name)(*data_0)


def _register_arithmetic(name: str) -> None:
    @adapts(name, before=6)
    def arithmetic_1(
        b: Builder,
        A: Value,
        B: Value,
        *,
        axis: int | None = None,
        broadcast: int = 0,
        consumed_inputs: tuple[int, ...] | None = None,
    ) -> Value:
        return getattr(b, name)(A, aligned(b, A, B, axis, broadcast))

    _register_broadcast(name, since=6)


def _register_broadcast(name: str, since: int) -> None:
    @adapts(name, since=since, before=7)
    def binary(b: Builder, A: Value, B: Value, *, axis: int | None = None, broadcast: int = 0) -> Value:
        return getattr(b, name)(A, aligned(b, A, B, axis, broadcast))


def aligned(b: Builder, A: Value, B: Value, axis: int | None, broadcast: int) -> Value:
    """B with trailing dimensions of 1, so that its first dimension meets `axis` of A, as until opset 6.

    Without `axis` the last dimensions meet. Without `broadcast` the shapes must be equal.
    """
    if not broadcast or axis is None:
        if not broadcast and A.tensor.shape is not None and B.tensor.shape is not None and A.rank != B.rank:
            raise ShapeError(f"{A.type} and {B.type} differ in rank, and the attribute broadcast is 0")
        return B
    start = axis + A.rank if axis < 0 else axis
    missing = A.rank - start - B.rank
    if missing < 0 or start < 0:
        raise ShapeError(f"axis is {axis}: {B.type} does not fit into {A.type} from there on")
    return b.Unsqueeze(B, list(range(B.rank, B.rank + missing))) if missing else B


for _name in (*UNARY_X, *UNARY_INPUT):
    _register_unary(_name)
for _name in VARIADIC:
    _register_variadic(_name)
for _name in ARITHMETIC:
    _register_arithmetic(_name)
for _name in COMPARISON:
    _register_broadcast(_name, since=1)


@adapts("Clip", before=6)
def clip_1(
    b: Builder,
    input: Value,
    *,
    max: float | None = None,
    min: float | None = None,
    consumed_inputs: tuple[int, ...] | None = None,
) -> Value:
    return b.Clip(input, _bound(b, min, input), _bound(b, max, input))


@adapts("Clip", since=6, before=11)
def clip_6(
    b: Builder, input: Value, *, max: float = 3.4028234663852886e38, min: float = -3.4028234663852886e38
) -> Value:
    return b.Clip(input, _bound(b, min, input), _bound(b, max, input))


def _bound(b: Builder, number: float | None, like: Value) -> Value | None:
    """A bound in the element type of `like`: infinite where that type ends before it."""
    return None if number is None else b.constant(convert(np.asarray(number), like.dtype))


@adapts("Cast", before=6)
def cast_1(b: Builder, input: Value, *, to: str) -> Value:
    """Until opset 5 the type was given by name."""
    name = {"FLOAT": "float32", "DOUBLE": "float64"}.get(to.upper(), to.lower())
    if name not in DTYPES:
        raise LoadError(f"Cast: {to!r} is not the name of an element type")
    return b.Cast(input, to=DTYPES[name].number)
