"""Epilogues: elementwise nodes fused behind a structured kernel, applied to its results before they see memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.elements import scalar_type
from intaglio.kernels.elementwise import rounding
from intaglio.kernels.fused import Values
from intaglio.kernels.language import (
    Apply,
    Expr,
    Let,
    Load,
    Loop,
    LoopKernel,
    Name,
    Parameter,
    Statement,
    Store,
    Stride,
    parts,
)
from intaglio.kernels.view import View

RESULT = "result"
"""The name of the structured kernel's result in the kernel of an epilogue."""


@dataclass
class Epilogue:
    """Nodes behind `result`, the structured kernel's output.

    `loads` and `stores` are views of the result's shape, filled in when the group is lowered.
    """

    result: Value
    nodes: list[Node] = field(default_factory=list[Node])
    loads: dict[Value, View] = field(default_factory=dict[Value, View])
    stores: dict[Value, View] = field(default_factory=dict[Value, View])

    def kernel(self, bias: Value | None = None, bias_view: View | None = None) -> EpilogueKernel:
        """What is computed of each result, over its rows and columns.

        `bias`, if given, is added to the result first: one value for each column.
        """
        return _Making(self, bias, bias_view).kernel()


@dataclass(frozen=True)
class EpilogueKernel:
    """The kernel, the views of its parameters, and its sizes by name."""

    kernel: LoopKernel
    views: tuple[View, ...]
    sizes: dict[str, Dim]


class _Making:
    """An epilogue becoming a kernel: its parameters and statements so far."""

    def __init__(self, epilogue: Epilogue, bias: Value | None, bias_view: View | None) -> None:
        self.epilogue, self.bias, self.bias_view = epilogue, bias, bias_view
        self.parameters: list[Parameter] = []
        self.views: list[View] = []
        self.sizes: dict[str, Dim] = {}
        self.body: list[Statement] = []
        self.values = Values()

    def kernel(self) -> EpilogueKernel:
        self.values.add_given(self.epilogue.result, self._result())
        for value, view in self.epilogue.loads.items():
            if self.values.add_literal(value) is None:
                self._load(value, view)
        self.body += [self.values.statement(node) for node in self.epilogue.nodes]
        for value, view in self.epilogue.stores.items():
            self.body.append(Store(self._parameter(value, view, True), self.values[value]))
        loops = Loop("row"), Loop("column")
        kernel = LoopKernel("epilogue", "", loops, tuple(self.parameters), _numbered(self.body))
        return EpilogueKernel(kernel, tuple(self.views), self.sizes)

    def _result(self) -> Expr:
        """The structured kernel's result with its bias, rounded as its operator's is."""
        type = scalar_type(self.epilogue.result.dtype)
        result: Expr = Name(RESULT, type)
        if self.bias is not None and self.bias_view is not None:
            result = Apply("add", (result, self._load(self.bias, self.bias_view)), type)
        producer = self.epilogue.result.producer
        format = rounding(producer) if producer is not None else ""
        if format:
            result = Apply("round", (result,), type, (format,))
        if isinstance(result, Name):
            return result
        name = Name("rounded" if format else "sum", type)
        self.body.append(Let(name.name, result))
        return name

    def _load(self, value: Value, view: View) -> Name:
        parameter = self._parameter(value, view, False)
        name = self.values.add(value, scalar_type(value.dtype))
        self.body.append(Load(name.name, name.type, parameter))
        return name

    def _parameter(self, value: Value, view: View, is_written: bool) -> str:
        strides = rows_and_columns(view)
        assert strides is not None, "lowering makes the operands of an epilogue even"
        name = f"x{len(self.parameters)}"
        steps: list[Stride] = []
        for loop, stride in zip(("row", "column"), strides, strict=True):
            steps.append(stride if stride in (0, 1) and isinstance(stride, int) else f"{name}.{loop}")
            if isinstance(steps[-1], str):
                self.sizes[steps[-1]] = stride
        self.parameters.append(Parameter(name, value.dtype, tuple(steps), is_written))
        self.views.append(view)
        return name


def _numbered(body: Sequence[Statement]) -> tuple[Statement, ...]:
    """Statements whose names follow from their order alone, so that epilogues that compute the same are equal."""
    names = {RESULT: RESULT}

    def renamed(value: Expr) -> Expr:
        if isinstance(value, Name):
            return Name(names[value.name], value.type)
        if isinstance(value, Apply):
            return replace(value, arguments=tuple(map(renamed, value.arguments)))
        return value

    found: list[Statement] = []
    for each in body:
        if not isinstance(each, Load):
            each = replace(each, value=renamed(each.value))
        if not isinstance(each, Store):
            names[each.name] = f"v{len(names) - 1}"
            each = replace(each, name=names[each.name])
        found.append(each)
    return tuple(found)


def rows_and_columns(view: View) -> tuple[Dim, Dim] | None:
    """The strides of a view along its rows (all axes but the last, as one) and columns; None where rows are uneven."""
    if not view.shape:
        return 0, 0
    step: Dim | None = None
    expected: Dim = 0
    for extent, stride in reversed(list(zip(view.shape[:-1], view.strides[:-1], strict=True))):
        if extent == 1:
            continue
        if step is None:
            step, expected = stride, stride * extent
        elif stride != expected:
            return None
        else:
            expected = stride * extent
    column = 0 if view.shape[-1] == 1 else view.strides[-1]
    return (0 if step is None else step), column


def result_type(kernel: LoopKernel) -> str:
    """The scalar type of the structured kernel's result, of which the kernel of an epilogue always makes something."""
    values = (each.value for each in kernel.body if not isinstance(each, Load))
    found = (part.type for value in values for part in parts(value) if isinstance(part, Name) and part.name == RESULT)
    return next(found)


def stride_names(kernel: LoopKernel) -> list[str]:
    """The sizes of an epilogue's kernel that a call hands over: strides, without the extents of its two loops."""
    return [name for name in kernel.sizes if name not in ("row", "column")]


def stride_size(place: int) -> str:
    """The name of the stride at a place among the sizes of a call."""
    return f"epilogue_stride{place}"
