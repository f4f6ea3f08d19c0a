"""Colours by what an operator does, and how wide text is."""

from __future__ import annotations

from dataclasses import dataclass

_FAMILIES = {
    "product": "Conv ConvTranspose ConvInteger QLinearConv DeformConv MatMul MatMulInteger QLinearMatMul Gemm Einsum "
    "MatMulNBits FusedMatMul FusedConv CausalConvWithState",
    "attention": "Attention MultiHeadAttention GroupQueryAttention RotaryEmbedding LSTM GRU RNN",
    "norm": "BatchNormalization LayerNormalization InstanceNormalization GroupNormalization RMSNormalization LRN "
    "LpNormalization MeanVarianceNormalization SkipLayerNormalization SimplifiedLayerNormalization",
    "activation": "Relu LeakyRelu PRelu Elu Selu Celu Sigmoid HardSigmoid HardSwish Swish Mish Tanh Gelu Softplus "
    "Softsign ThresholdedRelu Clip Softmax LogSoftmax Hardmax Dropout Erf",
    "pool": "MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool MaxUnpool ReduceMean ReduceSum "
    "ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare ArgMax ArgMin TopK",
    "shape": "Reshape Transpose Flatten Squeeze Unsqueeze Concat Split Slice Gather GatherElements GatherND Scatter "
    "ScatterElements ScatterND Expand Tile Pad Shape Size Identity Resize Upsample DepthToSpace SpaceToDepth Cast "
    "CastLike ConstantOfShape Range",
    "quantise": "QuantizeLinear DequantizeLinear DynamicQuantizeLinear",
    "control": "If Loop Scan SequenceMap",
}
_FAMILY = {name: family for family, names in _FAMILIES.items() for name in names.split()}


@dataclass(frozen=True)
class Colours:
    """The colours of a box: its face, its border and its text."""

    face: str
    border: str
    text: str = "#1c2024"


COLOURS = {
    "product": Colours("#dbe7fb", "#3f6fb5"),
    "attention": Colours("#e6dcf7", "#7351b0"),
    "norm": Colours("#d9efe2", "#38805a"),
    "activation": Colours("#fbe3d6", "#b9603a"),
    "pool": Colours("#d6eef0", "#2f7f88"),
    "shape": Colours("#ece9e1", "#837a66"),
    "quantise": Colours("#f6dde8", "#a84873"),
    "control": Colours("#f7eec3", "#94801d"),
    "input": Colours("#3a4149", "#23282d", "#ffffff"),
    "output": Colours("#3a4149", "#23282d", "#ffffff"),
    "fold": Colours("#f4f5f6", "#6b7480"),
    "other": Colours("#f1f3f5", "#6b7480"),
}

_NARROW = frozenset("ijltfr.,:;'|!()[]/ -`")
_WIDE = frozenset("mwMW@%…—")


def theme_of(operator: str) -> str:
    """The family of an operator, which decides its colour."""
    return _FAMILY.get(operator, "other")


def text_width(text: str, size: float) -> float:
    """About how wide text is in a common sans-serif type of a size; never much too small.

    >>> text_width("Conv", 10) < text_width("MatMul", 10)
    True
    """
    return size * sum([0.36 if c in _NARROW else 0.96 if c in _WIDE else 0.7 if c.isupper() else 0.6 for c in text])
