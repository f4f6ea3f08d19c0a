"""Models with a fixed batch, opened for batches of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops, train
from intaglio.ir.graph import Graph
from intaglio.ops.evaluate import evaluate
from intaglio.passes.open_batch import fixed_batch, open_batch

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)


def weight(*shape: int) -> Array:
    return (RNG.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32)


def _numbers(g: Any, *numbers: int) -> Any:
    return g.constant(np.array(numbers), "numbers")


def mlp(batch: int) -> Graph:
    with intaglio.build("mlp", inputs={"x": f"float32[{batch}, 6]"}) as g:
        scale = ops.CastLike(g.constant(np.array(0.5), "scale"), g["x"])
        hidden = ops.Relu(ops.Gemm(g["x"] * scale, g.constant(weight(6, 8), "w1"), g.constant(weight(8), "b1")))
        g.output(y=ops.Gemm(hidden, g.constant(weight(8, 3), "w2")))
    return g.graph


def cnn(batch: int | str) -> Graph:
    """Convolutions with a normalization, made flat by Flatten and by a Reshape to numbers."""
    with intaglio.build("cnn", inputs={"x": f"float32[{batch}, 2, 6, 6]"}) as g:
        statistics = [g.constant(np.abs(weight(4)) + 0.5, name) for name in ("scale", "bias", "mean", "var")]
        made = ops.Conv(g["x"], g.constant(weight(4, 2, 3, 3), "k"), pads=[1, 1, 1, 1])
        pooled = ops.MaxPool(ops.BatchNormalization(made, *statistics), kernel_shape=[2, 2], strides=[2, 2])
        flat = ops.Reshape(pooled, g.constant(np.array([-1 if isinstance(batch, str) else batch, 36]), "flat"))
        mixed = flat + ops.Flatten(pooled)
        g.output(y=ops.MatMul(mixed, g.constant(weight(36, 3), "w")))
    return g.graph


def transformer(batch: int) -> Graph:
    """Attention of two heads, with a token put before the sequence and rows joined for a product."""
    with intaglio.build("transformer", inputs={"x": f"float32[{batch}, 5, 8]"}) as g:
        token = ops.Expand(g.constant(weight(1, 1, 8), "token"), g.constant(np.array([batch, 1, 8]), "token_shape"))
        x = ops.Concat(token, g["x"], axis=1) + g.constant(weight(6, 8), "places")
        rows = ops.Reshape(x, g.constant(np.array([batch * 6, 8]), "joined"))
        q, k, v = (_heads(g, ops.MatMul(rows, g.constant(weight(8, 8), name)), batch) for name in "qkv")
        scores = ops.Softmax(ops.MatMul(q, ops.Transpose(k, perm=[0, 1, 3, 2])) / np.float32(2), axis=-1)
        seen = ops.Transpose(ops.MatMul(scores, v), perm=[0, 2, 1, 3])
        y = ops.LayerNormalization(
            x + ops.Reshape(seen, g.constant(np.array([batch, 6, -1]), "back")), g.constant(weight(8), "norm"), axis=-1
        )
        first = ops.Gather(y, g.constant(np.array(0), "first"), axis=1)
        g.output(y=ops.MatMul(first, g.constant(weight(8, 3), "head")))
    return g.graph


def _heads(g: Any, x: Any, batch: int) -> Any:
    split = ops.Reshape(x, g.constant(np.array([batch, -1, 2, 4]), "heads"))
    return ops.Transpose(split, perm=[0, 2, 1, 3])


def sequence_first(batch: int) -> Graph:
    """Attention as PyTorch's `MultiheadAttention` has it: rows behind the sequence, joined with heads and with it."""
    with intaglio.build("sequence_first", inputs={"x": f"float32[{batch}, 5, 8]"}) as g:
        x = ops.Transpose(g["x"], perm=[1, 0, 2])
        q, k, v = (
            ops.Transpose(
                ops.Reshape(ops.MatMul(x, g.constant(weight(8, 8), n)), _numbers(g, 5, batch * 2, 4)), perm=[1, 0, 2]
            )
            for n in "qkv"
        )
        seen = ops.MatMul(ops.Softmax(ops.MatMul(q, ops.Transpose(k, perm=[0, 2, 1])), axis=-1), v)
        joined = ops.Reshape(ops.Transpose(seen, perm=[1, 0, 2]), _numbers(g, 5 * batch, 8))
        made = ops.Gemm(joined, g.constant(weight(8, 8), "o"), g.constant(weight(8), "b"))
        back = ops.Transpose(ops.Reshape(made, _numbers(g, 5, batch, 8)), perm=[1, 0, 2])
        g.output(y=ops.MatMul(ops.ReduceMean(back, _numbers(g, 1), keepdims=0), g.constant(weight(8, 3), "head")))
    return g.graph


def lstm(batch: int) -> Graph:
    """An LSTM whose first states have one row in the file, or are expanded to its batch."""
    with intaglio.build("lstm", inputs={"x": f"float32[{batch}, 4, 3]"}) as g:
        turned = ops.Transpose(g["x"], perm=[1, 0, 2])
        state = g.constant(weight(1, 1, 5), "state")
        if batch > 1:
            state = ops.Expand(state, g.constant(np.array([1, batch, 5]), "states"))
        y = ops.LSTM(
            turned, g.constant(weight(1, 20, 3), "w"), g.constant(weight(1, 20, 5), "r"), None, None, state, state,
            hidden_size=5,
        )  # fmt: skip
        last = ops.Gather(ops.Squeeze(y, g.constant(np.array([1]), "axes")), g.constant(np.array(-1), "last"), axis=0)
        g.output(y=ops.MatMul(last, g.constant(weight(5, 3), "head")))
    return g.graph


def resized(batch: int) -> Graph:
    """Pictures of another size, with a mask that the file holds for each row."""
    with intaglio.build("resized", inputs={"x": f"float32[{batch}, 2, 4, 4]"}) as g:
        large = ops.Resize(g["x"], None, None, _numbers(g, batch, 2, 6, 6), mode="linear")
        size = ops.Concat(ops.Shape(g["x"], start=0, end=1), _numbers(g, 1, 6, 6), axis=0)
        mask = ops.Expand(g.constant(np.ones((batch, 1, 6, 6), np.float32), "mask"), size)
        g.output(y=ops.MatMul(ops.Flatten(large * mask), g.constant(weight(72, 3), "w")))
    return g.graph


MODELS = {
    "mlp": mlp, "cnn": cnn, "transformer": transformer, "sequence_first": sequence_first, "lstm": lstm,
    "resized": resized,
}  # fmt: skip


def rows_of(graph: Graph, count: int) -> Array:
    shape = graph.inputs[0].shape[1:]
    return np.random.default_rng(count).standard_normal((count, *map(int, shape))).astype(np.float32)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("name", MODELS)
def test_an_opened_model_gives_each_row_what_the_model_gives(name: str, batch: int) -> None:
    graph = MODELS[name](batch)
    assert fixed_batch(graph) == batch
    opened = open_batch(graph)
    assert fixed_batch(opened) is None
    assert str(opened.outputs[0].type) == "float32[batch, 3]"
    x = rows_of(graph, 3 * batch)
    parts = [evaluate(graph, [x[first : first + batch]])[0] for first in range(0, len(x), batch)]
    np.testing.assert_array_equal(evaluate(opened, [x[:batch]])[0], parts[0])
    np.testing.assert_allclose(evaluate(opened, [x])[0], np.concatenate(parts), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(evaluate(opened, [x[:1]])[0], parts[0][:1], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_of_a_batch_is_the_mean_of_those_of_its_rows(name: str, engine: str) -> None:
    graph = MODELS[name](1)
    x, label = rows_of(graph, 5), np.arange(5) % 3
    options: dict[str, Any] = {"optimizer": train.SGD(0.1), "engine": engine}
    if name == "cnn":
        options["frozen"] = ["scale", "bias"]
    by_rows, trainer = train.Trainer(graph, **options), train.Trainer(graph, **options)
    found = [by_rows.gradients(x[row : row + 1], label[row : row + 1]) for row in range(5)]
    for weight_name, gradient in trainer.gradients(x, label).items():
        mean = np.mean([each[weight_name] for each in found], axis=0)
        np.testing.assert_allclose(gradient, mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(trainer.predict(x)[2:3], by_rows.predict(x[2:3]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_training_goes_on_with_other_batches_as_in_a_model_with_an_open_one(accumulate: int, tmp_path: Path) -> None:
    """Normalizations in training mode are in this model: each batch counts as a whole."""
    fixed, opened = (
        train.Trainer(_seeded(cnn, batch), optimizer="adam", lr=0.01, ema=0.9, accumulate=accumulate, engine="native")
        for batch in (4, "N")
    )
    x, label = rows_of(fixed.graph, 12), np.arange(12) % 3
    for count in (4, 4, 3, 12, 4, 7):
        losses = [each.step(x[:count], label[:count]) for each in (fixed, opened)]
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    for key, array in opened.state.state_dict().items():
        np.testing.assert_allclose(fixed.state[key], array, rtol=1e-4, atol=1e-6)
    assert fixed.updates == opened.updates
    assert fixed.evaluate((x, label)) == pytest.approx(opened.evaluate((x, label)), rel=1e-4)
    np.testing.assert_allclose(fixed.predict(x, ema=True), opened.predict(x, ema=True), rtol=1e-4, atol=1e-5)
    fixed.save(tmp_path / "m.onnx")
    saved = intaglio.load(tmp_path / "m.onnx")
    assert fixed_batch(saved.graph) == 4, "what is saved has the sizes of the file"
    np.testing.assert_allclose(saved(x[:4]), fixed.predict(x[:4]), rtol=1e-4, atol=1e-5)


def _seeded(make: Any, batch: Any) -> Graph:
    RNG.bit_generator.state = np.random.default_rng(3).bit_generator.state
    return make(batch)


def test_a_checkpoint_does_not_depend_on_the_batches_before_it(tmp_path: Path) -> None:
    graph = mlp(1)
    x, label = rows_of(graph, 6), np.arange(6) % 3
    trainer, later = (train.Trainer(graph, lr=0.01, engine="reference") for _ in range(2))
    trainer.step(x, label)
    trainer.save_checkpoint(tmp_path / "c")
    later.load_checkpoint(tmp_path / "c")
    assert later.step(x[:1], label[:1]) == pytest.approx(trainer.step(x[:1], label[:1]), rel=1e-6)


def with_states(batch: int) -> Graph:
    """An LSTM whose first states are constants with rows that are equal."""
    with intaglio.build("states", inputs={"x": f"float32[{batch}, 4, 3]"}) as g:
        state = g.constant(np.full((1, batch, 5), 0.25, np.float32), "state")
        rows = ops.Transpose(g["x"], perm=[1, 0, 2])
        parts = (g.constant(weight(1, 20, 3), "w"), g.constant(weight(1, 20, 5), "r"))
        y = ops.LSTM(rows, *parts, None, None, state, state, hidden_size=5)
        last = ops.Gather(ops.Squeeze(y, _numbers(g, 1)), g.constant(np.array(-1), "last"), axis=0)
        g.output(y=ops.MatMul(last, g.constant(weight(5, 3), "head")))
    return g.graph


def test_rows_of_a_constant_that_are_equal_follow_unless_they_are_trained() -> None:
    graph = with_states(4)
    x, label = np.random.default_rng(1).standard_normal((6, 4, 3)).astype(np.float32), np.arange(6) % 3
    with pytest.raises(intaglio.InputError, match=r"LSTM .*4 rows that are trained"):
        train.Trainer(graph, engine="reference").step(x, label)
    trainer = train.Trainer(graph, engine="reference", frozen="state")
    np.testing.assert_allclose(trainer.predict(x)[:4], trainer.trained_model()(x[:4]), rtol=1e-5, atol=1e-6)
    assert np.isfinite(trainer.step(x, label))


def _row(g: Any, x: Any) -> Any:
    return ops.Gather(x, g.constant(np.array(0), "first"), axis=0)


HINDRANCES: dict[str, tuple[int, Any]] = {
    "Gather": (1, _row),
    "Squeeze": (1, lambda g, x: ops.Squeeze(x, _numbers(g, 0))),
    "Slice": (1, lambda g, x: ops.Slice(x, _numbers(g, 0), _numbers(g, 1), _numbers(g, 0))),
    "ReduceMean": (4, lambda g, x: ops.ReduceMean(x, _numbers(g, 0), keepdims=1)),
    "Reshape": (4, lambda g, x: ops.Reshape(x, _numbers(g, 2, 12))),
    "ScatterND": (1, lambda g, x: ops.ScatterND(x, g.constant(np.array([[0, 2]]), "at"), g.constant(weight(1), "v"))),
    "GatherND": (1, lambda g, x: ops.GatherND(x, ops.Concat(
        g.constant(np.zeros((1, 1), np.int64), "row"), ops.ArgMax(x, axis=1, keepdims=1), axis=1
    ))),
    "Trilu": (4, lambda g, x: ops.Trilu(x)),
    "DynamicQuantizeLinear": (4, lambda g, x: ops.DynamicQuantizeLinear(x, outputs=3)[0]),
    "Softmax": (4, lambda g, x: ops.Softmax(x, axis=0)),
    "CumSum": (4, lambda g, x: ops.CumSum(x, g.constant(np.array(0), "axis"))),
    "Add": (4, lambda g, x: x + g.constant(weight(4, 6), "by_rows")),
    "Concat": (1, lambda g, x: ops.Concat(x, x, axis=0)),
    "Tile": (1, lambda g, x: ops.Tile(x, _numbers(g, 2, 1))),
    "Expand": (1, lambda g, x: ops.Expand(x, _numbers(g, 3, 6))),
    "MatMul": (4, lambda g, x: ops.MatMul(g.constant(weight(2, 4), "w"), x)),
    "Transpose": (1, lambda g, x: ops.Reshape(ops.Transpose(x, perm=[1, 0]), _numbers(g, 6))),
    "Mul": (1, lambda g, x: ops.MatMul(x, ops.Transpose(x, perm=[1, 0])) * np.float32(2)),
    "RandomNormal": (1, lambda g, x: x + ops.RandomNormal(shape=[1, 6])),
    "LSTM": (1, lambda g, x: ops.LSTM(
        ops.Unsqueeze(x, _numbers(g, 1)), g.constant(weight(1, 8, 6), "w"), g.constant(weight(1, 8, 2), "r"),
        hidden_size=2,
    )),
}  # fmt: skip
"""Nodes that cannot follow another batch, with the batch of the file."""


@pytest.mark.parametrize("name", HINDRANCES)
def test_a_node_that_cannot_follow_is_named(name: str) -> None:
    batch, make = HINDRANCES[name]
    with intaglio.build("hindered", inputs={"x": f"float32[{batch}, 6]"}) as g:
        g.output(y=make(g, g["x"]))
    with pytest.raises(intaglio.InputError, match=rf"a fixed batch of {batch}, and \w+ .*open batch") as caught:
        open_batch(g.graph)
    blamed = {"Transpose": "Reshape", "Mul": "MatMul"}.get(name, name)
    assert f"and {blamed} " in str(caught.value)


def test_a_hindered_model_trains_with_its_own_batch() -> None:
    with intaglio.build("hindered", inputs={"x": "float32[4, 6]"}) as g:
        g.output(y=ops.Softmax(ops.MatMul(g["x"], g.constant(weight(6, 3), "w")), axis=0))
    trainer = train.Trainer(g.graph, engine="reference")
    x, label = rows_of(g.graph, 8), np.arange(8) % 3
    before = trainer.step(x[:4], label[:4])
    with pytest.raises(intaglio.InputError, match=r"Softmax .* computes along the axis of the rows"):
        trainer.step(x, label)
    assert trainer.step(x[:4], label[:4]) < before
