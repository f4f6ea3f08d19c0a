"""The README of an exported folder: how it is called, and how large it is."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from intaglio.emit.c.building import flags
from intaglio.emit.c.interface import Interface
from intaglio.emit.c.lowered import Lowered
from intaglio.emit.c.options import COptions
from intaglio.emit.c.weights import Constant, CWeights, comment_text
from intaglio.errors import CompileError
from intaglio.targets.c.compiler import find_compiler


def code_bytes(files: Mapping[str, str], options: COptions) -> int | None:
    """The machine code of the model for this machine in bytes; None where it cannot be found out."""
    size = shutil.which("size")
    try:
        compiler = find_compiler()
    except CompileError:
        return None
    if compiler is None or size is None:
        return None
    wanted = [flag for flag in flags(options) if flag not in ("-O2", "-Werror", "-fopenmp")]
    with tempfile.TemporaryDirectory(prefix="intaglio-size-") as folder:
        for name, text in files.items():
            if name.endswith((".h", ".c")):
                Path(folder, name).write_text(text, encoding="utf-8")
        unit = f"{options.prefix}.c"
        command = [*compiler.command, *wanted, *([] if options.is_fast else ["-Os"]), "-c", "-o", "unit.o", unit]
        if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode != 0:
            return None
        answer = subprocess.run([size, "-A", "unit.o"], cwd=folder, capture_output=True, text=True, check=False)
    sections = [line.split() for line in answer.stdout.splitlines() if line.startswith(".text")]
    return sum(int(section[1]) for section in sections) if answer.returncode == 0 else None


def readme(
    title: str,
    lowered: Lowered,
    interface: Interface,
    options: COptions,
    weights: CWeights,
    constants: Mapping[int, Constant],
    files: Mapping[str, str],
) -> str:
    """The text."""
    taken = "\n".join(f"- `{text}`: {about.replace('`', '?')}" for text, about in interface.parameters())
    code = code_bytes(files, options) if options.measure else None
    memory = lowered.memory
    ram = f"{memory.total} + {memory.heap} for tensors whose sizes depend on data" if memory.heap else str(memory.total)
    optimised = "" if options.is_fast else ", optimised for size"
    where = f"{_flash_bytes(constants)} of them in program memory" if options.program_memory else _where(weights)
    code_line = "not measured" if code is None else f"{code} bytes{optimised}, for the machine that wrote this"
    prefix, threads = interface.prefix, " but those of OpenMP" if options.threads > 1 else ""
    return f"""# {title}

The model {comment_text(lowered.graph.name)} as C, written by Intaglio in the style `{options.style}`. `{prefix}.c`
allocates nothing, prints nothing and starts no thread{threads}. `make test` builds it with `main.c` and compares its
results with stored answers; CMake does the same with `ctest`.

`int {prefix}_run(...)` returns 0, or a status that `{prefix}_error` puts into words. Its parameters are:

{taken or "none"}

| what | bytes |
|---|---|
| code | {code_line} |
| constants | {sum(each.bytes for each in constants.values())} ({where}) |
| memory of a run | {ram} |
"""


def _flash_bytes(constants: Mapping[int, Constant]) -> int:
    return sum(each.bytes for each in constants.values() if each.is_flash)


def _where(weights: CWeights) -> str:
    return {
        "c": "text in `weights.c`",
        "extern": "declared in `weights.h`; `weights.c` defines them unless another file does",
        "object": "`weights.bin`, linked by `weights.S`",
        "bin": "`weights.bin`, which the caller reads",
    }[weights]
