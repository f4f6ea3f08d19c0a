"""What the processor of this machine can do."""

from __future__ import annotations

import functools
import platform
from pathlib import Path


@functools.cache
def cpu_features() -> frozenset[str]:
    """The feature names of this processor, as /proc/cpuinfo spells them; what the architecture implies elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        if line.startswith(("flags", "Features")):
            return frozenset(line.partition(":")[2].split())
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        return frozenset({"sse2"})
    return frozenset({"asimd"}) if machine in ("aarch64", "arm64") else frozenset()
