"""Models as ONNX again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.emit.models import FEEDS, MODELS, drawn, parse

import intaglio
from intaglio.conformance.exported import export_subject
from intaglio.conformance.suite import cases
from intaglio.errors import InputError, UnsupportedError


def answers(model: object, feeds: list[np.ndarray]) -> list[np.ndarray]:
    found = intaglio.load(model, engine="reference")(*feeds)
    return list(found) if isinstance(found, tuple) else [found]


def check(model: onnx.ModelProto, feeds: list[np.ndarray], folder: Path, **options: Any) -> onnx.ModelProto:
    """Export a model, let ONNX check it, and compare its answers."""
    intaglio.export(model, "onnx", folder, **options)
    onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
    for left, right in zip(answers(folder / "model.onnx", feeds), answers(model, feeds), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
    return onnx.load(folder / "model.onnx")


@pytest.mark.parametrize("opset", [None, 11, 13, 18, 22])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_models_come_back(name: str, opset: int | None, tmp_path: Path) -> None:
    found = check(MODELS[name](), FEEDS[name], tmp_path, opset=opset)
    versions = {entry.domain: entry.version for entry in found.opset_import}
    assert opset is None or versions[""] == opset


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("y = ReduceSum<keepdims=0>(x, axes)", {"axes": [1]}),
        ("y = ReduceMean(x, axes)", {"axes": [-1]}),
        ("y = ReduceLogSumExp(x, axes)", {"axes": np.zeros(0, np.int64)}),
        ("y = Unsqueeze(x, axes)", {"axes": [0, 2]}),
        ("t = Unsqueeze(x, axes) y = Squeeze(t, axes)", {"axes": [1]}),
        ("y, z = Split<axis=1>(x, sizes)", {"sizes": [1, 3]}),
        ("y = Slice(x, starts, ends, axes)", {"starts": [1], "ends": [3], "axes": [1]}),
        ("y = Pad(x, pads)", {"pads": [0, 1, 1, 2]}),
        ("y, z = TopK(x, k)", {"k": [2]}),
        ("y = Clip(x, low, high)", {"low": np.float32(-0.5), "high": np.float32(0.5)}),
        ("y = Gelu(x)", {}),
        ("y = Mish(x)", {}),
        ("y = HardSwish(x)", {}),
        ("y = LayerNormalization(x, scale)", {"scale": drawn(4)}),
        ("y = Softmax<axis=0>(x)", {}),
    ],
)
@pytest.mark.parametrize("opset", [9, 10, 12, 13, 17, 18])
def test_operators_in_older_sets(text: str, weights: dict[str, object], opset: int, tmp_path: Path) -> None:
    second = ", int64 z" if "TopK" in text else ", float z" if " z " in text else ""
    arrays = {name: np.asarray(item) for name, item in weights.items()}
    model = parse(f"net (float[3, 4] x) => (float y{second}) {{ {text} }}", **arrays)
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    check(model, [drawn(3, 4)], tmp_path, opset=opset)


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    model = parse("net (float[3, 4] x, int64[1] k) => (float[3, n] y, int64[3, n] z) { [best] y, z = TopK(x, k) }")
    with pytest.raises(
        UnsupportedError, match=r"(?s)opset 9 is too old for 1 nodes:.*TopK at best \(TopK\), which needs 1"
    ):
        intaglio.export(model, "onnx", tmp_path, opset=9)
    with pytest.raises(InputError, match="opset 99 cannot be written"):
        intaglio.export(model, "onnx", tmp_path, opset=99)
    with pytest.raises(InputError, match="for onnx, not for python"):
        intaglio.export(model, "python", tmp_path, opset=17)


def test_shapes_and_external_data(tmp_path: Path) -> None:
    model = MODELS["convolution"]()
    found = check(model, FEEDS["convolution"], tmp_path, external_data=100)
    assert (tmp_path / "model.onnx.data").stat().st_size >= drawn(5, 3, 3, 3).nbytes
    shapes = {
        value.name: [size.dim_param or size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in found.graph.value_info
    }
    assert ["N", 5, 4, 4] in shapes.values()


@pytest.mark.parametrize("name", list(cases())[::41])
def test_onnx_tests_in_onnx(name: str) -> None:
    result, error = cases()[name].run(export_subject("onnx"))
    if error is not None and not isinstance(error, UnsupportedError) and result.outcome != "random":
        raise error


def test_untouched(tmp_path: Path) -> None:
    found = check(MODELS["shapes"](), FEEDS["shapes"], tmp_path, simplify=False)
    assert [node.op_type for node in found.graph.node].count("Gather") == 2
    simplified = check(MODELS["shapes"](), FEEDS["shapes"], tmp_path / "simple")
    assert len(simplified.graph.node) < len(found.graph.node)


WITH_FUNCTION = """
<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
net (float[n, 4] x) => (float[n, 4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
    t = own.scaled (x, w)
    y = own.scaled (t, w)
}
<domain: "own", opset_import: ["" : 21]>
scaled (a, b) => (c) {
    d = Mul (a, b)
    c = Tanh (d)
}
"""


@pytest.mark.parametrize("external_data", [None, True, 8])
def test_functions_are_kept_where_that_is_asked_for(external_data: bool | int | None, tmp_path: Path) -> None:
    model, feeds = onnx.parser.parse_model(WITH_FUNCTION), [drawn(3, 4)]
    kept = check(model, feeds, tmp_path / "kept", simplify=False, functions="keep", external_data=external_data)
    assert [function.name for function in kept.functions] == ["scaled"]
    assert [node.op_type for node in kept.graph.node] == ["scaled", "scaled"]
    assert "t" in [value.name for value in kept.graph.value_info]
    assert (tmp_path / "kept" / "model.onnx.data").exists() == (external_data == 8)
    inlined = check(model, feeds, tmp_path / "inlined", functions="inline")
    assert not inlined.functions


def test_functions_that_cannot_be_kept_are_told(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(WITH_FUNCTION)
    with pytest.raises(InputError, match="simplify=False"):
        intaglio.export(model, "onnx", tmp_path, functions="keep")
    with pytest.raises(InputError, match="no opset"):
        intaglio.export(model, "onnx", tmp_path, functions="keep", simplify=False, opset=18)
    with pytest.raises(InputError, match="no functions to keep"):
        intaglio.export(intaglio.load(model), "onnx", tmp_path, functions="keep", simplify=False)
    with pytest.raises(InputError, match="'inline' or 'keep'"):
        intaglio.export(model, "onnx", tmp_path, functions="some")
    with pytest.raises(InputError, match="functions is for onnx"):
        intaglio.export(model, "python", tmp_path, functions="keep")
