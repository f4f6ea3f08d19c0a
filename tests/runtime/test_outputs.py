"""Choosing outputs: those of the model need no compiler, others are compiled within the time of the run."""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import intaglio
from intaglio.runtime.engine.deadline import Stop, stoppable
from intaglio.runtime.engine.engine import EngineName

Make = Callable[..., onnx.ModelProto]

TEXT = (
    "g (float[n, m] x, float[n, m] y) => (float[n, m] a, float[n] b, float[n, m] c) {"
    " t = Tanh(x) a = Neg(t) b = ReduceSum<keepdims = 0>(t, one) c = Mul(a, y) }"
)
CHOICES = [list(names) for count in (1, 2, 3) for names in itertools.permutations("abc", count)]
X, Y = np.random.default_rng(3).random((2, 2, 3), np.float32)


@pytest.fixture
def three(make: Make) -> onnx.ModelProto:
    """A model of three outputs, two of which share most of their work."""
    model = make(TEXT)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "one"))
    return model


@pytest.mark.parametrize("names", [*CHOICES, ["c", "c"]], ids="".join)
def test_outputs_come_as_they_are_named_and_nothing_is_compiled(
    three: onnx.ModelProto, engine: EngineName, names: list[str]
) -> None:
    model = intaglio.load(three, engine=engine)
    everything = model.run({"x": X, "y": Y})
    found = model.run({"x": X, "y": Y}, outputs=names)
    assert list(found) == list(dict.fromkeys(names))
    for name in names:
        np.testing.assert_array_equal(found[name], everything[name])
    assert len(model._variants) == 1  # pyright: ignore[reportPrivateUsage]


CHOOSE = """
import itertools, sys, numpy as np, intaglio
model = intaglio.load(sys.argv[1])
x, y = np.ones((2, 2, 3), np.float32)
expected = {"a": -np.tanh(x), "b": np.tanh(x).sum(1), "c": -np.tanh(x)}
for count in (1, 2, 3):
    for names in itertools.permutations("abc", count):
        found = model.run({"x": x, "y": y}, outputs=names)
        assert list(found) == list(names)
        for name in names:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
heavy = {"onnx", "intaglio.kernels.plan", "intaglio.ir.graph", "intaglio.targets.c.compiler"} & set(sys.modules)
assert not heavy or sys.argv[2] == "cold", heavy
"""


def run(code: str, *arguments: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["file", "warm"])
def test_a_compiled_file_and_a_warm_model_need_no_compiler_for_it(
    three: onnx.ModelProto, tmp_path: Path, kind: str
) -> None:
    environment = {"INTAGLIO_CACHE": str(tmp_path / "cache")}
    path = tmp_path / ("g.intaglio" if kind == "file" else "g.onnx")
    if kind == "file":
        intaglio.load(three).save_compiled(path)
        environment |= {"PATH": "", "CC": ""}
    else:
        onnx.save(three, path)
        run(CHOOSE, str(path), "cold", **environment)
    run(CHOOSE, str(path), "warm", **environment)


SLOW_COMPILER = """#!/bin/sh
case "$*" in *--version*) ;; *) if [ -e "{marker}" ]; then exec sleep 600; fi ;; esac
exec {compiler} "$@"
"""
TIMED = """
import sys, pathlib, numpy as np, intaglio
model = intaglio.load(sys.argv[1])
x = np.ones((2, 3), np.float32)
model.run({"x": x, "y": x})
pathlib.Path(sys.argv[2]).touch()
for feeds, names in (({"x": x, "y": x}, ["t"]), ({"x": x, "y": x[:1]}, None)):
    try:
        model.run(feeds, outputs=names, timeout=0.5)
    except intaglio.RunTimeoutError as error:
        assert "timeout of 0.5 s" in str(error)
    else:
        raise AssertionError("the run did not notice that the compiler was slow")
"""


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_timeout_covers_what_a_run_must_compile(make: Make, tmp_path: Path, is_warm: bool) -> None:
    model = make(
        "g (float[n, m] x, float[k, m] y) => (float[n, m] a, float[p, m] c) { t = Tanh(x) a = Neg(t) c = Mul(a, y) }"
    )
    path, marker, compiler = tmp_path / "g.onnx", tmp_path / "slow", tmp_path / "cc"
    onnx.save(model, path)
    compiler.write_text(SLOW_COMPILER.format(marker=marker, compiler=os.environ.get("CC") or "gcc"))
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    environment = {"INTAGLIO_CACHE": str(tmp_path / "cache"), "CC": str(compiler)}
    if is_warm:
        run("import sys, intaglio; intaglio.load(sys.argv[1])", str(path), **environment)
    run(TIMED, str(path), str(marker), **environment)


def test_another_thread_stops_a_run(endless: onnx.ModelProto, engine: EngineName) -> None:
    model = intaglio.load(endless, engine=engine)
    x = np.ones((2048, 1024), np.float32)
    stop, started, seen = Stop(), threading.Event(), list[BaseException]()

    def work() -> None:
        with stoppable(stop, is_native=engine == "native"):
            started.set()
            try:
                while True:
                    model.run({"x0": x})
            except intaglio.RunTimeoutError as error:
                seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    stop.is_set = True
    thread.join(60)
    assert not thread.is_alive()
    assert "stopped by another thread" in str(seen[0])
    assert model.run({"x0": x[:1]})[f"x{60}"].shape == (1, 1024)


def test_a_flag_that_was_set_before_stops_the_run_and_not_those_behind(
    affine: onnx.ModelProto, engine: EngineName
) -> None:
    model = intaglio.load(affine, engine=engine)
    feeds = {"x": X, "y": Y[0]}
    expected = model.run(feeds)["z"]
    stop = Stop()
    stop.is_set = True
    with stoppable(stop, is_native=engine == "native"), pytest.raises(intaglio.RunTimeoutError, match="stopped"):
        model.run(feeds, timeout=60)
    np.testing.assert_array_equal(model.run(feeds)["z"], expected)
