"""Another floating-point type for the values of a graph, node by node, with as few Casts as that takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from intaglio.emit.onnx.older import is_written
from intaglio.errors import IntaglioError
from intaglio.ir.build import Builder, infer_node
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Graph, Node, Value, replace_use
from intaglio.ir.op import Array, Op, Tensor
from intaglio.ir.types import TensorType
from intaglio.onnx.writer import OWN_DOMAIN
from intaglio.passes import noops
from intaglio.passes.deadcode import remove_dead_code
from intaglio.passes.driver import rewrite

RANGE = frozenset({
    "Exp", "Log", "Softplus", "Pow", "ReduceSum", "ReduceMean", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "CumSum", "CumProd", "LpNormalization", "LayerNormalization",
    "RMSNormalization", "GroupNormalization", "InstanceNormalization", "MeanVarianceNormalization",
    "Softmax", "LogSoftmax", "Range", "NonMaxSuppression", "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss",
    "GlobalAveragePool", "GlobalLpPool", "LpPool", "DFT", "STFT", "SimplifiedLayerNormalization",
    "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
})  # fmt: skip
"""Operators whose results or sums leave the range of 16 bits, or need more digits than they have."""

TYPED = frozenset({"Cast", "ConstantOfShape"})
"""Operators whose attributes say an element type that is changed too."""

ATTRIBUTED = frozenset({
    "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "EyeLike", "Bernoulli", "HannWindow",
    "HammingWindow", "BlackmanWindow", "MelWeightMatrix", "Multinomial",
})  # fmt: skip
"""Operators whose attributes say an element type; they stay what they are."""


FIXED: dict[str, tuple[int, ...]] = {
    "Resize": (1, 2), "Upsample": (1,), "Dropout": (1,), "BatchNormalization": (1, 2, 3, 4),
}  # fmt: skip
"""Operands that have a type of their own."""


class Conversion:
    """The way through a graph that gives its floating-point values another type."""

    def __init__(self, graph: Graph, to: DType, opset: int, operators: Collection[str], names: Collection[str]) -> None:
        self.graph, self.to, self.opset = graph, to, opset
        self.operators, self.names = operators, names
        self.notes: list[str] = []
        self.kept: dict[Node, str] = {}
        """The nodes that stay as they are, each with the reason."""
        self._casts: dict[tuple[Value, DType], Value] = {}
        self._old: dict[Value, DType] = {}

    def run(self, io: bool) -> None:
        """Convert the graph in place; inputs and outputs keep their types unless `io`."""
        outputs = list(self.graph.outputs)
        for value in self.graph.inputs:
            if self._is_float(value):
                self._old[value] = value.dtype
                if io:
                    value.type = TensorType(self.to, value.tensor.shape)
                    value.default = None if value.default is None else self._narrowed(value.default)
        for node in list(self.graph.nodes):
            self._convert(node)
        if not io:
            self._restore(outputs)
        rewrite(self.graph, (noops.same_cast, noops.cast_back))
        remove_dead_code(self.graph)

    def _is_float(self, value: Value | None) -> bool:
        if value is None or not isinstance(value.type, TensorType):
            return False
        return value.dtype.is_float and value.dtype.bits in (16, 32, 64)

    def _convert(self, node: Node) -> None:
        self._old.update({value: value.dtype for value in node.outputs if self._is_float(value)})
        reason = self._reason(node)
        if reason is None:
            reason = self._attempt(node)
        if reason is not None:
            self._keep(node, reason)

    def _reason(self, node: Node) -> str | None:
        """Why a node is not even tried."""
        if any(node.op.subgraphs()):
            return "its bodies stay as they are"
        if node.op.name in self.operators:
            return f"{node.op.name} needs the range"
        if node.op.name in ATTRIBUTED:
            return "an attribute has its type"
        named = {node.origin.path, node.origin.path.partition(" (")[0], *(value.name for value in node.outputs)}
        return "it is named to stay" if named & set(self.names) else None

    def _attempt(self, node: Node) -> str | None:
        """Let a node compute in the other type; why that is not possible where it is not."""
        before, op, types = list(node.inputs), node.op, [value.type for value in node.outputs]
        wanted = self._wanted(node)
        for position, value in enumerate(before):
            if (
                value is not None
                and value.constant is not None
                and wanted[position] is not None
                and self._vanishes(value)
            ):
                return f"the constant {value.name!r} would become 0"
        try:
            node.op = self._typed(node)
            self._set(node, wanted)
            infer_node(node)
            if node.op.domain == OWN_DOMAIN or is_written(node, self.opset):
                return None
            reason = f"operator set {self.opset} has no {node.op.name} of {self.to.name}"
        except IntaglioError as error:
            reason = str(error).partition("\n")[0]
        node.op = op
        node.set_inputs(before)
        for value, type in zip(node.outputs, types, strict=True):
            value.type = type
        return reason

    def _wanted(self, node: Node) -> list[DType | None]:
        """The type that each operand shall have. What only moves elements takes them as they come."""
        fixed = FIXED.get(node.op.name, ())
        floats = [self._is_float(value) and place not in fixed for place, value in enumerate(node.inputs)]
        dtype = self.to
        if node.op.moves_only or node.op.is_view:
            first = [value for value, is_one in zip(node.inputs, floats, strict=True) if is_one and value is not None]
            computed = [value.dtype for value in first if value.constant is None]
            dtype = computed[0] if computed and all(each == computed[0] for each in computed) else self.to
        return [dtype if is_one else None for is_one in floats]

    def _typed(self, node: Node) -> Op:
        """The operator with the other type where it tells one."""
        if node.op.name == "Cast" and self._is_float(node.output):
            return node.op.changed(to=self.to.number)
        if node.op.name == "ConstantOfShape" and self._is_float(node.output):
            fill = np.zeros(1, np.float32) if node.op.value is None else node.op.value.array
            return node.op.changed(value=Tensor(self._narrowed(fill)))
        return node.op

    def _keep(self, node: Node, reason: str) -> None:
        """Let a node compute in the types of the file."""
        floats = [self._is_float(value) for value in (*node.inputs, *node.outputs)]
        if any(floats) or node.captures():
            self.kept[node] = reason
        self._set(
            node,
            [self._old.get(value, value.dtype) if value and self._is_float(value) else None for value in node.inputs],
        )
        for value in node.captures():
            if self._is_float(value) and value in self._old and value.dtype != self._old[value]:
                self._replace_in_bodies(node, value, self._cast(node, value, self._old[value]))
        infer_node(node)

    def _set(self, node: Node, wanted: Sequence[DType | None]) -> None:
        for position, dtype in enumerate(wanted):
            value = node.inputs[position]
            if value is not None and dtype is not None and value.dtype != dtype:
                node.set_input(position, self._cast(node, value, dtype))

    def _cast(self, node: Node, value: Value, dtype: DType) -> Value:
        """A value in another type: a constant, or one Cast for all its readers."""
        found = self._casts.get((value, dtype))
        if found is None and value.constant is not None:
            found = self.graph.constant(self._narrowed(value.constant, dtype), value.name)
        elif found is None:
            after = None if value.producer is None else value.producer.next
            before = after if value.producer is not None else next(iter(self.graph.nodes), None)
            builder = Builder(self.graph, before or node, node.origin.renamed(f"{value.name} as {dtype.name}"))
            found = builder.Cast(value, to=dtype.number)
        self._casts[value, dtype] = found
        return found

    def _narrowed(self, array: Array, dtype: DType | None = None) -> Array:
        """A constant in another type; what lies outside of its range is its largest number, as in masks."""
        kind = dtype or self.to
        with np.errstate(over="ignore"):
            result = np.asarray(array).astype(kind.numpy)
        if kind.bits != 16:
            return result
        wide, found = np.asarray(array).astype(np.float64), result.astype(np.float64)
        lost = np.isfinite(wide) & ~np.isfinite(found)
        if lost.any():
            self.notes.append(
                f"{int(lost.sum())} numbers of a constant are outside of {kind.name}: its largest is taken"
            )
            result = np.where(lost, np.sign(wide) * LARGEST[kind.name], wide).astype(kind.numpy)
        return result

    def _vanishes(self, value: Value) -> bool:
        if self.to.bits != 16 or value.constant is None or value.constant.size > SMALL:
            return False
        wide = np.clip(value.constant.astype(np.float64), -1, 1)
        return bool(((wide != 0) & (wide.astype(self.to.numpy).astype(np.float64) == 0)).any())

    def _replace_in_bodies(self, node: Node, old: Value, new: Value) -> None:
        inner = {each for _, body in node.op.subgraphs() for each in (body, *body.all_nodes())}
        inner |= {body for each in list(inner) if isinstance(each, Node) for _, body in each.op.subgraphs()}
        for user, position in list(old.uses):
            if user in inner:
                replace_use(user, position, new)

    def _restore(self, outputs: Sequence[Value]) -> None:
        """Give the outputs their types and names again."""
        restored: list[Value] = []
        for value in outputs:
            dtype = self._old.get(value)
            if dtype is None or value.dtype == dtype or value.producer is None:
                restored.append(value)
                continue
            cast = Builder(self.graph, None, value.producer.origin).Cast(value, to=dtype.number)
            cast.name, value.name = value.name, cast.name
            restored.append(cast)
        self.graph.set_outputs(restored)


LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}
SMALL = 1024
"""Constants of more elements are weights, of which small ones may become 0."""
