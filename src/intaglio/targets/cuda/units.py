"""Kernels with code on a device: those that a plan needs are compiled together, and loaded once."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable
from threading import Lock

from intaglio.kernels.kernel import Kernel
from intaglio.processor import usable_cores
from intaglio.targets.cuda.compiler import code_of
from intaglio.targets.cuda.device import Device
from intaglio.targets.cuda.functions import DeviceFunction, function_of
from intaglio.workers import map_in_threads

UNIT_LENGTH = 20_000
"""About how many characters of CUDA C++ are compiled together: NVRTC needs 25 ms to begin, and few a kernel."""

Request = tuple[Kernel, str]
"""A kernel and one of its variants."""


class Units:
    """The loaded kernels of a device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._loaded: dict[Request, ctypes.c_void_p] = {}
        self._lock = Lock()
        self.compiled = 0
        """How many kernels were compiled or taken from the cache."""

    def load(self, requests: Iterable[Request]) -> None:
        """Have the code of kernels made and loaded, where it is not there yet."""
        with self._lock:
            missing = [each for each in dict.fromkeys(requests) if each not in self._loaded]
            units = _shared_out(missing)
            texts = [_unit_text(unit) for unit in units]
            architecture = self._device.architecture
            codes = map_in_threads(lambda text: code_of(text, architecture), texts, usable_cores())
            for unit, code in zip(units, codes, strict=True):
                module = self._device.load(code)
                for place, request in enumerate(unit):
                    self._loaded[request] = self._device.function(module, f"kernel{place}")
            self.compiled += len(missing)

    def function(self, request: Request) -> ctypes.c_void_p:
        """A loaded kernel."""
        return self._loaded[request]


def _shared_out(requests: list[Request]) -> list[list[Request]]:
    """The requests in units of about the same length."""
    units: list[list[Request]] = []
    length = UNIT_LENGTH
    for request in sorted(requests, key=lambda each: (each[0].hint, each[1])):
        if length >= UNIT_LENGTH:
            units.append([])
            length = 0
        units[-1].append(request)
        length += len(function_of(request[0]).text)
    return units


def _unit_text(unit: list[Request]) -> str:
    return "\n".join(_named(place, function_of(kernel), variant) for place, (kernel, variant) in enumerate(unit))


def _named(place: int, function: DeviceFunction, variant: str) -> str:
    """A kernel in a namespace of its own; its entry is known outside by its place in the unit."""
    return f"namespace unit{place} {{\n{function.text}\n{function.entry(variant, f'kernel{place}')}}}\n"


@functools.cache
def units_of(device: Device) -> Units:
    """The kernels of a device, which all models share."""
    return Units(device)
