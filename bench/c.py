"""Exported C against that of emx-onnx-cgen on ten small models: bytes of code and of memory, and time of a run."""

from __future__ import annotations

import argparse
import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from rich.console import Console
from rich.table import Table

import intaglio

SIZE_FLAGS = ["-std=c11", "-Os", "-fstack-usage", "-ffunction-sections", "-w"]
SPEED_FLAGS = ["-O3", "-march=x86-64-v3", "-ffp-contract=fast", "-fno-strict-aliasing", "-w", "-fPIC", "-shared"]


LOOP = """\
void loop(void (*run)(const void *, void *), const void *x, void *y, long count)
{
    for (long i = 0; i < count; i++)
        run(x, y);
}
"""
"""Runs in a row, without Python between them."""


def drawn(*shape: int) -> np.ndarray[Any, Any]:
    found = np.random.default_rng(sum(shape)).normal(size=shape) / np.sqrt(max(1, np.prod(shape[1:])))
    return found.astype(np.float32)


def model(text: str, **weights: np.ndarray[Any, Any]) -> onnx.ModelProto:
    found = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17]> {text}')
    found.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return found


def perceptron() -> onnx.ModelProto:
    return model(
        """net (float[1, 784] x) => (float[1, 10] y) { a = Gemm(x, w1, b1) b = Relu(a) c = Gemm(b, w2, b2) d = Relu(c)
        e = Gemm(d, w3, b3) y = Softmax(e) }""",
        w1=drawn(784, 128), b1=drawn(128), w2=drawn(128, 64), b2=drawn(64), w3=drawn(64, 10), b3=drawn(10),
    )  # fmt: skip


def lenet() -> onnx.ModelProto:
    return model(
        """net (float[1, 1, 28, 28] x) => (float[1, 10] y) {
        a = Conv <kernel_shape=[5, 5], pads=[2, 2, 2, 2]> (x, w1, b1) b = Relu(a)
        c = MaxPool <kernel_shape=[2, 2], strides=[2, 2]> (b)
        d = Conv <kernel_shape=[5, 5]> (c, w2, b2) e = Relu(d) f = MaxPool <kernel_shape=[2, 2], strides=[2, 2]> (e)
        g = Flatten(f) h = Gemm(g, w3, b3) i = Relu(h) j = Gemm(i, w4, b4) y = Softmax(j) }""",
        w1=drawn(6, 1, 5, 5), b1=drawn(6), w2=drawn(16, 6, 5, 5), b2=drawn(16), w3=drawn(400, 120), b3=drawn(120),
        w4=drawn(120, 10), b4=drawn(10),
    )  # fmt: skip


def depthwise() -> onnx.ModelProto:
    return model(
        """net (float[1, 3, 32, 32] x) => (float[1, 10] y) {
        a = Conv <kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]> (x, w1, b1) b = Relu(a)
        c = Conv <kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=16> (b, w2, b2) d = Relu(c)
        e = Conv <kernel_shape=[1, 1]> (d, w3, b3) f = Relu(e) p = GlobalAveragePool(f) g = Flatten(p)
        y = Gemm(g, w4, b4) }""",
        w1=drawn(16, 3, 3, 3), b1=drawn(16), w2=drawn(16, 1, 3, 3), b2=drawn(16), w3=drawn(32, 16, 1, 1), b3=drawn(32),
        w4=drawn(32, 10), b4=drawn(10),
    )  # fmt: skip


def residual() -> onnx.ModelProto:
    return model(
        """net (float[1, 16, 16, 16] x) => (float[1, 16, 16, 16] y) {
        a = Conv <kernel_shape=[3, 3], pads=[1, 1, 1, 1]> (x, w1, b1) b = Relu(a)
        c = Conv <kernel_shape=[3, 3], pads=[1, 1, 1, 1]> (b, w2, b2) d = Add(c, x) y = Relu(d) }""",
        w1=drawn(16, 16, 3, 3), b1=drawn(16), w2=drawn(16, 16, 3, 3), b2=drawn(16),
    )  # fmt: skip


def keywords() -> onnx.ModelProto:
    return model(
        """net (float[1, 40, 98] x) => (float[1, 12] y) {
        a = Conv <kernel_shape=[9], pads=[4, 4], strides=[2]> (x, w1, b1) b = Relu(a)
        c = Conv <kernel_shape=[9], pads=[4, 4]> (b, w2, b2) d = Relu(c) p = GlobalAveragePool(d) f = Flatten(p)
        y = Gemm(f, w3, b3) }""",
        w1=drawn(24, 40, 9), b1=drawn(24), w2=drawn(32, 24, 9), b2=drawn(32), w3=drawn(32, 12), b3=drawn(12),
    )  # fmt: skip


def decoder() -> onnx.ModelProto:
    return model(
        """net (float[1, 16, 8, 8] x) => (float[1, 3, 32, 32] y) {
        a = ConvTranspose <kernel_shape=[4, 4], strides=[2, 2], pads=[1, 1, 1, 1]> (x, w1, b1) b = Relu(a)
        c = ConvTranspose <kernel_shape=[4, 4], strides=[2, 2], pads=[1, 1, 1, 1]> (b, w2, b2) y = Sigmoid(c) }""",
        w1=drawn(16, 8, 4, 4), b1=drawn(8), w2=drawn(8, 3, 4, 4), b2=drawn(3),
    )  # fmt: skip


def attention() -> onnx.ModelProto:
    return model(
        """net (float[1, 16, 32] x) => (float[1, 16, 32] y) {
        q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) t = Transpose <perm=[0, 2, 1]> (k)
        s = MatMul(q, t) n = Div(s, r) p = Softmax(n) c = MatMul(p, v) o = MatMul(c, wo) a = Add(o, x)
        y = LayerNormalization(a, g, b) }""",
        wq=drawn(32, 32), wk=drawn(32, 32), wv=drawn(32, 32), wo=drawn(32, 32), r=np.array(5.65, np.float32),
        g=drawn(32),        b=drawn(32),
    )  # fmt: skip


def recurrent() -> onnx.ModelProto:
    return model(
        """net (float[20, 1, 8] x) => (float[20, 1, 1, 24] y) {
        y = LSTM <hidden_size=24> (x, w, r, b) }""",
        w=drawn(1, 96, 8), r=drawn(1, 96, 24), b=drawn(1, 192),
    )  # fmt: skip


def gated() -> onnx.ModelProto:
    return model(
        """net (float[20, 1, 8] x) => (float[20, 1, 1, 24] y) { y = GRU <hidden_size=24> (x, w, r, b) }""",
        w=drawn(1, 72, 8), r=drawn(1, 72, 24), b=drawn(1, 144),
    )  # fmt: skip


def features() -> onnx.ModelProto:
    return model(
        """net (float[1, 64] x) => (float[1, 8] y) {
        m = ReduceMean <axes=[1]> (x) c = Sub(x, m) s = Mul(c, c) v = ReduceMean <axes=[1]> (s) e = Sqrt(v)
        n = Div(c, e) a = Gemm(n, w1, b1) t = Tanh(a) y = Gemm(t, w2, b2) }""",
        w1=drawn(64, 32), b1=drawn(32), w2=drawn(32, 8), b2=drawn(8),
    )  # fmt: skip


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    each.__name__: each
    for each in (
        perceptron, lenet, depthwise, residual, keywords, decoder, attention, recurrent, gated, features,
    )
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run the command. 0: done; 1: an answer was wrong; 2: wrong usage."""
    command = argparse.ArgumentParser(prog="python -m bench c", description=__doc__)
    command.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS), metavar="NAME")
    command.add_argument("--emx", default=shutil.which("emx-onnx-cgen") or "emx-onnx-cgen", metavar="COMMAND")
    command.add_argument("--rounds", type=int, default=9)
    options = command.parse_args(arguments)
    table = Table("model", "code, ours", "emx", "memory, ours", "emx", "fast, us", "emx, us", "emx / fast", "error",
                  title="Readable C: bytes (gcc -Os). Fast C: time (gcc -O3 -march=x86-64-v3), one thread")  # fmt: skip
    is_right = True
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            row = measured(MODELS[name](), Path(folder), options.emx, options.rounds)
        is_right &= row["error"] < 1e-3
        table.add_row(
            name, f"{row['code']:,}", f"{row['their code']:,}", f"{row['memory']:,}", f"{row['their memory']:,}",
            f"{row['time'] * 1e6:.1f}", f"{row['their time'] * 1e6:.1f}", f"{row['their time'] / row['time']:.1f}",
            f"{row['error']:.0e}",
        )  # fmt: skip
        print(name, row, file=sys.stderr)
    Console(width=120).print(table)
    return 0 if is_right else 1


def measured(proto: onnx.ModelProto, folder: Path, emx: str, rounds: int) -> dict[str, float]:
    """Bytes and seconds of a model by both."""
    path = folder / "net.onnx"
    onnx.save(proto, path)
    theirs = folder / "emx.c"
    subprocess.run([emx, "compile", path, theirs, "--model-name", "emx", "--large-temp-threshold", "0",
                    "--large-weight-threshold", "0"],
                   check=True, capture_output=True)  # fmt: skip
    intaglio.export(path, "c", folder / "readable", measure=False)
    intaglio.export(path, "c", folder / "fast", style="fast", target="avx2", measure=False)
    row = {"their code": 0.0, "their memory": 0.0}
    row["code"], row["memory"] = sizes(folder / "readable", "model.c", "model_run")
    row["their code"], row["their memory"] = sizes(folder, theirs.name, "emx")
    compiled(folder / "fast", ["model.c", "weights.c"], folder / "fast.so")
    compiled(folder, [theirs.name], folder / "emx.so")
    return row | raced(proto, folder, rounds)


def sizes(folder: Path, file: str, entry: str) -> tuple[float, float]:
    """Bytes of machine code, and of static memory and the deepest stack."""
    subprocess.run(["gcc", *SIZE_FLAGS, "-c", "-o", "unit.o", file], cwd=folder, check=True)
    sections = subprocess.run(["size", "-A", "unit.o"], cwd=folder, check=True, capture_output=True, text=True).stdout
    found = {line.split()[0]: int(line.split()[1]) for line in sections.splitlines() if line.startswith(".")}
    code = sum(size for name, size in found.items() if name.startswith(".text") and not name.endswith("_error"))
    static = sum(size for name, size in found.items() if name.startswith((".bss", ".data")) and ".rel" not in name)
    frames = {
        re.split(r":", line.split("\t")[0])[-1]: int(line.split("\t")[1])
        for line in (folder / "unit.su").read_text().splitlines()
    }
    deepest = frames.pop(entry) + max(frames.values(), default=0)
    return code, static + deepest


def compiled(folder: Path, files: list[str], library: Path) -> None:
    subprocess.run(["gcc", *SPEED_FLAGS, "-o", library, *files, "-lm"], cwd=folder, check=True)


def raced(proto: onnx.ModelProto, folder: Path, rounds: int) -> dict[str, float]:
    """Seconds of processor time of a run, the median of rounds in turn, and how far the answers are apart."""
    x = proto.graph.input[0]
    shape = [dim.dim_value for dim in x.type.tensor_type.shape.dim]
    data = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    expected = np.asarray(intaglio.load(proto, engine="reference")(data))
    buffers = {name: np.zeros_like(expected) for name in ("fast", "emx")}
    (folder / "loop.c").write_text(LOOP)
    compiled(folder, ["loop.c"], folder / "loop.so")
    loop = ctypes.CDLL(str(folder / "loop.so")).loop
    calls: dict[str, Callable[[int], Any]] = {}
    for name, symbol in (("fast", "model_run"), ("emx", "emx")):
        function = ctypes.cast(getattr(ctypes.CDLL(str(folder / f"{name}.so")), symbol), ctypes.c_void_p)
        arguments = function, ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(buffers[name].ctypes.data)
        calls[name] = lambda count, arguments=arguments: loop(*arguments, ctypes.c_long(count))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    counts = {name: repeats(call) for name, call in calls.items()}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = process_time()
            call(counts[name])
            seconds[name].append((process_time() - begin) / counts[name])
    scale = max(1e-6, float(np.abs(expected).max()))
    errors = [float(np.abs(found - expected).max()) / scale for found in buffers.values()]
    return {"time": median(seconds["fast"]), "their time": median(seconds["emx"]), "error": max(errors)}


def repeats(call: Callable[[int], Any]) -> int:
    """How many runs take about a fiftieth of a second."""
    call(5)
    begin = process_time()
    call(20)
    return max(5, int(0.02 / max(1e-8, (process_time() - begin) / 20)))
