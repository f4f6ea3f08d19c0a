"""What this machine can do at most: fused multiply-adds a second and bytes copied a second."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.peers import Engine, Feeds
from intaglio.processor import usable_cores
from intaglio.targets.c import cache, native
from intaglio.targets.c.cache import CFunction
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.target import host_target

ACCUMULATORS = 12
TURNS = 20_000

FMA = f"""
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch) {{
    for (int64_t task = begin; task < end; task++) {{
        ig_f32 a = ig_load_f32(buffer[0]), b = ig_load_f32(buffer[0]);
        ig_f32 {", ".join(f"s{i} = a * {i}" for i in range(ACCUMULATORS))};
        for (int64_t turn = 0; turn < size[1]; turn++) {{
            {" ".join(f"s{i} = s{i} * a + b;" for i in range(ACCUMULATORS))}
            __asm__ volatile("");
        }}
        ig_store_f32((float *)buffer[1] + task * IG_LANES, {" + ".join(f"s{i}" for i in range(ACCUMULATORS))});
    }}
}}
"""
COPY = """
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch) {
    const float *x = buffer[0];
    float *y = buffer[1];
    for (int64_t i = begin * size[1]; i < end * size[1]; i += IG_LANES)
        STORE(y + i, ig_load_f32(x + i));
}
"""
DRIVER = """
int32_t IG_FUNCTION(const ig_call *call) {
    void *buffer[2] = {call->input[0], call->output[0]};
    return call->parallel(call, call->kernel[0], buffer, call->dim, call->dim[0], call->dim[2], 0, 0);
}
"""


def aligned(count: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    raw = np.ones(count + 16, np.float32)
    start = -(raw.ctypes.data // 4) % 16
    return raw[start : start + count]


def best_seconds(function: Callable[[], object], seconds: float = 1.0) -> float:
    """The shortest of many runs: the machine is noisy, and noise only adds."""
    end, best = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def runner(kernel: str, threads: int, dims: list[int], count: int) -> Callable[[], int]:
    functions = [CFunction("kernel", kernel), CFunction("driver", DRIVER, "-O1", ("ig.h",))]
    loaded = cache.ensure(functions, find_compiler(), host_target())
    x, y = aligned(count), aligned(count)
    segment = native.SegmentCode(loaded[1].address, [loaded[0].address], [], 1, 1, threads)
    prepared = segment.prepare(dims, [], 0, 10**8)
    return lambda: native.invoke(prepared, 0, x, y)


def fma_runner(threads: int, turns: int = TURNS) -> Callable[[], int]:
    """A function that multiplies and adds in registers, in 64 tasks a thread."""
    tasks = 64 * threads
    return runner(FMA, threads, [tasks, turns, turns * 4], tasks * host_target().lanes)


def fma_operations(threads: int, turns: int = TURNS) -> int:
    """Operations of one run of that function, a multiply and an add counted as two."""
    return 64 * threads * turns * ACCUMULATORS * host_target().lanes * 2


def fma_peak(threads: int) -> float:
    """float32 operations a second."""
    return fma_operations(threads) / best_seconds(fma_runner(threads))


class Peak(Engine):
    """An engine that computes nothing of use as fast as this machine can."""

    title = "Peak"
    module = "intaglio"
    TURNS = 2_000

    def __init__(self, path: Path, threads: int, feeds: Feeds) -> None:
        self.function = fma_runner(threads, self.TURNS)

    def run(self) -> list[np.ndarray]:
        self.function()
        return []

    @classmethod
    def operations(cls, threads: int) -> int:
        """Operations of one run."""
        return fma_operations(threads, cls.TURNS)


def copy_rate(threads: int, streaming: bool, mebibytes: int = 512) -> float:
    """Bytes read plus bytes written a second, for arrays far larger than usual caches."""
    block, count = 1 << 16, mebibytes << 18
    store = "ig_stream_f32" if streaming else "ig_store_f32"
    run = runner(COPY.replace("STORE", store), threads, [count // block, block, block // 8], count)
    return 2 * 4 * count / best_seconds(run, 2.0)


def measure() -> dict[str, float]:
    """Peak rates in GFLOP/s and GB/s, for one thread and for all."""
    cores = usable_cores()
    return {
        "cores": cores,
        "fma_1": fma_peak(1) / 1e9,
        "fma_all": fma_peak(cores) / 1e9,
        "copy_1": copy_rate(1, streaming=False) / 1e9,
        "copy_all": copy_rate(cores, streaming=False) / 1e9,
        "copy_streaming_1": copy_rate(1, streaming=True) / 1e9,
        "copy_streaming_all": copy_rate(cores, streaming=True) / 1e9,
        "memcpy_1": 2 * (256 << 20) / best_seconds(_memcpy(256 << 20)) / 1e9,
    }


def _memcpy(size: int) -> Callable[[], object]:
    x, y = np.ones(size, np.uint8), np.ones(size, np.uint8)
    return lambda: ctypes.memmove(y.ctypes.data, x.ctypes.data, size)


def main() -> None:
    target, compiler = host_target(), find_compiler()
    version = "none" if compiler is None else compiler.version.splitlines()[0]
    print(f"target {target.name}, {target.lanes} float32 lanes, compiler {version}")
    print(f"caches {target.l1 >> 10} KiB, {target.l2 >> 10} KiB, {target.l3 >> 10} KiB")
    for name, value in measure().items():
        unit = "" if name == "cores" else "GFLOP/s" if name.startswith("fma") else "GB/s"
        print(f"{name:20} {value:10.1f} {unit}")


if __name__ == "__main__":
    main()
