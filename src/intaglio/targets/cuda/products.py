"""Matrix products by cuBLASLt."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from intaglio.errors import DeviceError
from intaglio.targets.cuda.libraries import library
from intaglio.targets.cuda.library_calls import LibraryWork

WORKSPACE = 32 << 20
_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
_COMPUTE = {"float32": 68, "float64": 70, "float16": 68, "bfloat16": 68, "tf32": 77}
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS = 3, 4, 7, 8
_BATCH_COUNT, _BATCH_STEP = 5, 6
_WORKSPACE_BYTES = 1
_EPILOGUES = {"": 1, "_relu": 2, "bias": 4, "bias_relu": 6}


class _Found(ctypes.Structure):
    """What the library suggests for a product."""

    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


def _check(function: str, *arguments: Any) -> None:
    status: int = getattr(library("libcublasLt"), function)(*arguments)
    if status:
        raise DeviceError(f"{function} failed with the status {status}")


@functools.cache
def _handle(device: int) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    _check("cublasLtCreate", ctypes.byref(handle))
    return handle


class _Description:
    """A description that the library keeps, until this object goes."""

    def __init__(self, kind: str, *arguments: Any) -> None:
        self.kind = kind
        self.handle = ctypes.c_void_p()
        _check(f"cublasLt{kind}Create", ctypes.byref(self.handle), *arguments)

    def set(self, attribute: int, value: Any) -> None:
        """Set an attribute to a number of C."""
        _check(
            f"cublasLt{self.kind}SetAttribute",
            self.handle,
            attribute,
            ctypes.byref(value),
            ctypes.c_size_t(ctypes.sizeof(value)),
        )

    def __del__(self) -> None:
        if self.handle:
            getattr(library("libcublasLt"), f"cublasLt{self.kind}Destroy")(self.handle)


def _matrix(type: int, rows: int, columns: int, step: int, batch: int, batch_step: int) -> _Description:
    found = _Description("MatrixLayout", type, ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(step))
    found.set(_BATCH_COUNT, ctypes.c_int32(batch))
    found.set(_BATCH_STEP, ctypes.c_int64(batch_step))
    return found


def product_call(work: LibraryWork) -> Callable[[], None]:
    """The product of matrices whose rows lie in order: c[m][n] = sum over k of a[m][k] * b[k][n], for each of a batch.

    The library has columns in order, so it is asked for the transposed product of b and a.
    """
    form, size = dict(work.call.parameters), work.sizes
    a, b, *more, c = work.addresses
    result_type = _TYPES[str(form["result"])]
    m, n, k, batch = size["m"], size["n"], size["k"], size["batch"]
    if m == 0 or n == 0 or batch == 0:
        return lambda: None
    item = {"float64": 8, "float32": 4}.get(str(form["result"]), 2)
    if k == 0 and not form["follows"]:
        return lambda: _cleared(work, c, batch, m, n, item)
    type = _TYPES[str(form["element"])]
    compute = _COMPUTE["tf32" if form.get("tf32") else str(form["element"])]
    scale = ctypes.c_double if type == 1 else ctypes.c_float
    description = _Description("MatmulDesc", compute, 1 if type == 1 else 0)
    description.set(_TRANSPOSE_A, ctypes.c_int32(int(form["b_turned"])))
    description.set(_TRANSPOSE_B, ctypes.c_int32(int(form["a_turned"])))
    description.set(_EPILOGUE, ctypes.c_int32(_EPILOGUES[str(form["follows"])]))
    if more:
        description.set(_BIAS, ctypes.c_void_p(more[0]))
    left = (k, n) if form["b_turned"] else (n, k)
    right = (m, k) if form["a_turned"] else (k, m)
    first = _matrix(type, *left, max(size["b_step"], left[0]), batch, size["b_batch"])
    second = _matrix(type, *right, max(size["a_step"], right[0]), batch, size["a_batch"])
    result = _matrix(result_type, n, m, max(size["c_step"], n), batch, size["c_batch"])
    handle, found = _handle(work.device.number), _suggested(work, description, first, second, result)
    workspace = work.scratch(WORKSPACE)
    one, zero = scale(1), scale(0)

    def run() -> None:
        _check(
            "cublasLtMatmul", handle, description.handle, ctypes.byref(one),
            ctypes.c_uint64(b), first.handle, ctypes.c_uint64(a), second.handle, ctypes.byref(zero),
            ctypes.c_uint64(c), result.handle, ctypes.c_uint64(c), result.handle,
            ctypes.byref(found.algorithm), ctypes.c_uint64(workspace), ctypes.c_size_t(WORKSPACE), work.device.stream,
        )  # fmt: skip

    return run


def _cleared(work: LibraryWork, c: int, batch: int, m: int, n: int, item: int) -> None:
    """Fill results with zeros, which are sums of nothing."""
    for number in range(batch):
        for row in range(m):
            place = number * work.sizes["c_batch"] + row * work.sizes["c_step"]
            work.device.clear(c + place * item, n * item)


def _suggested(work: LibraryWork, description: _Description, *matrices: _Description) -> _Found:
    """The way that the library thinks is the fastest."""
    preference = _Description("MatmulPreference")
    preference.set(_WORKSPACE_BYTES, ctypes.c_uint64(WORKSPACE))
    found, count = _Found(), ctypes.c_int()
    first, second, result = (each.handle for each in matrices)
    _check(
        "cublasLtMatmulAlgoGetHeuristic", _handle(work.device.number), description.handle, first, second, result,
        result, preference.handle, 1, ctypes.byref(found), ctypes.byref(count),
    )  # fmt: skip
    if not count.value:
        raise DeviceError(f"cuBLASLt has no product for the sizes {dict(work.sizes)}")
    return found
