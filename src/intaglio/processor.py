"""What the processor of this machine can do, and how many threads may use it."""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from intaglio.errors import InputError


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


def usable_cores() -> int:
    """How many threads work is given to where nobody says it: those that may run at once, or fewer.

    $INTAGLIO_THREADS makes it fewer, or else $OMP_NUM_THREADS.
    """
    asked = _variable("INTAGLIO_THREADS") or _openmp_threads()
    return min(_free_cores(), asked) if asked else _free_cores()


def granted_threads(wanted: int) -> int:
    """As many threads as are wanted, but no more than $INTAGLIO_THREADS."""
    most = _variable("INTAGLIO_THREADS")
    return min(wanted, most) if most else wanted


def _variable(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise InputError(f"${name} is {text!r}, expected a number of threads from 1 on")
    return int(text)


def _openmp_threads() -> int | None:
    """What OpenMP's variable says for the outermost level; None where it says nothing that is a number."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and int(first) > 0 else None


@functools.cache
def _free_cores() -> int:
    """How many threads may really run at once: the least of the affinity mask and the control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, min(cores, int(quota + 0.5)) if quota else cores)


def _cgroup_quota() -> float | None:
    """Processors that the control group grants, of version 2 or 1; None without a limit."""
    quotas = [quota for folder in _cgroup_folders() if (quota := _folder_quota(folder)) is not None]
    return min(quotas, default=None)


def _cgroup_folders() -> list[Path]:
    root = Path("/sys/fs/cgroup")
    folders = [root, root / "cpu", root / "cpu,cpuacct"]
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return folders
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers or "cpu" in controllers.split(","):
            own = (root / controllers / path.lstrip("/")) if controllers else root / path.lstrip("/")
            folders += [own, *(parent for parent in own.parents if root in parent.parents)]
    return folders


def _folder_quota(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()[:2]
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return int(quota) / int(period) if quota not in ("max", "-1") else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
