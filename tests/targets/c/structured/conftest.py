"""Compiles structured kernels and runs them over guarded memory."""

import ctypes
import functools
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.present import compiler

from intaglio.ir.substitution import evaluate
from intaglio.processor import cpu_features
from intaglio.targets.c.kernel_file import instance
from intaglio.targets.c.structured.source import StructuredKernel, plain_epilogue
from intaglio.targets.c.target import TARGETS, Target, host_target

Array = np.ndarray[Any, Any]
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Runner:
    """A compiled kernel; `run` gives its result for the given operands and sizes."""

    kernel: StructuredKernel
    library: ctypes.CDLL

    def run(self, operands: Sequence[Array], out: Array, sizes: dict[str, int], extra: Sequence[int] = (), *,
            threads: int = 1, step: int | None = None) -> Array:  # fmt: skip
        """`out` as the kernel fills it, in pieces of `step` tasks; operands end at a page that must not be read."""
        work = self.kernel.work({name: sizes.get(name, 0) for name in self.kernel.sizes})
        values = [sizes.get(name, evaluate(dim, {}, threads)) for name, dim in work.sizes.items()]
        tasks, scratch_bytes = evaluate(work.tasks, {}, threads), evaluate(work.scratch, {}, threads)
        size = (ctypes.c_int64 * (len(values) + len(extra)))(*values, *extra)
        guarded = [Guarded(operand) for operand in (*operands, out)]
        scratch = Guarded(np.full(scratch_bytes // 4 + 16, np.nan, np.float32))
        buffers = (ctypes.c_void_p * len(guarded))(*(g.address for g in guarded))
        for begin in range(0, tasks, step or max(1, tasks)):
            end = min(tasks, begin + (step or tasks))
            self.library.kernel(buffers, size, ctypes.c_int64(begin), ctypes.c_int64(end), scratch.aligned)
        result = guarded[-1].array.copy()
        for g in (*guarded, scratch):
            g.close()
        return result


class Guarded:
    """A copy of an array whose last byte is followed by a page that can be neither read nor written."""

    def __init__(self, array: Array) -> None:
        page = mmap.PAGESIZE
        self.length = (array.nbytes + page - 1) // page * page + page
        _LIBC.mmap.restype = ctypes.c_void_p
        base = _LIBC.mmap(None, ctypes.c_size_t(self.length), 3, 0x22, -1, ctypes.c_int64(0))
        assert base not in (None, ctypes.c_void_p(-1).value)
        self.base: int = base
        assert _LIBC.mprotect(ctypes.c_void_p(base + self.length - page), ctypes.c_size_t(page), 0) == 0
        self.address = base + self.length - page - array.nbytes
        memory = memoryview((ctypes.c_char * array.nbytes).from_address(self.address))
        self.array: Array = np.frombuffer(memory, array.dtype).reshape(array.shape)
        self.array[...] = array

    @property
    def aligned(self) -> ctypes.c_void_p:
        """The first 64-byte boundary; scratch arrays have room for the shift."""
        return ctypes.c_void_p((self.address + 63) // 64 * 64)

    def close(self) -> None:
        """Give the memory back."""
        _LIBC.munmap(ctypes.c_void_p(self.base), ctypes.c_size_t(self.length))


def _targets() -> list[Target]:
    host = host_target()
    names = ["sse2", *(["avx2"] if "avx2" in cpu_features() else [])]
    return [*(TARGETS[name] for name in names if name != host.name), host]


@pytest.fixture(scope="session", params=_targets(), ids=lambda target: target.name)
def target(request: pytest.FixtureRequest) -> Target:
    return request.param


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Callable[[StructuredKernel, Target, str], Runner]:
    """Compiles a kernel with an epilogue that only stores."""
    folder = tmp_path_factory.mktemp("structured")

    @functools.cache
    def library(source: str, target_name: str) -> ctypes.CDLL:
        path: Path = folder / f"{target_name}_{abs(hash(source))}.so"
        compiler().compile_unit(source, path, next(t for t in _targets() if t.name == target_name))
        return ctypes.CDLL(str(path))

    def build(kernel: StructuredKernel, target: Target, epilogue: str) -> Runner:
        if epilogue == "plain":
            epilogue = instance(plain_epilogue("float32", len(kernel.buffers), len(kernel.sizes))).text
        if epilogue == "plain64":
            epilogue = instance(plain_epilogue("float64", len(kernel.buffers), len(kernel.sizes))).text
        source = '#include "ig.h"\n#include "ig_loop.h"\n#pragma GCC visibility push(default)\n'
        source += kernel.named("kernel", epilogue)
        return Runner(kernel, library(source, target.name))

    return build
