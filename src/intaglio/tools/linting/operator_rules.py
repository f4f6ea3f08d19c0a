"""Rules about operators: those that are old, random, in training mode, or mean different things to runtimes."""

from __future__ import annotations

import numpy as np

from intaglio.ir.types import TensorType
from intaglio.tools.document import Node
from intaglio.tools.linting.rules import Found, rule
from intaglio.tools.linting.subject import Subject, attribute_int, attribute_text, title

RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
EXPERIMENTAL = {
    "ATen", "Affine", "ConstantFill", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler",
    "ParametricSoftplus", "Scale", "ScaledTanh",
}  # fmt: skip
RARE_COORDINATES = {"tf_crop_and_resize", "tf_half_pixel_for_nn", "half_pixel_symmetric"}
OVERFLOWING = {"Exp", "Pow", "ReduceSumSquare", "ReduceL2", "ReduceSum", "ReduceSumExp", "ReduceProd", "CumSum"}
ARITHMETIC = {"Mul", "Add", "Sub", "ReduceProd", "ReduceSum"}
QUANTIZED = {"QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"}
MOVING = {
    "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather", "Concat", "Split", "Identity",
    "MaxPool", "Pad", "DepthToSpace", "SpaceToDepth", "Expand", "Tile",
}  # fmt: skip


def _is_own(node: Node) -> bool:
    return node.shell.domain in ("", "ai.onnx")


@rule("operator-unknown", "error", "check name and opset_import")
def operator_unknown(subject: Subject) -> Found:
    """Operators that no version of ONNX has in this set."""
    functions = {each.key[:2] for each in subject.document.functions}
    for node in subject.nodes:
        is_called = ("", node.shell.op_type) in functions
        if _is_own(node) and not is_called and subject.schema(node) is None and node.shell.op_type not in EXPERIMENTAL:
            yield title(node), f"ai.onnx {subject.version(node)} has no {node.shell.op_type}"


@rule("experimental", "warning", "export again")
def experimental(subject: Subject) -> Found:
    """Operators that never were, or are not yet, part of the standard."""
    for node in subject.nodes:
        is_preview = node.shell.domain.startswith("ai.onnx.preview")
        if is_preview or (_is_own(node) and node.shell.op_type in EXPERIMENTAL and subject.schema(node) is None):
            yield title(node), "is experimental"


@rule("deprecated", "warning", "convert: set-opset, or export again")
def deprecated(subject: Subject) -> Found:
    """Operators that ONNX has deprecated."""
    old = {"Upsample": "Resize", "Scatter": "ScatterElements"}
    for node in subject.nodes:
        schema = subject.schema(node) if _is_own(node) else None
        if schema is not None and (schema.deprecated or node.shell.op_type in old):
            instead = old.get(node.shell.op_type)
            yield title(node), f"use {instead}" if instead else "is deprecated"


@rule("random", "warning", "feed numbers")
def random(subject: Subject) -> Found:
    """Operators whose results differ from run to run and from runtime to runtime."""
    for node in subject.nodes:
        if _is_own(node) and node.shell.op_type in RANDOM:
            seed = "" if node.attribute("seed") is None else "; its seed fixes them in one runtime only"
            yield title(node), f"draws random numbers{seed}"


@rule("training-mode", "error", "export with eval()")
def training_mode(subject: Subject) -> Found:
    """Layers in training mode: results depend on the batch, or are random."""
    for node in subject.nodes:
        if not _is_own(node):
            continue
        if node.shell.op_type == "BatchNormalization" and attribute_int(node, "training_mode"):
            yield title(node), "normalises by the batch"
        if node.shell.op_type == "Dropout" and len(node.inputs) > 2 and node.inputs[2]:
            mode = subject.constant(node.inputs[2])
            if mode is not None and mode.any():
                yield title(node), "drops elements"


@rule("resize-modes", "warning", "half_pixel or asymmetric")
def resize_modes(subject: Subject) -> Found:
    """Ways of resizing that runtimes disagree about or lack."""
    for node in subject.nodes:
        if not _is_own(node) or node.shell.op_type != "Resize":
            continue
        mode = attribute_text(node, "mode", "nearest")
        coordinates = attribute_text(node, "coordinate_transformation_mode", "half_pixel")
        nearest = attribute_text(node, "nearest_mode", "round_prefer_floor")
        if coordinates in RARE_COORDINATES:
            yield title(node), f"coordinate_transformation_mode is {coordinates}"
        if mode == "nearest" and nearest in ("round_prefer_ceil", "ceil"):
            yield title(node), f"nearest_mode is {nearest}"
        if attribute_int(node, "antialias"):
            yield title(node), "antialias is set"


@rule("cast-range", "warning", "clip before the cast")
def cast_range(subject: Subject) -> Found:
    """Casts of numbers that the type cannot hold: runtimes differ."""
    for node in subject.nodes:
        if not _is_own(node) or node.shell.op_type != "Cast" or not node.inputs:
            continue
        source, target = subject.values.get(node.inputs[0]), subject.values.get(node.outputs[0])
        if source is None or target is None or not isinstance(source.type, TensorType):
            continue
        if not isinstance(target.type, TensorType) or not target.dtype.is_integer or not source.dtype.is_float:
            continue
        limits = np.iinfo(target.dtype.numpy) if target.dtype.bits >= 8 else None
        if source.constant is not None and limits is not None:
            numbers = source.constant.astype(np.float64)
            if not ((numbers >= limits.min) & (numbers <= limits.max)).all():
                yield title(node), f"a constant is out of the range of {target.dtype}"
        elif target.dtype.kind == "uint" and not _is_clipped(subject, node.inputs[0]):
            yield title(node), f"of {source.dtype} to {target.dtype}: negative numbers wrap, saturate or are undefined"


def _is_clipped(subject: Subject, name: str) -> bool:
    maker = subject.maker(name)
    return (
        maker is not None
        and maker.shell.op_type in ("Clip", "Relu", "Abs", "Sigmoid", "Round")
        and (maker.shell.op_type != "Round" or _is_clipped(subject, maker.inputs[0]))
    )


@rule("shape-overflow", "warning", "use int64")
def shape_overflow(subject: Subject) -> Found:
    """Sizes are computed in 32 bits, or with numbers near the end of 64."""
    for node in subject.nodes:
        if not _is_own(node) or node.shell.op_type not in ARITHMETIC:
            continue
        values = [subject.values[name] for name in node.inputs if name in subject.values]
        tensors = [value for value in values if isinstance(value.type, TensorType)]
        if any(value.dtype.name == "int32" and _is_size(subject, value.name) for value in tensors):
            yield title(node), "computes with sizes in int32"
        for value in tensors:
            known = value.constant
            if known is not None and known.dtype == np.int64 and known.size and int(np.abs(known).max()) > 1 << 53:
                yield title(node), f"{value.name!r} is near the end of int64"


def _is_size(subject: Subject, name: str, depth: int = 8) -> bool:
    """Whether a value follows from the shape of another one by moving and casting."""
    maker = subject.maker(name)
    if maker is None or depth == 0 or not maker.inputs:
        return maker is not None and maker.shell.op_type in ("Shape", "Size")
    if maker.shell.op_type in ("Shape", "Size"):
        return True
    is_passing = maker.shell.op_type in MOVING or maker.shell.op_type == "Cast"
    return is_passing and _is_size(subject, maker.inputs[0], depth - 1)


@rule("float64", "warning", "set-dtype")
def float64(subject: Subject) -> Found:
    """Nodes that compute in double precision: slow, and refused by accelerators."""
    found = [
        node
        for node in subject.nodes
        for name in node.shell.output[:1]
        if (value := subject.values.get(name)) is not None
        and isinstance(value.type, TensorType)
        and value.dtype.name == "float64"
        and node.shell.op_type != "Constant"
    ]
    if found:
        yield title(found[0]), f"and {len(found) - 1} other nodes" if len(found) > 1 else "computes in float64"


@rule("float16-overflow", "warning", "compute them in float32")
def float16_overflow(subject: Subject) -> Found:
    """Sums and powers in float16, which ends at 65504."""
    for node in subject.nodes:
        value = subject.values.get(node.inputs[0]) if node.inputs else None
        is_half = value is not None and isinstance(value.type, TensorType) and value.dtype.name == "float16"
        if is_half and _is_own(node) and node.shell.op_type in OVERFLOWING:
            yield title(node), "is computed in float16"


@rule("qdq-unpaired", "warning", "quantise both sides")
def qdq_unpaired(subject: Subject) -> Found:
    """QuantizeLinear or DequantizeLinear without the other."""
    finals = {info.name for info in subject.document.graph.outputs}
    starts = {info.name for info in subject.document.graph.inputs}
    for node in subject.nodes:
        if not _is_own(node) or not node.inputs or not node.outputs:
            continue
        if node.shell.op_type == "QuantizeLinear" and node.outputs[0] not in finals:
            readers = {each.shell.op_type for each in subject.readers(node.outputs[0])}
            if not readers & ({"DequantizeLinear"} | QUANTIZED | MOVING):
                yield title(node), "no DequantizeLinear and no quantized operator reads it"
        if node.shell.op_type == "DequantizeLinear" and node.inputs[0] not in starts:
            maker = subject.maker(node.inputs[0])
            is_paired = (
                maker is None or maker.shell.op_type in {"QuantizeLinear", "Constant", "Cast"} | QUANTIZED | MOVING
            )
            if not is_paired and maker is not None:
                yield title(node), f"reads what {maker.shell.op_type} makes"
