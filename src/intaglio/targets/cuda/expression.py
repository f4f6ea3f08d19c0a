"""Expressions of the kernel language in CUDA C++: as in plain C, with the device's own conversions."""

from __future__ import annotations

from intaglio.targets.plain.expression import Helpers


class DeviceHelpers(Helpers):
    """The small functions that kernels use; the prelude has those of 16-bit formats."""

    def half(self, format: str) -> None:
        """Write down nothing: the device converts 16-bit formats by instructions of its own."""
