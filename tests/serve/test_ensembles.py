"""Ensembles: several models as one, by one file, with the answers of one after the other."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serve.processes import CENTRED, HEADER, TWICE, save, serving

import intaglio
from intaglio.serve.repository import Repository
from intaglio.serve.settings import Settings

SCALE = HEADER + "g (float[n, 4] raw) => (float[n, 4] pixels) <float c = {0.5}> { pixels = Mul(raw, c) }"
CLASSIFY = HEADER + (
    "g (float[n, 4] x, float[n, 4] bias) => (float[n, 4] scores) { sum = Add(x, bias) scores = Softmax<axis = 1>(sum) }"
)
DECODE = HEADER.replace("21", "20") + (
    "g (uint8[n] file) => (float[1, h, w, 3] x) <int64[1] axes = {0}>"
    ' { image = ImageDecoder<pixel_format = "RGB">(file)'
    " f = Cast<to = 1>(image) x = Unsqueeze(f, axes) }"
)
MEAN = HEADER + (
    "g (float[b, h, w, 3] x) => (float[b, 3] colour) <int64[2] axes = {1, 2}>"
    " { colour = ReduceMean<keepdims = 0>(x, axes) }"
)


def write(folder: Path, steps: Any, **models: str) -> Path:
    for name, text in models.items():
        save(folder / f"{name}.onnx", text)
    path = folder / "all.ensemble.json"
    path.write_text(json.dumps({"steps": steps}))
    return path


def loaded(folder: Path) -> Any:
    repository = Repository(folder, Settings())
    repository.load_all()
    return repository.named("all")


def test_steps_run_one_after_the_other(tmp_path: Path) -> None:
    steps = [{"model": "scale.onnx"}, {"model": "classify.onnx", "connect": {"x": "pixels"}}]
    write(tmp_path, steps, scale=SCALE, classify=CLASSIFY)
    random = np.random.default_rng(0)
    raw, bias = (random.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
    expected = intaglio.load(tmp_path / "classify.onnx").run({"x": raw * np.float32(0.5), "bias": bias})["scores"]
    with serving(tmp_path) as server:
        while server.ask("GET", "/v2/health/ready").status != 200:
            assert server.process.poll() is None
        found = server.ask("GET", "/v2/models/all").json
        assert [each["name"] for each in found["inputs"]] == ["raw", "bias"]
        assert [each["name"] for each in found["outputs"]] == ["scores"]
        assert found["properties"]["batching"].startswith("rows along")
        answer = server.infer("all", {"raw": raw, "bias": bias})
        np.testing.assert_allclose(answer.array("scores"), expected, rtol=1e-6)
        assert server.infer("scale", {"raw": raw}).status == 200


def test_a_step_that_mixes_rows_is_the_reason_for_all(tmp_path: Path) -> None:
    write(tmp_path, [{"model": "scale.onnx"}, "centred.onnx"], scale=SCALE, centred=CENTRED)
    lane = loaded(tmp_path).lane
    assert "ReduceMean" in lane.served.rows.reason


def test_names_that_two_steps_have(tmp_path: Path) -> None:
    write(tmp_path, ["twice.onnx", "twice.onnx", "twice.onnx"], twice=TWICE)
    lane = loaded(tmp_path).lane
    assert lane.served.fed == ["x"]
    (found,) = lane.served.model.run({"x": np.ones((1, 2), np.float32)}).values()
    assert found.tolist() == [[8, 8]]


def test_a_changed_step_is_loaded(tmp_path: Path) -> None:
    write(tmp_path, ["scale.onnx", {"model": "twice.onnx", "connect": {"x": "pixels"}}], scale=SCALE, twice=TWICE)
    repository = Repository(tmp_path, Settings())
    repository.load_all()
    save(tmp_path / "twice.onnx", TWICE.replace("Add", "Sub"))
    assert not repository.refresh()
    assert repository.refresh()
    lane = repository.named("all").lane
    assert lane is not None
    (found,) = lane.served.model.run({"raw": np.ones((1, 4), np.float32)}).values()
    assert found.tolist() == [[0, 0, 0, 0]]


def test_images_come_as_files(tmp_path: Path) -> None:
    pillow: Any = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    write(tmp_path, ["decode.onnx", "mean.onnx"], decode=DECODE, mean=MEAN)
    file = io.BytesIO()
    pillow.new("RGB", (6, 4), (10, 200, 30)).save(file, "PNG")
    lane = loaded(tmp_path).lane
    assert lane is not None, loaded(tmp_path).reason
    (found,) = lane.served.model.run({"file": np.frombuffer(file.getvalue(), np.uint8)}).values()
    assert found.tolist() == [[10, 200, 30]]


@pytest.mark.parametrize(
    ("steps", "part"),
    [
        ([], "no steps"),
        ([3], "a step is 3"),
        (["../secret.onnx"], "not within the folder"),
        (["nothing.onnx"], "no file 'nothing.onnx'"),
        (["code.py"], "expected"),
        ([{"model": "twice.onnx", "connect": [1]}], "connect of"),
        (["twice.onnx", {"model": "scale.onnx", "connect": {"raw": "z"}}], "step 2, scale.onnx"),
        (["twice.onnx", {"model": "scale.onnx", "connect": {"z": "y"}}], "no input 'z'"),
    ],
)
def test_wrong_ensembles_say_what_is_wrong(tmp_path: Path, steps: Any, part: str) -> None:
    save(tmp_path / "secret.onnx", TWICE)
    write(tmp_path / "models", steps, scale=SCALE, twice=TWICE)
    entry = loaded(tmp_path / "models")
    assert entry.state == "UNAVAILABLE"
    assert part in entry.reason
