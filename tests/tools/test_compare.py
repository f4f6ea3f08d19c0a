"""`compare`: measures, tolerances, and everybody that a model can be compared with."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import intaglio
from intaglio.errors import InputError
from intaglio.tools import compare
from intaglio.tools.comparing import PeerError, Tolerances
from intaglio.tools.comparing.measures import compare_values
from intaglio.tools.comparing.tolerances import parse_tolerances

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[n, 4] x) => (float[n, 4] y, int64[n] best) <float[4] b = {1.0, 2.0, 3.0, 4.0}> {
    [sum] s = Add (x, b)
    [act] t = Tanh (s)
    [last] y = Mul (t, b)
    [top] best = ArgMax <axis = 1, keepdims = 0> (y)
}"""


def model() -> onnx.ModelProto:
    return onnx.parser.parse_model(TEXT)


def results(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return intaglio.load(model(), engine="reference").run(feeds)


def test_measures_are_those_of_plain_formulas() -> None:
    random = np.random.default_rng(0)
    right = random.standard_normal((30, 40)).astype(np.float32)
    left = right + random.standard_normal((30, 40)).astype(np.float32) * np.float32(1e-3)
    found = compare_values("t", right, left, Tolerances(rtol=0.0, atol=0.0))
    wide, other = right.astype(np.float64), left.astype(np.float64)
    apart = np.abs(wide - other)
    assert found.wrong == np.count_nonzero(apart)
    assert found.absolute == apart.max()
    assert found.relative == (apart / np.abs(wide)).max()
    cosine = (wide * other).sum() / np.linalg.norm(wide) / np.linalg.norm(other)
    assert found.cosine == pytest.approx(cosine, abs=1e-12)
    assert found.psnr == pytest.approx(10 * math.log10(np.abs(wide).max() ** 2 / np.square(apart).mean()))
    stepped = np.nextafter(np.nextafter(right, np.float32(9)), np.float32(9))
    assert compare_values("t", right, stepped, Tolerances()).ulp == 2
    assert "first at [0, 0]" in found.text


@pytest.mark.parametrize(
    ("right", "left", "word"),
    [
        (np.array([1, 2], np.float32), np.array([1, np.nan], np.float32), "1 of 2"),
        (np.array([1, np.nan], np.float32), np.array([1, np.nan], np.float32), ""),
        (np.array([np.inf, -np.inf], np.float32), np.array([np.inf, np.inf], np.float32), "1 of 2"),
        (np.array([2**62, 5], np.int64), np.array([2**62 + 1, 5], np.int64), "1 of 2"),
        (np.array([True, False]), np.array([True, True]), "1 of 2"),
        (np.array([1], np.float32), np.array([1], np.float64), "float64"),
        (np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32), "shape"),
        (np.array(["a", "b"]), np.array(["a", "c"], object), "1 of 2"),
        ([np.array([1], np.float32)], [np.array([1], np.float32), np.array([2], np.float32)], "2 items"),
        ([np.array([1], np.float32)], [np.array([2], np.float32)], "1 of 1"),
        (None, np.array([2], np.float32), "nothing"),
        (np.zeros(0, np.float32), np.zeros(0, np.float32), ""),
    ],
)
def test_every_kind_of_difference(right: object, left: object, word: str) -> None:
    found = compare_values("t", right, left, Tolerances())
    assert found.is_equal == (not word)
    assert word in found.text
    assert found.to_dict()["is_equal"] == (not word)


def test_large_arrays_are_compared_in_parts() -> None:
    right = np.ones(1_000_000, np.float32)
    left = right.copy()
    left[999_999] = 2
    found = compare_values("t", right, left, Tolerances())
    assert (found.wrong, "first at [999999]" in found.text) == (1, True)


def test_tolerances_by_type_and_by_name() -> None:
    found = parse_tolerances(["1e-3", "float16:0.5", "out*:0.1"], ["out:7"])
    assert found.of("x", "float32") == (1e-3, None)
    assert found.of("x", "float16") == (0.5, None)
    assert found.of("out", "float32") == (0.1, 7.0)
    assert found.of("out2", "float32") == (0.1, None)
    assert Tolerances().of("x", "int64") == (0.0, None)
    with pytest.raises(InputError, match="no number"):
        parse_tolerances(["x:y"], [])


def test_tolerances_are_obeyed() -> None:
    feeds = {"x": np.ones((1, 4), np.float32)}
    stored = results(feeds) | feeds
    stored["y"] = stored["y"] + np.float32(0.05)
    assert not compare(model(), stored).is_equal
    assert compare(model(), stored, atol={"y": 0.1}).is_equal
    assert compare(model(), stored, rtol=0.1).is_equal


def test_stored_results_with_their_inputs(tmp_path: Path) -> None:
    feeds = {"x": np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)}
    stored: dict[str, Any] = {**results(feeds), **feeds}
    np.savez(tmp_path / "stored.npz", **stored)
    found = compare(model(), tmp_path / "stored.npz", samples=4)
    assert found.is_equal
    assert found.samples == 1
    assert found.outputs[0].shape == (3, 4)
    with pytest.raises(InputError, match="none of the outputs"):
        compare(model(), {"z": feeds["x"]})


def test_a_function_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import numpy as np\nB = np.array([1, 2, 3, 4], np.float32)\n"
    text += "def f(feeds):\n    y = np.tanh(feeds['x'] + B) * B\n    return y, y.argmax(1)\n"
    text += "def g(feeds):\n    t = np.tanh(feeds['x'] + B)\n    return {'t': t, 'y': t * -B}\n"
    (tmp_path / "own_module.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert compare(model(), "own_module:f", samples=2).is_equal
    found = compare(model(), "own_module:g")
    assert [each.name for each in found.outputs] == ["y"]
    assert found.first is not None
    assert (found.first.operator, found.first.path) == ("Mul", "last")
    assert "best" in found.notes[0]
    with pytest.raises(InputError, match="own_module:h"):
        compare(model(), "own_module:h")


def test_another_model_with_other_names() -> None:
    other = onnx.parser.parse_model(TEXT.replace("y", "z").replace("best", "top"))
    found = compare(model(), other, samples=2)
    assert found.is_equal
    assert [each.name for each in found.outputs] == ["y", "best"]


def test_tensors_are_compared_in_small_parts() -> None:
    found = compare(model(), "ort", tensors=True, memory=1, samples=2)
    assert found.is_equal
    assert [each.name for each in found.tensors] == ["s", "t", "y", "best"]


def test_who_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(PeerError, match="pip install openvino"):
        compare(model(), "openvino")
    with pytest.raises(InputError, match="nothing to compare with"):
        compare(model(), "nobody")
