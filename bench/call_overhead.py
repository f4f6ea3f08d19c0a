"""The cost of one call from Python with one array in and one out, by the ways to make it."""

import ctypes
import timeit
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from intaglio.targets.c import cache, native
from intaglio.targets.c.cache import CFunction
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.target import host_target

PLAIN = "int32_t IG_FUNCTION(const float *x, float *y) { y[0] = x[0] + 1; return 0; }"
DRIVER = """
int32_t IG_FUNCTION(const ig_call *call) {
    ((float *)call->output[0])[0] = ((const float *)call->input[0])[0] + 1;
    return 0;
}
"""


def microseconds(function: Callable[[], object]) -> float:
    return min(timeit.repeat(function, number=20_000, repeat=9)) / 20_000 * 1e6


def candidates() -> dict[str, Callable[[], object]]:
    functions = [CFunction("plain", PLAIN, headers=("ig.h",)), CFunction("driver", DRIVER, "-O1", ("ig.h",))]
    plain, driver = cache.ensure(functions, find_compiler(), host_target())
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    handle = native.SegmentCode(driver.address, [], [], 1, 1, 2).prepare([], [], 0, 0).handle
    checked = native.SegmentCode(driver.address, [], [], 1, 1, 2).prepare([], [], 1 << 16, 0, [16, 16]).handle
    invoke = native.invoke_function()
    pointers = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(plain.address)
    byte: Any = ctypes.c_char
    return {
        "extension: invoke": lambda: invoke(handle, 0, x, y),
        "extension: invoke with arena, sizes and timeout": lambda: invoke(checked, 10**9, x, y),
        "ctypes with from_buffer": lambda: pointers(
            ctypes.addressof(byte.from_buffer(x)), ctypes.addressof(byte.from_buffer(y))
        ),
        "ctypes with ndarray.ctypes.data": lambda: pointers(x.ctypes.data, y.ctypes.data),
        **cffi_candidate(plain.address, x, y),
    }


def cffi_candidate(address: int, x: object, y: object) -> dict[str, Callable[[], object]]:
    try:
        import cffi  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        return {}
    ffi = cast("Any", cffi).FFI()
    function, pointer = ffi.cast("int32_t (*)(const float *, float *)", address), ffi.typeof("float[]")
    return {"cffi with from_buffer": lambda: function(ffi.from_buffer(pointer, x), ffi.from_buffer(pointer, y))}


def main() -> None:
    for name, function in candidates().items():
        print(f"{name:50} {microseconds(function):6.2f} us")


if __name__ == "__main__":
    main()
