"""No option is accepted and ignored: each is set to an unusual value, and something is seen of it."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image
from tests.cli import look_options
from tests.cli.verb_options import verb_cases, write_models
from tests.present import tensor

import intaglio
from intaglio import backend
from intaglio.cli.app import COMMANDS, main
from intaglio.cli.demo_model import demo_model
from intaglio.cli.options import Argument, Group, declared_parameters, option_names

HEADER = '<ir_version: 10, opset_import: ["" : 21]> '
RELU = HEADER + "g (float[n] x) => (float[n] y) <float one = {1.0}> { a = Exp(x) y = Mul(a, one) }"
PRODUCT = HEADER + "g (float[n, 2] x) => (float[n, 1] y) <float[2, 1] w = {0.5, -0.5}> { y = MatMul(x, w) }"
STRINGS = HEADER + "g (string[n] x) => (string[n] y) { y = StringConcat(x, x) }"
CONVOLUTION = HEADER + (
    "g (float[1, 16, 32, 32] x, float[16, 16, 3, 3] w) => (float[1, 16, a, b] y) { y = Conv(x, w) }"
)
ENDLESS = HEADER + (
    "g (float x, int64 m, bool c) => (float y) { y = Loop (m, c, x) <body = b (int64 i, bool k, float v)"
    " => (bool l, float w) { l = Identity(k) w = Add(v, v) }> }"
)


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def external(folder: Path) -> bytes:
    """A model whose weight is in a file of that folder."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    (folder / "w.bin").write_bytes(np.array([3, 4], np.float32).tobytes())
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


def _engine(folder: Path) -> None:
    assert intaglio.load(parsed(RELU), engine="reference").explain().engine == "reference"


def _threads(folder: Path) -> None:
    assert intaglio.load(parsed(RELU), threads=1).explain().threads == 1


def _simplify(folder: Path) -> None:
    model = intaglio.load(parsed(RELU), simplify=False)
    assert model.report is None
    assert "Mul" in str(model.simplified)


def _disable(folder: Path) -> None:
    assert "Mul" not in str(intaglio.load(parsed(RELU)).simplified)
    assert "Mul" in str(intaglio.load(parsed(RELU), disable=["algebra"]).simplified)


def _exact(folder: Path) -> None:
    assert "winograd" in str(intaglio.load(demo_model()).explain())
    assert "winograd" not in str(intaglio.load(demo_model(), exact=True).explain())


def _quick(folder: Path) -> None:
    assert not intaglio.load(parsed(RELU)).explain().target.endswith("quick")
    assert intaglio.load(parsed(RELU), quick=True).explain().target.endswith("quick")


def _strict(folder: Path) -> None:
    with pytest.raises(intaglio.UnsupportedError, match="strict"):
        intaglio.load(parsed(STRINGS), strict=True)


def _donate(folder: Path) -> None:
    given = np.zeros(2, np.float32)
    assert intaglio.load(parsed(RELU), donate={"x": "y"})(given) is given
    assert given.tolist() == [1, 1]


def _base_folder(folder: Path) -> None:
    data = external(folder)
    with pytest.raises(intaglio.ExternalDataError):
        intaglio.load(data)
    assert intaglio.load(data, base_folder=folder)(np.array([1, 1], np.float32)).tolist() == [4, 5]


def _progress(folder: Path) -> None:
    from intaglio.targets.c import cache

    before = os.environ.get("INTAGLIO_CACHE")
    os.environ["INTAGLIO_CACHE"] = str(folder / "cache")
    cache.default_cache.cache_clear()
    told: list[tuple[int, int]] = []
    try:
        intaglio.load(parsed(RELU), progress=lambda done, total: told.append((done, total)))
    finally:
        cache.default_cache.cache_clear()
        if before is None:
            del os.environ["INTAGLIO_CACHE"]
        else:
            os.environ["INTAGLIO_CACHE"] = before
    assert told
    assert told[-1][0] == told[-1][1]


def _implementations(folder: Path) -> None:
    with pytest.raises(intaglio.InputError, match="no-such-one"):
        intaglio.load(parsed(RELU), implementations={"Exp": "no-such-one"})


def _limits(folder: Path) -> None:
    with pytest.raises(intaglio.LimitError):
        intaglio.load(parsed(RELU), limits=intaglio.Limits(nodes=1))


def _shared_weights(folder: Path) -> None:
    with pytest.warns(UserWarning, match="not shared with others: the reference engine"):
        intaglio.load(parsed(RELU), engine="reference", shared_weights=True)


def _example_inputs(folder: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    model = intaglio.load(torch.nn.ReLU(), torch.ones(2, 3))
    assert [tensor(item.type).shape for item in model.inputs] == [(2, 3)]
    with pytest.raises(intaglio.InputError, match="example inputs are for modules"):
        intaglio.load(parsed(RELU), torch.ones(2, 3))


def _dynamic_shapes(folder: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    model = intaglio.load(torch.nn.ReLU(), torch.ones(2, 3), dynamic_shapes=({0: torch.export.Dim("n")},))
    assert model(torch.ones(5, 3)).shape == (5, 3)


def _device(folder: Path) -> None:
    with pytest.raises(intaglio.InputError, match="there is no device 'gpu'"):
        intaglio.load(parsed(RELU), device="gpu")


def _tf32(folder: Path) -> None:
    with pytest.raises(intaglio.InputError, match="tf32 is for CUDA devices"):
        intaglio.load(parsed(RELU), tf32=True)


LOAD: dict[str, Callable[[Path], None]] = {
    "example_inputs": _example_inputs,
    "dynamic_shapes": _dynamic_shapes,
    "engine": _engine,
    "threads": _threads,
    "simplify": _simplify,
    "disable": _disable,
    "exact": _exact,
    "quick": _quick,
    "strict": _strict,
    "donate": _donate,
    "base_folder": _base_folder,
    "progress": _progress,
    "implementations": _implementations,
    "limits": _limits,
    "shared_weights": _shared_weights,
    "device": _device,
    "tf32": _tf32,
}


def test_every_option_of_load_is_here() -> None:
    assert {"source", *LOAD} == set(inspect.signature(intaglio.load).parameters)


@pytest.mark.parametrize("option", LOAD)
def test_load_obeys(option: str, tmp_path: Path) -> None:
    LOAD[option](tmp_path)


def test_run_obeys() -> None:
    feeds = {"x": np.array([1, 2], np.float32)}
    model = intaglio.load(parsed(RELU))
    assert set(inspect.signature(model.run).parameters) == {"feeds", "outputs", "timeout", "threads", "prune", "out"}
    given = np.zeros(2, np.float32)
    assert model.run(feeds, out={"y": given})["y"] is given
    assert list(model.run(feeds, outputs=["a"])) == ["a"]
    with pytest.raises(intaglio.InputError, match="threads is 0"):
        model.run(feeds, threads=0)
    endless = intaglio.load(parsed(ENDLESS))
    with pytest.raises(intaglio.RunTimeoutError):
        endless.run({"x": np.float32(0), "m": np.int64(2**40), "c": np.bool_(True)}, timeout=0.05)
    two = intaglio.load(
        parsed(HEADER + "g (float[n] x, int64 i) => (float y, float[n] z) { y = Gather(x, i) z = Exp(x) }")
    )
    wrong = {**feeds, "i": np.int64(9)}
    with pytest.raises(intaglio.OperatorError):
        two.run(wrong, outputs="z")
    assert list(two.run(wrong, outputs="z", prune=True)) == ["z"]


def test_the_backend_obeys_or_refuses() -> None:
    model, x = parsed(RELU), np.array([1, 2], np.float32)
    with pytest.raises(intaglio.LimitError):
        backend.prepare(model, limits=intaglio.Limits(nodes=1))
    assert backend.prepare(model, engine="reference", threads=1).model.options.engine == "reference"
    with pytest.raises(intaglio.InputError, match=r"no option 'thread'; did you mean 'threads'\?"):
        backend.prepare(model, thread=1)
    with pytest.raises(intaglio.InputError, match="no option 'gpu'; the options are"):
        backend.run_model(model, [x], gpu=True)
    with pytest.raises(intaglio.InputError, match="threads is 0"):
        backend.prepare(model).run([x], threads=0)
    with pytest.raises(intaglio.InputError, match="no option 'outputs'"):
        backend.prepare(model).run([x], outputs=["a"])
    with pytest.raises(intaglio.InputError, match="no option 'opset'"):
        backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [x], opset=11)


Case = tuple[list[str], Callable[[Any], object]]


def fails(word: str) -> Callable[[Any], object]:
    return lambda left: left.status == 1 and word in left.err


LINE = ["line.onnx", "line.npz", "--loss", "mse", "--epochs", "2", "-o", "out.onnx"]


EXPORT = ["relu.onnx", "--to", "python", "-o", "made"]
C = [*EXPORT, "--to", "c", "--no-measure"]


def _change(left: Any) -> float:
    """How much the loss changes over the epochs."""
    losses = [epoch["loss"] for epoch in json.loads(left.out)["epochs"]]
    return abs(losses[-1] - losses[0])


def _rtol(left: Any) -> float:
    return json.loads(left.out)["outputs"][0]["rtol"]


def _bars(left: Any) -> int:
    return len(json.loads(left.out)["tensors"][0]["histogram"])


def _timed(left: Any) -> dict[str, Any]:
    return json.loads(left.out)["rows"][0]


OTHER = ["relu.onnx", "--against", "other.onnx"]
SMALLER = ["relu.onnx", "-o", "small.onnx", "--check", "! grep -q Exp {}"]
SAME = ["relu.onnx", "-o", "s.onnx", "--against", "reference"]
BENCH = ["relu.onnx", "--against", "none", "--rounds", "1", "--seconds", "0", "--json"]
CASES: dict[str, Case] = {
    "run --input": (["relu.onnx", "-i", "x=[0]"], lambda left: "1," in left.out or "  1\n" in left.out),
    "run --output": (["relu.onnx", "-o", "out.npy"], lambda left: Path("out.npy").exists()),
    "run --dim": (["relu.onnx", "-d", "n=17"], lambda left: "17" in left.out),
    "run --tensor": (["demo.onnx", "--tensor", "pool"], lambda left: "1x64x1x1" in left.out),
    "run --mean": (["demo.onnx", "-i", "red.png", "--mean", "7"], lambda left: "less 7" in left.err),
    "run --std": (["demo.onnx", "-i", "red.png", "--std", "7"], lambda left: "divided by 7" in left.err),
    "run --engine": (["relu.onnx", "--engine", "reference"], lambda left: "reference engine" in left.out),
    "run --threads": (["relu.onnx", "--threads", "1"], lambda left: "1 thread" in left.out),
    "run --strict": (["strings.onnx", "--strict"], fails("strict")),
    "run --quick": (["relu.onnx", "--quick"], lambda left: "quick" in left.out),
    "run --device": (["relu.onnx", "--device", "gpu"], fails("there is no device 'gpu'")),
    "run --tf32": (["relu.onnx", "--tf32"], fails("tf32 is for CUDA devices")),
    "run --exact": (["relu.intaglio", "--exact"], fails("compiled without exact")),
    "run --disable": (["relu.onnx", "--disable", "zz"], fails("'zz'")),
    "run --seed": (["relu.onnx", "--seed", "5"], lambda left: left.out != ""),
    "run --repeat": (["relu.onnx", "--repeat", "3"], lambda left: "median of 3" in left.out),
    "run --timeout": (["demo.onnx", "-d", "batch=64", "--timeout", "0.0001"], fails("timeout")),
    "run --memory-limit": (["demo.onnx", "--memory-limit", "1K"], fails("1024")),
    "run --time-limit": (["demo.onnx", "--engine", "reference", "--time-limit", "1e-9"], fails("longer")),
    "run --loop-limit": (["loop.onnx", "-i", "m=9", "-i", "c=true", "--loop-limit", "2"], fails("2")),
    "run --node-limit": (["demo.onnx", "--node-limit", "1"], fails("nodes")),
    "run --json": (["relu.onnx", "--json"], lambda left: json.loads(left.out)["outputs"]),
    "info --json": (["relu.onnx", "--json"], lambda left: json.loads(left.out)["nodes"] == 2),
    "check --json": (["relu.onnx", "--json"], lambda left: json.loads(left.out)["is_valid"]),
    "compile --output": (["relu.onnx", "-o", "new.intaglio"], lambda left: Path("new.intaglio").exists()),
    "compile --strict": (["strings.onnx", "--strict"], fails("strict")),
    "compile --quick": (["demo.onnx", "--quick"], lambda left: "quick" in left.out),
    "compile --exact": (["relu.intaglio", "--exact"], fails("compiled without exact")),
    "compile --donate": (["relu.onnx", "--donate", "x=y"], lambda left: "x becomes y" in left.out),
    "compile --disable": (["relu.onnx", "--disable", "zz"], fails("'zz'")),
    "compile --json": (["relu.onnx", "--json"], lambda left: json.loads(left.out)["kernels"]),
    "explain --c": (["relu.onnx", "--c", "out.c"], lambda left: "static void kernel_" in Path("out.c").read_text()),
    "explain --dim": (["relu.onnx", "-d", "n=17"], lambda left: "float32[17]" in left.out),
    "explain --engine": (["relu.onnx", "--engine", "reference"], lambda left: "reference engine" in left.out),
    "explain --threads": (["relu.onnx", "--threads", "1"], lambda left: "up to 1 threads" in left.out),
    "explain --strict": (["strings.onnx", "--strict"], fails("strict")),
    "explain --exact": (["demo.onnx", "--exact"], lambda left: "winograd" not in left.out),
    "explain --device": (["demo.onnx", "--device", "gpu"], fails("there is no device 'gpu'")),
    "explain --tf32": (["demo.onnx", "--tf32"], fails("tf32 is for CUDA devices")),
    "explain --donate": (["relu.onnx", "--donate", "x=y"], lambda left: "y takes the memory of x" in left.out),
    "explain --disable": (["relu.onnx", "--disable", "algebra"], lambda left: "Mul" in left.out),
    "explain --json": (["relu.onnx", "--json"], lambda left: json.loads(left.out)["calls"]),
    "compare --against": (["relu.onnx", "--against", "zz"], fails("'zz'")),
    "compare --input": (["relu.onnx", "-i", "z=[0]"], fails("'z'")),
    "compare --dim": (["relu.onnx", "-d", "n=17"], lambda left: " 17 " in left.out),
    "compare --samples": (["relu.onnx", "--samples", "3"], lambda left: "3 sets of inputs" in left.out),
    "compare --seed": (["relu.onnx", "--seed", "-1"], lambda left: left.status == 2),
    "compare --rtol": (["relu.onnx", "--rtol", "y:0", "--atol", "0", "--json"], lambda left: _rtol(left) == 0),
    "compare --atol": (["relu.onnx", "--atol", "y:7", "--json"], lambda left: '"atol": 7.0' in left.out),
    "compare --tensors": (["relu.onnx", "--tensors"], lambda left: "Tensors" in left.out),
    "compare --bisect": ([*OTHER, "--bisect"], lambda left: "to blame" in left.out),
    "compare --memory": (["relu.onnx", "--memory", "zz"], lambda left: left.status == 2),
    "compare --engine": (["relu.onnx", "--engine", "reference"], lambda left: "reference engine, ag" in left.out),
    "compare --threads": (["relu.onnx", "--threads", "0"], lambda left: left.status == 2),
    "compare --exact": (["relu.intaglio", "--exact"], lambda left: left.status == 1),
    "compare --disable": (["relu.onnx", "--disable", "zz"], fails("'zz'")),
    "compare --json": (["relu.onnx", "--json"], lambda left: json.loads(left.out)["is_equal"]),
    "reduce --output": ([*SMALLER], lambda left: Path("small.npz").exists()),
    "reduce --check": ([*SMALLER], lambda left: "2 -> 1" in left.out),
    "reduce --match": ([*SMALLER, "--match", "no such text"], fails("does not fail")),
    "reduce --against": ([*SAME], fails("does not fail")),
    "reduce --input": ([*SMALLER, "-i", "z=[0]"], fails("'z'")),
    "reduce --dim": ([*SMALLER, "-d", "zz=3"], fails("'zz'")),
    "reduce --samples": ([*SMALLER, "--samples", "0"], lambda left: left.status == 2),
    "reduce --seed": ([*SMALLER, "--seed", "-1"], lambda left: left.status == 2),
    "reduce --rtol": ([*SMALLER, "--rtol", "zz"], fails("'zz'")),
    "reduce --atol": ([*SMALLER, "--atol", "zz"], fails("'zz'")),
    "reduce --time-limit": ([*SMALLER, "--time-limit", "0"], lambda left: "stopped before" in left.err),
    "reduce --check-timeout": ([*SMALLER, "--check-timeout", "1e-9"], fails("does not fail")),
    "reduce --engine": ([*SMALLER, "--engine", "zz"], lambda left: left.status == 2),
    "reduce --threads": ([*SMALLER, "--threads", "0"], lambda left: left.status == 2),
    "reduce --exact": ([*SAME, "--exact"], fails("does not fail")),
    "reduce --disable": ([*SAME, "--disable", "zz"], fails("'zz'")),
    "reduce --json": ([*SMALLER, "--json"], lambda left: json.loads(left.out)["nodes"] == 1),
    "lint --ignore": (["relu.onnx", "--ignore", "names-missing"], lambda left: "names-missing" not in left.out),
    "lint --only": (["relu.onnx", "--only", "float64"], lambda left: "names-missing" not in left.out),
    "lint --rules": (["relu.onnx", "--rules"], lambda left: "host-nodes" in left.out),
    "lint --json": (["relu.onnx", "--json"], lambda left: json.loads(left.out)["is_clean"]),
    "inspect --name": (["demo.onnx", "--name", "head*"], lambda left: "block1" not in left.out),
    "inspect --run": (["relu.onnx", "--run"], lambda left: "\na " in left.out),
    "inspect --input": (["relu.onnx", "--run", "-i", "z=[0]"], fails("'z'")),
    "inspect --dim": (["relu.onnx", "--run", "-d", "n=17"], lambda left: " 17 " in left.out),
    "inspect --seed": (["relu.onnx", "--run", "--seed", "-1"], lambda left: left.status == 2),
    "inspect --bins": (["demo.onnx", "--bins", "7", "--json"], lambda left: _bars(left) == 7),
    "inspect --svg": (["relu.onnx", "--svg", "p.svg"], lambda left: "<svg" in Path("p.svg").read_text()),
    "inspect --html": (["relu.onnx", "--html", "p.html"], lambda left: "<table" in Path("p.html").read_text()),
    "inspect --engine": (["relu.onnx", "--run", "--engine", "zz"], lambda left: left.status == 2),
    "inspect --threads": (["relu.onnx", "--run", "--threads", "0"], lambda left: left.status == 2),
    "inspect --json": (["relu.onnx", "--json"], lambda left: json.loads(left.out)["tensors"][0]["name"] == "one"),
    "bench --against": (["relu.onnx", "--against", "zz"], fails("'zz'")),
    "bench --batch": ([*BENCH, "--batch", "3"], lambda left: _timed(left)["batch"] == 3),
    "bench --threads": ([*BENCH, "--threads", "1"], lambda left: _timed(left)["threads"] == 1),
    "bench --input": ([*BENCH, "-i", "z=[0]"], fails("'z'")),
    "bench --dim": ([*BENCH, "-d", "zz=3"], fails("'zz'")),
    "bench --seed": ([*BENCH, "--seed", "-1"], lambda left: left.status == 2),
    "bench --rounds": ([*BENCH, "--rounds", "2"], lambda left: _timed(left)["runs"] == 6),
    "bench --seconds": ([*BENCH], lambda left: _timed(left)["runs"] == 3),
    "bench --rtol": ([*BENCH, "--rtol", "zz"], fails("'zz'")),
    "bench --atol": ([*BENCH, "--atol", "zz"], fails("'zz'")),
    "bench --json": ([*BENCH], lambda left: _timed(left)["engine"] == "intaglio"),
    "demo --save": (["--save", "saved.onnx"], lambda left: Path("saved.onnx").exists()),
    "demo --json": (["--json"], lambda left: json.loads(left.out)["native_seconds"]),
    "doctor --json": (["--json"], lambda left: json.loads(left.out)["problems"] == []),
    "cache info --json": (["--json"], lambda left: json.loads(left.out)["folder"]),
    "train --output": ([*LINE], lambda left: Path("out.onnx").exists()),
    "train --loss": ([*LINE, "--loss", "zz"], lambda left: left.status == 2),
    "train --optimizer": ([*LINE, "--optimizer", "zz"], lambda left: left.status == 2),
    "train --lr": ([*LINE, "--lr", "1e-9", "--json"], lambda left: _change(left) < 1e-6),
    "train --epochs": ([*LINE, "--epochs", "3", "--json"], lambda left: len(json.loads(left.out)["epochs"]) == 3),
    "train --batch-size": ([*LINE, "--batch-size", "64", "--json"], lambda left: json.loads(left.out)["updates"] == 2),
    "train --tensor": ([*LINE, "--tensor", "zz"], fails("'zz'")),
    "train --trainable": ([*LINE, "--trainable", "zz"], fails("'zz'")),
    "train --frozen": ([*LINE, "--frozen", "w*"], fails("frozen")),
    "train --initialize": ([*LINE, "--initialize", "zz"], fails("'zz'")),
    "train --weight-decay": ([*LINE, "--weight-decay", "-1"], lambda left: left.status == 2),
    "train --momentum": ([*LINE, "--momentum", "0.5"], lambda left: "adam has none" in left.err),
    "train --schedule": ([*LINE, "--schedule", "zz"], lambda left: left.status == 2),
    "train --warmup": ([*LINE, "--warmup", "1000000", "--json"], lambda left: _change(left) < 1e-3),
    "train --clip-value": ([*LINE, "--clip-value", "-1"], lambda left: left.status == 2),
    "train --accumulate": ([*LINE, "--accumulate", "2", "--json"], lambda left: json.loads(left.out)["updates"] == 2),
    "train --ema": ([*LINE, "--ema", "2"], lambda left: left.status != 0),
    "train --precision": ([*LINE, "--precision", "zz"], lambda left: left.status == 2),
    "train --validation-split": ([*LINE, "--validation-split", "2"], lambda left: left.status != 0),
    "train --clip-norm": ([*LINE, "--clip-norm", "-1"], lambda left: left.status == 2),
    "train --validation": ([*LINE, "--validation", "none.npz"], fails("none.npz")),
    "train --metric": ([*LINE, "--metric", "zz"], lambda left: left.status == 2),
    "train --patience": ([*LINE, "--patience", "1"], lambda left: left.status == 2),
    "train --checkpoint": ([*LINE, "--checkpoint", "c.safetensors"], lambda left: Path("c.safetensors").exists()),
    "train --resume": ([*LINE, "--resume"], lambda left: left.status == 2),
    "train --plot": ([*LINE, "--plot", "p.svg"], lambda left: "<svg" in Path("p.svg").read_text()),
    "train --seed": ([*LINE, "--seed", "-1"], lambda left: left.status == 2),
    "train --engine": ([*LINE, "--engine", "zz"], lambda left: left.status == 2),
    "train --threads": ([*LINE, "--threads", "0"], lambda left: left.status == 2),
    "train --json": ([*LINE, "--json"], lambda left: json.loads(left.out)["updates"]),
    "export --output": (["relu.onnx", "-o", "made"], lambda left: Path("made/model.py").exists()),
    "export --to": ([*EXPORT, "--to", "onnx"], lambda left: list(Path("made").glob("*.onnx"))),
    "export --weights": ([*EXPORT, "--weights", "zz"], lambda left: left.status == 2),
    "export --simplify": ([*EXPORT, "--no-simplify"], lambda left: "one" in Path("made/model.py").read_text()),
    "export --disable": ([*EXPORT, "--disable", "zz"], fails("'zz'")),
    "export --opset": ([*EXPORT, "--to", "onnx", "--opset", "1"], lambda left: left.status != 0),
    "export --functions": ([*EXPORT, "--to", "onnx", "--functions", "keep"], fails("simplify=False")),
    "export --external-data": ([*EXPORT, "--to", "onnx", "--external-data", "-1"], lambda left: left.status == 2),
    "export --dim": ([*C, "--dim", "n=5"], lambda left: "x[5]" in Path("made/model.h").read_text()),
    "export --style": ([*C, "--style", "fast"], lambda left: Path("made/ig.h").exists()),
    "export --target": (
        [*C, "--style", "fast", "--target", "avx2"],
        lambda left: "v3" in Path("made/Makefile").read_text(),
    ),
    "export --threads": (
        [*C, "--style", "fast", "--threads", "2"],
        lambda left: "-fopenmp" in Path("made/Makefile").read_text(),
    ),
    "export --name": ([*C, "--name", "net"], lambda left: Path("made/net.h").exists()),
    "export --no-globals": ([*C, "--no-globals"], lambda left: "void *arena" in Path("made/model.h").read_text()),
    "export --heap": ([*C, "--heap", "-1"], lambda left: left.status == 2),
    "export --measure": ([*C], lambda left: "not measured" in Path("made/README.md").read_text()),
    "export --program-memory": (
        [*C, "--program-memory"],
        lambda left: "MODEL_FLASH" in Path("made/weights.h").read_text(),
    ),
    "build --output": (["relu.onnx", "-o", "made"], lambda left: Path("made/libmodel.so").exists()),
    "build --kind": (["relu.onnx", "-o", "made", "--kind", "static"], lambda left: Path("made/libmodel.a").exists()),
    "build --target": (["relu.onnx", "-o", "made", "--target", "zz"], fails("'zz'")),
    "build --dim": (["relu.onnx", "-o", "made", "-d", "m=1"], fails("'m'")),
    "build --name": (["relu.onnx", "-o", "made", "--name", "net"], lambda left: Path("made/net.h").exists()),
    "build --threads": (["relu.onnx", "-o", "made", "--threads", "0"], lambda left: left.status == 2),
    "build --json": (["relu.onnx", "-o", "made", "--json"], lambda left: json.loads(left.out)["files"]),
    "export --debug": ([*EXPORT, "--debug"], lambda left: list(Path("made").glob("graph.0*"))),
    "export --json": ([*EXPORT, "--json"], lambda left: json.loads(left.out)),
    "conformance --export": (["--export", "zz"], lambda left: left.status == 2),
    "conformance --cases": (["--export", "python", "--cases", "no.such.module"], fails("no.such.module")),
    "conformance --keep": (
        ["--export", "python", "--keep", "kept.jsonl"],
        lambda left: json.loads(Path("kept.jsonl").read_text())["name"] == "test_relu_cpu",
    ),
    "conformance --time-limit": (["--time-limit", "0"], lambda left: "time limit" in left.out),
    "conformance --device": (["--device", "cuda", "--engine", "reference"], lambda left: left.status == 2),
    "conformance --engine": (["--engine", "reference"], lambda left: "reference engine" in left.out),
    "conformance --backend": (["--backend", "no.such.module"], fails("no.such.module")),
    "conformance --filter": (["--filter", "^no such test$"], fails("no such test")),
    "conformance --jobs": (["--jobs", "0"], lambda left: left.status == 2),
    "conformance --table": (["--no-table"], lambda left: "│" not in left.out),
    "conformance --markdown": (["--markdown", "out.md"], lambda left: Path("out.md").exists()),
    "conformance --json": (["--json", "out.json"], lambda left: json.loads(Path("out.json").read_text())),
    "conformance --support": (["--support", "out.md"], lambda left: "Relu" in Path("out.md").read_text()),
}
CASES |= verb_cases() | look_options.CASES


def started_with(command: str, folder: str) -> set[str]:
    """The options with which the tests of a folder start servers."""
    texts = "".join(path.read_text() for path in (Path(__file__).parent / folder).glob("*.py"))
    names = {f"{command} {name.replace('--no-', '--')}" for name in re.findall(r'"(--[a-z-]+)"', texts)}
    return names & all_options()  # the tests of a page start browsers too


def all_options() -> set[str]:
    found: set[str] = set()
    for each in COMMANDS:
        inner = [(f"{each.name} {name}", f) for name, f in each.commands] if isinstance(each, Group) else [each]
        for name, function in inner:
            options = [d for _, _, d in declared_parameters(function) if not isinstance(d, Argument)]
            found |= {f"{name} {option_names(option)[0]}" for option in options}
    return found


ELSEWHERE = {"cache clear --json", *started_with("serve", "serve"), *started_with("view", "web")}
"""Tested with a cache of its own, in tests/cli; with servers, in tests/serve and tests/web."""


def test_every_option_of_every_command_is_here() -> None:
    assert {*CASES, *ELSEWHERE} == all_options()


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder, with the files that the commands read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    for name, text in (("relu", RELU), ("strings", STRINGS), ("loop", ENDLESS)):
        onnx.save(parsed(text), f"{name}.onnx")
    write_models()
    look_options.write_models()
    onnx.save(parsed(RELU.replace("1.0", "2.0")), "other.onnx")
    onnx.save(demo_model(), "demo.onnx")
    onnx.save(parsed(PRODUCT), "line.onnx")
    data = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)
    np.savez("line.npz", x=data, target=data @ np.array([[1], [2]], np.float32))
    intaglio.load("relu.onnx", engine="native").save_compiled("relu.intaglio")
    Image.new("RGB", (32, 32), "red").save("red.png")


@pytest.mark.parametrize("option", CASES)
def test_commands_obey(option: str, models: None, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, is_seen = CASES[option]
    command = option.split(" --")[0].split()
    few = ["--filter", "^test_relu_cpu$"] if command == ["conformance"] and "--filter" not in arguments else []
    with pytest.raises(SystemExit) as left:
        main([*command, *arguments, *few])
    written = capsys.readouterr()
    seen = SimpleNamespace(status=left.value.code, out=written.out, err=written.err)
    assert is_seen(seen), (seen.status, seen.out, seen.err)


def test_the_seed_changes_what_is_made_up(models: None, capsys: pytest.CaptureFixture[str]) -> None:
    outputs: list[str] = []
    for seed in ("1", "2", "1"):
        with pytest.raises(SystemExit):
            main(["run", "relu.onnx", "--seed", seed, "--json"])
        outputs.append(json.loads(capsys.readouterr().out)["outputs"][0]["data"])
    assert outputs[0] == outputs[2] != outputs[1]
