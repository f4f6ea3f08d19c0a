"""The trainer: training modes, freezing, accumulation, averages, checkpoints, export and what goes wrong."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest

import intaglio
from intaglio import ops, train
from intaglio.ir.text import format_graph, parse_graph
from intaglio.runtime.engine.engine import EngineName
from intaglio.runtime.model.tensor_files import write_tensors

ENGINES = ["reference", "native"]
RNG = np.random.default_rng(3)
X = RNG.standard_normal((24, 6)).astype(np.float32)
Y = RNG.integers(0, 3, 24)


def weight(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32) * 0.4


def mlp(hidden: int = 8, ratio: float | None = None, name: str = "mlp") -> Any:
    """Two layers, with names such as PyTorch gives; the first is normalized by batch."""
    with intaglio.build(name, inputs={"x": "float32[N, 6]"}) as g:
        h = ops.MatMul(g["x"], g.constant(weight(6, hidden), "fc1.weight"))
        vectors = {"weight": 1.5, "bias": 0.1, "mean": 0.0, "var": 1.0}
        norm = [g.constant(np.full(hidden, v, np.float32), f"bn.{key}") for key, v in vectors.items()]
        h = ops.Relu(ops.BatchNormalization(h, *norm))
        if ratio is not None:
            h = ops.Dropout(h, np.float32(ratio))
        y = ops.MatMul(h, g.constant(weight(hidden, 3), "fc2.weight")) + g.constant(weight(3), "fc2.bias")
        g.output(y=y)
    return g.graph


def same_state(left: train.Trainer, right: train.Trainer) -> None:
    ours, theirs = left.state.state_dict(), right.state.state_dict()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


@pytest.mark.parametrize("engine", ENGINES)
def test_batches_are_normalized_as_in_pytorch(engine: EngineName) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the judge")
    trainer = train.Trainer(mlp(), optimizer=train.SGD(0.1), engine=engine)
    fc1, bn, fc2 = torch.nn.Linear(6, 8, bias=False), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    with torch.no_grad():
        fc1.weight.copy_(torch.tensor(weight(6, 8).T))
        bn.weight.fill_(1.5)
        bn.bias.fill_(0.1)
        fc2.weight.copy_(torch.tensor(weight(8, 3).T))
        fc2.bias.copy_(torch.tensor(weight(3)))
    model = torch.nn.Sequential(fc1, bn, torch.nn.ReLU(), fc2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(5):
        x, y = X[4 * step : 4 * step + 4 + step % 2], Y[4 * step : 4 * step + 4 + step % 2]
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(torch.tensor(x)), torch.tensor(y))
        loss.backward()
        optimizer.step()
        assert trainer.step(x, y) == pytest.approx(loss.item(), rel=1e-5)
    np.testing.assert_allclose(trainer.state["bn.mean"], bn.running_mean.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(trainer.state["bn.var"], bn.running_var.numpy(), rtol=1e-5)
    np.testing.assert_allclose(trainer.state["bn.weight"], bn.weight.detach().numpy(), rtol=1e-5)
    model.eval()
    np.testing.assert_allclose(trainer.predict(X), model(torch.tensor(X)).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_dropout_drops_by_the_seed() -> None:
    losses = {}
    for engine in ENGINES:
        for seed in (0, 1):
            trainer = train.Trainer(mlp(ratio=0.5), optimizer=train.SGD(0.0), seed=seed, engine=engine)
            losses[engine, seed] = [trainer.step(X, Y) for _ in range(3)]
    np.testing.assert_allclose(losses["reference", 0], losses["native", 0], rtol=1e-6)
    np.testing.assert_allclose(losses["reference", 1], losses["native", 1], rtol=1e-6)
    drawn = {round(loss, 4) for seed in (0, 1) for loss in losses["native", seed]}
    assert len(drawn) == 6, "each step draws anew"


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.75])
def test_dropout_keeps_the_share_and_the_mean(ratio: float) -> None:
    with intaglio.build("drop", inputs={"x": "float32[N, 64]"}) as g:
        w = g.constant(np.ones(64, np.float32), "w")
        g.output(y=ops.Dropout(g["x"] * w, np.float32(ratio)), z=ops.Dropout(g["x"] * w, np.float32(ratio)))
    seen = []

    def loss(y: Any, z: Any) -> Any:
        return ops.ReduceMean(y * 1.0, keepdims=0) + 0.0 * ops.ReduceMean(y * z, keepdims=0)

    trainer = train.Trainer(g.graph, loss, train.SGD(0.0))
    seen = [trainer.step(np.ones((512, 64), np.float32)) for _ in range(4)]
    deviation = np.sqrt(ratio / (1 - ratio) / (512 * 64))
    assert all(abs(mean - 1) < 5 * deviation for mean in seen)
    assert trainer.predict(np.ones((2, 64), np.float32))[0].min() == 1, "the model as it is used drops nothing"


def test_a_ratio_of_zero_drops_nothing_and_draws_nothing() -> None:
    none, some = train.Trainer(mlp(), engine="reference"), train.Trainer(mlp(ratio=0.0), engine="reference")
    assert none.step(X, Y) == some.step(X, Y)
    assert not [node for node in some.model.graph.nodes if node.op.name == "BitShift"]


def test_numbers_of_formulas_are_not_trained() -> None:
    from onnx import TensorProto, helper, numpy_helper

    number = helper.make_tensor("number", TensorProto.FLOAT, [1], [0.5])
    nodes = [
        helper.make_node("Constant", [], ["scale"], value=number),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Mul", ["h", "scale"], ["s"]),
        helper.make_node("Add", ["s", "b"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", k]) for n, k in (("x", 6), ("y", 1))]
    weights = {"w": weight(6, 1), "b": weight(1)}
    graph = helper.make_graph(
        nodes, "g", values[:1], values[1:], [numpy_helper.from_array(array, name) for name, array in weights.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    assert train.Trainer(model, "mse").trained == ("w", "b")
    assert train.Trainer(model, "mse", trainable=["scale", "w"]).trained == ("w", "scale")
    read = intaglio.load(model).graph
    for copied in (pickle.loads(pickle.dumps(read)), parse_graph(format_graph(read))):
        assert train.Trainer(copied, "mse").trained == ("w", "b")


def test_what_is_frozen_stays() -> None:
    before = {value.name: value.constant.copy() for value in mlp().constants()}
    trainer = train.Trainer(mlp(), frozen=["fc1.*", "bn.*"], lr=0.1)
    trainer.step(X, Y)
    assert set(trainer.trained) == {"fc2.weight", "fc2.bias"}
    after = {value.name: value.constant for value in trainer.trained_graph().constants()}
    changed = {name for name, array in before.items() if (array != after[name]).any()}
    assert changed == {"fc2.weight", "fc2.bias"}, "statistics of a frozen normalization stay too"
    only = train.Trainer(mlp(), trainable="fc1.weight")
    assert only.trained == ("fc1.weight",)


@pytest.mark.parametrize("engine", ENGINES)
def test_accumulating_is_one_large_batch(engine: EngineName) -> None:
    with intaglio.build("line", inputs={"x": "float32[N, 6]"}) as g:
        g.output(y=ops.MatMul(g["x"], g.constant(weight(6, 3), "w")))
    whole = train.Trainer(g.graph, optimizer="adam", lr=0.05, clip_norm=0.5, engine=engine)
    parts = train.Trainer(g.graph, optimizer="adam", lr=0.05, clip_norm=0.5, accumulate=3, engine=engine)
    for _ in range(4):
        loss = whole.step(X, Y)
        split = [parts.step(X[i : i + 8], Y[i : i + 8]) for i in (0, 8, 16)]
        assert np.mean(split) == pytest.approx(loss, rel=1e-5)
    assert parts.updates == whole.updates == 4
    np.testing.assert_allclose(parts.state["w"], whole.state["w"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_last_batches_of_an_epoch_are_averaged_over_as_many_as_there_are(engine: EngineName) -> None:
    with intaglio.build("line", inputs={"x": "float32[N, 6]"}) as g:
        g.output(y=ops.MatMul(g["x"], g.constant(weight(6, 3), "w")))
    options: dict[str, Any] = {"optimizer": "adam", "lr": 0.05, "engine": engine}
    parts = train.Trainer(g.graph, accumulate=2, **options)
    parts.fit((X, Y), 2, batch_size=8, shuffle=False, progress=False)
    whole = train.Trainer(g.graph, **options)
    for _ in range(2):
        whole.step(X[:16], Y[:16])
        whole.step(X[16:], Y[16:])
    assert parts.updates == whole.updates == 4
    np.testing.assert_allclose(parts.state["w"], whole.state["w"], rtol=1e-4, atol=1e-6)
    parts.finish_update()
    assert parts.updates == 4, "nothing waits"


def test_moving_averages(tmp_path: Path) -> None:
    trainer = train.Trainer(mlp(), lr=0.1, ema=0.8)
    average = trainer.state["fc2.weight"].astype(np.float64)
    for _ in range(5):
        trainer.step(X, Y)
        average = 0.8 * average + 0.2 * trainer.state["fc2.weight"]
    np.testing.assert_allclose(trainer.state["fc2.weight@ema"], average, rtol=1e-5, atol=1e-6)
    trainer.save(tmp_path / "ema.onnx", ema=True)
    np.testing.assert_allclose(
        intaglio.load(tmp_path / "ema.onnx")(X), trainer.predict(X, ema=True), rtol=1e-5, atol=1e-6
    )
    with pytest.raises(intaglio.InputError, match="no moving averages"):
        train.Trainer(mlp()).predict(X, ema=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_trained_model_answers_the_same_in_onnx_runtime(engine: EngineName, tmp_path: Path) -> None:
    trainer = train.Trainer(mlp(ratio=0.3), lr=0.05, engine=engine)
    first = trainer.step(X, Y)
    for _ in range(20):
        last = trainer.step(X, Y)
    assert last < first
    trainer.save(tmp_path / "trained.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx")
    np.testing.assert_allclose(np.asarray(session.run(None, {"x": X})[0]), trainer.predict(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(trainer.trained_model()(X), intaglio.load(trainer.to_onnx(), engine=engine)(X))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("stop", [3, 4, 11])
def test_a_checkpoint_goes_on_to_the_bit(engine: EngineName, stop: int, tmp_path: Path) -> None:
    def make() -> train.Trainer:
        options: dict[str, Any] = {"ema": 0.9, "accumulate": 2, "seed": 5, "engine": engine}
        return train.Trainer(mlp(ratio=0.5), lr=0.05, schedule=train.schedules.cosine(20), **options)

    class Stop:
        def on_step(self, trainer: train.Trainer, loss: float) -> bool:
            return trainer.batches == stop

    whole, first = make(), make()
    expected = whole.fit((X, Y), 3, batch_size=5).losses
    path = tmp_path / "c.safetensors"
    begun = first.fit((X, Y), 3, batch_size=5, callbacks=[Stop()], checkpoint=path).losses
    second = make()
    second.load_checkpoint(path)
    rest = second.fit((X, Y), 3, batch_size=5).losses
    assert begun + rest == expected
    same_state(whole, second)
    assert second.counters() == whole.counters()


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    train.Trainer(mlp(), lr=0.1).save_checkpoint(path)
    for other, text in [
        (train.Trainer(mlp(hidden=9)), r"'fc1.weight' is float32\[6, 8\] in it and float32\[6, 9\] here"),
        (train.Trainer(mlp(), optimizer="sgd"), "exp_avg', which is not here"),
        (train.Trainer(mlp(), frozen="fc1.*"), "which is not here"),
        (train.Trainer(mlp(ratio=0.5)), "its graph has other nodes"),
    ]:
        before = other.state.state_dict()
        with pytest.raises(intaglio.InputError, match=text):
            other.load_checkpoint(path)
        assert other.updates == 0
        for name, array in before.items():
            np.testing.assert_array_equal(other.state[name], array)
    write_tensors(path, {"x": X})
    with pytest.raises(intaglio.InputError, match="is no checkpoint"):
        train.Trainer(mlp()).load_checkpoint(path)
    write_tensors(path, {"x": X}, {"kind": "intaglio.checkpoint.1", "trainer": "{}"})
    with pytest.raises(intaglio.InputError, match="cannot be read"):
        train.Trainer(mlp()).load_checkpoint(path)


def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = train.Trainer(mlp(), lr=0.1)
    trainer.save_checkpoint(tmp_path / "c")
    before = (tmp_path / "c").read_bytes()
    trainer.step(X, Y)

    def fail(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        trainer.save_checkpoint(tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def logarithm() -> Any:
    with intaglio.build("log", inputs={"x": "float32[N, 6]"}) as g:
        h = ops.MatMul(g["x"], g.constant(np.ones((6, 1), np.float32), "w"))
        g.output(y=ops.Log(h))
    return g.graph


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loss_that_is_not_finite_is_told_and_changes_nothing(engine: EngineName) -> None:
    good, bad, target = np.abs(X[:4]), -np.abs(X[:4]), np.zeros((4, 1), np.float32)
    trainer = train.Trainer(logarithm(), "mse", lr=0.01, engine=engine)
    trainer.step(good, target)
    before = trainer.state.state_dict()
    with pytest.raises(intaglio.TrainingError, match=r"step 2 \(batch 2\): the first NaN is in 'y' of Log.*as before"):
        trainer.step(bad, target)
    for name, array in before.items():
        np.testing.assert_array_equal(trainer.state[name], array)
    trainer.step(good, target)
    trainer.nonfinite = "skip"
    with pytest.warns(UserWarning, match="is left out"):
        trainer.step(bad, target)
    assert trainer.updates == 2
    trainer.nonfinite = "ignore"
    assert np.isnan(trainer.step(bad, target))
    assert np.isnan(trainer.state["w"]).any()
    trainer.nonfinite = "stop"
    with pytest.raises(intaglio.TrainingError, match="'w' has NaN already"):
        trainer.step(good, target)


@pytest.mark.parametrize("engine", ENGINES)
def test_mixed_precision_follows_single_precision(engine: EngineName) -> None:
    single, mixed = (
        train.Trainer(mlp(ratio=0.2), optimizer="adam", lr=0.02, precision=precision, engine=engine)
        for precision in (None, "bfloat16")
    )
    pairs = [(single.step(X, Y), mixed.step(X, Y)) for _ in range(30)]
    np.testing.assert_allclose([a for a, _ in pairs], [b for _, b in pairs], rtol=0.05)
    assert pairs[0][0] != pairs[0][1], "rounding shows"
    assert pairs[-1][1] < 0.8 * pairs[0][1]
    assert all(mixed.state[name].dtype == np.float32 for name in mixed.state), "masters are in single precision"
    kept = [value.dtype.name for node in mixed.model.graph.nodes for value in node.outputs if node.op.name == "MatMul"]
    assert kept.count("bfloat16") >= 2


@pytest.mark.parametrize("engine", ENGINES)
def test_running_statistics_are_single_in_mixed_precision(engine: EngineName) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the judge")
    with intaglio.build("norm", inputs={"x": "float32[N, 6]"}) as g:
        norm = [g.constant(np.full(6, v, np.float32), name) for name, v in zip("sbmv", (1, 0, 0, 1), strict=True)]
        g.output(y=ops.BatchNormalization(g["x"], *norm) * g.constant(weight(6), "w"))
    trainer = train.Trainer(g.graph, "mse", train.SGD(0.0), precision="bfloat16", engine=engine)
    layer = torch.nn.BatchNorm1d(6)
    near_one = (X / X.std(0, ddof=1) * np.float32(1.005)).astype(ml_dtypes.bfloat16).astype(np.float32)
    for _ in range(8):
        trainer.step(near_one, X)
        layer(torch.tensor(near_one))
    np.testing.assert_allclose(trainer.state["v"], layer.running_var.numpy(), rtol=1e-5)
    assert (np.abs(trainer.state["v"] - 1) > 1e-3).all(), "each step moves them by less than a rounding of bfloat16"


def test_weights_that_are_inputs_are_made() -> None:
    types = {"x": "float32[N, 2, 8, 8]", "c.weight": "float32[4, 2, 3, 3]", "c.bias": "float32[4]",
             "n.weight": "float32[4]", "n.bias": "float32[4]", "f.weight": "float32[4, 3]"}  # fmt: skip
    with intaglio.build("bare", inputs=types) as g:
        h = ops.Conv(g["x"], g["c.weight"], g["c.bias"])
        h = ops.Relu(ops.InstanceNormalization(h, g["n.weight"], g["n.bias"]))
        g.output(y=ops.MatMul(ops.ReduceMean(h, [2, 3], keepdims=0), g["f.weight"]))
    trainer = train.Trainer(g.graph, initialize=["*.weight", "*.bias"], lr=0.01)
    assert trainer.inputs == ["x", "target"]
    assert (trainer.state["n.weight"] == 1).all()
    assert not trainer.state["n.bias"].any()
    assert 0 < np.abs(trainer.state["c.weight"]).max() <= 1 / np.sqrt(2 * 9)
    assert 0 < np.abs(trainer.state["f.weight"]).max() <= 1 / np.sqrt(4)
    again = train.Trainer(g.graph, initialize=["*.weight", "*.bias"], lr=0.01)
    same_state(trainer, again)
    trainer.step(np.ones((3, 2, 8, 8), np.float32), np.array([0, 1, 2]))
    assert [item.name for item in trainer.trained_model().inputs] == ["x"]
    with pytest.raises(intaglio.InputError, match="no weights that could be trained"):
        train.Trainer(g.graph)


def test_losses_of_ones_own() -> None:
    with intaglio.build("two", inputs={"x": "float32[N, 6]"}) as g:
        h = ops.MatMul(g["x"], g.constant(weight(6, 4), "w"))
        g.output(a=ops.Tanh(h), own=ops.ReduceMean(h * h, keepdims=0))
    by_name = train.Trainer(g.graph, "own", train.SGD(0.1))
    np.testing.assert_allclose(by_name.step(X), ((X @ weight(6, 4)) ** 2).mean(), rtol=1e-5)

    def distance(a: Any, near: Any) -> Any:
        return ops.ReduceMean(ops.Abs(a - near), keepdims=0)

    trainer = train.Trainer(g.graph, distance, "sgd", output="a", targets={"near": "float32[N, 4]"})
    zero = np.zeros((24, 4), np.float32)
    np.testing.assert_allclose(trainer.step(x=X, near=zero), np.abs(np.tanh(X @ weight(6, 4))).mean(), rtol=1e-5)
    with pytest.raises(intaglio.InputError, match="must be one floating-point number"):
        train.Trainer(g.graph, lambda a: a, output="a")
    with pytest.raises(intaglio.InputError, match=r"say which output.*'a', 'own'"):
        train.Trainer(g.graph, "mse")


def test_fit_tells_what_it_sees(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = train.Trainer(mlp(), lr=0.05)
    seen: list[float] = []
    history = trainer.fit(
        (X, Y), 4, batch_size=8, validation=(X, Y), metrics=["accuracy"], progress=True,
        callbacks=[lambda trainer, entry: seen.append(entry["epoch"])],
    )  # fmt: skip
    assert seen == [1, 2, 3, 4]
    assert len(history.losses) == 12
    assert history.epochs[-1].keys() == {"epoch", "loss", "val_loss", "val_accuracy", "seconds"}
    assert history.epochs[-1]["loss"] < history.epochs[0]["loss"]
    assert "epoch 4/4: loss" in capsys.readouterr().err
    found = trainer.evaluate((X, Y), ["accuracy"], batch_size=7)
    assert found["accuracy"] == pytest.approx((trainer.predict(X).argmax(1) == Y).mean())
    listed = [(X[:8], Y[:8]), (X[8:], Y[8:])]
    assert len(train.Trainer(mlp()).fit(listed, 2).losses) == 4


def test_early_stopping_gives_the_best_weights_back() -> None:
    trainer = train.Trainer(mlp(), lr=0.05)
    best: dict[int, Any] = {}

    def remember(trainer: train.Trainer, entry: dict[str, float]) -> None:
        best[trainer.epoch] = (entry["val_loss"], trainer.state["fc2.weight"])

    noise = (X, (Y + 1) % 3)
    history = trainer.fit((X, Y), 50, validation=noise, early_stopping=2, callbacks=[remember])
    losses = [entry["val_loss"] for entry in history.epochs]
    assert len(losses) == int(np.argmin(losses)) + 3
    np.testing.assert_array_equal(trainer.state["fc2.weight"], best[int(np.argmin(losses)) + 1][1])
    with pytest.raises(intaglio.InputError, match="early stopping watches 'val_loss'"):
        train.Trainer(mlp()).fit((X, Y), early_stopping=1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "uint64"])
def test_labels_of_any_integer_type(dtype: str) -> None:
    trainers = [train.Trainer(mlp(), lr=0.05, engine="reference") for _ in range(2)]
    labels = Y.astype(dtype)
    assert trainers[0].step(X, labels) == trainers[1].step(X, Y)
    assert trainers[0].fit((X, labels), validation=(X, labels), metrics=["accuracy"]).epochs
    assert trainers[0].evaluate((X, labels)) == trainers[0].evaluate((X, Y))
    with pytest.raises(intaglio.InputError, match="the target holds 3"):
        trainers[0].step(X, labels + labels.dtype.type(1))


def test_labels_that_are_tensors_are_checked_too() -> None:
    torch = pytest.importorskip("torch", reason="the labels are tensors")
    trainer = train.Trainer(mlp(), lr=0.05, engine="reference")
    assert np.isfinite(trainer.step(torch.tensor(X), torch.tensor(Y, dtype=torch.int32)))
    with pytest.raises(intaglio.InputError, match="the target holds 3"):
        trainer.step(torch.tensor(X), torch.tensor(Y) + 1)
    with pytest.raises(intaglio.InputError, match="the target holds -1"):
        trainer.evaluate((X, Y - 1))


def test_errors_name_what_is_wrong() -> None:
    trainer = train.Trainer(mlp())
    for call, text in [
        (lambda: trainer.step(X), "target was not given"),
        (lambda: trainer.step(X, Y, Y), "3 arrays were given"),
        (lambda: trainer.step(X, Y + 1), r"the target holds 3 at \[\d+\].*3 classes"),
        (lambda: trainer.step(X, Y.astype(np.float32)), "dtype float32, expected int64"),
        (lambda: trainer.step(X[:, :3], Y), "expected 6"),
        (lambda: trainer.fit((X,)), "the data are 1 arrays"),
        (lambda: trainer.fit((X, Y[:3])), "as many rows"),
        (lambda: trainer.fit((X, Y), batch_size=0), "batch_size is 0"),
        (lambda: trainer.fit(iter([])), "no batches"),
        (lambda: train.Trainer(mlp(), trainable="fc3.*"), "no weight is named 'fc3"),
        (lambda: train.Trainer(mlp(), frozen="*"), "all weights are frozen"),
        (lambda: train.Trainer(mlp(), accumulate=0), "accumulate is 0"),
        (lambda: train.Trainer(mlp(), precision="int8"), "precision is 'int8'"),  # pyright: ignore
        (lambda: train.Trainer(mlp(), nonfinite="go"), "nonfinite is 'go'"),  # pyright: ignore
    ]:
        with pytest.raises(intaglio.InputError, match=text):
            call()


def test_a_model_that_cannot_be_differentiated() -> None:
    with intaglio.build("random", inputs={"x": "float32[N, 6]"}) as g:
        g.output(y=ops.Bernoulli(ops.MatMul(g["x"], g.constant(weight(6, 3), "w"))))
    with pytest.raises(intaglio.UnsupportedError, match="Bernoulli"):
        train.Trainer(g.graph, "mse")
    with intaglio.build("apart", inputs={"x": "float32[N, 6]"}) as g:
        g.constant(weight(6, 3), "w")
        g.output(y=g["x"] * 2.0, z=g.constant(weight(6), "v") + 1.0)
    with pytest.raises(intaglio.InputError, match="depends on no weight"):
        train.Trainer(g.graph, "mse", output="y")
