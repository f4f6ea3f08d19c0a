"""LSTM, GRU and RNN: the projection of all inputs as one matrix product, then the steps of each direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dim import THREADS, Dim, floordiv, maximum, minimum, pieces, product
from intaglio.ir.dtype import FLOAT32, DType
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.plan import Operand, Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import Buffer, View, whole
from intaglio.targets.c.kernel_file import Instance
from intaglio.targets.c.routine import Parameter, Routine
from intaglio.targets.c.routine import reads as read
from intaglio.targets.c.routine import writes as written
from intaglio.targets.c.rules.call import EpilogueCode, epilogue_code
from intaglio.targets.c.rules.linear import MatrixOperand, Product, folded, gemm_call, single_matrix
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, converted, packed_blocks, widened
from intaglio.targets.c.structured.gemm import Left, Right, gemm
from intaglio.targets.c.structured.pack import pack_b
from intaglio.targets.c.structured.recurrent import (
    GATES,
    Cell,
    recurrent_kernel,
    resolve_activations,
    row_tile,
)
from intaglio.targets.c.structured.source import Element, StructuredKernel, plain_epilogue
from intaglio.targets.c.target import Target
from intaglio.targets.c.target_rules import machine

Order = Literal["inputs", "states"]
"""Where the depth of interleaved weights stands: before everything, or behind the blocks of hidden units."""

_KINDS: dict[str, dict[str, str]] = {
    "float32": {"type": "float", "kind": "f32"},
    "float64": {"type": "double", "kind": "f64"},
}
"""What C calls the element types that the steps are written for."""

_INPUTS, _STATES = (4, 0, 2, 1, 3), (0, 2, 4, 1, 3)

BATCH_BLOCK = 32
"""Sequences of a batch at most that one task computes."""


@dataclass(frozen=True)
class _Layer:
    """A node with its inputs by name."""

    node: Node

    @property
    def op(self) -> Any:
        return self.node.op

    def input(self, position: int) -> Value | None:
        return self.node.inputs[position] if len(self.node.inputs) > position else None

    def given(self, position: int) -> Value:
        value = self.input(position)
        assert value is not None
        return value

    @property
    def dtype(self) -> DType:
        """The element type that the layer is computed in."""
        return computed(self.given(0).dtype)

    @property
    def cell(self) -> Cell:
        name: Any = self.op.name
        return "GRU_linear" if name == "GRU" and self.op.linear_before_reset else name

    @property
    def gates(self) -> int:
        return sum(GATES[self.cell])

    @property
    def hidden(self) -> int:
        return int(self.given(2).shape[2])  # pyright: ignore[reportArgumentType]

    @property
    def directions(self) -> int:
        return self.op.directions

    def batch_and_steps(self) -> tuple[Dim, Dim]:
        shape = self.given(0).shape
        return (shape[0], shape[1]) if self.op.layout else (shape[1], shape[0])


def _refuse(node: Node) -> Refusal | None:
    layer = _Layer(node)
    if layer.dtype.name not in _KINDS:
        return Refusal(Cause.ELEMENTS, f"{node.op.name} of {layer.given(0).dtype} is not compiled yet")
    return (
        None
        if isinstance(layer.given(2).shape[2], int)
        else Refusal(Cause.SHAPE, "its hidden size is not known before the run")
    )


@anchor("LSTM", "GRU", "RNN", refuse=_refuse, needs={"vectors"})
def recurrent(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Project the inputs of all steps, then run the steps: one task for each direction and block of the batch."""
    layer = _Layer(node)
    weights = _Weights(context, layer)
    projected = _project(context, layer, weights)
    _run_steps(context, layer, weights, projected)


class _Weights:
    """The layer's weights with their gates interleaved: constants at load, others by copies before the layer runs."""

    def __init__(self, context: Context, layer: _Layer) -> None:
        self.context, self.layer = context, layer
        self.lanes = machine(context).vector_bytes // 4
        self.blocks = -(-layer.hidden // self.lanes)

    @property
    def columns(self) -> int:
        """Interleaved gates of all directions."""
        return self.layer.directions * self.blocks * self.layer.gates * self.lanes

    def interleaved(self, value: Value, view: View, order: Order) -> Buffer:
        """Weights (direction, gate, unit, depth) as (depth, direction, block, gate, lane) or with the depth third."""
        permutation = _INPUTS if order == "inputs" else _STATES
        if value.constant is not None:
            form = f"{order} {self.lanes} {view.offset} {view.shape}"
            return self.context.packed(value, form, lambda: self._array(value.constant, view, permutation))
        directions, gates, _, depth = view.shape
        shape = (directions, gates, self.blocks, self.lanes, depth)
        memory = self.context.temporary(self.layer.dtype, product(shape))
        target = whole(memory, tuple(shape[axis] for axis in permutation))
        inverse = [permutation.index(axis) for axis in range(5)]
        packed_blocks(self.context, view, 2, self.lanes, target.transpose(inverse))
        return target.buffer

    def _array(self, array: Any, view: View, permutation: tuple[int, ...]) -> Any:
        directions, gates, hidden, depth = (int(dim) for dim in view.shape)  # pyright: ignore[reportArgumentType]
        flat = np.ascontiguousarray(array, self.layer.dtype.numpy).reshape(-1)
        strides = [flat.itemsize * int(stride) for stride in view.strides]  # pyright: ignore[reportArgumentType]
        start = flat[int(view.offset) :]  # pyright: ignore[reportArgumentType]
        source = np.lib.stride_tricks.as_strided(start, (directions, gates, hidden, depth), strides)
        padded = np.zeros((directions, gates, self.blocks * self.lanes, depth), flat.dtype)
        padded[:, :, :hidden] = source
        split = padded.reshape(directions, gates, self.blocks, self.lanes, depth)
        return np.ascontiguousarray(np.transpose(split, permutation))

    def matrix(self, position: int, order: Order, gates: tuple[int, int]) -> Buffer:
        """Some gates of W or R, given by the first of them and their number."""
        value = self.layer.given(position)
        return self.interleaved(value, self._gates(value, gates), order)

    def _gates(self, value: Value, gates: tuple[int, int]) -> View:
        shape = (self.layer.directions, self.layer.gates, self.layer.hidden, value.shape[2])
        return whole(_buffer_of(self.context, value), shape).window(1, gates[0], 1, gates[1])

    def projection(self) -> Buffer:
        """A constant W as the packed right operand of a product."""
        value, target = self.layer.given(1), machine(self.context)
        element = cast(Element, self.layer.dtype.name)
        view = self._gates(value, (0, self.layer.gates))
        return self.context.packed(
            value,
            f"projection {self.lanes}",
            lambda: pack_b(self._array(value.constant, view, _INPUTS).reshape(-1, self.columns), target, element),
        )

    def vectors(self, position: int, start: int, count: int) -> Buffer:
        """Vectors `start` and so on, each a number for every hidden unit, of B or P."""
        value = self.layer.given(position)
        total = value.shape[1]
        hidden = self.layer.hidden
        view = View(
            _buffer_of(self.context, value),
            start * hidden,
            (self.layer.directions, count, hidden, 1),
            (total, hidden, 1, 1),
        )
        return self.interleaved(value, view, "states")

    def bias(self) -> Buffer | None:
        """What is added to the projected inputs: the input's bias and the state's, unless that is inside a gate."""
        value, gates = self.layer.input(3), self.layer.gates
        if value is None:
            return None
        joined = 2 if self.layer.cell == "GRU_linear" else gates
        first, second = self.vectors(3, 0, gates), self.vectors(3, gates, gates)
        shape = (self.layer.directions, self.blocks, gates, self.lanes)
        if first.kind == second.kind == "constant":
            arrays = [np.array(self.context.constant_array(buffer)).reshape(shape) for buffer in (first, second)]
            arrays[1][:, :, joined:] = 0
            return self.context.constant(np.ascontiguousarray(arrays[0] + arrays[1]))
        total = whole(self.context.temporary(self.layer.dtype, product(shape)), shape)
        views = [whole(buffer, shape).window(2, 0, 1, joined) for buffer in (first, second)]
        _add(self.context, views[0], views[1], total.window(2, 0, 1, joined))
        if joined < gates:
            left = whole(first, shape).window(2, joined, 1, gates - joined)
            rest = total.window(2, joined, 1, gates - joined)
            converted(self.context, left, self.layer.dtype, self.layer.dtype, into=rest)
        return total.buffer

    def extra(self) -> tuple[Buffer, int]:
        """What a step reads beside the gates, and its vectors for each block."""
        layer = self.layer
        zeros = self.context.constant(np.zeros(1, layer.dtype.numpy))
        if layer.cell == "LSTM" and layer.input(7) is not None:
            return self.vectors(7, 0, 3), 3
        if layer.cell != "GRU_linear":
            return zeros, 0
        if layer.input(3) is None:
            return self.context.constant(np.zeros(self.lanes, layer.dtype.numpy)), 0
        return self.vectors(3, 5, 1), 1


def _buffer_of(context: Context, value: Value) -> Buffer:
    """Where a weight lies; a constant that will be packed does not become a part of the plan."""
    if value.constant is not None:
        return Buffer(value.name, value.dtype, value.tensor.size, "constant")
    return _at_start(context, value).buffer


def _at_start(context: Context, value: Value) -> View:
    view = _wide(context, value)
    return view if view.offset == 0 else context.copy(value, view)


def _wide(context: Context, value: Value) -> View:
    """The value in row-major order, in the type that it is computed in."""
    return widened(context, value, context.contiguous(value))


def _add(context: Context, left: View, right: View, into: View) -> None:
    graph = Graph("sum")
    x, y = (graph.add_input(name, TensorType(into.buffer.dtype, left.shape)) for name in ("x", "y"))
    total = Builder(graph).Add(x, y)
    loads = {x: left, y: right}
    fused = FusedNodes(list(graph.nodes), left.shape, (), loads, {total: into}, "sum of biases")
    context.emit(context.rules.loop_call(fused))


def _project(context: Context, layer: _Layer, weights: _Weights) -> Buffer:
    """X x W' + bias for all steps: rows as in X, columns as the gates are interleaved."""
    x, w = layer.given(0), layer.given(1)
    left = single_matrix(context, x, folded(context, x, widened(context, x)))
    columns, depth = weights.columns, x.shape[2]
    if w.constant is not None:
        right = MatrixOperand(Operand(weights.projection()), "packed", 0)
    else:
        right = MatrixOperand(Operand(weights.matrix(1, "inputs", (0, layer.gates))), "rows", columns)
    element = cast(Element, layer.dtype.name)
    rows = product(x.shape[:2])
    extents = Product(rows, columns, depth)
    layouts: tuple[Left, Right] = left.layout if left.layout != "packed" else "rows", right.layout
    kernel = gemm(machine(context), element, *layouts, extents=extents.sides)
    view = whole(context.temporary(layer.dtype, rows * columns, "projected"), (rows, columns))
    bias = weights.bias()
    code = _biased(kernel, view, bias) if layer.dtype == FLOAT32 else _plain(kernel, element, view)
    title = f"{layer.op.name} inputs {rows} x {columns} x {depth}"
    gemm_call(context, kernel, (left, right), extents, code, (layer.node,), title)
    if bias is None or layer.dtype == FLOAT32:
        return view.buffer
    total = whole(context.temporary(layer.dtype, rows * columns, "projected"), (rows, columns))
    _add(context, view, whole(bias, (columns,)).broadcast((rows, columns)), total)
    return total.buffer


def _biased(kernel: StructuredKernel, view: View, bias: Buffer | None) -> EpilogueCode:
    """The epilogue that adds the bias to each row."""
    columns = view.shape[1]
    result, added = Value("projected", TensorType(FLOAT32, view.shape)), Value("bias", TensorType(FLOAT32, (columns,)))
    row = None if bias is None else whole(bias, (columns,)).broadcast(view.shape)
    epilogue = Epilogue(result, stores={result: view})
    return epilogue_code(epilogue, bias=None if bias is None else added, bias_view=row)


def _plain(kernel: StructuredKernel, element: Element, view: View) -> EpilogueCode:
    """The epilogue that only stores, for elements whose sums others cannot take."""
    stores = plain_epilogue(element, len(kernel.buffers), len(kernel.sizes))
    return EpilogueCode(stores, [Operand(view.buffer, 0, True)], [("out_step", view.shape[1])])


def _activations(layer: _Layer) -> list[Any]:
    """The activations of each direction; `clip` bounds the inputs of gates, not that of an LSTM's cell."""
    op, count = layer.op, len(layer.op.defaults)
    clips = [None if index % count == 2 else op.clip for index in range(count * layer.directions)]
    found = resolve_activations(op.activation_names(), op.activation_alpha or (), op.activation_beta or (), clips)
    return [found[count * i : count * (i + 1)] for i in range(layer.directions)]


def _instance(layer: _Layer, extras: int, target: Target) -> Instance:
    kinds = _KINDS[layer.dtype.name]
    return recurrent_kernel(
        layer.cell,
        _activations(layer),
        target,
        KIND=kinds["kind"],
        ELEMENT=kinds["type"],
        HAS_LENGTHS=layer.input(4) is not None,
        IS_REVERSE=layer.op.direction == "reverse",
        HAS_PEEPHOLES=layer.cell == "LSTM" and extras == 3,
        IS_COUPLED=layer.cell == "LSTM" and bool(layer.op.input_forget),
        EXTRAS=extras,
    )


def _run_steps(context: Context, layer: _Layer, weights: _Weights, projected: Buffer) -> None:
    extra, extras = weights.extra()
    lengths = layer.input(4)
    batch, steps = layer.batch_and_steps()
    lanes, directions, hidden = weights.lanes, layer.directions, layer.hidden
    share = pieces(batch, pieces(THREADS, directions))
    block = maximum(row_tile(machine(context)), minimum(share, BATCH_BLOCK))
    sizes: list[tuple[str, Size]] = [("T", steps), ("N", batch), ("H", hidden), ("block", block)]
    results = _results(context, layer)
    routine = Routine(
        layer.op.name.lower(),
        _instance(layer, extras, machine(context)),
        [*_operands(context, layer, weights, projected, extra), *_outputs(context, layer, results)],
        sizes + list(_strides(layer, weights.columns).items()),
        directions * pieces(batch, block),
        1 + floordiv(steps * block * (layer.gates * hidden * hidden), 16),
        block * (4 * layer.dtype.itemsize * weights.blocks * lanes),
        lengths is not None,
    )
    call = routine.call(layer.node)
    call.flops = batch * steps * (2 * directions * layer.gates * hidden * hidden)
    context.emit(call)
    for value, view in results:
        if layer.dtype != value.dtype:
            converted(context, view, layer.dtype, value.dtype, into=context.allocate(value))


def _strides(layer: _Layer, columns: int) -> dict[str, Dim]:
    """How far apart steps, sequences and directions lie in the projected inputs, the states and the outputs."""
    (batch, steps), hidden, directions = layer.batch_and_steps(), layer.hidden, layer.directions
    flags: dict[str, Dim] = {
        "has_h": int(layer.input(5) is not None),
        "has_c": int(layer.input(6) is not None),
        "has_end_c": int(layer.op.name == "LSTM"),
    }
    if layer.op.layout:
        strides: dict[str, Dim] = {
            "x_time": columns, "x_batch": steps * columns,
            "start_direction": hidden, "start_batch": directions * hidden,
            "y_time": directions * hidden, "y_direction": hidden, "y_batch": steps * (directions * hidden),
            "end_direction": hidden, "end_batch": directions * hidden,
        }  # fmt: skip
    else:
        strides = {
            "x_time": batch * columns, "x_batch": columns, "start_direction": batch * hidden, "start_batch": hidden,
            "y_time": batch * (directions * hidden), "y_direction": batch * hidden, "y_batch": hidden,
            "end_direction": batch * hidden, "end_batch": hidden,
        }  # fmt: skip
    return strides | flags


def _operands(
    context: Context, layer: _Layer, weights: _Weights, projected: Buffer, extra: Buffer
) -> Sequence[Parameter]:
    """What the steps read."""
    gates, element = GATES[layer.cell], _KINDS[layer.dtype.name]["type"]

    def constant(name: str, buffer: Buffer) -> Parameter:
        return Parameter(name, element, Operand(buffer))

    last = weights.matrix(2, "states", (layer.gates - gates[-1], gates[-1]))
    found = [constant("projected", projected), constant("weights", last)]
    if layer.cell == "GRU":
        found.append(constant("reset_weights", weights.matrix(2, "states", (0, 2))))
    found.append(constant("extra", extra))
    for name, position in (("start_h", 5), ("start_c", 6)):
        value = layer.input(position)
        found.append(constant(name, extra) if value is None else read(name, _wide(context, value)))
    lengths = layer.input(4)
    if lengths is not None:
        found.append(read("lengths", context.contiguous(lengths)))
    return found


def _results(context: Context, layer: _Layer) -> list[tuple[Value, View]]:
    """Where the steps write each output: in its own memory, or ahead of its conversion in a wider copy."""
    if layer.dtype == layer.given(0).dtype:
        return [(value, context.allocate(value)) for value in layer.node.outputs]
    return [
        (value, whole(context.temporary(layer.dtype, value.tensor.size), value.shape)) for value in layer.node.outputs
    ]


def _outputs(context: Context, layer: _Layer, results: Sequence[tuple[Value, View]]) -> list[Parameter]:
    """What the steps write; an output that the node does not ask for has memory all the same."""
    names = ("y", "y_h", "y_c")
    found = [written(name, view) for name, (_, view) in zip(names, results, strict=False)]
    state = layer.batch_and_steps()[0] * (layer.directions * layer.hidden)
    for name in names[len(results) :]:
        size = state if name != "y" else 1
        found.append(written(name, whole(context.temporary(layer.dtype, size), (size,))))
    return found
