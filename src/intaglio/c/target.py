"""The processors that C is generated for."""

import functools
import os
from dataclasses import replace
from pathlib import Path

from intaglio.errors import CompileError, InputError
from intaglio.processor import cpu_features
from intaglio.record import Record

_CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")


class Target(Record):
    """What generated code may assume of a processor.

    `flags` go to the compiler. `l1` and `l2` are the data caches of one core and `l3` the shared one, in bytes; they
    choose block sizes and are no part of the machine code's meaning.
    """

    name: str
    vector_bytes: int
    vector_registers: int
    flags: tuple[str, ...]
    features: frozenset[str] = frozenset()
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 8 << 20

    @property
    def lanes(self) -> int:
        """How many float32 values one vector register holds.

        >>> TARGETS["avx2"].lanes
        8
        """
        return self.vector_bytes // 4


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("c", 16, 16, ("-DIG_PORTABLE",)),
        Target("sse2", 16, 16, ("-march=x86-64",)),
        Target("avx2", 32, 16, ("-march=x86-64-v3",)),
        Target("avx512", 64, 32, ("-march=x86-64-v4", "-mprefer-vector-width=512")),
        Target("neon", 16, 32, ("-march=armv8-a",)),
        Target("wasm", 16, 16, ("-msimd128",)),
    )
}

_REQUIRED = {
    "c": frozenset[str](),
    "sse2": frozenset({"sse2"}),
    "avx2": frozenset({"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"}),
    "avx512": frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma", "bmi2", "f16c"}),
    "neon": frozenset({"asimd"}),
    "wasm": frozenset({"simd128"}),
}

# Beyond a target's baseline: the name in /proc/cpuinfo and the compiler's flag for it, none if only assembly uses it.
_EXTENSIONS = {
    "avx2": {"avx_vnni": "-mavxvnni"},
    "avx512": {"avx512_vnni": "-mavx512vnni", "amx_int8": ""},
}


@functools.cache
def host_target() -> Target:
    """The best target that this machine runs, or the one that $INTAGLIO_TARGET names."""
    wanted = os.environ.get("INTAGLIO_TARGET")
    if wanted:
        return named_target(wanted)
    features = cpu_features()
    for name in ("avx512", "avx2", "sse2", "neon"):
        if features >= _REQUIRED[name]:
            return _for_this_machine(TARGETS[name], features)
    return _for_this_machine(TARGETS["c"], features)


def named_target(name: str) -> Target:
    """The target `name` with this machine's cache sizes; refused when this processor cannot run its code."""
    if name not in TARGETS:
        raise CompileError(f"unknown target {name!r}; INTAGLIO_TARGET is one of {', '.join(TARGETS)}")
    missing = missing_features(TARGETS[name])
    if missing:
        raise CompileError(
            f"target {name!r} needs processor features that this machine lacks: {', '.join(missing)}; "
            "unset INTAGLIO_TARGET to use the best target for this machine"
        )
    return _for_this_machine(TARGETS[name], frozenset())


def missing_features(target: Target) -> list[str]:
    """What this processor lacks to run a target's code."""
    return sorted((_REQUIRED[target.name] | target.features) - cpu_features())


def _for_this_machine(target: Target, features: frozenset[str]) -> Target:
    extensions = {name: flag for name, flag in _EXTENSIONS.get(target.name, {}).items() if name in features}
    sizes = cache_sizes()
    return replace(
        target,
        flags=(*target.flags, *filter(None, extensions.values())),
        features=frozenset(extensions),
        l1=sizes.get(1, target.l1),
        l2=sizes.get(2, target.l2),
        l3=sizes.get(3, target.l3),
    )


@functools.cache
def cache_sizes() -> dict[int, int]:
    """Bytes of each level of data cache that this machine tells of; a level that it does not tell of is absent."""
    sizes: dict[int, int] = {}
    for folder in sorted(_CACHE_FOLDER.glob("index*")):
        try:
            kind, level, size = ((folder / name).read_text().strip() for name in ("type", "level", "size"))
            if kind != "Instruction":
                sizes[int(level)] = _parse_size(size)
        except (OSError, ValueError):
            continue
    return sizes


def _parse_size(text: str) -> int:
    """Read `48K` or `2M` as bytes.

    >>> _parse_size("48K")
    49152
    """
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * unit


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
