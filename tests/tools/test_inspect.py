"""`inspect`: facts against NumPy's, mapped files, runs, pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from intaglio.tools import inspect
from intaglio.tools.inspecting import measure
from intaglio.tools.inspecting.pictures import to_html, to_svg

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[n, 3] x) => (float[n, 3] y) <float[3] w = {1.0, 0.0, -2.0}> {
    l = Log (x)
    m = Mul (l, w)
    y = Relu (m)
}"""


@pytest.mark.parametrize("size", [1000, 3_000_000])
def test_facts_are_those_of_numpy(size: int) -> None:
    array = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    array[:5] = [np.nan, np.inf, -np.inf, 0, 1e-41]
    found = measure("t", array)
    finite = array[np.isfinite(array)].astype(np.float64)
    assert (found.nan, found.infinite, found.zeros, found.denormal) == (1, 2, 1, 1)
    assert (found.least, found.largest) == (finite.min(), finite.max())
    assert found.mean == pytest.approx(finite.mean(), abs=1e-9)
    assert found.deviation == pytest.approx(finite.std(), rel=1e-9)
    width = (finite.max() - finite.min()) / 65536
    for share, number in found.quantiles:
        assert number == pytest.approx(np.quantile(finite, share), abs=2 * width)
    assert found.histogram == tuple(np.histogram(finite, 32)[0])
    assert len(found.sparkline()) == 16


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([1, 2, 3], np.float32), "int8 would hold"),
        (np.array([0.5, 0.25], np.float32), "float16 holds them exactly"),
        (np.array([0.5, 2.0**40], np.float32), "bfloat16 holds"),
        (np.array([0.1, 1e6], np.float32), "too large for float16"),
        (np.array([0, 0, 0, 0.1], np.float32), "75% are zero"),
        (np.full(9, 0.1, np.float32), "all elements are 0.1"),
        (np.array([5, 70_000], np.int64), "int32 would hold"),
        (np.array([np.nan, 0.1], np.float32), "NaN"),
    ],
)
def test_advice(array: np.ndarray, words: str) -> None:
    assert words in "; ".join(measure("t", array).advice)


def test_what_has_no_numbers() -> None:
    for array in (np.zeros((0, 3), np.float32), np.array(["a"], object), np.array([1j], np.complex64)):
        found = measure("t", array)
        assert (found.least, found.histogram, found.sparkline()) == (None, (), "")
    assert measure("t", np.array([np.nan], np.float32)).largest is None


def test_weights_and_patterns(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(TEXT)
    large = np.random.default_rng(0).standard_normal(50_000).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(large, "large"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=1000)
    found = inspect(tmp_path / "m.onnx")
    assert [(each.name, each.kind) for each in found.tensors] == [("w", "weight"), ("large", "weight")]
    assert found.tensors[1].largest == large.max()
    assert [each.name for each in inspect(tmp_path / "m.onnx", names=["l*"]).tensors] == ["large"]


def test_a_run_shows_where_numbers_stop_being_finite() -> None:
    feeds = {"x": np.array([[0, 1, 2], [1, 1, 1]], np.float32)}
    found = inspect(onnx.parser.parse_model(TEXT), run=True, feeds=feeds, memory=1)
    assert [(each.name, each.kind) for each in found.tensors] == [
        ("x", "input"), ("l", "tensor"), ("m", "tensor"), ("y", "output")
    ]  # fmt: skip
    assert found.not_finite[0].name == "l"
    assert found.tensors[1].infinite == 1


def test_files_of_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", p=np.arange(3), q=np.ones(2))
    np.save(tmp_path / "b.npy", np.arange(7.0))
    assert [each.name for each in inspect(tmp_path / "a.npz").tensors] == ["p", "q"]
    assert inspect(tmp_path / "b.npy").tensors[0].largest == 6


def test_pictures_are_well_formed() -> None:
    arrays = {
        "a<b&\x01": np.array([1, -2, 3], np.float32),
        "none": np.zeros(0, np.float32),
        "nan": np.array([np.nan], np.float32),
    }
    facts = [measure(name, array) for name, array in arrays.items()]
    root = ET.fromstring(to_svg(facts))
    bars = [each for each in root.iter() if each.tag.endswith("rect") and each.get("width") != "100%"]
    assert len(bars) == 32
    assert sum(float(bar.get("height") or 0) > 0 for bar in bars) == 3
    page = to_html("a <model>", facts)
    assert "a &lt;model&gt;" in page
    assert page.count("<tr>") == 4
