"""What a machine can do at most: operations on float32 and bytes from memory in a second, measured with our kernels."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from intaglio.targets.c import cache
from intaglio.targets.c.cache import CFunction
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.native import SegmentCode, invoke
from intaglio.targets.c.printing.register import with_headers
from intaglio.targets.c.source_file import HEADERS
from intaglio.targets.c.target import Target

SUMS = 12
"""Sums that are made side by side where operations are counted: enough to hide the latency on all processors."""
ROUNDS = 20_000
"""Rounds of a task."""
BLOCK = 1 << 16
"""Numbers in a block of memory."""
LEAST_BYTES, MOST_BYTES = 64 << 20, 512 << 20
"""How much memory is read at least and at most; in between it is four times the last cache."""
REPEATS = 15
"""Measurements, of which the best counts: others on the machine only ever slow it down."""

_DRIVER = """
int32_t IG_FUNCTION(const ig_call *call)
{
    void *const buffer[] = {$buffers};
    return call->parallel(call, call->kernel[0], buffer, call->dim, call->dim[1], 1000000, 0, 0);
}
"""


@dataclass(frozen=True)
class MachineLimits:
    """Operations on float32 and bytes from memory in a second, on so many threads."""

    flops: float
    bandwidth: float
    threads: int

    def least_seconds(self, flops: int, moved: int) -> float:
        """The time that neither the arithmetic nor the memory lets anybody go below."""
        return max(flops / self.flops, moved / self.bandwidth)


def machine_limits(target: Target, threads: int) -> MachineLimits:
    """The limits of this machine, measured now or, where that was done before, from the cache folder.

    Raises CompileError where there is no compiler.
    """
    name = _name(target, threads)
    path = cache.default_cache().find_program(name)
    if path is not None:
        try:
            return MachineLimits(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            pass  # it is measured and written anew
    found = MachineLimits(_flops(target, threads), _bandwidth(target, threads), threads)
    cache.default_cache().keep_program(name, lambda place: _write(place, found))
    return found


def _write(path: Path, found: MachineLimits) -> int:
    return path.write_text(json.dumps(asdict(found)), encoding="utf-8")


def _name(target: Target, threads: int) -> str:
    parts = [target.name, sorted(target.features), target.l3, threads, _processor(), _sources()]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _processor() -> str:
    """What the system calls the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("model name", "CPU part"))), platform.processor())


def _sources() -> list[str]:
    return [kernel("peak_flops", SUMS=SUMS).text, kernel("peak_bandwidth").text]


def _flops(target: Target, threads: int) -> float:
    tasks = 64 * threads
    out = array("f", bytes(4 * tasks))
    segment = _segment("peak_flops", kernel("peak_flops", SUMS=SUMS).text, ["call->output[0]"], 0, target, threads)
    prepared = segment.prepare([ROUNDS, tasks], [], 0, 10**9)
    seconds = _best(lambda: invoke(prepared, 0, out))
    return 2 * SUMS * target.lanes * ROUNDS * tasks / seconds


def _bandwidth(target: Target, threads: int) -> float:
    size = min(max(4 * target.l3, LEAST_BYTES), MOST_BYTES)
    tasks = size // (4 * BLOCK)
    data, out = array("f", bytes(4 * BLOCK)) * tasks, array("f", bytes(4 * tasks))
    buffers = ["call->input[0]", "call->output[0]"]
    segment = _segment("peak_bandwidth", kernel("peak_bandwidth").text, buffers, 1, target, threads)
    prepared = segment.prepare([BLOCK, tasks], [], 0, 10**9)
    return 4 * BLOCK * tasks / _best(lambda: invoke(prepared, 0, data, out))


def _segment(hint: str, source: str, buffers: Sequence[str], inputs: int, target: Target, threads: int) -> SegmentCode:
    driver = CFunction("driver", _DRIVER.replace("$buffers", ", ".join(buffers)), "-O1", ("ig.h",))
    compiler = find_compiler()
    (main,) = cache.ensure([driver], compiler, target)
    (own,) = cache.ensure([CFunction(hint, with_headers(source), "-O3", HEADERS)], compiler, target)
    return SegmentCode(main.address, [own.address], [], inputs, 1, threads)


def _best(run: Callable[[], int]) -> float:
    times: list[float] = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)
