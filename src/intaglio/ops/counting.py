"""How much work a node is, by one rule for each operator.

Multiplications with additions (`Amount.macs`) are those of convolutions, products and recurrent layers. Operations
(`Amount.flops`) are two for each of them, and one for each element that other operators compute. An operator without a
rule of its own is as much work as its expansion into simpler ones. Moving elements is no work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from intaglio.errors import IntaglioError
from intaglio.ir import dim as dims
from intaglio.ir.dim import Dim, product
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.ops.einsum import parse_equation

_DEPTH = 8
"""Expansions are expanded so often at most."""


class Amount(NamedTuple):
    """Work as numbers, or as formulas of open sizes. `is_known` is False where data tells how much it is."""

    macs: Dim = 0
    flops: Dim = 0
    is_known: bool = True
    biases: Dim = 0
    """Additions of biases, which are among the operations and no multiplications."""

    def plus(self, other: Amount) -> Amount:
        """The work of both."""
        known = self.is_known and other.is_known
        return Amount(self.macs + other.macs, self.flops + other.flops, known, self.biases + other.biases)

    def times(self, count: Dim) -> Amount:
        """The work, so often."""
        return Amount(self.macs * count, self.flops * count, self.is_known, self.biases * count)


def amount(node: Node) -> Amount:
    """The work of a node; nodes of a body are counted as often as it runs, and once where data tells how often."""
    try:
        return _amount(node, 0)
    except (IntaglioError, dims.UndecidableError):
        return Amount(is_known=False)


def total(graph: Graph) -> Amount:
    """The work of all nodes of a graph."""
    result = Amount()
    for node in graph.nodes:
        result = result.plus(amount(node))
    return result


def _amount(node: Node, depth: int) -> Amount:
    found = _RULES.get(node.op.name)
    if found is not None and (not node.op.domain or node.op.name not in _OTHERS):
        macs, biases = found(node), _bias(node)
        return Amount(macs, macs * 2 + biases, biases=biases)
    if any(node.op.subgraphs()):
        return _bodies(node)
    if node.op.is_view or node.op.moves_only or node.op.keeps_order or node.op.name in _NOTHING:
        return Amount()
    read = _READ.get(node.op.name)
    if read is not None:
        return Amount(0, read(node))
    if node.op.has("expand") and not node.op.is_elementwise and depth < _DEPTH:
        return _expanded(node, depth)
    sizes = [_elements(value) for value in node.outputs[:1]]
    return Amount(0, sum(sizes, start=0))


def _expanded(node: Node, depth: int) -> Amount:
    """The work of what an operator expands to."""
    from intaglio.ir.build import Builder

    graph = Graph()
    given = [None if value is None else _stand_in(graph, value) for value in node.inputs]
    with Builder(graph).active() as builder:
        node.op.expand(builder, *given)
    result = Amount()
    for inner in graph.nodes:
        if all(value is None or value.constant is not None for value in inner.inputs):
            continue
        result = result.plus(_amount(inner, depth + 1))
    return result


def _stand_in(graph: Graph, value: Value) -> Value:
    if value.constant is not None:
        return graph.constant(value.constant, value.name)
    new = graph.add_input(value.name, value.type)
    new.contents = value.contents
    return new


def _bodies(node: Node) -> Amount:
    """The larger branch, or the body times the rounds."""
    bodies = [total(graph) for _, graph in node.op.subgraphs()]
    if node.op.name == "If":
        known = [each for each in bodies if isinstance(each.flops, int)]
        return max(known or bodies, key=lambda each: each.flops if isinstance(each.flops, int) else 0)
    rounds = _rounds(node)
    return bodies[0].times(1 if rounds is None else rounds)._replace(is_known=rounds is not None and bodies[0].is_known)


def _rounds(node: Node) -> Dim | None:
    """How often a loop runs, as far as that is known before the run."""
    if node.op.name == "Scan":
        scanned = node.inputs[len(node.inputs) - node.op.num_scan_inputs]
        axis = (node.op.scan_input_axes or (0,))[0]
        return None if scanned is None else scanned.shape[axis]
    count = node.optional(0)
    contents = None if count is None else count.contents
    return None if contents is None else contents.ravel().tolist()[0]


def _elements(value: Value | None) -> Dim:
    if value is None or not isinstance(value.type, TensorType):
        return 0
    return product(value.shape)


def _bias(node: Node) -> Dim:
    """The additions of a bias."""
    position = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2, "FusedConv": 2, "DeformConv": 3}.get(node.op.name)
    return 0 if position is None or node.optional(position) is None else _elements(node.output)


def _convolution(position: int = 1) -> Callable[[Node], Dim]:
    return lambda node: _elements(node.output) * product(node.needed(position).shape[1:])


def _transposed(node: Node) -> Dim:
    return _elements(node.input) * product(node.needed(1).shape[1:])


def _matrices(node: Node) -> Dim:
    return _elements(node.output) * node.input.shape[-1]


def _fused_matrices(node: Node) -> Dim:
    depth = -2 if node.op.transA else -1
    return _elements(node.output) * node.input.shape[depth if node.input.rank > 1 else -1]


def _gemm(node: Node) -> Dim:
    return _elements(node.output) * node.input.shape[0 if node.op.transA else 1]


def _blocks(node: Node) -> Dim:
    return _elements(node.output) * node.op.K


def _einsum(node: Node) -> Dim:
    """All combinations of all labels, for each operand but the first."""
    values = [value for value in node.inputs if value is not None]
    equation = parse_equation(node.op.equation, [value.rank for value in values])
    sizes: dict[str, Dim] = {}
    for labels, value in zip(equation.operands, values, strict=True):
        for label, size in zip(labels, value.shape, strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    return product(sizes.values()) * max(0, len(values) - 1)


def _recurrent(gates: int) -> Callable[[Node], Dim]:
    def rule(node: Node) -> Dim:
        x, weight, state = node.needed(0), node.needed(1), node.needed(2)
        return x.shape[0] * x.shape[1] * weight.shape[0] * gates * state.shape[2] * (x.shape[2] + state.shape[2])

    return rule


_RULES: dict[str, Callable[[Node], Dim]] = {
    "Conv": _convolution(), "FusedConv": _convolution(), "DeformConv": _convolution(), "ConvInteger": _convolution(),
    "QLinearConv": _convolution(3), "ConvTranspose": _transposed, "MatMul": _matrices, "MatMulInteger": _matrices,
    "QLinearMatMul": _matrices, "DynamicQuantizeMatMul": _matrices, "MatMulIntegerToFloat": _matrices,
    "FusedMatMul": _fused_matrices, "Gemm": _gemm, "FusedGemm": _gemm, "QGemm": _gemm, "MatMulNBits": _blocks,
    "Einsum": _einsum, "LSTM": _recurrent(4), "GRU": _recurrent(3), "RNN": _recurrent(1),
    "DynamicQuantizeLSTM": _recurrent(4),
}  # fmt: skip
"""Operators that multiply and add: how often."""
_OTHERS = frozenset({"Conv"})
"""Names that stand for another operator outside of ONNX's own domain."""
_NOTHING = frozenset({"Shape", "Size", "Identity", "Dropout", "Cast", "CastLike", "Constant", "ConstantOfShape"})
"""Operators that compute no elements."""


def _pooled(node: Node) -> Dim:
    return _elements(node.output) * product(node.op.kernel_shape)


def _reads(node: Node) -> Dim:
    return _elements(node.input)


def _reading() -> Iterator[tuple[str, Callable[[Node], Dim]]]:
    for name in ("MaxPool", "AveragePool"):
        yield name, _pooled
    for name in ("Sum", "Prod", "Mean", "Max", "Min"):
        yield f"Reduce{name}", _reads
    for name in ("ArgMax", "ArgMin", "GlobalAveragePool", "GlobalMaxPool", "CumSum", "CumProd"):
        yield name, _reads


_READ = dict(_reading())
"""Operators that compute with every element they read, or with every element of their windows."""


def rules() -> dict[str, str]:
    """The operators that have a rule, each with what is counted, for people."""
    return {**dict.fromkeys(_RULES, "multiplications with additions"), **dict.fromkeys(_READ, "elements read")}
