"""Which operators have kernels that want channels last."""

from __future__ import annotations

from intaglio.ir.graph import Node
from intaglio.ir.types import TensorType
from intaglio.kernels.elements import HALVES
from intaglio.targets.c.rules.table import ANCHORS

_SPATIAL = frozenset({"Conv", "ConvTranspose", "ConvWeightGradient", "MaxPool", "AveragePool", "MaxPoolGradient"})


def is_channels_last(node: Node) -> bool:
    """Whether a channels-last kernel exists for the node."""
    if node.op.name == "ConvInteger":
        return ANCHORS["ConvInteger"].refuse(node) is None
    if node.op.name not in _SPATIAL:
        return False
    tensors = [value.type for value in node.inputs if value is not None]
    elements = ("float32", *HALVES, *(("int8", "uint8") if node.op.name == "MaxPool" else ()))
    if not all(isinstance(t, TensorType) and t.dtype.name in elements and t.shape is not None for t in tensors):
        return False
    data = node.input
    if not 3 <= data.rank <= 5 or any(value.uses for value in node.outputs[1:]):
        return False
    return node.op.name not in ("Conv", "ConvTranspose") or isinstance(data.shape[1], int)
