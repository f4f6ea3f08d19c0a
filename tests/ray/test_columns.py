"""Columns through a model, without a cluster: types, ragged rows, outputs whose rows lie elsewhere."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from tests.ray.conftest import mixing, network

import intaglio
from intaglio import ops
from intaglio.ray import require_extra
from intaglio.ray.columns import RowRunner, chosen
from intaglio.serve.rows import rows_of


def runner(model: intaglio.Model, **columns: str) -> RowRunner:
    outputs = {item.name: item.name for item in model.outputs}
    return RowRunner(model, rows_of(model), {name: name for name in model.fed} | columns, outputs)


X = np.random.default_rng(1).standard_normal((11, 8)).astype(np.float32)


def test_columns_become_inputs_and_outputs_columns() -> None:
    model = network().model()
    found = runner(model, x="data")({"data": X, "other": np.arange(11)})
    assert list(found) == ["scores"]
    np.testing.assert_array_equal(found["scores"], model(X))
    assert runner(model)({"x": X[:0]}) == {}


def test_numbers_are_converted_only_where_none_is_changed() -> None:
    model = network().model()
    np.testing.assert_array_equal(
        runner(model)({"x": X.astype(np.float16)})["scores"], model(X.astype(np.float16).astype(np.float32))
    )
    with pytest.raises(intaglio.InputError, match="column 'x' is float64, and input 'x' takes float32"):
        runner(model)({"x": X.astype(np.float64)})
    with pytest.raises(intaglio.InputError, match="fed by column 'x', and the dataset has 'y'"):
        runner(model)({"y": X})


def test_rows_of_other_sizes_run_in_groups() -> None:
    with intaglio.build("longer", inputs={"x": "float32[N, L]"}) as g:
        g.output(y=ops.Exp(g["x"]), total=ops.ReduceSum(g["x"], g.constant(np.array([1]), "axes"), keepdims=0))
    column: Any = np.empty(7, object)
    for row in range(7):
        column[row] = np.full(1 + row % 3, row, np.float16)
    model = g.model()
    found = runner(model)({"x": column})
    assert found["y"].dtype == object
    for row in range(7):
        np.testing.assert_array_equal(found["y"][row], model(column[row][None].astype(np.float32))[0][0])
    np.testing.assert_array_equal(found["total"], [row * (1 + row % 3) for row in range(7)])


def test_rows_of_outputs_lie_where_they_lie() -> None:
    with intaglio.build("turned", inputs={"x": "float32[N, 8]"}) as g:
        x = g["x"]
        g.output(
            turned=ops.Transpose(x, perm=[1, 0]),
            pairs=ops.Reshape(x, g.constant(np.array([-1, 4]), "shape")),
            same=g.constant(np.array([1, 2], np.float32), "same"),
        )
    found = runner(g.model())({"x": X})
    np.testing.assert_array_equal(found["turned"], X)
    np.testing.assert_array_equal(found["pairs"], X.reshape(11, 2, 4))
    np.testing.assert_array_equal(found["same"], [[1, 2]] * 11)


def test_a_row_by_itself_where_rows_mix() -> None:
    model = mixing().model()
    alone = runner(model)
    np.testing.assert_array_equal(alone({"x": X[3:4]})["y"], np.zeros((1, 8), np.float32))
    with pytest.raises(intaglio.UnsupportedError, match="one by one"):
        alone({"x": X})


def test_names_of_columns() -> None:
    assert chosen(["a", "b"], None, "output") == {"a": "a", "b": "b"}
    assert chosen(["a", "b"], ["b"], "output") == {"b": "b"}
    assert chosen(["a", "b"], {"b": "answer"}, "output") == {"b": "answer"}
    with pytest.raises(intaglio.InputError, match="no output 'c'; it has 'a', 'b'"):
        chosen(["a", "b"], ["c"], "output")
    with pytest.raises(intaglio.InputError, match="one column"):
        chosen(["a", "b"], {"a": "y", "b": "y"}, "output")


def test_the_error_names_what_installs_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for call in (
        lambda: intaglio.ray.predict(None, network().model()),
        lambda: intaglio.ray.fit(network().graph, (X, X)),
        lambda: require_extra("ray"),
    ):
        with pytest.raises(intaglio.UnsupportedError, match=r"the package ray: pip install 'intaglio\[ray\]'"):
            call()


def test_nothing_of_ray_is_imported_before_it_is_asked_for() -> None:
    import subprocess

    code = "import sys, intaglio, intaglio.ray; assert not {'ray', 'fsspec', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
