"""The words for names in exported PyTorch code: operators by what they are to a module, and what they give."""

from __future__ import annotations

MOVEMENT = frozenset([
    "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Cast", "Expand", "Slice", "Pad", "Identity",
    "Tile", "BitCast", "Gather", "Quantize",
])  # fmt: skip
"""What a value was before these, it is behind them."""

ACTIVATIONS = frozenset([
    "Relu", "LeakyRelu", "PRelu", "Sigmoid", "Tanh", "Elu", "Selu", "Celu", "Gelu", "Swish", "HardSwish",
    "HardSigmoid", "Softplus", "Mish", "Clip", "Softsign", "ThresholdedRelu", "Erf",
])  # fmt: skip
"""Functions between layers."""

NORMS = frozenset([
    "BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization",
    "RMSNormalization", "LRN", "LpNormalization",
])  # fmt: skip
"""Normalisations, with weights or without."""

POINTWISE = ACTIVATIONS | NORMS | {"Dropout", "FakeQuantize", "QuantizeLinear", "DequantizeLinear"}
"""Operators that follow a layer and belong to it."""

CONVOLUTIONS = frozenset(["Conv", "ConvTranspose", "QLinearConv"])
"""Layers of images."""

PRODUCTS = CONVOLUTIONS | {"Linear", "QLinearMatMul", "QGemm", "DynamicLinear"}
"""Layers that multiply by their weights."""

POOLS = frozenset(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
"""Layers that have no weights."""

RECURRENT = frozenset(["LSTM", "GRU", "RNN"])
"""Layers that go along time."""

COMPARISONS = frozenset([
    "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Not", "Xor", "IsNaN", "IsInf",
])  # fmt: skip
"""Operators that give truth values."""

WORDS = {
    "Attention": "attention",
    "Gather": "embedding",
    "Range": "positions",
    "Concat": "joined",
    "ArgMax": "indices",
    "ArgMin": "indices",
    "NonZero": "indices",
    "NonMaxSuppression": "indices",
    "OneHot": "one_hot",
    "GlobalAveragePool": "pooled",
    "GlobalMaxPool": "pooled",
    "ReduceMean": "mean",
    "ReduceSum": "total",
    "ReduceMax": "largest",
    "ReduceMin": "smallest",
    "ReduceL2": "length",
    "Where": "chosen",
    "Resize": "resized",
    "Shape": "sizes",
    "Size": "count",
    "CumSum": "sums",
    "Einsum": "product",
    "ConstantOfShape": "filled",
}
"""What operators give that need no look at their operands."""

ARITHMETIC = frozenset(["Add", "Sub", "Mul", "Div", "MatMul"])
"""The signs of Python between two values."""

PURPOSES = {
    "Add": "bias",
    "Sub": "shift",
    "Mul": "scale",
    "Div": "divisor",
    "MatMul": "matrix",
    "Linear": "matrix",
    "Gather": "table",
    "Conv": "kernel",
    "Where": "fill",
    "Concat": "token",
    "Expand": "token",
}
"""What constants are for, by the operators that read them."""

GENERIC = frozenset([
    "v", "t", "x", "y", "z", "val", "value", "values", "tensor", "tmp", "temp", "out", "output", "outputs",
    "onnx", "node", "op", "result", "gpu", "cpu", "self", "blob", "data", "variable", "input", "inputs", "arg",
    "args", "param", "getitem", "view", "clone", "contiguous", "copy", "to", "float", "int", "long", "detach",
    "default", "bias", "weight", "addmm", "mm", "bmm", "convolution", "linear", "layer", "norm", "native",
    "batch", "no", "training", "scaled", "dot", "product", "silu", "embedding", "select", "unbind", "chunk",
    "cat", "permute", "expand", "full", "ones", "zeros", "arange", "alias", "size", "div", "sub", "mul", "add",
    "matmul", "readvariableop", "biasadd", "fusedbatchnormv3", "const", "constant", "of", "shape", "nd", "w",
    "b", "n", "e", "h", "f", "g", "quantized", "quant", "dequantized", "dequantize", "quantize", "scale",
    "scales", "zero", "point", "r", "s", "p", "c", "k", "d", "i", "j", "l", "m", "o", "q", "u",
])  # fmt: skip
"""Words in names that say nothing about a value."""
