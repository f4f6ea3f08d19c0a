"""Targets: what lowering asks of each, and what runs plans on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from intaglio.errors import InputError

if TYPE_CHECKING:
    from intaglio.targets.executor import Host

_CUDA = re.compile(r"cuda(?::(\d{1,3}))?")


def executor_for(device: str = "cpu", target: Any = None, *, is_quick: bool = False, tf32: bool = False) -> Host:
    """The executor for a device: "cpu", "cuda" or "cuda:1"; `target` describes a processor, None is this machine's.

    With `is_quick` the compiler leaves out what takes it long. With `tf32` a CUDA device may round operands of products
    of single precision. Raises InputError for a device of another name.
    """
    cuda = _CUDA.fullmatch(device)
    if cuda is not None:
        from intaglio.targets.cuda.executor import CudaExecutor

        return CudaExecutor(int(cuda[1] or 0), tf32=tf32)
    if device != "cpu":
        raise InputError(f"there is no device {device!r}; the devices are 'cpu', 'cuda' and 'cuda:NUMBER'")
    from intaglio.targets.c.executor import CExecutor

    return CExecutor(target, is_quick=is_quick)


def cuda_devices() -> Sequence[str]:
    """The names of the CUDA devices of this machine; none where there is no driver."""
    from intaglio.targets.cuda.device import devices

    return devices()


def executor_from_data(data: dict[str, Any]) -> Host:
    """The executor that `description_data` describes. Raises ValueError for what describes none."""
    from intaglio.targets.c.executor import target_from_data

    return executor_for("cpu", target_from_data(data))
