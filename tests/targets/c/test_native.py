import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from intaglio.targets.c import cache, native
from intaglio.targets.c.cache import CFunction
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.target import TARGETS

SOURCE_ROOT = str(Path(__file__).parents[3] / "src")

# Each task is a row: its sum in order, scaled through scratch; some rows take much longer than others.
ROWS = """
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch) {
    float *space = scratch;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)buffer[0] + row * size[1];
        float sum = 0;
        for (int64_t turn = 0; turn <= row % 5; turn++)
            for (int64_t i = 0; i < size[1]; i++)
                sum += space[i] = x[i] * 0.37f;
        ((float *)buffer[1])[row] = sum + space[size[1] - 1];
    }
}
"""
ROWS_DRIVER = """
int32_t IG_FUNCTION(const ig_call *call) {
    void *buffer[2] = {call->input[0], call->output[0]};
    for (int64_t i = 0; i < call->dim[2]; i++)
        if (call->parallel(call, call->kernel[0], buffer, call->dim, call->dim[0], call->dim[1], call->dim[1] * 4, 0))
            return 1;
    return 0;
}
"""
COPY_DRIVER = """
int32_t IG_FUNCTION(const ig_call *call) {
    __builtin_memcpy(call->output[0], call->arena + call->offset[0], (unsigned long)call->dim[0]);
    return (int32_t)call->dim[1];
}
"""


def address(hint: str, source: str) -> int:
    (loaded,) = cache.ensure([CFunction(hint, source, headers=("ig.h",))], find_compiler(), TARGETS["c"])
    return loaded.address


def rows_segment(threads: int) -> native.SegmentCode:
    return native.SegmentCode(address("driver", ROWS_DRIVER), [address("rows", ROWS)], [], 1, 1, threads)


def run_rows(
    x: NDArray[np.float32], threads: int, repeat: int = 3, timeout_ns: int = 0
) -> tuple[int, NDArray[np.float32]]:
    rows, columns = x.shape
    out = np.zeros(rows, np.float32)
    prepared = rows_segment(threads).prepare([rows, columns, repeat], [], 0, x.size * repeat, [x.nbytes, out.nbytes])
    return native.invoke(prepared, timeout_ns, x, out), out


@pytest.fixture(scope="module")
def x() -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((1003, 257), dtype=np.float32)


@pytest.fixture(scope="module")
def expected(x: NDArray[np.float32]) -> NDArray[np.float32]:
    status, out = run_rows(x, 1, 1)
    assert status == 0
    np.testing.assert_allclose(out[::5], (x[::5] * 0.37).sum(1) + x[::5, -1] * 0.37, atol=1e-3)
    return out


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 300])
def test_same_bits_for_any_number_of_threads(
    threads: int, x: NDArray[np.float32], expected: NDArray[np.float32]
) -> None:
    for _ in range(20):
        status, out = run_rows(x, threads)
        assert status == 0
        assert np.array_equal(out, expected)


def test_workers_that_slept_come_back(x: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    for _ in range(30):
        time.sleep(0.005)
        assert np.array_equal(run_rows(x, 2, 2)[1], expected)


def test_several_python_threads_at_once(x: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    good: list[bool] = []

    def work() -> None:
        for _ in range(40):
            good.append(np.array_equal(run_rows(x, 2)[1], expected))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert good == [True] * 160


def in_subprocess(script: str, **environment: str) -> subprocess.Popen[str]:
    names = {"ROWS": ROWS, "ROWS_DRIVER": ROWS_DRIVER, "COPY_DRIVER": COPY_DRIVER}
    prelude = f"""
import os, signal, sys, threading, time
import numpy as np
from intaglio.targets.c import cache, native
from intaglio.targets.c.cache import CFunction
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.target import TARGETS
texts = {names!r}
functions = [CFunction("f", text, headers=("ig.h",)) for text in texts.values()]
rows, driver, copy = (f.address for f in cache.ensure(functions, find_compiler(), TARGETS["c"]))
x = np.random.default_rng(0).standard_normal((1003, 257), dtype=np.float32)
out = np.zeros(1003, np.float32)
segment = native.SegmentCode(driver, [rows], [], 1, 1, 2)
"""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", prelude + script],
        env={**os.environ, "PYTHONPATH": SOURCE_ROOT, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_fork_before_during_and_after_runs() -> None:
    script = """
prepared = segment.prepare([1003, 257, 20], [], 0, 10**7)
assert native.invoke(prepared, 0, x, out) == 0
stop = threading.Event()
def keep_running():
    mine = np.zeros(1003, np.float32)
    while not stop.is_set():
        native.invoke(prepared, 0, x, mine)
thread = threading.Thread(target=keep_running)
thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        again = np.zeros(1003, np.float32)
        good = native.invoke(prepared, 0, x, again) == 0 and np.array_equal(again, out)
        os._exit(0 if good and native.pool_workers() == 1 else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
stop.set()
thread.join()
print("good")
"""
    output, errors = in_subprocess(script).communicate(timeout=60)
    assert (output.strip(), errors) == ("good", "")


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_ends_a_run(threads: int) -> None:
    script = f"""
segment = native.SegmentCode(driver, [rows], [], 1, 1, {threads})
prepared = segment.prepare([1003, 257, 10**9], [], 0, 10**15)
print("running", flush=True)
try:
    native.invoke(prepared, 0, x, out)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert native.invoke(segment.prepare([1003, 257, 1], [], 0, 10**6), 0, x, out) == 0
"""
    process = in_subprocess(script)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    _, errors = process.communicate()
    assert errors == ""


def test_timeout_stops_the_run(x: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    for threads in (1, 2):
        assert run_rows(x, threads, 10**9, timeout_ns=50_000_000)[0] == 1
        assert np.array_equal(run_rows(x, threads)[1], expected)


def test_lock_is_released_during_a_run(x: NDArray[np.float32]) -> None:
    thread = threading.Thread(target=run_rows, args=(x, 1, 10**9, 200_000_000))
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    assert turns > 1000


def test_denormals_are_flushed_inside_and_kept_outside() -> None:
    source = """
int32_t IG_FUNCTION(const ig_call *call) {
    ((float *)call->output[0])[0] = ((const float *)call->input[0])[0] * 0.5f;
    return 0;
}
"""
    prepared = native.SegmentCode(address("halve", source), [], [], 1, 1, 1).prepare([], [], 0, 0)
    tiny, out = np.array([1.2e-38], np.float32), np.ones(1, np.float32)
    assert native.invoke(prepared, 0, tiny, out) == 0
    assert out[0] == 0
    assert float((tiny * np.float32(0.5))[0]) > 0


Copy = Callable[[int, int, int], native.Prepared]


@pytest.fixture
def copy() -> Copy:
    segment = native.SegmentCode(address("copy", COPY_DRIVER), [], [], 0, 1, 1)
    return lambda count, status, arena: segment.prepare([count, status], [arena - count], arena, 0)


def test_status_of_the_driver_is_returned(copy: Copy) -> None:
    assert native.invoke(copy(4, 7, 64), 0, np.zeros(4, np.uint8)) == 7


def test_arena_is_aligned_and_large_ones_work(copy: Copy) -> None:
    for size in (64, 1 << 20, 80 << 20):
        for _ in range(2):
            assert native.invoke(copy(16, 0, size), 0, np.zeros(16, np.uint8)) == 0


def test_poison_fills_the_arena() -> None:
    script = """
prepared = native.SegmentCode(copy, [], [], 0, 1, 1).prepare([8, 0], [64], 128, 0)
out = np.zeros(8, np.uint8)
native.invoke(prepared, 0, out)
print(out.tolist() == [0xA5] * 8)
"""
    output, errors = in_subprocess(script, INTAGLIO_POISON="1").communicate(timeout=60)
    assert (output.strip(), errors) == ("True", "")


def test_impossible_arena_is_a_memory_error(copy: Copy) -> None:
    with pytest.raises(MemoryError):
        native.invoke(copy(1, 0, 1 << 60), 0, np.zeros(1, np.uint8))


def test_wrong_arguments(copy: Copy) -> None:
    prepared = copy(4, 0, 64)
    invoke = native.invoke_function()
    with pytest.raises(TypeError, match="expected 3"):
        native.invoke(prepared, 0)
    with pytest.raises(TypeError):
        invoke()
    with pytest.raises(TypeError):
        native.invoke(prepared, 0, "text")
    with pytest.raises(ValueError, match="PyCapsule"):
        invoke(3, 0, np.zeros(4, np.uint8))
    frozen = np.zeros(4, np.uint8)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        native.invoke(prepared, 0, frozen)
    with pytest.raises(ValueError, match="contiguous"):
        native.invoke(prepared, 0, np.zeros(8, np.uint8)[::2])


def test_sizes_are_checked_when_given(x: NDArray[np.float32]) -> None:
    prepared = rows_segment(1).prepare([1, 4, 1], [], 0, 0, [16, 4])
    with pytest.raises(ValueError, match="buffer 0 has 12 bytes, expected 16"):
        native.invoke(prepared, 0, x[0, :3].copy(), np.zeros(1, np.float32))
    with pytest.raises(ValueError, match="3 buffer sizes"):
        rows_segment(1).prepare([1], [], 0, 0, [1, 2, 3])


DTYPES: list[np.dtype[np.generic]] = [
    np.dtype(kind) for kind in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.bool_, np.complex64)
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_scalar_and_empty(dtype: "np.dtype[np.generic]", copy: Copy) -> None:
    out = np.zeros((), dtype)
    assert native.invoke(copy(out.nbytes, 0, 64), 0, out) == 0
    assert native.invoke(copy(0, 0, 64), 0, np.zeros((0, 3), dtype)) == 0


def test_segment_outlives_its_python_object() -> None:
    prepared = native.SegmentCode(address("copy", COPY_DRIVER), [], [], 0, 1, 1).prepare([4, 3], [0], 64, 0)
    assert native.invoke(prepared, 0, np.zeros(4, np.uint8)) == 3


def test_more_buffers_than_fit_the_stack() -> None:
    source = """
int32_t IG_FUNCTION(const ig_call *call) {
    for (int32_t i = 0; i < 50; i++)
        *(int64_t *)call->output[i] = *(const int64_t *)call->input[i] + i;
    return 0;
}
"""
    inputs, outputs = [np.array(i) for i in range(50)], [np.array(0) for _ in range(50)]
    prepared = native.SegmentCode(address("many", source), [], [], 50, 50, 1).prepare([], [], 0, 0)
    assert native.invoke(prepared, 0, *inputs, *outputs) == 0
    assert [int(out) for out in outputs] == [2 * i for i in range(50)]


def test_addresses_in_place_of_buffers(x: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    rows, columns = x.shape
    prepared = rows_segment(2).prepare([rows, columns, 3], [], 0, x.size * 3)
    out = np.zeros(rows, np.float32)
    assert native.invoke_at_function()(prepared.handle, 0, x.ctypes.data, out.ctypes.data) == 0
    np.testing.assert_array_equal(out, expected)


def test_addresses_of_many_buffers_and_of_none() -> None:
    source = """
int32_t IG_FUNCTION(const ig_call *call) {
    for (int32_t i = 0; i < 50; i++)
        *(int64_t *)call->output[i] = *(const int64_t *)call->input[i] + i;
    return 7;
}
"""
    numbers, found = np.arange(50), np.zeros(50, np.int64)
    invoke_at = native.invoke_at_function()
    prepared = native.SegmentCode(address("many", source), [], [], 50, 50, 1).prepare([], [], 0, 0)
    places = [array.ctypes.data + 8 * i for array in (numbers, found) for i in range(50)]
    assert invoke_at(prepared.handle, 0, *places) == 7
    np.testing.assert_array_equal(found, 2 * numbers)
    with pytest.raises(TypeError, match="expected 102"):
        invoke_at(prepared.handle, 0, *places[1:])
    with pytest.raises(TypeError):
        invoke_at(prepared.handle, 0, "text", *places[1:])
    with pytest.raises(TypeError, match="needs a prepared segment"):
        invoke_at()
    late = native.SegmentCode(address("many", source), [], [], 1, 1, 1, [True]).prepare([], [], 0, 0)
    with pytest.raises(ValueError, match="the run tells the shape of output 0"):
        invoke_at(late.handle, 0, *places[:2])


def plan_slowly(sizes: Sequence[int], first_use: Sequence[int], last_use: Sequence[int]) -> tuple[list[int], int]:
    """`plan_memory` without the C runtime."""
    rounded = [(size + 63) // 64 * 64 for size in sizes]
    offsets = [0] * len(sizes)
    placed: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda i: (-rounded[i], i)):
        rivals = [i for i in placed if last_use[i] >= first_use[index] and first_use[i] <= last_use[index]]
        rivals.sort(key=lambda i: offsets[i])
        offsets[index] = _tightest_gap([(offsets[i], rounded[i]) for i in rivals], rounded[index])
        placed.append(index)
    return offsets, max((offset + size for offset, size in zip(offsets, rounded, strict=True)), default=0)


def _tightest_gap(taken: Iterable[tuple[int, int]], size: int) -> int:
    end, best = 0, None
    for offset, length in taken:
        gap = offset - end
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, end)
        end = max(end, offset + length)
    return end if best is None else best[1]


buffers = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 30), st.integers(0, 10)), max_size=40)


@given(buffers)
def test_planned_buffers_do_not_overlap(plan: list[tuple[int, int, int]]) -> None:
    sizes = [size for size, _, _ in plan]
    first = [start for _, start, _ in plan]
    last = [start + length for _, start, length in plan]
    offsets, total = native.plan_memory(sizes, first, last)
    assert (offsets, total) == plan_slowly(sizes, first, last)
    for i in range(len(plan)):
        assert offsets[i] % 64 == 0
        assert 0 <= offsets[i] <= offsets[i] + sizes[i] <= total
        for j in range(i):
            together = first[i] <= last[j] and first[j] <= last[i]
            apart = offsets[i] + sizes[i] <= offsets[j] or offsets[j] + sizes[j] <= offsets[i]
            assert apart or not together


def test_plan_reuses_memory() -> None:
    assert native.plan_memory([1000, 1000, 1000], [0, 1, 2], [1, 2, 3])[1] == 2048
    assert native.plan_memory([], [], []) == ([], 0)


def test_plan_refuses_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="cannot be planned"):
        native.plan_memory([-1], [0], [0])
    with pytest.raises(ValueError, match="cannot be planned"):
        native.plan_memory([2**61, 2**62], [0, 0], [0, 0])
    with pytest.raises(ValueError, match="differ in length"):
        native.plan_memory([1], [0, 1], [0])
