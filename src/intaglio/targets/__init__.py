"""Targets: what lowering asks of each, and what runs plans on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from intaglio.errors import InputError

if TYPE_CHECKING:
    from intaglio.targets.executor import Host

DEVICES = ("cpu",)
"""What models run on."""


def executor_for(device: str = "cpu", target: Any = None, *, is_quick: bool = False) -> Host:
    """The executor for a device; `target` describes a processor, None is this machine's.

    With `is_quick` the compiler leaves out what takes it long. Raises InputError for a device that there is none for.
    """
    if device not in DEVICES:
        raise InputError(f"there is no device {device!r}; the devices are {', '.join(map(repr, DEVICES))}")
    from intaglio.targets.c.executor import CExecutor

    return CExecutor(target, is_quick=is_quick)


def executor_from_data(data: dict[str, Any]) -> Host:
    """The executor that `description_data` describes. Raises ValueError for what describes none."""
    from intaglio.targets.c.executor import target_from_data

    return executor_for("cpu", target_from_data(data))
