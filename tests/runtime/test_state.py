"""State that models hold, and outputs that are written to the caller's arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import intaglio
from intaglio import ops
from intaglio.runtime.model.tensor_files import read_tensors, write_tensors

ENGINES = ["reference", "native"]


def affine(**outputs: Any) -> Any:
    """y = x @ w + b, and next = w * 0.5."""
    with intaglio.build("affine", inputs={"x": "float32[N, 3]"}) as g:
        w = g.constant(np.arange(6, dtype=np.float32).reshape(3, 2), "layer.w")
        b = g.constant(np.array([1, -1], np.float32), "layer.b")
        g.output(y=ops.MatMul(g["x"], w) + b, w_next=w * 0.5, b_next=b + 1.0)
    return g.graph


X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_step_changes_the_state_and_only_that(engine: str) -> None:
    w, b = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([1, -1], np.float32)
    updates = {"layer.w": "w_next", "layer.b": "b_next"}
    model = intaglio.stateful(affine(), "layer.*", updates, engine=engine)
    assert [item.name for item in model.inputs] == ["x"]
    assert [item.name for item in model.outputs] == ["y"]
    for _ in range(5):
        np.testing.assert_allclose(model(X), X @ w + b)
        w, b = w * np.float32(0.5), b + np.float32(1)
        np.testing.assert_array_equal(model.state["layer.w"], w)
        np.testing.assert_array_equal(model.state["layer.b"], b)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_read_is_a_copy_and_what_is_written_counts(engine: str) -> None:
    model = intaglio.stateful(affine(), engine=engine)
    copy = model.state["layer.w"]
    copy[:] = 7
    assert not (model.state["layer.w"] == 7).any()
    model.state["layer.w"] = copy
    model.state["layer.b"] = [0.0, 0.0]
    np.testing.assert_allclose(model.run({"x": X})["y"], X @ copy)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_refused_or_failed_run_changes_nothing(engine: str) -> None:
    model = intaglio.stateful(affine(), updates={"layer.w": "w_next"}, engine=engine)
    before = model.state_dict()
    model.run({"x": X}, accept=lambda results: False)
    with pytest.raises(intaglio.InputError, match="rank"):
        model(X[0])
    for name, array in before.items():
        np.testing.assert_array_equal(model.state[name], array)


def test_files_hold_the_state(tmp_path: Path) -> None:
    model = intaglio.stateful(affine(), updates={"layer.w": "w_next"})
    model(X)
    model.save_state(tmp_path / "s.safetensors")
    other = intaglio.stateful(affine())
    other.load_state(tmp_path / "s.safetensors")
    np.testing.assert_array_equal(other.state["layer.w"], model.state["layer.w"])
    model.save(tmp_path / "m.onnx")
    np.testing.assert_allclose(intaglio.load(tmp_path / "m.onnx")(X)[0], model(X)[0])


def test_files_of_every_type(tmp_path: Path) -> None:
    types = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int64, np.uint8, np.bool_]
    tensors = {str(np.dtype(t)): np.ones((2, 0, 3) if t is np.uint8 else (3, 2), t) for t in types}
    tensors["scalar"] = np.array(2.5)
    write_tensors(tmp_path / "f", tensors, {"a": "b"})
    found, metadata = read_tensors(tmp_path / "f")
    assert metadata == {"a": "b"}
    assert found.keys() == tensors.keys()
    for name, array in tensors.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(intaglio.ModelNotFoundError):
        read_tensors(tmp_path / "missing")
    write_tensors(tmp_path / "f", {"x": np.ones(5)})
    data = (tmp_path / "f").read_bytes()
    for wrong in (b"", data[:-3], data[:20], b"\xff" * 50):
        (tmp_path / "f").write_bytes(wrong)
        with pytest.raises(intaglio.LoadError, match="no file of safetensors"):
            read_tensors(tmp_path / "f")


def test_errors_of_state_name_what_is_wrong() -> None:
    model = intaglio.stateful(affine())
    with pytest.raises(intaglio.InputError, match=r"did you mean 'layer\.w'"):
        model.state["layer.v"]
    with pytest.raises(intaglio.InputError, match=r"float32\[3, 2\], got float32\[2, 3\]"):
        model.state["layer.w"] = np.ones((2, 3), np.float32)
    with pytest.raises(intaglio.InputError, match=r"lacks 'layer\.b'"):
        model.load_state_dict({"layer.w": np.zeros((3, 2), np.float32)})
    with pytest.raises(intaglio.InputError, match=r"got float64\[2\]"):
        model.load_state_dict({"layer.w": np.zeros((3, 2), np.float32), "layer.b": np.zeros(2)})
    assert model.state["layer.w"].any(), "nothing is taken where one is wrong"
    with pytest.raises(intaglio.InputError, match="no weight is named"):
        intaglio.stateful(affine(), "layers.*")
    with pytest.raises(intaglio.InputError, match="is no output"):
        intaglio.stateful(affine(), updates={"layer.w": "w_nxt"})
    with pytest.raises(intaglio.InputError, match="is no state"):
        intaglio.stateful(affine(), "layer.w", {"layer.b": "b_next"})
    with pytest.raises(intaglio.InputError, match="and the state"):
        intaglio.stateful(affine(), updates={"layer.w": "y"})


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_with_state(engine: str) -> None:
    with intaglio.build("loss", inputs={"x": "float32[N, 3]"}) as g:
        w = g.constant(np.ones((3, 2), np.float32), "w")
        g.output(loss=ops.ReduceSum(ops.MatMul(g["x"], w) ** 2.0, keepdims=0))
    step = intaglio.value_and_grad(g.graph, wrt="w", parameters="state", engine=engine)
    assert [item.name for item in step.inputs] == ["x"]
    w_now = np.ones((3, 2), np.float32)
    for _ in range(3):
        loss, gradient = step(X)
        np.testing.assert_allclose(loss, ((X @ w_now) ** 2).sum(), rtol=1e-5)
        np.testing.assert_allclose(gradient, 2 * X.T @ (X @ w_now), rtol=1e-5)
        w_now = w_now - np.float32(0.001) * gradient
        step.state["w"] = w_now


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("overlap", [False, True])
def test_out_is_written_to(engine: str, overlap: bool) -> None:
    with intaglio.build("two", inputs={"x": "float32[N, N]"}) as g:
        g.output(y=ops.MatMul(g["x"], g["x"]), z=ops.Transpose(g["x"]), same=g["x"])
    model = g.model(engine=engine)
    for size in (3, 3, 4, 3):  # sizes that were met before take another way
        x = np.random.default_rng(size).standard_normal((size, size)).astype(np.float32)
        given = x.copy()
        out = {"y": given if overlap else np.empty_like(x), "same": np.empty_like(x)}
        results = model.run({"x": given}, out=out)
        assert results["y"] is out["y"]
        assert results["same"] is out["same"]
        np.testing.assert_allclose(out["y"], x @ x, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(results["z"], x.T)
        np.testing.assert_array_equal(out["same"], x)


def test_out_goes_through_a_program_of_the_cache(tmp_path: Path) -> None:
    with intaglio.build("one", inputs={"x": "bfloat16[N, 2]"}) as g:
        g.output(y=ops.Exp(g["x"]))
    g.save(tmp_path / "m.onnx")
    for _ in range(2):
        model = intaglio.load(tmp_path / "m.onnx")
        x = np.ones((3, 2), ml_dtypes.bfloat16)
        target = np.zeros_like(x)
        assert model.run({"x": x}, out={"y": target})["y"] is target
        np.testing.assert_array_equal(target, model(x))


@pytest.mark.parametrize("engine", ENGINES)
def test_out_that_does_not_fit(engine: str) -> None:
    with intaglio.build("one", inputs={"x": "float32[N, 2]"}) as g:
        g.output(y=g["x"] + 1.0, z=g["x"] * 2.0)
    model = g.model(engine=engine)
    x = np.ones((3, 2), np.float32)
    shared = np.empty((4, 2), np.float32)
    cases = [
        ({"w": x}, "no output of this run"),
        ({"y": [1.0]}, "is a list"),
        ({"y": np.empty((3, 2))}, "dtype float64"),
        ({"y": np.empty((3, 3), np.float32)}, r"shape \[3, 3\]"),
        ({"y": np.empty((2, 3), np.float32).T}, "not contiguous"),
        ({"y": np.broadcast_to(np.float32(0), (3, 2))}, "read-only"),
        ({"y": np.empty((5, 2), np.float32)}, r"float32\[3, 2\]"),
        ({"y": shared[:3], "z": shared[1:]}, "share memory"),
    ]
    for _ in range(2):
        for out, text in cases:
            with pytest.raises(intaglio.InputError, match=text):
                model.run({"x": x}, out=out)
        model(x)
