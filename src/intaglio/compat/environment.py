"""What ONNX Runtime's module says and sets for the whole process."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

from intaglio.compat import messages
from intaglio.compat.devices import PROVIDER, OrtEpDevice
from intaglio.compat.messages import WARNING
from intaglio.errors import InputError, UnsupportedError
from intaglio.processor import usable_cores
from intaglio.version import __version__ as own_version

__version__ = "1.31.0"
"""The version of ONNX Runtime whose interface this is, for code that asks for one."""

package_name = "onnxruntime"
version = __version__
cuda_version = ""


class _Process:
    """What was set for all sessions of the process."""

    threads = 0
    seed: int | None = None


process = _Process()


def get_available_providers() -> list[str]:
    """Where models can run: on the CPU."""
    return [PROVIDER]


def get_all_providers() -> list[str]:
    """Where models can run: on the CPU."""
    return [PROVIDER]


def get_ep_devices() -> list[OrtEpDevice]:
    """The devices that models can run on: the CPU."""
    return [OrtEpDevice()]


def get_device() -> str:
    """Always `CPU`."""
    return "CPU"


def get_version_string() -> str:
    """The version of ONNX Runtime whose interface this is."""
    return __version__


def get_build_info() -> str:
    """Intaglio's version and the machine in one line."""
    return f"intaglio {own_version}, {ctypes.sizeof(ctypes.c_void_p) * 8} bit, {usable_cores()} threads, {os.name}"


def print_debug_info() -> None:
    """Print what runs here: Intaglio, its version and the machine."""
    print(f"intaglio {own_version} in the place of onnxruntime {__version__}")
    print(f"platform: {platform.platform()}\nPython: {platform.python_version()}\n{get_build_info()}")


def has_collective_ops() -> bool:
    """Never: there is one process and one device."""
    return False


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """The threads of sessions whose options say `use_per_session_threads = False`; 0 is as many as may run.

    Nodes run one after another: `inter_op_num_threads` has no effect, which a line on stderr says where it is above 1.
    """
    if inter_op_num_threads > 1:
        messages.tell(
            f"inter_op_num_threads = {inter_op_num_threads} has no effect: nodes run one after another", WARNING
        )
    if intra_op_num_threads < 0:
        raise InputError(f"intra_op_num_threads is {intra_op_num_threads}, expected at least 0")
    process.threads = int(intra_op_num_threads)


def set_seed(seed: int) -> None:
    """Ask for random numbers that come again.

    Sessions that are made afterwards refuse models with random operators that have no seed of their own, since their
    numbers are new in each run. All other models give the same numbers in each run anyway.
    """
    process.seed = int(seed)


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: Any = None) -> None:
    """Nothing to load: compiled code needs no libraries of devices. A `directory` of such is refused."""
    if directory is not None:
        raise UnsupportedError(f"libraries of CUDA in {directory!r} cannot be used here: models run on the CPU")
    if not all(isinstance(flag, bool) for flag in (cuda, cudnn, msvc)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError("cuda, cudnn and msvc are True or False")


def disable_telemetry_events() -> None:
    """Nothing to disable: there is no telemetry."""
