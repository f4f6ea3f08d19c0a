"""Operands that are read as one number: where a tensor has none or several, each engine says so and reads nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import intaglio
from intaglio.errors import IntaglioError

ZERO, ONE = "a = Constant<value_int = 0>()", "d = Constant<value_int = 1>()"
BODIES: dict[str, tuple[str, str, float]] = {
    "Range.start": ("int64[N] x", f"{ZERO} {ONE} y = Range(x, a, d)", -2),
    "Range.limit": ("int64[N] x", f"{ZERO} {ONE} y = Range(a, x, d)", 2),
    "Range.delta": ("int64[N] x", f"{ZERO} {ONE} y = Range(a, d, x)", 1),
    "CumSum.axis": ("int64[N] x, float[3, 3] c", "y = CumSum(c, x)", 1),
    "OneHot.depth": ("int64[N] x, int64[4] c", "v = Constant<value_ints = [0, 1]>() y = OneHot(c, x, v)", 3),
    "Trilu.k": ("int64[N] x, float[4, 4] c", "y = Trilu(c, x)", 1),
    "Pad.value": ("float[N] x, float[4] c", "p = Constant<value_ints = [1, 1]>() y = Pad(c, p, x)", 7),
    "DFT.axis": ("int64[N] x, float[1, 4, 4, 1] c", "y = DFT(c, , x)", 1),
    "DFT.length": ("int64[N] x, float[1, 4, 4, 1] c", "y = DFT(c, x)", 2),
    "STFT.step": ("int64[N] x, float[1, 16, 1] c", "l = Constant<value_int = 8>() y = STFT(c, x, , l)", 4),
    "STFT.length": ("int64[N] x, float[1, 16, 1] c", "s = Constant<value_int = 4>() y = STFT(c, s, , x)", 8),
    "Mel.bins": (
        "int64[N] x",
        "a = Constant<value_int = 16>() r = Constant<value_int = 8000>() l = Constant<value_float = 0.0>() "
        "h = Constant<value_float = 4000.0>() y = MelWeightMatrix(x, a, r, l, h)",
        4,
    ),
    "SequenceAt.position": ("int64[N] x, float[4] c", "s = SplitToSequence(c) y = SequenceAt(s, x)", 1),
}


def example(declared: onnx.ValueInfoProto, count: int, number: float) -> Any:
    tensor = declared.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if declared.name == "x":
        return np.full(count, number).astype(dtype)
    sizes = [size.dim_value for size in tensor.shape.dim]
    return (np.arange(np.prod(sizes)) % 3).reshape(sizes).astype(dtype)


def proto(name: str) -> onnx.ModelProto:
    inputs, body, _ = BODIES[name]
    result = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 20]> g ({inputs}) => (float[] y) {{ {body} }}'
    )
    result.graph.output[0].ClearField("type")
    return result


@pytest.mark.parametrize("name", BODIES)
def test_one_number_is_needed(name: str) -> None:
    model = proto(name)
    engines = [intaglio.load(model, engine=engine) for engine in ("native", "reference")]
    for count in (1, 0, 2):
        feeds = {each.name: example(each, count, BODIES[name][2]) for each in model.graph.input}
        if count == 1:
            ours, theirs = (engine.run(feeds)["y"] for engine in engines)
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
            continue
        for engine in engines:
            with pytest.raises(IntaglioError):
                engine.run(feeds)


def test_one_hot_has_two_values() -> None:
    text = "g (int64[4] c, float[N] x) => (float[4, 3] y) { d = Constant<value_int = 3>() y = OneHot(c, d, x) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {text}')
    for engine in ("native", "reference"):
        for count in (0, 1, 3):
            with pytest.raises(IntaglioError, match=f"has {count} elements, expected 2"):
                intaglio.load(model, engine=engine).run({"c": np.arange(4), "x": np.ones(count, np.float32)})
