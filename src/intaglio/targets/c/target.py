"""The processors that C is generated for."""

import functools
import os
from dataclasses import replace
from pathlib import Path

from intaglio.errors import CompileError
from intaglio.processor import cpu_features
from intaglio.record import Record

_CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")


class Target(Record):
    """What generated code may assume of a processor.

    `flags` go to the compiler. `l1` and `l2` are the data caches of one core and `l3` the shared one, in bytes; they
    choose block sizes and are no part of the machine code's meaning. With `is_quick` the compiler shall leave out what
    takes it long and gains little.
    """

    name: str
    vector_bytes: int
    vector_registers: int
    flags: tuple[str, ...]
    features: frozenset[str] = frozenset()
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 8 << 20
    is_quick: bool = False

    @property
    def description(self) -> str:
        """The name, and what else users choose."""
        return f"{self.name}, quick" if self.is_quick else self.name

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
