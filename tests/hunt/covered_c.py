"""Which lines of the generated C the sampled models run through.

`HUNT_COVERAGE=FOLDER python -m tests.hunt ...` compiles what is not optimised with counters and leaves them in the
folder; `python -m tests.hunt.covered_c FOLDER` lists the lines of kernels that ran in no model. A line is known by the
kernel it stands in and by its text without numbers, since each model has instances of its own.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from intaglio.errors import CompileError
from intaglio.targets.c.cache import default_cache
from intaglio.targets.c.compiler import Compiler
from intaglio.targets.c.target import Target
from intaglio.targets.c.toolchain import RUNTIME_FOLDER

FLAGS = ("--coverage", "-fprofile-update=atomic", "-DHUNT_COVERAGE")
_SYMBOL = re.compile(r"\b([a-z_][a-z0-9_]*)_[0-9a-f]{12}")
_NUMBER = re.compile(r"\b0[xX][0-9a-fA-F.]+p?[-+]?\d*f?\b|\b\d[\d.]*(?:e[-+]?\d+)?[fLlUu]*\b|(?<=[a-z])\d+\b")
Line = tuple[str, str]


@functools.cache
def folder() -> Path | None:
    """Where counters go, if they are wanted."""
    wanted = os.environ.get("HUNT_COVERAGE")
    return Path(wanted).absolute() if wanted else None


def compile_counted(compiler: Compiler, source: str, output: Path, target: Target, optimize: str) -> None:
    """Compile a unit with counters, in a folder of its own that stays."""
    root = folder()
    assert root is not None
    place = root / hashlib.sha256(source.encode()).hexdigest()[:16]
    place.mkdir(parents=True, exist_ok=True)
    (place / "unit.c").write_text(source)
    command = [*compiler.command, *compiler.flags(target, optimize), *FLAGS, f"-I{RUNTIME_FOLDER}"]
    told = subprocess.run(
        [*command, "-o", "unit.so", "unit.c", "-lm"], cwd=place, capture_output=True, text=True, check=False
    )
    if told.returncode:
        raise CompileError(told.stderr[:2000])
    shutil.copy(place / "unit.so", output)


def dump() -> None:
    """Write the counters of all units that this process has loaded."""
    for library in default_cache()._libraries.values():
        write = getattr(library, "hunt_coverage_dump", None)
        if write is not None:
            ctypes.CFUNCTYPE(None)(ctypes.cast(write, ctypes.c_void_p).value or 0)()


def counts(unit: Path) -> dict[Line, int]:
    """How often each line of a unit ran, lines of the same kernel and text together."""
    data = next(unit.glob("*.gcda"), None)
    if data is None:
        return {}
    told = subprocess.run(
        ["gcov", "--json-format", "--stdout", data.name], cwd=unit, capture_output=True, text=True, check=True
    )
    found: dict[Line, int] = defaultdict(int)
    for text in told.stdout.splitlines():
        for file in json.loads(text)["files"]:
            lines = _source_of(unit, file["file"])
            for line in file["lines"]:
                name = line.get("function_name") or Path(file["file"]).name
                found[_kernel(name, file["file"]), _plain(lines[line["line_number"] - 1])] += line["count"]
    return found


@functools.lru_cache(64)
def _source_of(unit: Path, name: str) -> list[str]:
    return (unit / name).read_text().splitlines()


def _kernel(function: str, file: str) -> str:
    if Path(file).name != "unit.c":
        return Path(file).name
    found = _SYMBOL.match(function)
    return f"{found.group(1)}{function[found.end() :]}" if found else function


def _plain(text: str) -> str:
    """A line without symbols of its own and without numbers."""
    return _NUMBER.sub("N", _SYMBOL.sub(r"\1", text.strip()))


def report(root: Path) -> None:
    """Print the lines that never ran, kernel by kernel, the kernels that were never entered, and how many there are."""
    total: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    units = [path for path in sorted(root.iterdir()) if next(path.glob("*.gcda"), None)]
    for unit in units:
        for (kernel, text), count in counts(unit).items():
            total[kernel][text] += count
    entered = {kernel: lines for kernel, lines in total.items() if any(lines.values())}
    for kernel, lines in sorted(entered.items(), key=lambda item: -_missed(item[1])):
        if _missed(lines):
            print(f"{kernel}: {_missed(lines)} of {len(lines)}")
            print("".join(f"    {text}\n" for text, count in lines.items() if not count), end="")
    print("never entered:", ", ".join(sorted(total.keys() - entered.keys())))
    whole, never = sum(map(len, entered.values())), sum(map(_missed, entered.values()))
    print(f"{whole - never} of {whole} lines of {len(entered)} functions ran in {len(units)} units")


def _missed(lines: dict[str, int]) -> int:
    return sum(not count for count in lines.values())


if __name__ == "__main__":
    report(Path(sys.argv[1]))
