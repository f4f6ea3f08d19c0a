"""Devices, memory and providers: there is the CPU."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from intaglio.compat.enums import (
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtHardwareDeviceType,
    OrtMemType,
)
from intaglio.errors import InputError, UnsupportedError

PROVIDER = "CPUExecutionProvider"


def check_device(device: Any, device_id: int = 0, vendor_id: int = -1) -> None:
    """Raise for any device but the CPU, which is a name or an `OrtDevice`."""
    name = "cpu" if isinstance(device, OrtDevice) else str(device)
    if name.lower() != "cpu":
        raise UnsupportedError(f"the device {name!r} is not supported: values live in the CPU's memory ('cpu')")
    if device_id != 0 or vendor_id not in (-1, 0):
        raise UnsupportedError(f"there is one CPU, with the number 0 and no vendor; got {device_id} and {vendor_id}")


class OrtDevice:
    """The CPU as a device."""

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """The device of this name; only the CPU is one."""
        check_device(ort_device_name, device_id, vendor_id)
        return OrtDevice()

    def _get_c_device(self) -> OrtDevice:
        return self

    @staticmethod
    def cpu() -> int:
        """The number of the CPU among the types of devices."""
        return 0

    @staticmethod
    def default_memory() -> int:
        """The number of ordinary memory."""
        return 0

    def device_id(self) -> int:
        """Always 0."""
        return 0

    def device_type(self) -> int:
        """Always 0, the CPU."""
        return 0

    def device_vendor_id(self) -> int:
        """Always 0, none."""
        return 0

    def device_mem_type(self) -> int:
        """Always 0, ordinary memory."""
        return 0


@dataclass(frozen=True)
class OrtMemoryInfo:
    """Where a value lives."""

    name: str = "Cpu"
    allocator_type: OrtAllocatorType = OrtAllocatorType.ORT_ARENA_ALLOCATOR
    device_id: int = 0
    mem_type: OrtMemType = OrtMemType.DEFAULT
    device_mem_type: OrtDeviceMemoryType = OrtDeviceMemoryType.DEFAULT
    device_vendor_id: int = 0

    def __post_init__(self) -> None:
        if self.name.lower() != "cpu" or self.device_id:
            raise UnsupportedError(f"the memory {self.name!r} {self.device_id} is not supported: there is 'Cpu' 0")

    @staticmethod
    def create_v2(*arguments: Any) -> NoReturn:
        """Always refused: there is no memory but the CPU's, which `OrtMemoryInfo` describes."""
        raise UnsupportedError("there is no memory but the CPU's, which OrtMemoryInfo() describes")


@dataclass(frozen=True)
class OrtHardwareDevice:
    """A processor."""

    type: OrtHardwareDeviceType = OrtHardwareDeviceType.CPU
    vendor: str = field(default_factory=platform.machine)
    vendor_id: int = OrtDeviceVendorId.NONE
    device_id: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class OrtEpDevice:
    """A provider on a processor."""

    ep_name: str = PROVIDER
    ep_vendor: str = "Intaglio"
    ep_metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    ep_options: Mapping[str, str] = field(default_factory=dict[str, str])
    device: OrtHardwareDevice = field(default_factory=OrtHardwareDevice)

    def memory_info(self, memory_type: OrtDeviceMemoryType) -> OrtMemoryInfo:
        """Where values of this device live."""
        return OrtMemoryInfo(device_mem_type=OrtDeviceMemoryType(memory_type))

    def create_sync_stream(self) -> NoReturn:
        """Always refused: a CPU has no streams."""
        raise UnsupportedError("the CPU has no streams")


@dataclass(frozen=True)
class OrtEpAssignedNode:
    """A node that a provider runs."""

    name: str
    domain: str
    op_type: str


@dataclass(frozen=True)
class OrtEpAssignedSubgraph:
    """The nodes that one provider runs."""

    ep_name: str
    nodes: tuple[OrtEpAssignedNode, ...]

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """The nodes in order."""
        return list(self.nodes)


ProviderList = Sequence[str | tuple[str, Mapping[str, Any]]]


def split_providers(
    providers: ProviderList | None, options: Sequence[Mapping[str, Any]] | None
) -> tuple[list[str], dict[str, str]]:
    """The names of providers, and the options of the CPU."""
    if options is not None and len(options) != len(providers or ()):
        raise InputError(f"{len(options)} provider_options for {len(providers or ())} providers, expected as many")
    pairs = [item if isinstance(item, tuple) else (item, {}) for item in providers or ()]
    if options is not None:
        pairs = [(name, own) for (name, _), own in zip(pairs, options, strict=True)]
    found = {str(key): str(value) for name, own in pairs if name == PROVIDER for key, value in (own or {}).items()}
    check_provider_options(found)
    return [name for name, _ in pairs], found


_CPU_OPTIONS = {"arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"), "use_arena": ("0", "1")}


def check_provider_options(options: Mapping[str, str]) -> None:
    """Raise for options of the CPU's provider that say what is not done here."""
    for name, value in options.items():
        accepted = _CPU_OPTIONS.get(name)
        if accepted is None:
            raise InputError(f"{PROVIDER} has no option {name!r}; it has {', '.join(_CPU_OPTIONS)}")
        if value not in accepted:
            raise UnsupportedError(f"{PROVIDER} has {name} = {' or '.join(accepted)} only, got {value!r}")


def ignored_provider_hints(options: Mapping[str, str]) -> Iterator[str]:
    """What options of the CPU's provider ask for and does not happen, with the reason."""
    if options.get("arena_extend_strategy") == "kNextPowerOfTwo":
        yield "arena_extend_strategy = kNextPowerOfTwo has no effect: memory is planned, and takes what the plan needs"
