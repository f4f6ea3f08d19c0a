"""Structured kernels against the machine's peak and against ONNX Runtime's single-operator models.

    python bench/kernels.py [--threads 1 2] [--rounds 15] [--only gemm conv ...] [--best]

Both sides take turns, each row is the median of its rounds, and every result is compared.
"""

import argparse
import ctypes
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from intaglio.ir.substitution import evaluate
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.kernel_file import instance
from intaglio.targets.c.structured.conv import conv, pack_conv
from intaglio.targets.c.structured.depthwise import depthwise, grouped, pack_depthwise
from intaglio.targets.c.structured.gemm import gemm
from intaglio.targets.c.structured.pack import pack_b
from intaglio.targets.c.structured.source import StructuredKernel, plain_epilogue
from intaglio.targets.c.structured.winograd import Output, pack_winograd, winograd
from intaglio.targets.c.target import Target, host_target

GENERATOR = np.random.default_rng(0)

_POOL = """
#include <pthread.h>
#include <time.h>
typedef struct {
    ig_kernel kernel; void *const *buffer; const int64_t *size; int64_t tasks, claim; void **scratch;
    volatile int64_t next, round, done, stop;
} job;
static job now;
static void work(int64_t index)
{
    for (;;) {
        const int64_t begin = __atomic_fetch_add(&now.next, now.claim, __ATOMIC_ACQ_REL);
        if (begin >= now.tasks) return;
        const int64_t end = begin + now.claim < now.tasks ? begin + now.claim : now.tasks;
        now.kernel(now.buffer, now.size, begin, end, now.scratch[index]);
        __atomic_fetch_add(&now.done, end - begin, __ATOMIC_ACQ_REL);
    }
}
static void *worker(void *argument)
{
    const int64_t index = (int64_t)argument;
    for (int64_t seen = 0;;) {
        while (__atomic_load_n(&now.round, __ATOMIC_ACQUIRE) == seen)
            if (__atomic_load_n(&now.stop, __ATOMIC_ACQUIRE)) return 0;
        seen = __atomic_load_n(&now.round, __ATOMIC_ACQUIRE);
        work(index);
    }
}
double measure(void *const *buffer, const int64_t *size, const int64_t *plan, void **scratch, int64_t threads,
               int64_t calls)
{
    pthread_t thread[64];
    struct timespec from, to;
    now = (job){.kernel = kernel, .buffer = buffer, .size = size, .tasks = plan[0], .scratch = scratch};
    now.claim = threads == 1 ? plan[0] : plan[1] > 20000 ? 1 : 1 + 20000 / (plan[1] + 1);
    if (now.claim > (plan[0] + 2 * threads - 1) / (2 * threads) && threads > 1)
        now.claim = (plan[0] + 2 * threads - 1) / (2 * threads);
    for (int64_t i = 1; i < threads; i++) pthread_create(thread + i, 0, worker, (void *)i);
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int64_t call = -1; call < calls; call++) {
        if (call == 0) clock_gettime(CLOCK_MONOTONIC, &from);
        __atomic_store_n(&now.done, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&now.next, 0, __ATOMIC_RELEASE);
        __atomic_fetch_add(&now.round, 1, __ATOMIC_ACQ_REL);
        work(0);
        while (__atomic_load_n(&now.done, __ATOMIC_ACQUIRE) < now.tasks) {}
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    __atomic_store_n(&now.stop, 1, __ATOMIC_RELEASE);
    for (int64_t i = 1; i < threads; i++) pthread_join(thread[i], 0);
    return ((double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec)) / (double)calls;
}
"""

_PEAK = """
void kernel(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    ig_f32 c[12], x = 0.999f - (ig_f32){0}, y = 1e-9f - (ig_f32){0};
    IG_UNROLL for (int i = 0; i < 12; i++) c[i] = x + (float)i;
    for (int64_t k = begin * 100000; k < end * 100000; k++) {
        IG_UNROLL for (int i = 0; i < 12; i++) c[i] = c[i] * x + y;
        __asm__ volatile("" ::: "memory");
    }
    IG_UNROLL for (int i = 1; i < 12; i++) c[0] += c[i];
    *(ig_f32_at *)scratch = c[0];
}
"""


@dataclass
class Contest:
    """One row of the table: a kernel with its operands, and the model that does the same."""

    name: str
    kernel: StructuredKernel
    operands: list[Any]
    sizes: dict[str, int]
    out: Any
    flops: float
    model: bytes
    feeds: dict[str, Any]
    restore: Callable[[Any], Any]


class Compiled:
    """A kernel with the bench's own pool around it."""

    def __init__(self, source: str, target: Target, folder: Path) -> None:
        path = folder / f"{abs(hash(source))}.so"
        headers = '#include "ig.h"\n#include "ig_loop.h"\n'
        text = f"{headers}#pragma GCC visibility push(default)\n{source}{_POOL}"
        if not path.exists():
            compiler = find_compiler()
            assert compiler is not None
            compiler.compile_unit(text, path, target)
        self.library = ctypes.CDLL(str(path))
        self.library.measure.restype = ctypes.c_double

    def measure(self, buffers: Any, size: Any, plan: Any, threads: int, calls: int) -> float:
        """Seconds of one call."""
        scratch = [np.zeros(plan[2] // 4 + 32, np.float32) for _ in range(threads)]
        places = (ctypes.c_void_p * threads)(*((s.ctypes.data + 63) // 64 * 64 for s in scratch))
        return self.library.measure(buffers, size, plan, places, ctypes.c_int64(threads), ctypes.c_int64(calls))


def peak(target: Target, folder: Path, threads: int) -> float:
    compiled = Compiled(_PEAK, target, folder)
    tasks = 8 * threads
    plan = (ctypes.c_int64 * 3)(tasks, 100000, 4096)
    best = min(compiled.measure(None, None, plan, threads, 1) for _ in range(60))
    return tasks * 100000 * 12 * 2 * target.lanes / best / 1e9


def aligned(array: Any) -> Any:
    """The array at a 64-byte boundary, as the runtime places weights and the arena."""
    memory = np.zeros(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    view = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def contest(
    row: Contest, target: Target, folder: Path, threads: int, rounds: int, summary: Callable[[list[float]], float]
) -> tuple[float, float, float]:
    """Seconds of ours and theirs, and the greatest difference over the greatest value."""
    kernel = row.kernel
    epilogue = instance(plain_epilogue("float32", len(kernel.buffers), len(kernel.sizes))).text
    compiled = Compiled(kernel.named("kernel", epilogue), target, folder)
    work = kernel.work({name: row.sizes.get(name, 0) for name in kernel.sizes})
    sizes = [evaluate(dim, {}, threads) for dim in work.sizes.values()]
    size = (ctypes.c_int64 * (len(sizes) + 1))(*sizes, row.out.shape[-1])
    plan = (ctypes.c_int64 * 3)(*(evaluate(dim, {}, threads) for dim in (work.tasks, work.cost, work.scratch)))
    arrays = [aligned(array) for array in (*row.operands, row.out)]
    buffers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(row.model, options, providers=["CPUExecutionProvider"])
    expected = np.asarray(session.run(None, row.feeds)[0])
    calls = max(1, int(2e-3 / (row.flops / 1e11)))
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        ours.append(compiled.measure(buffers, size, plan, threads, calls))
        start = time.perf_counter()
        for _ in range(calls):
            session.run(None, row.feeds)
        theirs.append((time.perf_counter() - start) / calls)
    result = row.restore(arrays[-1])
    error = float(np.abs(result - expected).max() / np.abs(expected).max())
    return summary(ours), summary(theirs), error


def model_of(node: Any, inputs: dict[str, Any], constants: dict[str, Any]) -> bytes:
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, a.shape) for n, a in inputs.items()]
    initializers = [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", values, [output], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    return model.SerializeToString()


def values(*shape: int) -> Any:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def product(target: Target, m: int, k: int, n: int) -> Contest:
    a, b = values(m, k), values(k, n)
    sizes = {"M": m, "N": n, "K": k, "outer": 1, "inner": 1, "a_step": k}
    model = model_of(helper.make_node("MatMul", ["a", "b"], ["y"]), {"a": a}, {"b": b})
    return Contest(f"gemm {m}x{k}x{n}", gemm(target), [a, pack_b(b, target)], sizes, np.zeros((m, n), np.float32),
                   2.0 * m * n * k, model, {"a": a}, lambda y: y)  # fmt: skip


def scores(target: Target, heads: int, m: int, k: int, n: int) -> Contest:
    """Queries by keys: both operands come at run time, the right one transposed."""
    a, b = values(heads, m, k), values(heads, n, k)
    sizes = {"M": m, "N": n, "K": k, "outer": 1, "inner": heads, "a_step": k, "b_step": k}
    sizes |= {"a_inner": m * k, "b_inner": n * k}
    given = {"a": a, "b": np.ascontiguousarray(np.swapaxes(b, 1, 2))}
    model = model_of(helper.make_node("MatMul", ["a", "b"], ["y"]), given, {})
    return Contest(f"a x b^T {heads}x{m}x{k}x{n}", gemm(target, b="columns"), [a, b], sizes,
                   np.zeros((heads, m, n), np.float32), 2.0 * heads * m * n * k, model, given, lambda y: y)  # fmt: skip


def mix(target: Target, heads: int, m: int, k: int, n: int) -> Contest:
    """Probabilities by values: both operands come at run time."""
    a, b = values(heads, m, k), values(heads, k, n)
    sizes = {"M": m, "N": n, "K": k, "outer": 1, "inner": heads, "a_step": k, "b_step": n}
    sizes |= {"a_inner": m * k, "b_inner": n * k}
    model = model_of(helper.make_node("MatMul", ["a", "b"], ["y"]), {"a": a, "b": b}, {})
    return Contest(f"a x b {heads}x{m}x{k}x{n}", gemm(target, b="rows"), [a, b], sizes,
                   np.zeros((heads, m, n), np.float32), 2.0 * heads * m * n * k, model, {"a": a, "b": b},
                   lambda y: y)  # fmt: skip


def channels_first(y: Any) -> Any:
    return np.moveaxis(y, -1, 0)[None]


def window(side: int, channels: int, outputs: int, kernel: int, stride: int, groups: int) -> dict[str, int]:
    pad = kernel // 2
    out = (side + 2 * pad - kernel) // stride + 1
    sizes = dict.fromkeys(("images", "D", "OD", "KD", "stride_d", "dilation_d", "dilation_h", "dilation_w"), 1)
    sizes |= {"C": channels, "H": side, "W": side, "OH": out, "OW": out, "KH": kernel, "KW": kernel}
    return sizes | {"stride_h": stride, "stride_w": stride, "pad_h": pad, "pad_w": pad, "groups": groups, "OC": outputs}


def convolution(target: Target, side: int, channels: int, outputs: int, kernel: int, stride: int = 1) -> Contest:
    x, w = values(1, channels, side, side), values(outputs, channels, kernel, kernel)
    sizes = window(side, channels, outputs, kernel, stride, 1)
    out = sizes["OH"]
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[kernel // 2] * 4, strides=[stride] * 2)
    result = np.zeros((out, out, outputs), np.float32)
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    flops = 2.0 * out * out * outputs * channels * kernel * kernel
    name = f"conv {side}x{side}x{channels}->{outputs} {kernel}x{kernel} s{stride}"
    model = model_of(node, {"x": x}, {"w": w})
    if kernel == 1 and stride == 1:
        matrix = w.reshape(outputs, channels).T
        sizes = {"M": side * side, "N": outputs, "K": channels, "outer": 1, "inner": 1, "a_step": channels}
        return Contest(
            name, gemm(target), [last, pack_b(matrix, target)], sizes, result, flops, model, {"x": x}, channels_first
        )
    layout = "nchw" if channels <= 4 else "nhwc"
    operands = [x if layout == "nchw" else last, pack_conv(w, 1, target, layout)]
    return Contest(name, conv(target, layout), operands, sizes, result, flops, model, {"x": x}, channels_first)


def fast_convolution(target: Target, side: int, channels: int, output: Output) -> Contest:
    row = convolution(target, side, channels, channels, 3)
    w = onnx.numpy_helper.to_array(onnx.load_from_string(row.model).graph.initializer[0])
    return replace(row, name=f"winograd{output} {side}x{side}x{channels}", kernel=winograd(target, output),
                   operands=[row.operands[0], pack_winograd(w, target, output)])  # fmt: skip


def channelwise(target: Target, side: int, channels: int, kernel: int, stride: int) -> Contest:
    x, w = values(1, channels, side, side), values(channels, 1, kernel, kernel)
    sizes = window(side, channels, channels, kernel, stride, channels)
    out = sizes["OH"]
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[kernel // 2] * 4, strides=[stride] * 2, group=channels)
    return Contest(f"depthwise {side}x{side}x{channels} {kernel}x{kernel} s{stride}", depthwise(target),
                   [np.ascontiguousarray(np.moveaxis(x, 1, -1)), pack_depthwise(w)], sizes,
                   np.zeros((out, out, channels), np.float32), 2.0 * out * out * channels * kernel * kernel,
                   model_of(node, {"x": x}, {"w": w}), {"x": x}, channels_first)  # fmt: skip


def groupwise(target: Target, side: int, groups: int, inputs: int, outputs: int, kernel: int) -> Contest:
    x, w = values(1, groups * inputs, side, side), values(groups * outputs, inputs, kernel, kernel)
    sizes = window(side, groups * inputs, groups * outputs, kernel, 1, groups)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[kernel // 2] * 4, group=groups)
    return Contest(f"grouped {side}x{side}x{groups}x({inputs}->{outputs}) {kernel}x{kernel}", grouped(target),
                   [np.ascontiguousarray(np.moveaxis(x, 1, -1)), pack_depthwise(w)], sizes,
                   np.zeros((side, side, len(w)), np.float32), 2.0 * side * side * w.size,
                   model_of(node, {"x": x}, {"w": w}), {"x": x}, channels_first)  # fmt: skip


def contests(target: Target) -> dict[str, list[Callable[[], Contest]]]:
    products = [(128, 768, 768), (128, 768, 3072), (128, 3072, 768), (128, 768, 2304), (512, 768, 768), (32, 768, 2304)]
    vectors = [(1, 768, 2304), (1, 768, 3072), (1, 3072, 768), (1, 768, 50257), (1, 4096, 4096), (4, 768, 3072)]
    points = [(56, 64, 64), (56, 64, 256), (56, 256, 64), (28, 512, 128), (14, 1024, 256), (7, 512, 2048)]
    squares = [(56, 64), (28, 128), (14, 256), (7, 512)]
    channels = [(112, 32, 3, 1), (112, 96, 3, 2), (56, 144, 3, 1), (28, 192, 3, 1), (14, 576, 3, 1), (7, 960, 3, 1)]
    channels += [(28, 240, 5, 1), (14, 672, 5, 1), (56, 40, 3, 1), (56, 24, 3, 1), (56, 8, 3, 1), (28, 72, 7, 1)]
    groups = [(56, 64, 1, 2, 3), (28, 64, 1, 2, 7), (56, 16, 1, 4, 3), (56, 32, 4, 4, 3), (28, 32, 8, 8, 3)]
    return {
        "gemm": [lambda s=s: product(target, *s) for s in products + vectors],
        "batched": [lambda: scores(target, 12, 128, 64, 128), lambda: mix(target, 12, 128, 128, 64),
                    lambda: scores(target, 12, 1, 64, 512), lambda: mix(target, 12, 1, 512, 64)],
        "pointwise": [lambda p=p: convolution(target, *p, kernel=1) for p in points],
        "conv": [*[lambda s=s: convolution(target, s[0], s[1], s[1], 3) for s in squares],
                 lambda: convolution(target, 224, 3, 64, 7, 2), lambda: convolution(target, 224, 3, 32, 3, 2),
                 lambda: convolution(target, 56, 128, 128, 3, 2), lambda: convolution(target, 56, 256, 512, 1, 2),
                 lambda: convolution(target, 14, 96, 96, 5)],
        "winograd": [lambda s=s, o=o: fast_convolution(target, *s, output=o) for s in squares for o in (4, 2)],
        "depthwise": [lambda d=d: channelwise(target, *d) for d in channels],
        "grouped": [lambda g=g: groupwise(target, *g) for g in groups],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="+", default=None)
    parser.add_argument("--best", action="store_true", help="the best of the rounds, for a machine that others use too")
    arguments = parser.parse_args()
    summary = min if arguments.best else statistics.median
    target = host_target()
    with tempfile.TemporaryDirectory() as name:
        for threads in arguments.threads:
            limit = peak(target, Path(name), threads)
            print(f"\n{target.name}, {threads} threads, peak {limit:.0f} GFLOP/s")
            print(
                f"{'problem':36} {'us':>9} {'GFLOP/s':>8} {'of peak':>8} {'ORT us':>9} {'ORT / ours':>10} {'error':>8}"
            )
            for family, rows in contests(target).items():
                for make in rows if arguments.only is None or family in arguments.only else []:
                    row = make()
                    ours, theirs, error = contest(row, target, Path(name), threads, arguments.rounds, summary)
                    rate = row.flops / ours / 1e9
                    print(f"{row.name:36} {ours * 1e6:9.1f} {rate:8.1f} {rate / limit:8.0%} {theirs * 1e6:9.1f} "
                          f"{theirs / ours:10.2f} {error:8.0e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
