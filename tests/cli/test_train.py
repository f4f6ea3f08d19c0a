"""`intaglio train`: what it writes, shows and refuses."""

from __future__ import annotations

import json
import xml.etree.ElementTree as tree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.present import producer

import intaglio
from intaglio import ops, train
from intaglio.train.curve import curve


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


TRAIN = ("train", "m.onnx", "data.npz", "--tensor", "scores", "--batch-size", "20", "--engine", "reference")


def weights_of(path: str) -> dict[str, Any]:
    return {
        v.name: v.constant for v in intaglio.load(path, engine="reference").graph.constants() if v.constant is not None
    }


def test_without_an_output_the_model_has_a_free_name(cli, files: Path) -> None:
    for name in ("m.trained.onnx", "m.trained-2.onnx"):
        result = cli(*TRAIN, "--epochs", "1")
        assert result.status == 0, result.err
        assert name in result.out
        assert (weights_of(name)["first"] != weights_of("m.onnx")["first"]).any()


def test_all_settings_of_the_trainer(cli, files: Path) -> None:
    result = cli(
        *TRAIN, "--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.1", "--schedule", "cosine", "--warmup", "2",
        "--accumulate", "2", "--ema", "0.5", "--clip-value", "1", "--precision", "bfloat16",
        "--validation-split", "0.25", "--metric", "accuracy", "--epochs", "4", "-o", "out.onnx", "--json",
    )  # fmt: skip
    assert result.status == 0, result.err
    found = json.loads(result.out)
    assert found["updates"] == 8, "45 rows are 3 batches, in 4 epochs, 2 for an update and the last one alone"
    data = np.load("data.npz")
    order = np.random.default_rng(0).permutation(60)
    trainer = train.Trainer(
        "m.onnx", output="scores", optimizer=train.SGD(0.1, momentum=0.9), accumulate=2, ema=0.5, clip_value=1.0,
        precision="bfloat16", schedule=train.schedules.warmup(2, train.schedules.cosine(6)), engine="reference",
    )  # fmt: skip
    rows = data["x"][order[15:]], data["target"][order[15:]]
    trainer.fit(rows, 4, batch_size=20, progress=False)
    for name in ("first", "second"):
        np.testing.assert_array_equal(weights_of("out.onnx")[name], trainer.state[f"{name}@ema"])


class Interrupting:
    """Lets some steps through, then raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: int, error: BaseException) -> None:
        self.left, self.error, self.step = steps, error, train.Trainer.step
        monkeypatch.setattr(train.Trainer, "step", lambda *args, **named: self(*args, **named))

    def __call__(self, *arguments: Any, **named: Any) -> float:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return self.step(*arguments, **named)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), 130),
        (intaglio.TrainingError("the loss is nan"), 1),
        (OSError(28, "No space left on device", "c"), 1),
    ],
)
def test_training_that_ends_early_is_written(
    cli, files: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int
) -> None:
    Interrupting(monkeypatch, 2, error)
    result = cli(*TRAIN)
    assert result.status == status
    assert "the model after 2 updates is in 'm.trained.onnx'" in result.err
    assert (weights_of("m.trained.onnx")["first"] != weights_of("m.onnx")["first"]).any()


def test_nothing_is_written_where_nothing_was_trained(cli, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Interrupting(monkeypatch, 0, KeyboardInterrupt())
    assert cli(*TRAIN).status == 130
    assert not Path("m.trained.onnx").exists()


def test_a_full_disk_moves_the_model_elsewhere(cli, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "full").mkdir()
    (files / "temporary").mkdir()
    save = train.Trainer.save

    def fill(trainer: train.Trainer, path: str, **options: Any) -> None:
        if Path(path).parent.name in ("full", files.name) or Path(path).parent == Path("."):
            raise OSError(28, "No space left on device")
        save(trainer, path, **options)

    monkeypatch.setattr(train.Trainer, "save", fill)
    monkeypatch.setattr("tempfile.tempdir", str(files / "temporary"))
    result = cli(*TRAIN, "-o", "full/out.onnx", "--epochs", "1")
    assert result.status == 1
    assert f"No space left on device); the trained model is in '{files / 'temporary' / 'out.onnx'}'" in result.err
    assert (weights_of("temporary/out.onnx")["first"] != weights_of("m.onnx")["first"]).any()


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["m.onnx", "wrong.npz"], 1, "holds 'x', 'label', but no 'target'"),
        (["m.onnx", "m.onnx"], 1, "does not end in .npz"),
        (["m.onnx", "data.npz", "--plot", "c.png"], 2, "does not end in .svg"),
        (["m.onnx", "data.npz", "--resume"], 2, "--resume needs --checkpoint"),
        (["m.onnx", "data.npz", "--patience", "2"], 2, "--patience needs --validation"),
        (["m.onnx", "data.npz", "--validation-split", "1"], 2, "expected a share between 0 and 1"),
        (["m.onnx", "data.npz", "--tensor", "scores", "--validation-split", "0.001"], 1, "of 60 rows is 0"),
        (["m.onnx", "data.npz", "--momentum", "0.9"], 2, "--momentum: adam has none"),
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
