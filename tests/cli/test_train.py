"""`intaglio train`: what it writes, shows and refuses."""

from __future__ import annotations

import json
import xml.etree.ElementTree as tree
from pathlib import Path

import numpy as np
import pytest
from tests.present import producer

import intaglio
from intaglio import ops, train
from intaglio.cli.curve import curve


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with intaglio.build("tiny", inputs={"x": "float32[N, 4]"}) as g:
        h = ops.Relu(ops.MatMul(g["x"], g.constant(train.kaiming_uniform((4, 8), rng), "first")))
        g.output(p=ops.Softmax(ops.MatMul(h, g.constant(train.kaiming_uniform((8, 3), rng), "second"))))
        (scores,) = producer(g.graph.outputs[0]).inputs
        assert scores is not None
        scores.name = "scores"
    g.save(tmp_path / "m.onnx")
    x = rng.standard_normal((60, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, target=x[:, :3].argmax(1))
    np.savez(tmp_path / "wrong.npz", x=x, label=x[:, :3].argmax(1))
    return tmp_path


def test_a_trained_model_is_written_with_its_curve(cli, files: Path) -> None:
    result = cli(
        "train", "m.onnx", "data.npz", "-o", "out.onnx", "--tensor", "scores", "--lr", "0.05", "--epochs", "8",
        "--batch-size", "16", "--validation", "data.npz", "--metric", "accuracy", "--plot", "curve.svg",
    )  # fmt: skip
    assert result.status == 0, result.err
    for text in ("2 weights, 56 numbers", "32", "val_loss", "out.onnx", "curve.svg"):
        assert text in result.out
    data = np.load("data.npz")
    answers = intaglio.load("out.onnx")(data["x"]).argmax(1)
    assert (answers == data["target"]).mean() > 0.8
    root = tree.parse("curve.svg").getroot()
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.get("points", "").split()) for line in lines] == [32, 8]


def test_json_and_going_on(cli, files: Path) -> None:
    base = ("train", "m.onnx", "data.npz", "--tensor", "scores", "--checkpoint", "c", "--json", "--batch-size", "20")
    whole = json.loads(cli(*base[:5], "--json", "--batch-size", "20", "--epochs", "4").out)
    first = json.loads(cli(*base, "--epochs", "2").out)
    rest = json.loads(cli(*base, "--epochs", "4", "--resume").out)
    losses = [[entry["loss"] for entry in each["epochs"]] for each in (whole, first, rest)]
    assert losses[0] == losses[1] + losses[2]
    assert rest["updates"] == whole["updates"] == 12
    assert whole["weights"] == ["first", "second"]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["m.onnx", "wrong.npz"], 1, "holds 'x', 'label', but no 'target'"),
        (["m.onnx", "m.onnx"], 1, "does not end in .npz"),
        (["m.onnx", "data.npz", "--plot", "c.png"], 2, "does not end in .svg"),
        (["m.onnx", "data.npz", "--resume"], 2, "--resume needs --checkpoint"),
        (["m.onnx", "data.npz", "--patience", "2"], 2, "--patience needs --validation"),
        (["m.onnx", "data.npz", "-o", "nowhere/out.onnx"], 1, "there is no folder 'nowhere'"),
        (["m.onnx", "data.npz", "--frozen", "third"], 1, "no weight is named 'third'"),
        (["m.onnx", "data.npz", "--tensor", "score"], 1, "did you mean 'scores'"),
        (["m.onnx", "data.npz", "--loss", "mae"], 2, "invalid choice"),
    ],
)
def test_what_is_wrong_is_told_before_training(cli, files: Path, arguments: list[str], status: int, text: str) -> None:
    result = cli("train", *arguments)
    assert result.status == status
    assert text in result.err


def test_curves_of_any_numbers() -> None:
    cases = [
        {"a": [(1, 1.0)]},
        {"a": [(1, 2.0), (2, 2.0)]},
        {"a": [(0, 1.0), (1, float("nan")), (2, 0.5), (3, float("inf"))], "b <&>": [(0, -3e9)]},
        {"a": []},
    ]
    for series in cases:
        root = tree.fromstring(curve("t < 1", series))
        numbers = [
            float(v) for e in root.iter() for k, v in e.attrib.items() if k in ("x", "y", "x1", "y1", "cx", "cy")
        ]
        assert all(0 <= number <= 720 for number in numbers)
