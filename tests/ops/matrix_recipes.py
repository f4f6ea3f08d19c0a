"""How one node of each operator is made: shapes, values and attributes that every version and type of it takes.

A recipe is the union of all versions: inputs that a version does not have are cut off, attributes that it does not know
are left out. So `Slice` names its bounds twice, as inputs and as attributes. What no union can say is a function of the
types and the version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper

from intaglio.ir.dtype import DTYPES, DType

Types = Mapping[str, str]
"""The type bound to each type variable of a schema, such as `tensor(float)`."""

TRAINING, PREVIEW, ML = "ai.onnx.preview.training", "ai.onnx.preview", "ai.onnx.ml"
NAMES = {"float": "float32", "double": "float64"}
"""ONNX's spellings that differ from ours."""


@dataclass(frozen=True)
class Data:
    """An input of made-up numbers in the type that its variable is bound to."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    whole: bool = False


@dataclass(frozen=True)
class Recipe:
    """One node. Inputs are `Data`, numbers to be cast to the input's type, None, or functions of types and version."""

    inputs: tuple[Any, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: Any = 1
    defaults: Types = field(default_factory=dict)
    """The types of variables that are not varied, where float is not the choice."""
    tie: Callable[[str, dict[str, str]], dict[str, str]] = lambda varied, types: types
    """Types that depend on the varied one."""
    outer: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """Values that the node's subgraphs read from outside, with their type variables."""
    input_types: dict[int, str] = field(default_factory=dict)
    """Type variables of inputs, where a variadic input has several."""
    before: tuple[onnx.NodeProto, ...] = ()
    """Nodes ahead of the one that is tried."""
    changes: tuple[int, ...] = ()
    """Versions that gave the recipe another result than the one before."""
    rtol: float = 0.0


RECIPES: dict[tuple[str, str], Recipe] = {}


def recipe(names: str, *inputs: Any, domain: str = "", options: Any = None, **attributes: Any) -> None:
    """Register a recipe for some operators."""
    for name in names.split():
        assert (domain, name) not in RECIPES, name
        RECIPES[(domain, name)] = Recipe(inputs, attributes, **(options or {}))


def x(*shape: int, low: float = -2.0, high: float = 2.0, whole: bool = False) -> Data:
    """An input of some numbers."""
    return Data(shape, low, high, whole)


def element(text: str) -> DType:
    """The element type of a type such as `optional(seq(tensor(float)))`."""
    name = text.rstrip(")").split("(")[-1]
    return DTYPES[NAMES.get(name, name)]


def number(variable: str) -> Callable[[Types, int], int]:
    """An attribute that holds the number of a bound element type."""
    return lambda types, version: element(types[variable]).number


def by_version(**since: Any) -> Callable[[Types, int], Any]:
    """A value that changed: `by_version(v1=2.0, v2=2)`."""
    return lambda types, version: [value for key, value in since.items() if int(key[1:]) <= version][-1]


def value_info(name: str, text: str, rank: int | None = None) -> onnx.ValueInfoProto:
    """A value of a type as schemas spell it; its sizes are not said."""
    return helper.make_value_info(name, type_proto(text, None if rank is None else [None] * rank))


def type_proto(text: str, shape: Sequence[int | None] | None = None) -> onnx.TypeProto:
    """The type of a type's spelling, with a shape for the tensor inside."""
    outer, _, inner = text[:-1].partition("(")
    if outer == "tensor":
        return helper.make_tensor_type_proto(element(text).number, shape)
    if outer == "seq":
        return helper.make_sequence_type_proto(type_proto(inner, shape))
    if outer == "optional":
        return helper.make_optional_type_proto(type_proto(inner, shape))
    key, _, value = inner.partition(", ")
    return helper.make_map_type_proto(element(key).number, type_proto(f"tensor({value})", []))


def unwrapped(text: str) -> str:
    """The type inside a sequence or optional."""
    return text.partition("(")[2][:-1]


def wraps(outer: str, variable: str, word: str) -> Callable[[str, dict[str, str]], dict[str, str]]:
    """`outer` is a sequence (or optional) of what `variable` is."""

    def tie(varied: str, types: dict[str, str]) -> dict[str, str]:
        if varied == outer or variable not in types:
            inner = types[outer]
            return {**types, variable: unwrapped(inner) if inner.startswith(f"{word}(") else inner}
        return {**types, outer: f"{word}({types[variable]})"}

    return tie


def filled(variable: str, *shape: int) -> Callable[[Types, int], onnx.TensorProto]:
    """A constant of a bound type as an attribute."""
    return lambda types, version: constant(types[variable], np.resize([1, 0, 1], shape))


def constant(text: str, values: Any) -> onnx.TensorProto:
    """A tensor of a type as schemas spell it."""
    dtype, values = element(text), np.asarray(values)
    plain = values.astype(str).astype(object) if dtype.kind == "string" else values.astype(dtype.numpy)
    return onnx.numpy_helper.from_array(plain, "value") if plain.dtype == object else packed(dtype, plain)


def packed(dtype: DType, array: Any) -> onnx.TensorProto:
    """A tensor of numbers in any type."""
    return helper.make_tensor("value", dtype.number, array.shape, array.ravel().tolist())


# Elementwise

X = x(2, 3)
recipe(
    "Abs Asinh Atan Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish IsInf IsNaN LeakyRelu Mish Neg "
    "Reciprocal Relu Round Shrink Sigmoid Sign Sin Sinh Softplus Softsign Swish Tan Tanh ThresholdedRelu Not "
    "BitwiseNot",
    X,
)
recipe("Selu", X, options={"changes": (6,)})
recipe("Acos Asin Atanh", x(2, 3, low=-0.75, high=0.75))
recipe("Acosh", x(2, 3, low=1, high=4))
recipe("Log Sqrt", x(2, 3, low=0.5, high=4))
recipe(
    "Add Sub Mul Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor BitwiseAnd BitwiseOr BitwiseXor PRelu",
    X,
    x(3),
    broadcast=1,
)
recipe("Div", X, x(3, low=1, high=3), broadcast=1)
recipe("Mod", X, x(3, low=1, high=3), fmod=lambda types, version: int(element(types["T"]).is_float))
recipe("Pow", x(2, 3, low=1, high=3), x(3, low=0, high=2), broadcast=1)
recipe("BitShift", x(2, 3, low=0, high=3), x(3, low=0, high=2), direction="LEFT")
recipe("Max Min Mean Sum", X, X, X)
recipe("Where", x(2, 3), X, x(3))
recipe("Clip", X, -1, 1, min=-1.0, max=1.0)


def castable(types: Types, version: int) -> Data:
    """Numbers that every judge casts alike: floats out of range and fractions of 2 and 4 bits are open to choice."""
    source, target = element(types["T1"]), element(types["T2"])
    if target.is_integer and target.bits < 8:
        return x(2, 3, low=0, high=1, whole=True)
    return x(2, 3, low=0 if source.is_float and target.kind == "uint" else -2)


recipe("Cast", castable, to=lambda types, version: element(types["T2"]).number if version > 5 else spelled(types["T2"]))
recipe("CastLike", castable, x(1))
recipe("Identity", X)
recipe("SwiGLU", X, X)
recipe("Dropout", X, 0.5, False, is_test=1, options={"outputs": by_version(v1=1, v10=2)})


def spelled(text: str) -> str:
    """How the first versions of `Cast` named a type."""
    return onnx.TensorProto.DataType.Name(element(text).number)


def same_width(varied: str, types: dict[str, str]) -> dict[str, str]:
    """`BitCast` keeps the width: an unsigned integer is the other type, or uint16 where there is none."""
    other = {"T1": "T2", "T2": "T1"}[varied]
    dtype = element(types[varied])
    partner = {128: "complex128", 8: "uint8"}.get(dtype.bits, f"uint{dtype.bits}")
    return {**types, other: f"tensor({partner})"}


recipe("BitCast", X, to=number("T2"), options={"tie": same_width})

# Movement

SQUARE = x(1, 4, 2, 2)
recipe("Reshape", X, [3, 2], shape=[3, 2])
recipe("Transpose Flatten NonZero Size", X)
recipe("Shape", X, start=0, end=2)
recipe("Concat", X, X, axis=0)
recipe("Split", X, by_version(v1=None, v13=[1, 2], v18=None), split=[1, 2], axis=1, num_outputs=2,
       options={"outputs": 2, "changes": (18,)})  # fmt: skip
recipe("Slice", x(3, 4), [2, 0], [0, 3], [0, 1], [-1, 2], starts=[0, 1], ends=[2, 3], axes=[0, 1],
       options={"changes": (10,), "defaults": {"Tind": "tensor(int64)"}})  # fmt: skip
recipe("Pad", X, [1, 0, 0, 1], 1, [0, 1], pads=[1, 0, 0, 1], paddings=[1, 0, 0, 1], value=1.0)
recipe("Gather", X, [[1, 0], [-1, 0]])
recipe("GatherElements", X, [[0, 1, -1]])
recipe("GatherND", X, [[0, 1], [1, -1]])
recipe("Scatter ScatterElements", X, [[0, 1, -1]], x(1, 3))
recipe("ScatterND", X, [[1]], x(1, 3))
recipe("Expand", X, [2, 1, 3])
recipe("Tile", X, by_version(v1=2, v6=[2, 1]), 0, options={"defaults": {"T1": "tensor(int64)"}})
recipe("Squeeze", x(1, 3), [0], axes=[0])
recipe("Unsqueeze", X, [0, 2], axes=[0, 2])
recipe("EyeLike", X, dtype=number("T2"), k=1)
recipe("DepthToSpace", SQUARE, blocksize=2)
recipe("SpaceToDepth", SQUARE, blocksize=2)
recipe("ReverseSequence", X, [1, 2, 1], time_axis=0, batch_axis=1)
recipe("Trilu", x(3, 3), 1)
recipe("CenterCropPad", X, [3, 1])
recipe("TensorScatter", X, x(2, 1), [1, 2], axis=1)
recipe("Compress", X, [True, False, True], axis=1)
recipe("Unique", x(6, low=0, high=2), options={"outputs": 4})
recipe("TopK", x(2, 5, low=-4, high=4), [2], k=2, options={"outputs": 2})
recipe("OneHot", [[0, 2], [1, 4]], 4, x(2), options={"defaults": {"T1": "tensor(int64)", "T2": "tensor(int64)"}})
recipe("Range", 1, 7, 2)
recipe("Constant", value=filled("T", 2, 3))
recipe("ConstantOfShape", [2, 3], value=filled("T2", 1))
recipe("Resize", x(1, 1, 2, 3), by_version(v10=[1.0, 1, 2, 2], v11=[], v13=None), [1.0, 1, 2, 2])
recipe("Upsample", x(1, 1, 2, 3), [1.0, 1, 2, 2], scales=[1.0, 1, 2, 2], height_scale=2.0, width_scale=2.0)
recipe("Col2Im", x(1, 4, 4), [3, 3], [2, 2])

# Reductions, sums and products

recipe("ArgMax ArgMin", x(2, 3, low=-4, high=4), axis=1)
recipe("ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare ReduceLogSumExp",
       x(2, 3, 2), [1], axes=[1])  # fmt: skip
recipe("ReduceLogSum", x(2, 3, 2, low=1, high=3), [1], axes=[1])
recipe("CumSum CumProd", x(2, 3), 1, options={"defaults": {"T2": "tensor(int64)"}})
recipe("MatMul", X, x(3, 2))
recipe("Gemm", X, x(3, 2), x(2), alpha=0.5, beta=2.0, broadcast=1)
recipe("Einsum", X, x(3, 2), equation="ij,jk->ik")
recipe("Det", x(2, 3, 3))
recipe("Softmax LogSoftmax Hardmax", x(2, 3, 2), options={"changes": (13,)})
recipe("LpNormalization", X)
recipe("MeanVarianceNormalization", x(2, 2, 3, 2))

# Quantized

LINEAR = {"defaults": {"T1": "tensor(uint8)", "T2": "tensor(uint8)", "T3": "tensor(uint8)"}}
BYTES = x(2, 3, low=0, high=4)
recipe("MatMulInteger", BYTES, x(3, 2, low=0, high=4), 1, 2,
       options={"defaults": {"T1": "tensor(uint8)", "T2": "tensor(uint8)"}})  # fmt: skip
recipe("ConvInteger", x(1, 1, 3, 3, low=0, high=4), x(2, 1, 2, 2, low=0, high=4), 1, 2,
       options={"defaults": {"T1": "tensor(uint8)", "T2": "tensor(uint8)"}})  # fmt: skip
recipe("QLinearConv", x(1, 1, 3, 3, low=0, high=4), 0.5, 1, x(2, 1, 2, 2, low=0, high=4), 0.25, 2, 0.5, 2, x(2),
       options=LINEAR)  # fmt: skip


def quantized_alike(varied: str, types: dict[str, str]) -> dict[str, str]:
    """8-bit floats are multiplied with their like."""
    is_float = "float8" in types[varied]
    return {**types, **dict.fromkeys(("T1", "T2", "T3"), types[varied])} if is_float else types


def zero_point(value: int, *variables: str) -> Callable[[Types, int], int]:
    """A zero point that the type can have: floats have only 0."""

    def attribute(types: Types, version: int) -> int:
        return 0 if element(next(types[v] for v in variables if v in types)).is_float else value

    return attribute


def byte_zero_point(types: Types, version: int) -> int | None:
    """A zero point for all types but int32, which has none."""
    return None if "tensor(int32)" in types.values() else zero_point(1, "T1", "T")(types, version)


def whole_scale(types: Types, version: int) -> float:
    """A scale that is no fraction where it has the type of integers."""
    return 1 if "int32" in types["T1" if 13 < version < 23 else "T2"] else 0.5


recipe("QLinearMatMul", BYTES, 0.5, zero_point(1, "T1"), x(3, 2, low=0, high=4), 0.25, zero_point(1, "T2"), 0.5,
       zero_point(2, "T3"), options={**LINEAR, "tie": quantized_alike})  # fmt: skip
recipe("DequantizeLinear", x(2, 3, low=0, high=3), 0.5,
       byte_zero_point, output_dtype=number("T3"),
       options={"defaults": {"T": "tensor(uint8)", "T1": "tensor(uint8)"}})  # fmt: skip
recipe("QuantizeLinear", x(2, 3, low=0, high=1.5), whole_scale, zero_point(0, "T3", "T2"),
       options={"defaults": {"T2": "tensor(uint8)", "T3": "tensor(uint8)"}, "changes": (19,)})  # fmt: skip
recipe("DynamicQuantizeLinear", X, options={"outputs": 3})

# Layers

IMAGE = x(1, 2, 4, 4)
recipe("Conv", IMAGE, x(2, 2, 3, 3), x(2), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
recipe("ConvTranspose", IMAGE, x(2, 2, 2, 2), x(2), kernel_shape=[2, 2], strides=[2, 2])
recipe("DeformConv", x(1, 1, 3, 3), x(1, 1, 2, 2), x(1, 8, 2, 2, low=-1, high=1), x(1), x(1, 4, 2, 2, low=0, high=1),
       kernel_shape=[2, 2])  # fmt: skip
recipe("CausalConvWithState", x(1, 2, 4), x(2, 1, 3), x(2), x(1, 2, 2), options={"outputs": 2})
recipe("AveragePool", IMAGE, kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1])
recipe("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1],
       options={"outputs": lambda types, version: 1 if version < 8 or "int8" in types["T"] else 2})  # fmt: skip
recipe("LpPool", IMAGE, kernel_shape=[2, 2], p=by_version(v1=2.0, v2=2))
recipe("GlobalAveragePool GlobalMaxPool", IMAGE)
recipe("GlobalLpPool", IMAGE, p=by_version(v1=2.0, v2=2))
recipe("MaxUnpool", x(1, 1, 2, 2), [[[[5, 7], [13, 15]]]], [1, 1, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
recipe("MaxRoiPool", IMAGE, [[0, 0, 0, 3, 3]], pooled_shape=[2, 2])
recipe("RoiAlign", IMAGE, [[0, 0, 3, 3], [1, 0, 2, 3]], [0, 0], output_height=2, output_width=2, sampling_ratio=2,
       options={"changes": (16,)})  # fmt: skip


def sampling_mode(types: Types, version: int) -> str:
    """Interpolation, where there is something between two elements."""
    if element(types["T1"]).kind not in ("float", "complex"):
        return "nearest"
    return "linear" if version >= 20 else "bilinear"


recipe("GridSample", IMAGE, x(1, 2, 2, 2, low=-0.9, high=0.9), mode=sampling_mode)
recipe("AffineGrid", x(1, 2, 3, low=-1, high=1), [1, 1, 2, 3])
recipe("BatchNormalization", IMAGE, x(2), x(2), x(2), x(2, low=0.5, high=2), is_test=1, consumed_inputs=[0, 0, 0, 1, 1])
recipe("InstanceNormalization", IMAGE, x(2), x(2))
GROUPS = by_version(v18=x(2), v21=x(4))
recipe("GroupNormalization", x(1, 4, 2, 2), GROUPS, GROUPS, num_groups=2, options={"changes": (21,)})
recipe("LayerNormalization", X, x(3), x(3),
       stash_type=lambda types, version: element(types["U"]).number, options={"outputs": 3})  # fmt: skip
recipe("RMSNormalization", X, x(3))
recipe("LRN", IMAGE, size=3)
recipe("RNN", x(2, 1, 3), x(1, 2, 3), x(1, 2, 2), x(1, 4), [2], x(1, 1, 2), hidden_size=2, output_sequence=1,
       options={"outputs": 2})  # fmt: skip
recipe("GRU", x(2, 1, 3), x(1, 6, 3), x(1, 6, 2), x(1, 12), [2], x(1, 1, 2), hidden_size=2, output_sequence=1,
       options={"outputs": 2})  # fmt: skip
recipe("LSTM", x(2, 1, 3), x(1, 8, 3), x(1, 8, 2), x(1, 16), [2], x(1, 1, 2), x(1, 1, 2), x(1, 6), hidden_size=2,
       output_sequence=1, options={"outputs": 3})  # fmt: skip
HEADS = x(1, 2, 3, 4)
recipe("Attention", HEADS, x(1, 2, 5, 4), x(1, 2, 5, 4), x(3, 5))
recipe("LinearAttention", x(1, 3, 4), x(1, 3, 4), x(1, 3, 4), x(1, 2, 2, 2), q_num_heads=2, kv_num_heads=2,
       update_rule="linear", options={"outputs": 2})  # fmt: skip
recipe("FlexAttention", HEADS, x(1, 2, 5, 4), x(1, 2, 5, 4), domain=PREVIEW)
recipe("RotaryEmbedding", HEADS, x(4, 2), x(4, 2), [[0, 1, 3]])
recipe("NegativeLogLikelihoodLoss", x(2, 3), [0, 2], x(3, low=0.5, high=2),
       options={"defaults": {"Tind": "tensor(int64)"}})  # fmt: skip
recipe("SoftmaxCrossEntropyLoss", x(2, 3), [0, 2], x(3, low=0.5, high=2),
       options={"defaults": {"Tind": "tensor(int64)"}, "outputs": 2})  # fmt: skip
recipe(
    "NonMaxSuppression", [[[0, 0, 1, 1], [0, 0.25, 1, 1.25], [0, 10, 1, 11]]], [[[0.75, 0.5, 0.25]]], [3], [0.5], [0.0]
)

# Signals

recipe("HannWindow HammingWindow BlackmanWindow", 8, output_datatype=number("T2"))
recipe("MelWeightMatrix", 4, 16, 8000, 0, 4000, output_datatype=number("T3"),
       options={"defaults": {"T1": "tensor(int64)"}})  # fmt: skip
recipe("DFT", x(1, 4, 1), 4, 1, axis=1, options={"defaults": {"T2": "tensor(int64)"}})
recipe("STFT", x(1, 8, 1), 2, x(4), 4, options={"defaults": {"T2": "tensor(int64)"}})

# Chance, where nothing is left to it

recipe("Bernoulli", x(2, 3, low=0, high=0), dtype=number("T2"), seed=1.0)
recipe("Multinomial", [[-90.0, 0, -90], [0, -90, -90]], sample_size=3, dtype=number("T2"), seed=1.0)
recipe("RandomNormal", shape=[2, 3], mean=2.0, scale=1e-30, dtype=number("T"))
recipe("RandomNormalLike", X, mean=2.0, scale=1e-30, dtype=number("T2"))
recipe("RandomUniform", shape=[2, 3], low=2.0, high=2.0, dtype=number("T"))
recipe("RandomUniformLike", X, low=2.0, high=2.0, dtype=number("T2"))

# Text and images

WORDS = np.array(["one two", "", "three"], object)
recipe("StringConcat", WORDS, WORDS)
recipe("StringNormalizer", WORDS[[0, 2]], case_change_action="UPPER")
recipe("StringSplit", WORDS, options={"outputs": 2})
recipe("RegexFullMatch", WORDS, pattern="[a-z ]+")
recipe("TfIdfVectorizer", x(6, low=0, high=3), mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0,
       ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3],
       pool_int64s=lambda types, version: None if "string" in types["T"] else [0, 1, 2, 1, 2],
       pool_strings=lambda types, version: ["0", "1", "2", "1", "2"] if "string" in types["T"] else None)  # fmt: skip


def bitmap() -> Any:
    """A picture of 1 x 1, uncompressed."""
    header = b"BM" + (58).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little")
    sizes = b"".join(n.to_bytes(4, "little") for n in (40, 1, 1)) + b"\1\0\x18\0"
    return np.frombuffer(header + sizes + bytes(24) + b"\x0a\x14\x1e\0", np.uint8)


recipe("ImageDecoder", bitmap())

# Sequences, optionals and control flow


def kept(name: str, text: str, version: int, result: str) -> onnx.NodeProto:
    """A node that passes a value on, without its last element where Identity takes no sequences yet."""
    operator = "SequenceErase" if text.startswith("seq") and version < 14 else "Identity"
    return helper.make_node(operator, [name], [result])


def branch(name: str, types: Types, version: int) -> onnx.GraphProto:
    """A branch that gives the outer value `v`."""
    return helper.make_graph([kept("v", types["V"], version, name)], name, [], [value_info(name, types["V"])])


recipe("If", True, then_branch=partial(branch, "chosen"), else_branch=partial(branch, "other"),
       options={"outer": {"v": (X, "V")}, "changes": (16,)})  # fmt: skip


def loop_body(types: Types, version: int) -> onnx.GraphProto:
    """Keeps the state; where it is a tensor, each trip gives it out too."""
    text, is_tensor = types["V"], types["V"].startswith("tensor")
    nodes = [helper.make_node("Identity", ["cond"], ["on"]), kept("state", text, version, "kept")]
    nodes += [helper.make_node("Identity", ["state"], ["row"])] if is_tensor else []
    inputs = [value_info("trip", "tensor(int64)", 0), value_info("cond", "tensor(bool)", 0), value_info("state", text)]
    outputs = [value_info("on", "tensor(bool)", 0), value_info("kept", text)]
    return helper.make_graph(nodes, "body", inputs, outputs + ([value_info("row", text)] if is_tensor else []))


def loop_outputs(types: Types, version: int) -> int:
    """The state, and the rows where there are some."""
    return 2 if types["V"].startswith("tensor") else 1


recipe("Loop", 2, True, X, body=loop_body, options={"outputs": loop_outputs, "changes": (16,)})


def scan_body(types: Types, version: int) -> onnx.GraphProto:
    """Keeps the state and passes each row on."""
    nodes = [helper.make_node("Identity", [a], [b]) for a, b in (("state", "kept"), ("row", "out"))]
    infos = {
        name: value_info(name, types["V"], rank) for name, rank in (("state", 0), ("row", 1), ("kept", 0), ("out", 1))
    }
    return helper.make_graph(nodes, "body", [infos["state"], infos["row"]], [infos["kept"], infos["out"]])


recipe("Scan", by_version(v8=None, v9=x()), by_version(v8=x(1), v9=x(2, 3)), by_version(v8=x(1, 2, 3), v9=None),
       body=scan_body, num_scan_inputs=1, options={"outputs": 2, "changes": (9,)})  # fmt: skip


def mapped_body(types: Types, version: int) -> onnx.GraphProto:
    """Passes each element of the sequence on."""
    inputs = [
        value_info("item", unwrapped(types["S"])),
        value_info("more", unwrapped(types["V"]) if types["V"].startswith("seq") else types["V"]),
    ]
    node = helper.make_node("Identity", ["item"], ["out"])
    return helper.make_graph([node], "body", inputs, [value_info("out", unwrapped(types["S"]))])


recipe("SequenceMap", X, X, body=mapped_body, options={"defaults": {"S": "seq(tensor(float))"}})
SEQUENCE_OF_T = {"tie": wraps("S", "T", "seq"), "defaults": {"I": "tensor(int64)"}}
recipe("ConcatFromSequence", X, axis=0, options=SEQUENCE_OF_T)
recipe("SequenceAt", X, 1, options=SEQUENCE_OF_T)
recipe("SequenceConstruct", X, X, options=SEQUENCE_OF_T)
recipe("SequenceEmpty", dtype=lambda types, version: element(types["S"]).number)
recipe("SequenceErase", X, 0, options=SEQUENCE_OF_T)
recipe("SequenceInsert", X, X, 0, options=SEQUENCE_OF_T)
recipe("SequenceLength", X, options=SEQUENCE_OF_T)
recipe("SplitToSequence", X, [1, 2], axis=1, options=SEQUENCE_OF_T)
OPTIONAL_OF_V = {"tie": wraps("O", "V", "optional")}
recipe("Optional", X, options=OPTIONAL_OF_V)
recipe("OptionalGetElement", X, options=OPTIONAL_OF_V)
recipe("OptionalHasElement", X, options={"defaults": {"O": "optional(tensor(float))"}})

# Training

recipe("Adagrad", 0.5, 1, x(2), x(2), x(2, low=0, high=1), domain=TRAINING, options={"outputs": 2})
recipe("Adam", 0.5, 1, x(2), x(2), x(2, low=0, high=1), x(2, low=0, high=1), domain=TRAINING, options={"outputs": 3})
recipe("Momentum", 0.5, 1, x(2), x(2), x(2), alpha=0.5, beta=0.5, mode="nesterov", norm_coefficient=0.25,
       domain=TRAINING, options={"outputs": 2})  # fmt: skip
recipe("Gradient", X, X, xs=["x0"], zs=["x1"], y="square", domain=TRAINING,
       options={"before": (helper.make_node("Mul", ["x0", "x0"], ["square"]),), "input_types": {0: "T2"}})  # fmt: skip
