"""Convolutions of images with their channels last, by cuDNN's graph interface."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from intaglio.errors import DeviceError
from intaglio.targets.cuda.libraries import library
from intaglio.targets.cuda.library_calls import LibraryWork

_TYPES = {"float32": 0, "float16": 2, "bfloat16": 9}
# kinds of descriptions
_CONVOLUTION, _ENGINE, _CONFIGURATION, _HEURISTICS, _PLAN = 1, 2, 3, 4, 5
_FORWARD, _OPERATIONS, _ARGUMENTS, _TENSOR = 10, 15, 16, 17
# types of attributes
_HANDLE, _DATA_TYPE, _BOOLEAN, _INT64, _FLOAT, _POINTER = 0, 1, 2, 3, 4, 6
_MODE, _HEURISTIC, _NOTE, _DESCRIPTION = 7, 8, 11, 15
_TENSOR_CORES, _NARROWED, _NARROW_SUMS = 0, 1, 2
"""Notes of an engine: that it uses tensor cores, narrows its operands, or sums in a narrow type."""
_MOST_CANDIDATES = 8
MOST_WORKSPACE = 256 << 20


def _check(function: str, *arguments: Any) -> None:
    status: int = getattr(library("libcudnn"), function)(*arguments)
    if status:
        raise DeviceError(f"{function} failed with the status {status}")


@functools.cache
def _handle(device: int) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    _check("cudnnCreate", ctypes.byref(handle))
    return handle


class _Description:
    """A description that the library keeps, until this object goes."""

    def __init__(self, kind: int) -> None:
        self.handle = ctypes.c_void_p()
        self._held: list[Any] = []
        _check("cudnnBackendCreateDescriptor", kind, ctypes.byref(self.handle))

    def set(self, name: int, type: int, *values: Any) -> _Description:
        """Set an attribute to some values of one type; descriptions among them are kept as long as this one."""
        kinds: dict[int, Any] = {_INT64: ctypes.c_int64, _FLOAT: ctypes.c_float, _BOOLEAN: ctypes.c_bool}
        if type in (_HANDLE, _POINTER, _DESCRIPTION):
            self._held += values
            given = [value.handle if isinstance(value, _Description) else value for value in values]
            array: Any = (ctypes.c_void_p * len(values))(*[getattr(value, "value", value) for value in given])
        else:
            array = (kinds.get(type, ctypes.c_int) * len(values))(*values)
        _check("cudnnBackendSetAttribute", self.handle, name, type, ctypes.c_int64(len(values)), array)
        return self

    def finalized(self) -> _Description:
        """The description, complete now; raises DeviceError where it does not hold together."""
        _check("cudnnBackendFinalize", self.handle)
        return self

    def number(self, name: int) -> int:
        """An attribute that is one whole number."""
        value, count = ctypes.c_int64(), ctypes.c_int64()
        _check(
            "cudnnBackendGetAttribute",
            self.handle,
            name,
            _INT64,
            ctypes.c_int64(1),
            ctypes.byref(count),
            ctypes.byref(value),
        )
        return value.value

    def listed(self, name: int, kind: int, most: int) -> list[_Description]:
        """An attribute that is a list of descriptions."""
        found = [_Description(kind) for _ in range(most)]
        array, count = (ctypes.c_void_p * most)(*[each.handle.value for each in found]), ctypes.c_int64()
        _check(
            "cudnnBackendGetAttribute",
            self.handle,
            name,
            _DESCRIPTION,
            ctypes.c_int64(most),
            ctypes.byref(count),
            array,
        )
        return found[: count.value]

    def notes(self, name: int) -> set[int]:
        """An attribute that is a list of notes."""
        array, count = (ctypes.c_int * 16)(), ctypes.c_int64()
        _check("cudnnBackendGetAttribute", self.handle, name, _NOTE, ctypes.c_int64(16), ctypes.byref(count), array)
        return set(array[: min(16, count.value)])

    def __del__(self) -> None:
        if self.handle:
            library("libcudnn").cudnnBackendDestroyDescriptor(self.handle)


def convolution_call(work: LibraryWork) -> Callable[[], None]:
    """The convolution of an image with kernels whose channels are last too."""
    if min(work.sizes[name] for name in ("n", "c", "h", "w", "k", "p", "q")) <= 0:
        return lambda: None
    plan, workspace = _planned(work)
    scratch = work.scratch(workspace)
    arguments = _Description(_ARGUMENTS)
    arguments.set(1000, _INT64, 1, 2, 3)
    arguments.set(1001, _POINTER, *work.addresses)
    arguments.set(1003, _POINTER, scratch or None)
    arguments.finalized()
    handle, stream = _handle(work.device.number), work.device.stream

    def run() -> None:
        _check("cudnnSetStream", handle, stream)
        _check("cudnnBackendExecute", handle, plan.handle, arguments.handle)

    return run


def _planned(work: LibraryWork) -> tuple[_Description, int]:
    """The first way that the library suggests and can go, and the memory that it needs."""
    form = dict(work.call.parameters)
    graph = _graph(work)
    for configuration in _candidates(graph):
        if not _is_allowed(configuration, str(form["element"]), bool(form.get("tf32"))):
            continue
        try:
            plan = _Description(_PLAN).set(401, _DESCRIPTION, configuration)
            plan.set(400, _HANDLE, _handle(work.device.number))
            plan.finalized()
            workspace = plan.number(402)
        except DeviceError:
            continue
        if workspace <= MOST_WORKSPACE:
            return plan, workspace
    raise DeviceError(f"cuDNN has no convolution of {form['element']} for the sizes {dict(work.sizes)}")


def _graph(work: LibraryWork) -> _Description:
    """One convolution as a graph of operations."""
    size, type = work.sizes, _TYPES[str(dict(work.call.parameters)["element"])]
    image = _tensor(1, type, (size["n"], size["c"], size["h"], size["w"]))
    kernels = _tensor(2, type, (size["k"], size["depth"], size["r"], size["s"]))
    result = _tensor(3, type, (size["n"], size["k"], size["p"], size["q"]))
    form = _Description(_CONVOLUTION)
    form.set(100, _DATA_TYPE, 0).set(101, _MODE, 1).set(106, _INT64, 2)
    form.set(102, _INT64, size["dilation0"], size["dilation1"]).set(103, _INT64, size["stride0"], size["stride1"])
    form.set(104, _INT64, size["end0"], size["end1"]).set(105, _INT64, size["pad0"], size["pad1"])
    operation = _Description(_FORWARD)
    operation.set(702, _DESCRIPTION, form.finalized())
    for name, tensor in ((703, kernels), (704, image), (705, result)):
        operation.set(name, _DESCRIPTION, tensor)
    operation.set(700, _FLOAT, 1.0).set(701, _FLOAT, 0.0)
    graph = _Description(_OPERATIONS).set(801, _DESCRIPTION, operation.finalized())
    return graph.set(800, _HANDLE, _handle(work.device.number)).finalized()


def _tensor(name: int, type: int, shape: Sequence[int]) -> _Description:
    """Four axes as the library names them, of which the second lies last in memory."""
    n, c, h, w = shape
    tensor = _Description(_TENSOR).set(901, _DATA_TYPE, type).set(902, _INT64, n, c, h, w)
    return tensor.set(903, _INT64, c * h * w, 1, c * w, c).set(906, _INT64, name).set(900, _INT64, 16).finalized()


def _candidates(graph: _Description) -> Iterator[_Description]:
    """What the library suggests, best first; what always works comes last."""
    for mode in (3, 2):
        heuristics = _Description(_HEURISTICS).set(201, _DESCRIPTION, graph).set(200, _HEURISTIC, mode)
        try:
            found = heuristics.finalized().listed(202, _CONFIGURATION, _MOST_CANDIDATES)
        except DeviceError:
            continue
        for each in found:
            each._held.append(graph)  # pyright: ignore[reportPrivateUsage]
        yield from found


def _is_allowed(configuration: _Description, element: str, tf32: bool) -> bool:
    """Whether an engine keeps the precision that was asked for."""
    (engine,) = configuration.listed(300, _ENGINE, 1)
    notes = engine.notes(1303)
    if element == "float32" and not tf32:
        return not notes & {_TENSOR_CORES, _NARROWED}
    return _NARROW_SUMS not in notes
