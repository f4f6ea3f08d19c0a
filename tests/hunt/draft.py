"""A model in the making, whose values are known for each set of feeds while it grows.

Each new node is run by the reference on what its operands are. So a generator may propose what it likes: what the
reference refuses, and what would grow out of all bounds, is simply not added.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from tests.ops.agreement_cases import numpy_type

from intaglio.errors import IntaglioError
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

from .dice import Dice
from .known import captured
from .problem import Problem

MOST_ELEMENTS = 200_000
MOST_MAGNITUDE = 1e4

Dim = tuple[int, ...]
"""A size for each set of feeds."""


class Rejected(Exception):
    """A proposal that does not fit."""


class Draft:
    """A graph with values for `bindings` sets of sizes; dimensions of inputs are numbers where `is_static`."""

    def __init__(self, dice: Dice, bindings: int, is_static: bool, opset: int = 21, outer: Draft | None = None) -> None:
        self.dice, self.bindings, self.is_static, self.opset, self.outer = dice, bindings, is_static, opset, outer
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[str] = []
        self.constants: list[onnx.TensorProto] = []
        self.values: dict[str, list[Any]] = {}
        self.fed: list[str] = []
        self.symbols: dict[Dim, str] = {}
        self.count = 0
        self.wild = False
        """Whether results that are not finite are welcome."""
        self.has_open_ones = True
        """Whether a size that is 1 for all feeds may be a symbol. Where it is broadcast, which compiled code does not
        expect of symbols, the whole model gets a plan for each set of sizes, and then symbols are not tried."""

    def name(self) -> str:
        """A new name."""
        if self.outer is not None:
            return self.outer.name()
        self.count += 1
        return f"v{self.count}"

    def all(self, size: int) -> Dim:
        """A size that is the same for all feeds."""
        return (size,) * self.bindings

    def dims(self, name: str) -> tuple[Dim, ...]:
        """The shape of a value, for all feeds."""
        arrays = self.arrays(name)
        if len({array.ndim for array in arrays}) > 1:
            raise Rejected(f"{name} has several ranks")
        return tuple(zip(*(array.shape for array in arrays), strict=True))

    def arrays(self, name: str) -> list[Any]:
        """The value for each set of feeds."""
        if name not in self.values and self.outer is not None:
            return self.outer.arrays(name)
        return self.values[name]

    def dtype(self, name: str) -> Any:
        """The element type of a value."""
        return self.arrays(name)[0].dtype

    def input(self, dtype: str, dims: Sequence[Dim], special: bool = False, low: float = -2, high: float = 2) -> str:
        """A new input of made-up numbers."""
        is_sparse = special and self.dice.chance(0.6)
        is_dense = special and not is_sparse
        arrays = [self.dice.array(dtype, [dim[i] for dim in dims], is_dense, low, high) for i in range(self.bindings)]
        return self.feed([self.dice.extreme(array) for array in arrays] if is_sparse else arrays)

    def feed(self, arrays: list[Any]) -> str:
        """A new input with given values; that of a body is one of the whole model."""
        if self.outer is not None:
            return self.outer.feed(arrays)
        name = self.name()
        self.values[name] = arrays
        shape = [self._size(dim) for dim in self.dims(name)]
        self.inputs.append(helper.make_tensor_value_info(name, _number(arrays[0].dtype), shape))
        self.fed.append(name)
        return name

    def _size(self, dim: Dim) -> int | str:
        if len(set(dim)) == 1 and (self.is_static or self.dice.chance(0.5)):
            return dim[0]
        if set(dim) == {1} and not self.has_open_ones:
            return 1
        if self.dice.chance(0.2):
            return f"s{self.name()}"  # equal, which the model does not say
        return self.symbols.setdefault(dim, f"d{len(self.symbols)}")

    def constant(self, array: Any) -> str:
        """A new constant."""
        name = self.name()
        self.values[name] = [np.asarray(array)] * self.bindings
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def numbers(self, dtype: str, shape: Sequence[int], low: float = -1, high: float = 1) -> str:
        """A new constant of made-up numbers."""
        if prod(shape) > MOST_ELEMENTS:
            raise Rejected("a constant out of all bounds")
        return self.constant(self.dice.array(dtype, shape, False, low, high))

    def integers(self, *values: int) -> str:
        """A new constant list, such as axes."""
        return self.constant(np.array(values, np.int64))

    def add(self, operator: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> list[str]:
        """A new node; the names of its results. Raises Rejected where the reference does not take it."""
        names = [self.name() for _ in range(outputs)]
        node = helper.make_node(operator, list(inputs), names, domain=domain, **attributes)
        results = [self._run(node, i) for i in range(self.bindings)]
        if operator.endswith("Pool") and any(
            self._is_beyond(inputs[0], i, results[i][0]) for i in range(self.bindings)
        ):
            raise Rejected("ONNX Runtime lets a window stick out that is longer than the axis")
        for position, name in enumerate(names):
            self._check([result[position] for result in results])
            self.values[name] = [result[position] for result in results]
        self.nodes.append(node)
        return names

    def _is_beyond(self, name: str, binding: int, result: Any) -> bool:
        """Whether a window finds no place in an axis."""
        return result.size == 0 and self.arrays(name)[binding].size > 0

    def one(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A new node with one result."""
        return self.add(operator, *inputs, **attributes)[0]

    def _run(self, node: onnx.NodeProto, binding: int) -> list[Any]:
        names = dict.fromkeys(name for name in (*node.input, *captured(node)) if name)
        feeds = {name: self.arrays(name)[binding] for name in names}
        infos = [_info(name, value) for name, value in feeds.items()]
        graph = helper.make_graph([node], "one", infos, [onnx.ValueInfoProto(name=name) for name in node.output])
        try:
            read = read_model(self._model(graph)).graph
            with np.errstate(all="ignore"):
                return evaluate(read, [feeds[value.name] for value in read.inputs])
        except IntaglioError as error:
            raise Rejected(str(error)) from None

    def _check(self, results: list[Any]) -> None:
        for result in results:
            if not isinstance(result, np.ndarray):
                continue
            if result.size > MOST_ELEMENTS:
                raise Rejected("too large")
            if result.dtype.kind in "fV" and not self.wild and result.size:
                most = np.max(np.abs(result.astype(np.float64)))
                if not most <= MOST_MAGNITUDE:
                    raise Rejected("out of bounds")

    def _model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def body(self, name: str, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[str]) -> onnx.GraphProto:
        """The draft as the body of a node of the outer draft."""
        infos = [onnx.ValueInfoProto(name=item) for item in outputs]
        return helper.make_graph(self.nodes, name, list(inputs), infos, self.constants)

    def problem(self, outputs: Sequence[str], cases: int = 1) -> Problem:
        """The model with some values as its outputs."""
        infos = [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(outputs)]
        graph = helper.make_graph(self.nodes, "hunt", self.inputs, infos, self.constants)
        feeds = [{name: self.values[name][i] for name in self.fed} for i in range(self.bindings)]
        return Problem(self._model(graph), feeds, cases)


def _number(dtype: Any) -> int:
    return onnx.TensorProto.STRING if np.dtype(dtype).kind == "O" else helper.np_dtype_to_tensor_dtype(dtype)


def _info(name: str, value: Any) -> onnx.ValueInfoProto:
    if isinstance(value, list):
        inner = helper.make_tensor_type_proto(_number(value[0].dtype if value else np.dtype(np.float32)), None)
        return helper.make_value_info(name, helper.make_sequence_type_proto(inner))
    return helper.make_tensor_value_info(name, _number(value.dtype), value.shape)


def zero_dimensional(dtype: str, value: float) -> Any:
    """A scalar."""
    return np.array(value).astype(numpy_type(dtype))
