"""What a process loads to start: a model that was compiled before needs neither ONNX nor operators nor lowering."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.runtime.test_repeated_runs import classifier, data_for

import intaglio
from intaglio import errors
from intaglio.runtime.artifact.warm import _package_state as warm_state  # pyright: ignore[reportPrivateUsage]
from intaglio.runtime.artifact.warm import warm_start

HEAVY = ("onnx", "google", "intaglio.ops", "intaglio.kernels", "intaglio.passes", "intaglio.onnx.reader", "subprocess")
RNG = np.random.default_rng(7)
WEIGHT = RNG.random((4, 3), np.float32)

SHOW = """
import json, sys
print(json.dumps(sorted(sys.modules)))
"""
RUN = """
import sys, numpy as np, intaglio
model = intaglio.load(sys.argv[1])
x = np.arange(8, dtype=np.float32).reshape(2, 4)
np.save(sys.argv[1] + ".npy", model(x))
assert [item.name for item in model.inputs] == ["x"] and "gemm" in repr(model)
"""


def network(scale: float = 1) -> onnx.ModelProto:
    """A product, a sum whose shape must be guessed, and a function that is its own kernel."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
            helper.make_node("Tanh", ["m"], ["t"]),
            helper.make_node("Add", ["t", "b"], ["y"]),
        ],
        "gemm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(WEIGHT * np.float32(scale), "w"),
            numpy_helper.from_array(np.ones(3, np.float32), "b"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def expected(x: Any, scale: float = 1) -> Any:
    return np.tanh(x @ (WEIGHT * np.float32(scale))) + 1


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a process with an empty cache."""
    return {**os.environ, "INTAGLIO_CACHE": str(tmp_path / "cache")}


def start(code: str, environment: dict[str, str], *arguments: str) -> list[str]:
    """Run code in a process of its own; returns the modules that it ended with."""
    done = subprocess.run(
        [sys.executable, "-c", code + SHOW, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


LIGHT = {"intaglio.kernels", "intaglio.kernels.frame", "intaglio.kernels.status"}
"""What a start needs of a room whose other files it must not import."""


def heavy(modules: list[str]) -> list[str]:
    others = [name for name in modules if name not in LIGHT]
    return [name for name in others if any(name == each or name.startswith(f"{each}.") for each in HEAVY)]


def test_the_import_loads_no_operator_and_no_onnx(environment: dict[str, str]) -> None:
    modules = start("import intaglio", environment)
    assert not heavy(modules)
    assert "numpy" not in modules


def test_a_compiled_file_runs_without_its_graph(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "net.intaglio"
    intaglio.load(network()).save_compiled(path)
    modules = start(RUN, {**environment, "PATH": ""}, str(path))
    assert not heavy(modules)
    assert "intaglio.ir.graph" not in modules
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_allclose(np.load(f"{path}.npy"), expected(x), rtol=1e-5)


def test_the_second_process_does_not_read_the_model(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(network(), path)
    assert heavy(start(RUN, environment, str(path)))
    first = np.load(f"{path}.npy")
    assert not heavy(start(RUN, environment, str(path)))
    np.testing.assert_array_equal(np.load(f"{path}.npy"), first)


@pytest.mark.parametrize("name", ["ir/dim.py", "kernels/lower.py", "passes/pipeline.py", "targets/c/runtime/call.c"])
def test_a_change_in_any_part_of_the_package_makes_programs_old(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, found = Path(intaglio.__file__).parent, []
    copy = tmp_path / "intaglio"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(errors, "__file__", str(copy / "errors.py"))
    for text in ("", "\n"):
        with (copy / name).open("a") as file:
            file.write(text)
        found.append(warm_state.__wrapped__())
    assert found[0] != found[1]


def test_another_model_of_the_same_name_is_not_taken_for_the_first(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "net.onnx"
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for scale in (1, 0.5):
        onnx.save(network(scale), path)
        start(RUN, environment, str(path))
        np.testing.assert_allclose(np.load(f"{path}.npy"), expected(x, scale), rtol=1e-5)


@pytest.mark.parametrize("damage", ["cut", "changed", "no code"])
def test_what_is_damaged_is_made_again(tmp_path: Path, environment: dict[str, str], damage: str) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(network(), path)
    start(RUN, environment, str(path))
    (program,) = (tmp_path / "cache" / "programs").iterdir()
    content = program.read_bytes()
    if damage == "no code":
        for unit in (tmp_path / "cache" / "units").iterdir():
            unit.unlink()
    else:
        program.write_bytes(content[:-8] if damage == "cut" else content[:-8] + b"\xff" * 8)
    assert heavy(start(RUN, environment, str(path)))
    assert not heavy(start(RUN, environment, str(path)))
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_allclose(np.load(f"{path}.npy"), expected(x), rtol=1e-5)


@pytest.fixture
def warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> intaglio.Model:
    """A model that runs from its program; whatever operators other tests may have registered."""
    monkeypatch.setattr("intaglio.runtime.artifact.warm._is_all_our_own", lambda: True)
    path = tmp_path / "net.onnx"
    onnx.save(network(), path)
    intaglio.load(path)
    model = intaglio.load(path)
    assert model._main.held is None, "the model was not started from its program"  # pyright: ignore[reportPrivateUsage]
    return model


def test_a_started_model_can_do_what_every_model_can(warm: intaglio.Model) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_allclose(warm(x), expected(x), rtol=1e-5)
    np.testing.assert_allclose(warm.run({"x": x}, outputs=["m"])["m"], x @ WEIGHT, rtol=1e-5)
    assert "MatMul" in str(warm.explain())
    assert warm.graph.name == "gemm"
    assert warm.report is not None
    assert warm.info.opset_imports == {"": 21}
    np.testing.assert_allclose(warm(x), expected(x), rtol=1e-5)


def test_wrong_inputs_of_a_started_model_are_refused(warm: intaglio.Model) -> None:
    with pytest.raises(intaglio.InputError, match="expected 4"):
        warm(np.zeros((2, 5), np.float32))
    with pytest.raises(intaglio.InputError, match="dtype float64"):
        warm(np.zeros((2, 4)))
    with pytest.raises(intaglio.InputError, match="no value for 'x'"):
        warm.run({})
    assert warm(np.zeros((4, 2), np.float32).T).shape == (2, 3)


def test_a_file_that_was_rewritten_is_not_read_again(warm: intaglio.Model, tmp_path: Path) -> None:
    with (tmp_path / "net.onnx").open("r+b") as file:
        file.write(onnx.ModelProto().SerializeToString() + b"\0" * 64)
    x = np.zeros((1, 4), np.float32)
    np.testing.assert_allclose(warm(x), expected(x), rtol=1e-5)
    with pytest.raises(intaglio.LoadError, match="was rewritten"):
        warm.explain()


def test_limits_hold_for_a_started_model(warm: intaglio.Model, tmp_path: Path) -> None:
    with pytest.raises(intaglio.LimitError):
        intaglio.load(tmp_path / "net.onnx", limits=intaglio.Limits(nodes=1))
    with pytest.raises(intaglio.LimitError):
        intaglio.load(tmp_path / "net.onnx", limits=intaglio.Limits(memory=8))


KINDS = """
import sys, numpy as np, ml_dtypes, intaglio
model = intaglio.load(sys.argv[1])
feeds = {
    "unused": np.zeros(3, np.float32), "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.full(3, 2, np.float32), "half": np.ones(4, ml_dtypes.bfloat16),
}
got = model.run(feeds)
np.savez(sys.argv[1] + ".npz", **{name: array.astype(np.float32) for name, array in got.items()})
assert model.host_runs == 0 and got["bits"].dtype == ml_dtypes.bfloat16
"""


def every_kind() -> onnx.ModelProto:
    """Inputs that are read in another order or not at all, and outputs that are given, constant, narrow or found."""
    nodes = [
        helper.make_node("Sub", ["b", "a"], ["difference"]),
        helper.make_node("NonZero", ["difference"], ["found"]),
        helper.make_node("Identity", ["a"], ["same"]),
        helper.make_node("Identity", ["w"], ["weight"]),
        helper.make_node("Add", ["half", "half"], ["bits"]),
    ]
    inputs = [("unused", TensorProto.FLOAT, ["K"]), ("a", TensorProto.FLOAT, ["N", 3]), ("b", TensorProto.FLOAT, [3])]
    inputs.append(("half", TensorProto.BFLOAT16, ["M"]))
    outputs = [("weight", TensorProto.FLOAT), ("found", TensorProto.INT64), ("same", TensorProto.FLOAT)]
    outputs += [("difference", TensorProto.FLOAT), ("bits", TensorProto.BFLOAT16)]
    graph = helper.make_graph(
        nodes,
        "kinds",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(WEIGHT, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_inputs_and_outputs_of_every_kind_start_without_the_model(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "kinds.onnx"
    onnx.save(every_kind(), path)
    assert heavy(start(KINDS, environment, str(path)))
    first = dict(np.load(f"{path}.npz"))
    assert not heavy(start(KINDS, environment, str(path)))
    second = dict(np.load(f"{path}.npz"))
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    wanted = {"weight": WEIGHT, "found": np.array(np.nonzero(2 - a)), "same": a, "difference": 2 - a}
    wanted["bits"] = np.full(4, 2.0)
    for results in (first, second):
        assert list(results) == ["weight", "found", "same", "difference", "bits"]
        for name, array in wanted.items():
            np.testing.assert_array_equal(results[name], array)


def test_weights_in_another_file_are_watched(tmp_path: Path, environment: dict[str, str]) -> None:
    path, x = tmp_path / "net.onnx", np.arange(8, dtype=np.float32).reshape(2, 4)
    for scale in (1, 0.5):
        model = network(scale)
        onnx.save(model, path, save_as_external_data=True, location="net.data", size_threshold=0)
        assert heavy(start(RUN, environment, str(path)))
        np.testing.assert_allclose(np.load(f"{path}.npy"), expected(x, scale), rtol=1e-5)
        assert not heavy(start(RUN, environment, str(path)))
        np.testing.assert_allclose(np.load(f"{path}.npy"), expected(x, scale), rtol=1e-5)


HOSTED = """
import json, sys, numpy as np, intaglio
model = intaglio.load(sys.argv[1])
rows = json.loads(sys.argv[2])
found = []
for size in (1, 3, 1, 0, 2):
    x = np.array(rows, object if isinstance(rows[0][0], str) else np.float32)[:size]
    label, maps = model(x)
    found.append([label.tolist(), maps])
print(json.dumps(found), file=open(sys.argv[1] + ".json", "w"))
assert model.host_runs > 0 and [str(item.type) for item in model.outputs][1].startswith("seq(map(")
"""


# With text, seed 0 has an OneHotEncoder and seed 1 a LabelEncoder.
@pytest.mark.parametrize(
    ("kind", "has_text", "seed"), [("strings", True, 0), ("numbers", True, 1), ("strings", False, 0)]
)
def test_models_with_host_nodes_start_without_the_model(
    tmp_path: Path, environment: dict[str, str], kind: str, has_text: bool, seed: int
) -> None:
    path = tmp_path / "classifier.onnx"
    rows = json.dumps(data_for(has_text, 3, 5).tolist())
    onnx.save(classifier(kind, has_text, seed), path)
    assert "intaglio.kernels.lower" in start(HOSTED, environment, str(path), rows)
    first = json.loads(Path(f"{path}.json").read_text())
    modules = start(HOSTED, environment, str(path), rows)
    assert not [name for name in heavy(modules) if not name.startswith("intaglio.ops")]
    assert "intaglio.ops.convolution" not in modules
    assert json.loads(Path(f"{path}.json").read_text()) == first


def test_a_started_model_with_host_nodes_can_do_what_every_model_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("intaglio.runtime.artifact.warm._is_all_our_own", lambda: True)
    path = tmp_path / "classifier.onnx"
    onnx.save(classifier("strings", True, 1), path)
    x = data_for(True, 4, 0)
    first = intaglio.load(path)(x)
    model = intaglio.load(path)
    assert model._main.held is None, "the model was not started from its program"  # pyright: ignore[reportPrivateUsage]
    for _ in range(3):
        label, maps = model(x)
        assert label.tolist() == first[0].tolist()
        assert maps == first[1]
        with pytest.raises(intaglio.IntaglioError):
            model(np.array([["red", 7]], object))
    assert "ZipMap" in str(model.explain())
    assert model(x)[1] == first[1]
    with pytest.raises(intaglio.UnsupportedError, match="ZipMap"):
        intaglio.load(path, strict=True)


def test_a_compiled_file_with_host_nodes_runs_without_its_graph(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "classifier.intaglio"
    model = intaglio.load(classifier("numbers", False))
    model.save_compiled(path)
    x = data_for(False, 3, 5)
    modules = start(HOSTED, {**environment, "PATH": ""}, str(path), json.dumps(x.tolist()))
    assert "intaglio.kernels.lower" not in modules
    found = json.loads(Path(f"{path}.json").read_text())[1]
    label, maps = model(x)
    assert found[0] == label.tolist()
    assert found[1] == json.loads(json.dumps(maps))


def deciding(by: str) -> onnx.ModelProto:
    """exp(x), or the largest element of each row: as a small input says, or the number of rows."""
    branches = {}
    for name, node in (("then", helper.make_node("ReduceMax", ["x", "axes"], ["t"], keepdims=0)),
                       ("else", helper.make_node("Exp", ["x"], ["e"]))):  # fmt: skip
        result = helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)
        branches[f"{name}_branch"] = helper.make_graph([node], name, [], [result])
    rows = [helper.make_node("Shape", ["x"], ["s"], end=1), helper.make_node("Squeeze", ["s"], ["mode"])]
    nodes = [
        *(rows if by == "sizes" else ()),
        helper.make_node("Equal", ["mode", "two"], ["condition"]),
        helper.make_node("If", ["condition"], ["y"], **branches),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "M"])]
    if by == "values":
        inputs.append(helper.make_tensor_value_info("mode", TensorProto.INT64, []))
    constants = [numpy_helper.from_array(np.array(2), "two"), numpy_helper.from_array(np.array([1]), "axes")]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "decides", inputs, [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("by", ["values", "sizes"])
def test_programs_for_values_and_sizes_are_kept_as_they_are_met(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("intaglio.runtime.artifact.warm._is_all_our_own", lambda: True)
    path = tmp_path / "decides.onnx"
    made = deciding(by)
    made.doc_string = str(tmp_path)  # a model that no run of this test before has kept
    onnx.save(made, path)

    def check(model: intaglio.Model, mode: int, columns: int = 3) -> bool:
        """Run once; whether the model still does without its graph."""
        x = np.arange(columns * mode, dtype=np.float32).reshape(mode, columns) / 9
        found = model.run({"x": x} | ({"mode": np.array(mode)} if by == "values" else {}))["y"]
        np.testing.assert_allclose(found, x.max(axis=1) if mode == 2 else np.exp(x), rtol=1e-6)
        return model._main.held is None  # pyright: ignore[reportPrivateUsage]

    first = intaglio.load(path)
    assert not any([check(first, mode) for mode in (2, 1, 2)])  # noqa: C419 all of them run
    second = intaglio.load(path)
    assert all([check(second, mode) for mode in (1, 2, 2, 1)])  # noqa: C419
    second.forget_sizes()
    assert check(second, 2)
    assert not check(second, 3)
    assert check(intaglio.load(path), 3)
    assert not check(intaglio.load(path), 4)
    with pytest.raises(intaglio.UnsupportedError):
        intaglio.load(path, strict=True)


def test_a_program_for_sizes_that_break_an_assumption_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sizes that a sum takes to be equal, and that are so unless one of them is 1."""
    monkeypatch.setattr("intaglio.runtime.artifact.warm._is_all_our_own", lambda: True)
    path = tmp_path / "sum.onnx"
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name, size in (("a", "N"), ("b", "M"))]
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Tanh", ["s"], ["y"])]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "sum", values, [output])
    opsets, about = [helper.make_opsetid("", 21)], str(tmp_path)  # a model that no run of this test before has kept
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10, doc_string=about), path)
    for turn in range(2):
        model = intaglio.load(path)
        for sizes in ((5, 5), (1, 5), (5, 1), (1, 1), (5, 5)):
            a, b = (np.arange(size, dtype=np.float32) / 9 for size in sizes)
            np.testing.assert_allclose(model.run({"a": a, "b": b})["y"], np.tanh(a + b), rtol=1e-6)
        assert (model._main.held is None) == bool(turn)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(intaglio.IntaglioError):
            model.run({"a": np.zeros(3, np.float32), "b": np.zeros(4, np.float32)})


@pytest.mark.parametrize("model", [network(0.25), deciding("values")], ids=["plain", "deciding"])
def test_a_loaded_model_does_not_hold_the_bytes_that_it_was_read_from(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its program would be read again is known by a name alone."""
    monkeypatch.setattr("intaglio.runtime.artifact.warm._is_all_our_own", lambda: True)
    found: list[Any] = []

    def noted(*arguments: Any) -> Any:
        start = warm_start(*arguments)
        found.append(weakref.ref(start))
        return start

    monkeypatch.setattr("intaglio.runtime.model.loading.warm_start", noted)
    unique = onnx.ModelProto(doc_string=os.urandom(8).hex())  # so that there is no program yet
    loaded = intaglio.load(model.SerializeToString() + unique.SerializeToString())
    gc.collect()
    assert found[0]() is None
    assert loaded.inputs[0].name == "x"


def test_a_model_that_takes_sequences_is_read_at_each_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intaglio.runtime.artifact.warm._is_all_our_own", lambda: True)
    model = deciding("values")
    model.graph.node.append(helper.make_node("SequenceLength", ["many"], ["count"]))
    model.graph.input.append(helper.make_tensor_sequence_value_info("many", TensorProto.FLOAT, None))
    model.graph.output.append(helper.make_tensor_value_info("count", TensorProto.INT64, []))
    path = tmp_path / "sequences.onnx"
    onnx.save(model, path)
    x = np.arange(6, dtype=np.float32).reshape(2, 3) / 9
    for _ in range(2):
        loaded = intaglio.load(path)
        for mode in (2, 1, 2):
            found = loaded.run({"x": x, "mode": np.array(mode), "many": [x, x, x]})
            np.testing.assert_allclose(found["y"], x.max(axis=1) if mode == 2 else np.exp(x), rtol=1e-6)
            assert found["count"] == 3


BUILT = """
import sys, numpy as np, intaglio
from intaglio.runtime.engine import native
from intaglio.targets.c import cache
counts = {"lowered": 0, "compiled": 0}
def counted(name, function):
    def call(*given, **named):
        counts[name] += 1
        return function(*given, **named)
    return call
native.lower_safely = counted("lowered", native.lower_safely)
cache._compile_unit = counted("compiled", cache._compile_unit)
from intaglio import ops
x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
with intaglio.build("built") as g:
    given = g.input("x", "float32[N, 4]")
    g.output(loss=ops.ReduceMean(ops.Tanh(ops.MatMul(given, np.ones((4, 2), np.float32))), keepdims=0))
model = g.model()
step = intaglio.value_and_grad(model.graph, of="loss", wrt=["x"])
trainer = intaglio.train.Trainer(sys.argv[1], loss="mse", optimizer="adam", lr=0.1)
results = [model(x), *step(x), trainer.step(x, np.zeros((3, 3), np.float32))]
print(json.dumps([counts, [np.asarray(each).tolist() for each in results]]))
raise SystemExit
"""


def test_graphs_that_were_built_start_warm_too(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(network(), path)
    runs: list[Any] = [start("import json\n" + BUILT, environment, str(path)) for _ in range(2)]
    (first, one), (second, two) = runs
    assert first["lowered"] >= 3
    assert first["compiled"] >= 1
    assert second == {"lowered": 0, "compiled": 0}
    assert one == two


def test_a_graph_that_is_changed_after_loading_does_not_change_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTAGLIO_CACHE", str(tmp_path / "cache"))
    source = intaglio.load(network()).graph
    first = intaglio.load(source)
    again = intaglio.load(source)
    before = str(source)
    source.set_outputs([next(iter(source.nodes)).output])
    assert str(again.graph) == before
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(again(x), first(x))
    assert again.run({"x": x}, outputs=["t"])["t"].shape == (2, 3)
    assert intaglio.load(source)(x).shape == (2, 3)
    np.testing.assert_allclose(intaglio.load(source)(x), x @ WEIGHT, rtol=1e-5)
