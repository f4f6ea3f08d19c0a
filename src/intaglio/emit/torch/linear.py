"""Linear layers found in products with constant matrices."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.emit.python.words import has_defaults
from intaglio.emit.torch.words import FLOATS
from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Op
from intaglio.ir.types import TensorType, Type


class Linear(Op, abstract=True):
    """x times a matrix of weights, plus a bias; `transposed` where the weights are stored as [inputs, outputs]."""

    transposed: int = 0

    def infer(self, x: Value, weight: Value, bias: Value | None = None) -> Type:
        """The type of x with another last size."""
        del bias
        return TensorType(x.dtype, (*x.shape[:-1], weight.shape[1 if self.transposed else 0]))


def find_linear_layers(graph: Graph) -> None:
    """Replace products with constant matrices, and sums with constant biases behind them, by linear layers."""
    for node in graph.nodes:
        for _, body in node.op.subgraphs():
            find_linear_layers(body)
        if node.op.domain == "" and node.op.name == "Gemm":
            _from_gemm(node)
        elif node.op.domain == "" and node.op.name == "MatMul":
            _from_product(node)


def _is_matrix(value: Value | None) -> bool:
    return value is not None and value.constant is not None and value.constant.ndim == 2 and value.dtype.name in FLOATS


def _is_bias(value: Value | None, size: object) -> bool:
    return value is not None and value.constant is not None and value.tensor.shape == (size,)


def _from_gemm(node: Node) -> None:
    weight, bias = node.optional(1), node.optional(2)
    if not has_defaults(node.op, "transB") or not _is_matrix(weight) or weight is None:
        return
    outputs = weight.shape[0 if node.op.transB else 1]
    if bias is not None and not _is_bias(bias, outputs):
        return
    _replace(node, Linear(transposed=int(not node.op.transB)), [node.input, weight, bias], node)


def _from_product(node: Node) -> None:
    x, weight = node.needed(0), node.needed(1)
    if not _is_matrix(weight) or x.constant is not None or x.tensor.shape is None or x.rank < 2:
        return
    readers = node.output.readers
    add = readers[0] if len(readers) == 1 and not node.output.is_output else None
    if add is not None and add.graph is node.graph and add.op.domain == "" and add.op.name == "Add":
        bias = next((value for value in add.inputs if value is not node.output), None)
        if bias is not None and _is_bias(bias, weight.shape[1]):
            _replace(add, Linear(transposed=1), [x, weight, bias], node)
            return
    _replace(node, Linear(transposed=1), [x, weight], node)


def _replace(node: Node, op: Op, inputs: Sequence[Value | None], source: Node) -> None:
    assert node.graph is not None
    given = [value for value in inputs if value is not None]
    (result,) = Builder(node.graph, before=node, origin=source.origin).add(op, given, 1, [node.output.name])
    node.output.replace_uses(result)
    node.graph.remove(node)
    if source is not node and source.graph is not None:
        source.graph.remove(source)
