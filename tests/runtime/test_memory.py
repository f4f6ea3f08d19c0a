"""Who holds how much memory: weights once, arenas as planned, and nothing that grows."""

from __future__ import annotations

import copy
import itertools
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import intaglio
from intaglio.ir.dim_parse import parse
from intaglio.memory import constants
from intaglio.runtime.engine.engine import EngineName
from intaglio.runtime.model.memory import _probed

Make = Callable[..., onnx.ModelProto]
MIB = 2**20

# Pages of files, libraries among them, are the system's to take back at any time: what is compared from both sides
# counts a process's own pages alone.
PRELUDE = """
import json, os, sys
import numpy as np
import intaglio
def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
def resident(): return status("VmRSS:")
def peak(): return status("VmHWM:")
def own(): return status("RssAnon:") + status("RssShmem:")
def own_peak(): return peak() - status("RssFile:")
def forget_peak(): open("/proc/self/clear_refs", "w").write("5")
path = sys.argv[1]
tiny = intaglio.load(sys.argv[2])  # all modules and the runtime, before anything is measured
tiny(np.ones((1, 16, 9, 9), np.float32))
"""


def measured(script: str, path: Path, *arguments: object) -> Any:
    """What a script prints as JSON in a process of its own."""
    tiny = path.with_name("tiny.onnx")
    if not tiny.exists():
        onnx.save(network(2, 16), tiny)
    command = [sys.executable, "-c", PRELUDE + script, str(path), str(tiny), *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "INTAGLIO_POISON"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def network(layers: int, channels: int, batch_norm: bool = False) -> onnx.ModelProto:
    """Convolutions 3x3 with as many channels in as out, each normalised if wanted, and a sum at the end."""
    random = np.random.default_rng(3)
    nodes, weights = [], []
    for i in range(layers):
        values = random.standard_normal((channels, channels, 3, 3), dtype=np.float32) / (3 * channels**0.5)
        weights.append(numpy_helper.from_array(values, f"w{i}"))
        nodes.append(helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]))
        if batch_norm:
            names = [f"{name}{i}" for name in ("scale", "shift", "mean", "variance")]
            weights += [numpy_helper.from_array(np.full(channels, 0.5, np.float32), name) for name in names]
            nodes.append(helper.make_node("BatchNormalization", [f"c{i}", *names], [f"n{i}"]))
        nodes.append(helper.make_node("Relu", [f"{'n' if batch_norm else 'c'}{i}"], [f"x{i + 1}"]))
    shape = ["batch", channels, "height", "width"]
    types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x0", f"x{layers}")]
    graph = helper.make_graph(nodes, "network", types[:1], types[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of about 50 MB with batch normalisation, compiled before anything is measured."""
    path = tmp_path_factory.mktemp("memory") / "network.onnx"
    onnx.save(network(6, 480, batch_norm=True), path)
    intaglio.load(path)
    assert 45e6 < path.stat().st_size < 55e6
    return path


@pytest.fixture(scope="module")
def compiled(saved: Path) -> Path:
    """The network as a compiled file beside it."""
    path = saved.with_suffix(".intaglio")
    intaglio.load(saved).save_compiled(path)
    return path


PLAN = """
size = int(sys.argv[3])
x = np.ones((size, 480, 20, 20), np.float32)
before = own()
model = intaglio.load(path, engine="native", threads=2)
forget_peak()
y = model(x)
used = own_peak() - before
plan = model.memory_plan(batch=size, height=20, width=20)
print(json.dumps({"used": used, "planned": plan.total, "json": json.loads(plan.to_json())}))
"""


@pytest.mark.parametrize("size", [4, 40])
def test_a_plan_is_what_a_run_uses(saved: Path, size: int) -> None:
    found = measured(PLAN, saved, size)
    assert found["json"]["total"] == found["planned"]
    assert abs(found["used"] / found["planned"] - 1) < 0.1, found


def test_a_plan_with_open_sizes(make: Make) -> None:
    text = (
        "g (float[batch, 8] x) => (float[batch, 8] y) {"
        " a = Softmax(x) b = MatMul(a, w) c = Softmax(b) y = MatMul(c, w) }"
    )
    model = make(text)
    model.graph.initializer.append(numpy_helper.from_array(np.eye(8, dtype=np.float32), "w"))
    loaded = intaglio.load(model, engine="native")
    open_plan, plan = loaded.memory_plan(), loaded.memory_plan({"batch": 64})
    assert plan.weights == 256
    assert plan.outputs == 64 * 8 * 4
    assert str(open_plan.outputs) == "32*batch"
    assert plan.arenas[0] == 2 * 64 * 8 * 4  # of three tensors between nodes two live at once
    assert str(open_plan.arenas[0]) == "64*batch"
    assert plan == loaded.memory_plan(batch=64)
    assert "batch = 64" in str(plan)
    assert open_plan.to_dict()["total"] == f"96*batch + {plan.constants + open_plan.scratch}"
    assert f"96*batch + {plan.constants} bytes" in str(loaded.explain())
    with pytest.raises(intaglio.InputError, match="there is no dimension 'batsch'; did you mean 'batch'"):
        loaded.memory_plan(batsch=1)


@pytest.mark.parametrize("given", [("a",), ("b",), ("a", "b"), ("a", "b", "c")])
def test_sizes_that_the_model_makes_equal_are_known_by_each_name(make: Make, given: tuple[str, ...]) -> None:
    text = (
        "g (float[a, 2] x, float[b, 3] y, float[c] v) => (float[m, n] z, float[c] w) {"
        " p = Concat<axis = 1>(x, y) z = Softmax(p) w = Exp(v) }"
    )
    model = intaglio.load(make(text), engine="native")
    plan = model.memory_plan(dict.fromkeys(given, 7))
    assert str(plan.outputs) == (str(7 * (5 + 1) * 4) if "c" in given else "4*c + 140")
    reference = intaglio.load(make(text), engine="reference").memory_plan(a=7, b=7, c=7)
    assert reference.outputs == 7 * (5 + 1) * 4


@pytest.mark.parametrize("function", ["floordiv", "mod", "min", "max", "broadcast"])
def test_any_size_can_be_probed(function: str) -> None:
    for left, right in itertools.product(["n", "n - 16", "n + 2", "3*n - 50", "7"], ["m", "m - 16", "m - 14", "2*m"]):
        assert isinstance(_probed(parse(f"{function}({left}, {right}) * 2 + n")), int)


def test_a_plan_on_the_reference_engine(affine: onnx.ModelProto) -> None:
    plan = intaglio.load(affine, engine="reference").memory_plan(rows=5)
    assert plan.outputs == 5 * 3 * 4
    assert plan.arenas == (2 * 5 * 3 * 4,)


HELD = """
before = resident()
model = intaglio.load(path, engine="native", threads=2)
after, most = resident(), peak()
constants = model.memory_plan().constants
print(json.dumps({"grown": after - before, "constants": constants, "peak": most - before}))
"""


def test_only_what_the_code_reads_is_held(saved: Path) -> None:
    found = measured(HELD, saved)
    assert found["grown"] < found["constants"] + 25 * MIB, found  # neither the file nor folded weights stay
    assert found["peak"] < found["constants"] + saved.stat().st_size + 60 * MIB, found


TEN = """
import onnx
if sys.argv[3].startswith("compiled"):
    compiled = path.replace(".onnx", ".intaglio")
    source = compiled if sys.argv[3] == "compiled path" else open(compiled, "rb").read()
else:
    source = {"path": path, "bytes": open(path, "rb").read(), "message": onnx.load(path)}[sys.argv[3]]
models = [intaglio.load(source, engine="native", threads=2)]
x = np.ones((1, 480, 8, 8), np.float32)
models[0](x)
first = resident()
models += [intaglio.load(source, engine="native", threads=2) for _ in range(9)]
results = [model(x) for model in models]
assert all(np.array_equal(result, results[0]) for result in results)
print(json.dumps({"grown": resident() - first, "constants": models[0].memory_plan().constants}))
"""


@pytest.mark.parametrize("kind", ["path", "bytes", "message", "compiled path"])
def test_ten_sessions_hold_one_copy(saved: Path, compiled: Path, kind: str) -> None:
    found = measured(TEN, saved, kind)
    assert found["grown"] < 0.25 * found["constants"], found


FORKED = """
from pathlib import Path
source = path.replace(".onnx", ".intaglio") if sys.argv[3] == "compiled" else path
model = intaglio.load(source, engine="native", threads=2)
x = np.ones((1, 480, 8, 8), np.float32)
expected, constants = model(x), model.memory_plan().constants
reading, writing = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        assert np.array_equal(model(x), expected)
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        told = {"own": sizes["Private_Dirty"], "shared": sizes["Shared_Dirty"]}
        os.write(writing, json.dumps(told).encode() + b"\\n")
        os._exit(0)
statuses = [os.wait()[1] for _ in range(3)]
children = [json.loads(line) for line in os.read(reading, 65536).splitlines()]
print(json.dumps({"statuses": statuses, "children": children, "constants": constants}))
"""


@pytest.mark.parametrize("kind", ["model", "compiled"])
def test_forked_processes_hold_one_copy(saved: Path, compiled: Path, kind: str) -> None:
    """What a process has loaded, its children share. Processes that load by themselves have a copy each."""
    found = measured(FORKED, saved, kind)
    assert found["statuses"] == [0, 0, 0]
    assert len(found["children"]) == 3
    for child in found["children"]:
        assert child["own"] < 0.1 * found["constants"], found
        assert child["shared"] > 0.9 * found["constants"], found


def test_shared_constants_are_equal_in_every_byte() -> None:
    one = np.arange(5000, dtype=np.float32)
    other = one.copy()
    other[4999] = -1
    assert constants.share(one) is one
    assert constants.share(one.copy()) is one
    assert constants.share(other) is other
    assert constants.share(one.astype(np.int32)) is not one
    zeros = np.zeros(5000, np.float32)
    assert constants.share(zeros) is zeros
    assert np.signbit(constants.share(-zeros)).all()
    assert not one.flags.writeable


def test_arrays_of_users_stay_theirs() -> None:
    own = np.ones((64, 64), np.float32)
    with intaglio.build("g", {"x": "float32[64]"}) as builder:
        builder.output(y=builder.constant(own) @ builder["x"])
    model = builder.model(engine="native")
    assert own.flags.writeable
    np.testing.assert_array_equal(model(np.ones(64, np.float32)), np.full(64, 64))


ARENA = """
source = path.replace(".onnx", ".intaglio") if sys.argv[3] == "compiled" else path
model = intaglio.load(source, engine="native", threads=2)
one = np.ones((1, 480, 20, 20), np.float32)
model(one)
before = resident()
model(np.ones((64, 480, 20, 20), np.float32))
model(one)
kept = resident() - before
plan = model.memory_plan(batch=64, height=20, width=20)
print(json.dumps({"kept": kept, "arena": plan.arenas[0]}))
"""


@pytest.mark.parametrize("kind", ["model", "compiled"])
def test_a_large_arena_is_given_back(saved: Path, compiled: Path, kind: str) -> None:
    found = measured(ARENA, saved, kind)
    assert found["arena"] > 64 * MIB
    assert found["kept"] < 8 * MIB, found


SCRATCH = """
import time
from intaglio.targets.c.native import run_memory
model = intaglio.load(path, engine="native", threads=2)
small, large = np.ones((3, 100, 1), np.float32), np.ones((3, 1000000, 1), np.float32)
model(small)
before = resident()
model(large)
used = run_memory().scratch
for _ in range(20):
    time.sleep(0.05)  # workers let go of theirs when they have nothing to do
    model(small)
print(json.dumps({"kept": resident() - before, "used": used}))
"""


def test_large_scratch_memory_is_given_back(tmp_path: Path) -> None:
    text = "<ir_version: 10, opset_import: ['' : 21]> g (float[b, n, 1] x) => (float[b, n, 2] y) { y = DFT(x, , a) }"
    model = parser.parse_model(text.replace("'", '"'))
    model.graph.initializer.append(numpy_helper.from_array(np.array(1), "a"))
    onnx.save(model, tmp_path / "model.onnx")
    found = measured(SCRATCH, tmp_path / "model.onnx")
    assert found["used"] > 30 * MIB
    assert found["kept"] < 8 * MIB + found["used"] / 10, found


STACK = """
model = intaglio.load(path, engine="native", threads=2)
x = np.ones(250000, np.float32)
model(x, np.array(2))
before = own()
forget_peak()
y = model(x, np.array(100))
held = y.nbytes
grown = own_peak() - before
del y
print(json.dumps({"grown": grown, "held": held, "kept": own() - before}))
"""


def test_a_stacked_output_is_held_once_and_goes_with_its_array(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[n] x, int64 m) => (float[k, n] s) {
      y, s = Loop (m, , x) <body = a (int64 i, bool c, float[n] v) => (bool c2, float[n] w, float[n] o) {
        c2 = Identity(c) w = Add(v, x) o = Neg(w) }> }"""
    onnx.save(parser.parse_model(text), tmp_path / "model.onnx")
    found = measured(STACK, tmp_path / "model.onnx")
    assert found["held"] == 100_000_000
    assert abs(found["grown"] / found["held"] - 1) < 0.1, found
    assert found["kept"] < 8 * MIB, found


SIZES = """
from intaglio.targets.c import compiler
engine = intaglio.load(path, engine="native", threads=2)
reference = intaglio.load(path, engine="reference")
runs = []
original = compiler.Compiler.compile_unit
def counted(*arguments, **named):
    runs.append(1)
    return original(*arguments, **named)
compiler.Compiler.compile_unit = counted
largest = [json.loads(sys.argv[3]).get(str(dim), dim) for dim in engine.inputs[0].type.shape]
reference(np.zeros(largest, np.float32))  # what it takes for itself is not measured
random = np.random.default_rng(0)
def check(index):
    sizes = {name: int(random.integers(1, most)) for name, most in json.loads(sys.argv[3]).items()}
    shape = [sizes.get(str(dim), dim) for dim in engine.inputs[0].type.shape]
    x = random.standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(engine(x), reference(x), rtol=2e-4, atol=2e-5)
for index in range(20):
    check(index)
before = resident()
for index in range(80):
    check(index)
print(json.dumps({"grown": resident() - before, "compiled": len(runs)}))
"""


def transformer(width: int = 64, heads: int = 4) -> onnx.ModelProto:
    """One layer of attention and a feed-forward block over [batch, length, width]."""
    random = np.random.default_rng(5)
    sizes = {"wq": (width, width), "wk": (width, width), "wv": (width, width), "up": (width, 4 * width)}
    sizes |= {"down": (4 * width, width)}
    weights = [numpy_helper.from_array(random.standard_normal(s).astype(np.float32) / 8, n) for n, s in sizes.items()]
    weights.append(numpy_helper.from_array(np.array([0, 0, heads, -1], np.int64), "split"))
    weights.append(numpy_helper.from_array(np.array([0, 0, -1], np.int64), "join"))
    weights.append(numpy_helper.from_array(np.array((width // heads) ** -0.5, np.float32), "scale"))
    ones = numpy_helper.from_array(np.ones(width, np.float32), "gain")
    nodes = [helper.make_node("LayerNormalization", ["x", "gain"], ["n"])]
    for name in "qkv":
        nodes.append(helper.make_node("MatMul", ["n", f"w{name}"], [f"{name}1"]))
        nodes.append(helper.make_node("Reshape", [f"{name}1", "split"], [f"{name}2"]))
        order = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes.append(helper.make_node("Transpose", [f"{name}2"], [name], perm=order))
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Mul", ["scores", "scale"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["turned", "join"], ["joined"]),
        helper.make_node("Add", ["x", "joined"], ["first"]),
        helper.make_node("MatMul", ["first", "up"], ["wide"]),
        helper.make_node("Gelu", ["wide"], ["active"]),
        helper.make_node("MatMul", ["active", "down"], ["narrow"]),
        helper.make_node("Add", ["first", "narrow"], ["y"]),
    ]
    types = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", "length", width]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "layer", types[:1], types[1:], [*weights, ones])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(
    ("model", "sizes"),
    [(transformer(), {"batch": 9, "length": 150}), (network(3, 24), {"batch": 9, "height": 40, "width": 40})],
    ids=["transformer", "convolutions"],
)
def test_a_hundred_sizes_compile_nothing_and_hold_nothing(
    tmp_path: Path, model: onnx.ModelProto, sizes: dict[str, int]
) -> None:
    onnx.save(model, tmp_path / "model.onnx")
    found = measured(SIZES, tmp_path / "model.onnx", json.dumps(sizes))
    assert found["compiled"] == 0
    assert found["grown"] < 20 * MIB, found


def test_the_graph_is_there_after_its_weights_were_released(saved: Path) -> None:
    model = intaglio.load(saved, engine="native")
    x = np.ones((1, 480, 5, 5), np.float32)
    expected = model(x)
    weight = next(value for value in model.graph.constants() if value.name == "w0")
    np.testing.assert_array_equal(weight.constant, numpy_helper.to_array(onnx.load(saved).graph.initializer[0]))
    assert model.simplified is model.simplified
    assert sum(1 for node in model.simplified.nodes if node.op.name == "Conv") == 6
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(x), expected)
    np.testing.assert_array_equal(copy.deepcopy(model)(x), expected)
    assert model.run({"x0": x}, outputs=["c0"])["c0"].shape == (1, 480, 5, 5)


def test_a_file_that_is_replaced_or_removed(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(network(2, 48), path)
    model = intaglio.load(path, engine="native")
    x = np.ones((1, 48, 5, 5), np.float32)
    expected = model(x)
    other = tmp_path / "other.onnx"
    other.write_bytes(b"short")
    os.replace(other, path)
    np.testing.assert_array_equal(model(x), expected)
    assert model.run({"x0": x}, outputs=["c0"])["c0"].shape == (1, 48, 5, 5)
    path.unlink()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(x), expected)


def test_a_file_that_is_rewritten_in_place(tmp_path: Path, engine: EngineName) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(network(2, 48), path)
    model = intaglio.load(path, engine=engine)
    x = np.ones((1, 48, 5, 5), np.float32)
    expected = model(x)
    path.write_bytes(b"short")
    np.testing.assert_array_equal(model(x), expected)
    if engine == "reference":
        assert model.run({"x0": x}, outputs=["c0"])["c0"].shape == (1, 48, 5, 5)
        return
    for use in (lambda: model.run({"x0": x}, outputs=["c0"]), lambda: model.simplified, lambda: pickle.dumps(model)):
        with pytest.raises(intaglio.LoadError, match="was rewritten while its weights were in use"):
            use()
