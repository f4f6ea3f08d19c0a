"""The C of a model as one file: it compiles alone without a warning, and computes the same bits as the engine."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import BOOL, FLOAT32, INT64, UINT8
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.ops.control import Loop
from intaglio.runtime.engine.native import NativeEngine
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.step import PlanSource

ALONE = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
RNG = np.random.default_rng(7)


def weights(b: Any, *shape: int) -> Value:
    return b.constant(RNG.normal(size=shape), FLOAT32)


def convolutions(b: Any, x: Value) -> Value:
    stem = b.Relu(b.Conv(x, weights(b, 16, 3, 3, 3), weights(b, 16), pads=(1, 1, 1, 1)))
    inner = b.Relu(b.Conv(stem, weights(b, 16, 16, 3, 3), weights(b, 16), pads=(1, 1, 1, 1)))
    depth = b.Conv(inner, weights(b, 16, 1, 3, 3), group=16, pads=(1, 1, 1, 1))
    pooled = b.Flatten(b.GlobalAveragePool(b.Add(depth, stem)))
    return b.Softmax(b.Gemm(pooled, weights(b, 16, 10), weights(b, 10)), axis=-1)


def recurrent(b: Any, x: Value) -> Value:
    return b.LSTM(x, weights(b, 1, 32, 6), weights(b, 1, 32, 8), weights(b, 1, 64), hidden_size=8)


def encoder(b: Any, x: Value) -> Value:
    query, key, value = (b.MatMul(x, weights(b, 16, 16)) for _ in range(3))
    scores = b.Softmax(b.MatMul(query, b.Transpose(key, perm=(0, 2, 1))), axis=-1)
    mixed = b.LayerNormalization(b.Add(x, b.MatMul(scores, value)), weights(b, 16), weights(b, 16), axis=-1)
    return b.Gelu(b.MatMul(mixed, weights(b, 16, 24)))


def repeated(b: Any, x: Value) -> Value:
    body = Graph("body")
    count = body.add_input("i", TensorType(INT64, ()))
    condition = body.add_input("go", TensorType(BOOL, ()))
    state = body.add_input("state", x.type)
    inner = Builder(body)
    with inner.active():
        moved = inner.Tanh(inner.Add(inner.MatMul(state, weights(inner, 4, 4)), inner.Cast(count, to=FLOAT32.number)))
        body.set_outputs([inner.Identity(condition), moved])
    (last,) = b.add(Loop(body=body), [b.constant(5, INT64), b.constant(True, BOOL), x])
    return b.Exp(last)


def quantised(b: Any, x: Value) -> Value:
    scale, zero = b.constant(0.05, FLOAT32), b.constant(128, UINT8)
    bytes = b.QuantizeLinear(x, scale, zero)
    product = b.MatMulInteger(bytes, b.constant(RNG.integers(0, 255, (16, 12)), UINT8), zero, zero)
    return b.Mul(b.Cast(product, to=FLOAT32.number), b.constant(0.001, FLOAT32))


def counted(b: Any, x: Value) -> Value:
    return b.Gather(b.Reshape(x, [-1]), b.Reshape(b.NonZero(b.Greater(b.Reshape(x, [-1]), scalar(b, 0.5))), [-1]))


def scalar(b: Any, number: float) -> Value:
    return b.constant(number, FLOAT32)


def sorted_rows(b: Any, x: Value) -> Value:
    return b.CumSum(b.TopK(x, b.constant([3], INT64), outputs=2)[0], b.constant(1, INT64))


def doubled(b: Any, x: Value) -> Value:
    return b.Resize(x, None, b.constant([1, 1, 2, 2], FLOAT32), mode="linear")


MODELS: dict[str, tuple[Callable[[Any, Value], Value], tuple[Any, ...], tuple[int, ...]]] = {
    "convolutions": (convolutions, ("n", 3, 12, 12), (2, 3, 12, 12)),
    "recurrent": (recurrent, (5, "n", 6), (5, 3, 6)),
    "encoder": (encoder, ("n", "length", 16), (2, 9, 16)),
    "loop": (repeated, ("n", 4), (3, 4)),
    "quantised": (quantised, ("n", 16), (5, 16)),
    "sizes of data": (counted, ("n", 7), (4, 7)),
    "selection": (sorted_rows, ("n", 8), (4, 8)),
    "elementwise": (lambda b, x: b.Mul(b.Sigmoid(x), b.Transpose(b.Exp(x), perm=(1, 0))), (9, 9), (9, 9)),
    "transpose": (lambda b, x: b.Transpose(x, perm=(1, 0)), ("n", "m"), (33, 17)),
    "resize": (
        lambda b, x: b.Resize(x, None, b.constant([1.0, 1, 2, 2], FLOAT32), mode="linear"),
        (1, 2, "h", "w"),
        (1, 2, 5, 7),
    ),
}


def graph_of(name: str) -> Graph:
    build, dims, _ = MODELS[name]
    graph = Graph(name)
    x = graph.add_input("x", TensorType(FLOAT32, tuple(symbol(d) if isinstance(d, str) else d for d in dims)))
    builder = Builder(graph)
    with builder.active():
        graph.set_outputs([build(builder, x)])
    return graph


def engine_of(name: str) -> tuple[NativeEngine, Any]:
    engine = NativeEngine(graph_of(name), threads=1)
    engine.load()
    return engine, np.random.default_rng(1).normal(size=MODELS[name][2]).astype(np.float32)


@pytest.mark.parametrize("name", MODELS)
def test_one_file_compiles_alone_and_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    engine, data = engine_of(name)
    check_alone(engine, name, [data], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "bert_base", "lstm", "silero-vad-18"])
def test_large_models_as_one_file(name: str, tmp_path: Path) -> None:
    """Whole networks, an LSTM, and a model with branches."""
    from bench.models import Unavailable, select

    (found,) = select([name])
    try:
        model = intaglio.load(found.path(), engine="native")
    except Unavailable as error:
        pytest.skip(str(error))
    engine = model.whole_engine()
    assert isinstance(engine, NativeEngine)
    feeds = found.feeds(1)
    check_alone(engine, name, [feeds[value] for value in model.fed], tmp_path)


def check_alone(engine: NativeEngine, name: str, inputs: list[Any], folder: Path) -> None:
    """Compile the one file without a warning, put its driver in place of the engine's, and compare the bits."""
    compiler = find_compiler()
    if compiler is None or compiler.kind != "gcc":
        pytest.skip("the settings at the top of the file are gcc's")
    expected = engine.run(inputs)
    source = folder / "model.c"
    source.write_text(engine.source_file(name))
    subprocess.run([*compiler.command, *ALONE, "-c", str(source), "-o", str(folder / "model.o")], check=True)
    library = folder / "model.so"
    flags = [flag for flag in compiler.flags(engine.executor.target) if not flag.startswith("-fvisibility")]
    flags = [flag for flag in flags if not flag.startswith("-DIG_LANES")]
    subprocess.run([*compiler.command, *flags, str(source), "-o", str(library), "-lm"], check=True)
    address = ctypes.cast(ctypes.CDLL(str(library)).run, ctypes.c_void_p).value
    assert address is not None
    loaded = [0] * len(engine.form.kernels) + [address]
    source_of_plan = PlanSource(engine.outline.frames, lambda: engine.form)
    steps = engine.executor.load(source_of_plan, loaded, engine.constants, engine.threads)
    engine.forget_sizes()
    engine.parts[:] = engine._steps[:] = steps  # pyright: ignore[reportPrivateUsage]
    again = engine.run(inputs)
    assert engine.host_runs == 0
    for first, second in zip(expected, again, strict=True):
        assert first.tobytes() == second.tobytes()


def test_contents_name_what_each_function_computes() -> None:
    text = engine_of("convolutions")[0].source_file("convolutions")
    head = text[: text.index("*/")]
    assert "convolutions" in head
    assert text.count("int32_t run(const ig_call *call);") == 1
    for line in head.split("Contents:")[1].splitlines():
        if line.strip().startswith("kernel_"):
            assert f"static void {line.split(':')[0].strip()}(" in text
