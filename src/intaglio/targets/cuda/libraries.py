"""Finds NVIDIA's libraries: in their wheels, in those that PyTorch brings, in the system's CUDA."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from intaglio.errors import DeviceError

_SYSTEM = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/usr/lib/x86_64-linux-gnu")
_WHEELS = {
    "libnvrtc": ("nvidia-cuda-nvrtc", ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib")),
    "libcublasLt": ("nvidia-cublas", ("nvidia/cu13/lib", "nvidia/cublas/lib")),
    "libcudnn": ("nvidia-cudnn-cu13", ("nvidia/cudnn/lib",)),
}
"""For each library the wheel that brings it, and where it lies in there."""


def _candidates(name: str) -> Iterator[Path]:
    for folder in _WHEELS[name][1]:
        for entry in sys.path:
            yield from _versions(Path(entry or ".") / folder, name)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield from _versions(Path(os.environ[variable]) / "lib64", name)
    for folder in _SYSTEM:
        yield from _versions(Path(folder), name)


def _versions(folder: Path, name: str) -> Iterator[Path]:
    """The files of a library in a folder, the newest first."""
    found = [path for path in folder.glob(f"{name}.so*") if path.is_file()] if folder.is_dir() else []
    return iter(sorted(found, key=lambda path: path.name, reverse=True))


def find(name: str) -> Path | None:
    """The file of a library; None where there is none."""
    return next(_candidates(name), None)


@functools.cache
def library(name: str) -> ctypes.CDLL:
    """A library, loaded once; raises DeviceError that names the wheel which brings it."""
    path = find(name)
    if path is None:
        raise DeviceError(f"{name} is not installed: pip install {_WHEELS[name][0]}")
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(f"{path.name} cannot be loaded: {error}") from None


@functools.cache
def driver() -> ctypes.CDLL:
    """The library of the device's driver; raises DeviceError where none is installed."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise DeviceError("no NVIDIA driver is installed here (libcuda.so.1 is missing); use device='cpu'") from None
