"""One CUDA device: memory, streams, code, launches and graphs, by the driver's own interface."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from intaglio.errors import DeviceError, LimitError
from intaglio.targets.cuda.libraries import driver

_OUT_OF_MEMORY = 2
_ATTRIBUTES = {"multiprocessors": 16, "major": 75, "minor": 76}
_OLDEST = 80
"""The oldest architecture that has the instructions which kernels use."""


class Device:
    """A device with a stream of its own; every call names the context, so threads may share it."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self._process = os.getpid()
        self._check("cuInit", 0)
        count = ctypes.c_int()
        self._check("cuDeviceGetCount", ctypes.byref(count))
        if number >= count.value:
            raise DeviceError(f"there is no CUDA device {number}: the driver sees {count.value}")
        handle = ctypes.c_int()
        self._check("cuDeviceGet", ctypes.byref(handle), number)
        self._device = handle
        self._context = ctypes.c_void_p()
        self._check("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), handle)
        self.architecture = 10 * self._attribute("major") + self._attribute("minor")
        self.multiprocessors = self._attribute("multiprocessors")
        if self.architecture < _OLDEST:
            raise DeviceError(
                f"{self.name} has the architecture sm_{self.architecture}; sm_{_OLDEST} is the oldest that works"
            )
        self.enter()
        self.stream = ctypes.c_void_p()
        self._check("cuStreamCreate", ctypes.byref(self.stream), 1)

    def _attribute(self, name: str) -> int:
        value = ctypes.c_int()
        self._check("cuDeviceGetAttribute", ctypes.byref(value), _ATTRIBUTES[name], self._device)
        return value.value

    @property
    def name(self) -> str:
        """What the device is called."""
        buffer = ctypes.create_string_buffer(128)
        self._check("cuDeviceGetName", buffer, 128, self._device)
        return buffer.value.decode()

    def enter(self) -> None:
        """Make the device's context that of this thread; raises DeviceError in a child of the process."""
        if os.getpid() != self._process:
            raise DeviceError("CUDA does not survive fork: load the model in the child, or start it with 'spawn'")
        self._check("cuCtxSetCurrent", self._context)

    def _check(self, function: str, *arguments: Any) -> None:
        status: int = getattr(driver(), function)(*arguments)
        if status:
            raise DeviceError(f"{function}: {_message(status)}")

    def free_bytes(self) -> tuple[int, int]:
        """The memory that is free, and all of it."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._check("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size: int, what: str) -> Memory:
        """Memory of the device; raises LimitError that says who asked for how much."""
        address = ctypes.c_uint64()
        status: int = driver().cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(1, size)))
        if status == _OUT_OF_MEMORY:
            free, total = self.free_bytes()
            raise LimitError(f"{what} asks for {size} bytes of {self.name}, which has {free} of {total} left")
        if status:
            raise DeviceError(f"cuMemAlloc of {size} bytes for {what}: {_message(status)}")
        return Memory(self, address.value, size)

    def upload(self, address: int, source: int, size: int) -> None:
        """Copy from the host's memory, in the order of the stream; the source may be changed when this returns."""
        if size:
            self._check(
                "cuMemcpyHtoDAsync_v2",
                ctypes.c_uint64(address),
                ctypes.c_void_p(source),
                ctypes.c_size_t(size),
                self.stream,
            )

    def download(self, target: int, address: int, size: int) -> None:
        """Copy to the host's memory; the caller waits for the stream before it reads."""
        if size:
            self._check(
                "cuMemcpyDtoHAsync_v2",
                ctypes.c_void_p(target),
                ctypes.c_uint64(address),
                ctypes.c_size_t(size),
                self.stream,
            )

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy within the device."""
        if size:
            self._check(
                "cuMemcpyDtoDAsync_v2",
                ctypes.c_uint64(target),
                ctypes.c_uint64(source),
                ctypes.c_size_t(size),
                self.stream,
            )

    def clear(self, address: int, size: int) -> None:
        """Fill memory with zeros."""
        if size:
            self._check(
                "cuMemsetD8Async", ctypes.c_uint64(address), ctypes.c_ubyte(0), ctypes.c_size_t(size), self.stream
            )

    def wait(self) -> None:
        """Wait until the stream is done; raises DeviceError where a kernel failed."""
        self._check("cuStreamSynchronize", self.stream)

    def load(self, code: bytes) -> ctypes.c_void_p:
        """The module of compiled code."""
        module = ctypes.c_void_p()
        self._check("cuModuleLoadData", ctypes.byref(module), code)
        return module

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        """A kernel of a module."""
        found = ctypes.c_void_p()
        self._check("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
        return found

    def start(self, function: ctypes.c_void_p, blocks: int, threads: int, arguments: Any) -> None:
        """Start a kernel; `arguments` is an array of pointers to each of them."""
        self._check("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, self.stream, arguments, None)

    def capture(self, work: Callable[[], None]) -> Graph:
        """What `work` puts on the stream, as a graph that can be launched again."""
        self._check("cuStreamBeginCapture_v2", self.stream, 2)
        graph = ctypes.c_void_p()
        try:
            work()
        finally:
            self._check("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        try:
            executable = ctypes.c_void_p()
            self._check("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))
        finally:
            self._check("cuGraphDestroy", graph)
        return Graph(self, executable)

    @contextmanager
    def timed(self, found: list[float]) -> Generator[None]:
        """Add the milliseconds that the device needs for what is put on the stream inside of the block."""
        events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in events:
            self._check("cuEventCreate", ctypes.byref(event), 0)
        self._check("cuEventRecord", events[0], self.stream)
        yield
        self._check("cuEventRecord", events[1], self.stream)
        self._check("cuEventSynchronize", events[1])
        elapsed = ctypes.c_float()
        self._check("cuEventElapsedTime", ctypes.byref(elapsed), *events)
        for event in events:
            self._check("cuEventDestroy_v2", event)
        found.append(elapsed.value)


class Memory:
    """Memory of a device, which is given back with this object."""

    def __init__(self, device: Device, address: int, size: int) -> None:
        self.device, self.address, self.size = device, address, size
        self._process = os.getpid()

    def __del__(self) -> None:
        if os.getpid() == self._process and self.address:
            driver().cuMemFree_v2(ctypes.c_uint64(self.address))
            self.address = 0


class Graph:
    """Work that was captured."""

    def __init__(self, device: Device, executable: ctypes.c_void_p) -> None:
        self._device, self._executable, self._process = device, executable, os.getpid()

    def launch(self) -> None:
        """Put all of it on the stream."""
        self._device._check("cuGraphLaunch", self._executable, self._device.stream)  # pyright: ignore[reportPrivateUsage]

    def __del__(self) -> None:
        if os.getpid() == self._process and self._executable:
            driver().cuGraphExecDestroy(self._executable)


def _message(status: int) -> str:
    text = ctypes.c_char_p()
    driver().cuGetErrorString(status, ctypes.byref(text))
    return f"error {status}: {(text.value or b'unknown').decode()}"


@functools.cache
def device(number: int) -> Device:
    """A device by its number, opened once."""
    return Device(number)


def devices() -> Sequence[str]:
    """The names of all devices; none where there is no driver."""
    try:
        driver()
        count = ctypes.c_int()
        if driver().cuInit(0) or driver().cuDeviceGetCount(ctypes.byref(count)):
            return []
        return [device(number).name for number in range(count.value)]
    except DeviceError:
        return []
