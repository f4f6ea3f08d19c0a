"""Models as NumPy code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.emit.models import FEEDS, MODELS, drawn, open_rank, parse

import intaglio
from intaglio.conformance.exported import export_row, export_subject, import_exported
from intaglio.conformance.suite import cases
from intaglio.emit.weights import Format
from intaglio.errors import InputError, UnsupportedError

SNAPSHOTS = Path(__file__).parent / "snapshots"
SAMPLE = 17
"""Every so many of ONNX's tests is in the quick part."""


def check_snapshot(found: str, path: Path, update: bool) -> None:
    if update:
        path.write_text(found)
    assert found == path.read_text(), f"{path.name} differs; python -m tests.emit.update writes it anew"


@pytest.mark.parametrize("name", sorted(MODELS))
def test_source_is_as_it_was_and_right(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    intaglio.export(model, "python", tmp_path)
    check_snapshot((tmp_path / "model.py").read_text(), SNAPSHOTS / f"{name}.python.txt", update=False)
    expected = intaglio.load(model, engine="reference")(*FEEDS[name])
    expected = expected if isinstance(expected, tuple) else (expected,)
    found = import_exported(tmp_path).load()(*FEEDS[name])
    found = found if isinstance(found, tuple) else (found,)
    for left, right in zip(found, expected, strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axes", [1, 2])
def test_convolutions_of_open_rank(axes: int, tmp_path: Path) -> None:
    x, flag = drawn(2, 3, *[8] * axes), np.array(True)
    intaglio.export(open_rank(axes), "python", tmp_path)
    expected = intaglio.load(open_rank(axes), engine="reference")(x, flag)
    for left, right in zip(import_exported(tmp_path).load()(x, flag), expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)
    with pytest.raises(UnsupportedError, match="Conv"):
        intaglio.export(open_rank(axes, "SAME_UPPER"), "python", tmp_path)


@pytest.mark.parametrize("name", list(cases())[::SAMPLE])
def test_onnx_tests_in_numpy(name: str) -> None:
    result, error = cases()[name].run(export_subject("python"))
    if error is not None and not isinstance(error, UnsupportedError) and result.outcome != "random":
        raise error


@pytest.mark.slow
def test_all_of_onnx_tests() -> None:
    subject = export_subject("python")
    results = [case.run(subject)[0] for case in cases().values()]
    _, passed, sayable, _ = export_row("python", results)
    assert passed >= 2022
    assert passed == sayable


def test_it_needs_numpy_alone(tmp_path: Path) -> None:
    intaglio.export(MODELS["convolution"](), "python", tmp_path)
    script = (
        "import sys, numpy as np; from model import load; y = load()(np.zeros((1, 3, 8, 8), np.float32));"
        "assert y.shape == (1, 4); names = {name.partition('.')[0] for name in sys.modules};"
        "assert not names & {'intaglio', 'onnx', 'ml_dtypes', 'torch'}, names"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", ["float", "double", "float16", "bfloat16", "float8e4m3fn", "int32", "uint8", "bool"])
@pytest.mark.parametrize("weights", ["npz", "safetensors"])
def test_weights_of_all_types(dtype: str, weights: Format, tmp_path: Path) -> None:
    import onnx
    from onnx import helper, numpy_helper

    kind = getattr(onnx.TensorProto, dtype.upper())
    array = np.arange(40).reshape(5, 8).astype(helper.tensor_dtype_to_np_dtype(kind))
    model = parse(f"net (int64[2] i) => ({dtype}[2, 8] y) {{ y = Gather(w, i) }}")
    model.graph.initializer.append(numpy_helper.from_array(array, "w"))
    intaglio.export(model, "python", tmp_path, weights=weights)
    assert (tmp_path / f"weights.{weights}").exists()
    result = import_exported(tmp_path).load()(np.array([3, 1]))
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result.astype(np.float64), array[[3, 1]].astype(np.float64))


def test_safetensors_are_read_by_their_own_package(tmp_path: Path) -> None:
    numpy_reader = pytest.importorskip("safetensors.numpy")
    intaglio.export(MODELS["convolution"](), "python", tmp_path, weights="safetensors")
    found = numpy_reader.load_file(tmp_path / "weights.safetensors")
    assert {name: array.shape for name, array in found.items()} == {
        "cw": (5, 3, 3, 3),
        "cb": (5,),
        "fw": (4, 5),
        "fb": (4,),
    }


class Counting(ModuleType):
    """A module of arrays that counts what it is asked for."""

    asked = 0

    def __getattr__(self, name: str):
        Counting.asked += 1
        return getattr(np, name)


def test_another_module_of_arrays(tmp_path: Path) -> None:
    intaglio.export(MODELS["convolution"](), "python", tmp_path)
    module = import_exported(tmp_path)
    x = FEEDS["convolution"][0]
    np.testing.assert_array_equal(module.load(xp=Counting("counting"))(x), module.load()(x))
    assert Counting.asked > 5


def test_defaults_of_inputs(tmp_path: Path) -> None:
    import onnx
    from onnx import numpy_helper

    model = parse("net (float[2] x, float[2] b) => (float[2] y) { y = Add(x, b) }")
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "b"))
    assert isinstance(model, onnx.ModelProto)
    intaglio.export(model, "python", tmp_path)
    loaded = import_exported(tmp_path).load()
    x = np.zeros(2, np.float32)
    assert loaded(x).tolist() == [1, 2]
    assert loaded(x, x).tolist() == [0, 0]


def test_an_input_behind_one_with_a_default(tmp_path: Path) -> None:
    model = parse("net (float b, float[n] x) => (float[n] y) { y = Add(x, b) }", b=np.array(2, np.float32))
    intaglio.export(model, "python", tmp_path)
    loaded = import_exported(tmp_path).load()
    x = np.zeros(2, np.float32)
    assert loaded(x=x).tolist() == [2, 2]
    assert loaded(np.float32(3), x).tolist() == [3, 3]
    with pytest.raises(TypeError, match="x is missing"):
        loaded()


def test_what_cannot_be_said_is_told_with_its_place(tmp_path: Path) -> None:
    model = parse("net (uint8[n] x) => (uint8[a, b, 3] y) { [decode] y = ImageDecoder(x) }")
    with pytest.raises(UnsupportedError, match=r"(?s)1 nodes cannot be said.*ImageDecoder at decode"):
        intaglio.export(model, "python", tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="no language 'cobol'"):
        intaglio.export(model, "cobol", tmp_path)


def test_phases_can_be_looked_at(tmp_path: Path) -> None:
    found = intaglio.export(MODELS["shapes"](), "python", tmp_path, debug=True)
    phases = ["graph.0-imported.txt", "graph.1-simplified.txt", "graph.2-written.txt"]
    assert found.files == ["model.py", "README.md", *phases]
    assert "Gather" in (tmp_path / phases[0]).read_text()
    text = (tmp_path / "model.py").read_text()
    assert "x.reshape(x.shape[0], x.shape[1], 3, 4)" in text


def test_the_model_is_not_changed(tmp_path: Path) -> None:
    loaded = intaglio.load(MODELS["convolution"](), engine="reference")
    before = str(loaded.graph)
    intaglio.export(loaded, "python", tmp_path)
    assert str(loaded.graph) == before
