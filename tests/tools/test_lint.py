"""Every rule of `lint` on a model that breaks it and on one that does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from intaglio.errors import InputError
from intaglio.tools import lint
from intaglio.tools.linting import RULES, file_rules

CLEAN = "g (float[n, 4] x) => (float[n, 4] y) { [a] y = Relu (x) }"


def parsed(text: str, opset: int = 21, ir: int = 8, more: str = "") -> onnx.ModelProto:
    """A model from the text of its graph."""
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}{more}]> {text}')


def weighted(array: np.ndarray, external: str = "") -> onnx.ModelProto:
    """A model with one weight, which may be in another file."""
    model = parsed("g (float[1] x) => (y) { [a] y = Identity (w) [b] z = Add (x, x) }")
    tensor = numpy_helper.from_array(array, "w")
    if external:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=external)
    model.graph.initializer.append(tensor)
    return model


def twice(array: np.ndarray, other: np.ndarray) -> onnx.ModelProto:
    model = weighted(array)
    model.graph.initializer.append(numpy_helper.from_array(other, "w2"))
    return model


def named(*names: str) -> onnx.ModelProto:
    model = parsed("g (float[n] x) => (float[n] y) { a = Relu (x) y = Relu (a) }")
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    return model


def constant(size: int) -> onnx.ModelProto:
    tensor = numpy_helper.from_array(np.ones(size, np.float32))
    node = helper.make_node("Constant", [], ["y"], value=tensor, name="c")
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [size])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def resize(attributes: str) -> onnx.ModelProto:
    text = "g (float[1, 1, 4, 4] x) => (y) <float[4] s = {1.0, 1.0, 2.0, 2.0}>"
    return parsed(text + f" {{ [a] y = Resize <{attributes}> (x, , s) }}")


SHAPE = "g (float[n, m] x) => (y) { s = Shape (x) c = Cast <to = %d> (s) i = Constant <value_int: int = 0> () "
SHAPE += "d = Gather (c, i) [a] y = Mul (d, d) }"
QUANTIZE = "g (float[4] x) => (y) <float s = {0.1}, uint8 z = {0}> { q = QuantizeLinear (x, s, z) %s }"
RESHAPE = "g (float[4] x, int64[%s] s) => (y) { y = Reshape (x, s) }"

CASES: dict[str, tuple[onnx.ModelProto, onnx.ModelProto]] = {
    "invalid": (parsed("g (float[n] x) => (y) { y = Relu (nobody) }"), parsed(CLEAN)),
    "opset-old": (parsed(CLEAN, 6), parsed(CLEAN, 7)),
    "opset-new": (parsed(CLEAN, 23), parsed(CLEAN, 21)),
    "ir-version": (parsed(CLEAN, 17, 10), parsed(CLEAN, 21, 10)),
    "opset-unused": (parsed(CLEAN, more=', "ai.onnx.ml" : 3'), parsed(CLEAN)),
    "opset-missing": (
        parsed("g (float[n] x) => (y) { y = ai.onnx.ml.Scaler (x) }"),
        parsed("g (float[n] x) => (y) { y = ai.onnx.ml.Scaler (x) }", more=', "ai.onnx.ml" : 3'),
    ),
    "domain-contrib": (
        parsed("g (float[n] x) => (y) { y = com.microsoft.Gelu (x) }", more=', "com.microsoft" : 1'),
        parsed("g (float[n] x) => (y) { y = Gelu (x) }"),
    ),
    "domain-unknown": (
        parsed("g (float[n] x) => (y) { y = nowhere.Thing (x) }", more=', "nowhere" : 1'),
        parsed("g (float[n] x) => (y) { y = com.microsoft.Gelu (x) }", more=', "com.microsoft" : 1'),
    ),
    "names-odd": (named("a b", "c"), named("/a/b.0", "c:1")),
    "names-duplicate": (named("a", "a"), named("a", "b")),
    "names-missing": (named("a", ""), named("a", "b")),
    "input-unused": (parsed("g (float[n] x, float[n] u) => (y) { y = Relu (x) }"), parsed(CLEAN)),
    "initializer-input": (
        parsed("g (float[1] x, float[1] w) => (y) <float[1] w = {1.0}> { y = Add (x, w) }"),
        parsed("g (float[1] x) => (y) <float[1] w = {1.0}> { y = Add (x, w) }"),
    ),
    "initializer-unused": (
        parsed("g (float[1] x) => (y) <float[1] w = {1.0}> { y = Relu (x) }"),
        parsed("g (float[1] x) => (y) <float[1] w = {1.0}> { y = Add (x, w) }"),
    ),
    "node-unused": (parsed("g (float[n] x) => (y) { y = Relu (x) z = Neg (x) }"), parsed(CLEAN)),
    "shape-missing": (parsed("g (float[] x) => (y) { y = Relu (x) }"), parsed(CLEAN)),
    "dimension-unnamed": (parsed("g (float[?, 4] x) => (y) { y = Relu (x) }"), parsed(CLEAN)),
    "weights-inline": (weighted(np.ones(5000, np.float32)), weighted(np.ones(5, np.float32))),
    "external-path": (weighted(np.ones(4, np.float32), "../w.bin"), weighted(np.ones(4, np.float32), "w.bin")),
    "external-missing": (weighted(np.ones(4, np.float32), "gone.bin"), weighted(np.ones(4, np.float32), "here.bin")),
    "constant-large": (constant(1 << 14), constant(16)),
    "operator-unknown": (parsed("g (float[n] x) => (y) { y = Rellu (x) }"), parsed(CLEAN)),
    "experimental": (parsed("g (float[n] x) => (y) { y = ScaledTanh (x) }"), parsed(CLEAN)),
    "deprecated": (
        parsed("g (float[1, 1, 2, 2] x) => (y) <float[4] s = {1.0, 1.0, 2.0, 2.0}> { y = Upsample (x, s) }", 9),
        parsed("g (float[1, 1, 2, 2] x) => (y) <float[4] s = {1.0, 1.0, 2.0, 2.0}> { y = Resize (x, s) }", 10),
    ),
    "random": (parsed("g (float[n] x) => (y) { r = RandomNormalLike (x) y = Add (x, r) }"), parsed(CLEAN)),
    "training-mode": (
        parsed("g (float[n] x, bool t) => (y) <float r = {0.5}, bool m = {1}> { y = Dropout (x, r, m) }"),
        parsed("g (float[n] x, bool t) => (y) <float r = {0.5}, bool m = {0}> { y = Dropout (x, r, m) }"),
    ),
    "resize-modes": (
        resize('coordinate_transformation_mode = "half_pixel_symmetric", mode = "linear"'),
        resize('coordinate_transformation_mode = "half_pixel", mode = "linear"'),
    ),
    "cast-range": (
        parsed("g (float[n] x) => (y) { y = Cast <to = 2> (x) }"),
        parsed("g (float[n] x) => (y) { c = Clip (x) y = Cast <to = 2> (c) }"),
    ),
    "shape-overflow": (parsed(SHAPE % 6), parsed(SHAPE % 7)),
    "float64": (
        parsed("g (double[n] x) => (y) { y = Exp (x) }"),
        parsed("g (float[n] x) => (y) { y = Exp (x) }"),
    ),
    "float16-overflow": (
        parsed("g (float16[n] x) => (y) { y = Exp (x) }"),
        parsed("g (float16[n] x) => (y) { y = Relu (x) }"),
    ),
    "qdq-unpaired": (
        parsed(QUANTIZE % "y = Cast <to = 1> (q)"),
        parsed(QUANTIZE % "y = DequantizeLinear (q, s, z)"),
    ),
    "weights-nan": (weighted(np.array([1, np.nan], np.float32)), weighted(np.array([1, np.inf], np.float32))),
    "weights-infinite": (weighted(np.array([1, np.inf], np.float32)), weighted(np.array([1, 2], np.float32))),
    "weights-denormal": (weighted(np.array([1, 1e-40], np.float32)), weighted(np.array([0, 1e-30], np.float32))),
    "weights-duplicate": (
        twice(np.ones(1 << 14, np.float32), np.ones(1 << 14, np.float32)),
        twice(np.ones(1 << 14, np.float32), np.zeros(1 << 14, np.float32)),
    ),
    "float16-range": (weighted(np.array([1e6], np.float32)), weighted(np.array([6e4], np.float32))),
    "host-nodes": (parsed("g (string[n] x) => (y) { y = StringConcat (x, x) }"), parsed(CLEAN)),
    "compile-per-size": (parsed(RESHAPE % "k"), parsed(RESHAPE % "2")),
    "sizes-assumed": (
        parsed("g (float[n] a, float[m] b) => (y) { y = Add (a, b) }"),
        parsed("g (float[n] a, float[n] b) => (y) { y = Add (a, b) }"),
    ),
}


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == set(RULES)
    for each in RULES.values():
        assert each.what.endswith(".")
        assert each.remedy


def test_the_page_lists_every_rule() -> None:
    text = (Path(__file__).parents[2] / "docs" / "linting.md").read_text(encoding="utf-8")
    rows = [f"| `{each.id}` | {each.severity} | {each.what} | {each.remedy} |" for each in RULES.values()]
    assert "\n".join(rows) in text


@pytest.mark.parametrize("id", CASES)
def test_a_rule(id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_rules, "INLINE_LIMIT", 1000)
    (tmp_path / "here.bin").write_bytes(np.ones(4, np.float32).tobytes())
    (tmp_path / "w.bin").write_bytes(np.ones(4, np.float32).tobytes())
    wrong, right = CASES[id]
    for model, name in ((wrong, "wrong.onnx"), (right, "right.onnx")):
        (tmp_path / name).write_bytes(model.SerializeToString())
    found = [each.rule for each in lint(tmp_path / "wrong.onnx").found]
    assert id in found
    assert id not in [each.rule for each in lint(tmp_path / "right.onnx").found]
    assert id not in [each.rule for each in lint(tmp_path / "wrong.onnx", ignore=[id]).found]
    assert {each.rule for each in lint(tmp_path / "wrong.onnx", only=[id]).found} == {id}


def test_a_rule_that_is_not_there() -> None:
    with pytest.raises(InputError, match="did you mean 'float64'"):
        lint(parsed(CLEAN), ignore=["flaot64"])
