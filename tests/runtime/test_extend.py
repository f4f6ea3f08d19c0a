"""Models that begin with a copy of another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import intaglio
from intaglio import ops


@pytest.fixture
def base() -> intaglio.Model:
    with intaglio.build("base", inputs={"x": "float32[N, 3]", "unused": "float32[M]"}) as g:
        middle = ops.MatMul(g["x"], g.constant(np.eye(3, 4, dtype=np.float32), "w"))
        g.output(y=ops.Softmax(middle), z=g["unused"] + 1.0)
        middle.name = "middle"
    return g.model()


def test_a_copy_gets_new_outputs(base: intaglio.Model, tmp_path: Path) -> None:
    before = base.to_onnx().SerializeToString()
    with intaglio.extend(base) as g:
        g.output(twice=g["middle"] * 2.0, weight=ops.ReduceSum(g["w"], keepdims=0))
    x = np.array([[1, 2, 3]], np.float32)
    for engine in ("reference", "native"):
        found = g.model(engine=engine).run({"x": x, "unused": np.zeros(1, np.float32)})
        assert found["twice"].tolist() == [[2, 4, 6, 0]]
        assert found["weight"] == 3
    assert not [node for node in g.graph.nodes if node.op.name == "Softmax"], "what nobody needs is left out"
    assert base.to_onnx().SerializeToString() == before
    base.save(tmp_path / "m.onnx")
    with intaglio.extend(tmp_path / "m.onnx") as again:
        again.output(middle=again["middle"])
    assert again.model().run({"x": x, "unused": x[0]})["middle"].shape == (1, 4)


def test_a_tensor_that_is_not_there(base: intaglio.Model) -> None:
    with (
        intaglio.extend(base) as g,
        pytest.raises(intaglio.InputError, match="no tensor 'midle'; did you mean 'middle'"),
    ):
        g["midle"]
    with pytest.raises(intaglio.GraphError, match="has no outputs"):
        g.model()
