"""`build`: a model as a compiled library or program, with its header and a module of Python that calls it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from intaglio.emit.c.building import flags, sources
from intaglio.emit.c.loader import loader
from intaglio.emit.c.module import Written, write_model
from intaglio.emit.export import Exported, prepared
from intaglio.errors import CompileError, InputError
from intaglio.targets.c.compiler import Compiler, find_compiler, zig_flags

Kind = Literal["shared", "static", "exe"]
KINDS = ("shared", "static", "exe")

TRIPLES = {
    "x86_64-linux-gnu": "sse2",
    "x86_64-linux-musl": "sse2",
    "aarch64-linux-gnu": "neon",
    "aarch64-linux-musl": "neon",
    "arm-linux-musleabihf": "c",
    "x86_64-windows-gnu": "sse2",
    "x86_64-macos": "sse2",
    "aarch64-macos": "neon",
    "wasm32-wasi": "wasm",
}
"""The systems that the `ziglang` package compiles for, each with the kernels that every processor of it runs."""

_NAMES: dict[str, dict[Kind, str]] = {
    "windows": {"shared": "{}.dll", "static": "{}.lib", "exe": "test_{}.exe"},
    "macos": {"shared": "lib{}.dylib", "static": "lib{}.a", "exe": "test_{}"},
    "wasi": {"shared": "{}.wasm", "static": "lib{}.a", "exe": "test_{}.wasm"},
    "linux": {"shared": "lib{}.so", "static": "lib{}.a", "exe": "test_{}"},
}
"""How systems call the files of each kind."""

TIME_LIMIT_SECONDS = 600


def build(
    model: Any,
    folder: str | os.PathLike[str],
    *,
    kind: Kind = "shared",
    triple: str | None = None,
    dims: Mapping[str, int] | None = None,
    compiler_flags: Sequence[str] | None = None,
    **options: Any,
) -> Exported:
    """Compile a model; the library (or the program that tests itself), its header and a loader go into a folder.

    `triple` names another system, for which the package `ziglang` compiles; None is this machine. `options` are those
    of exported C; its style is "fast" unless another one is asked for. `compiler_flags` take the place of ours.
    """
    if kind not in KINDS:
        raise InputError(f"there is no kind {kind!r}; expected {', '.join(KINDS)}")
    if triple is not None and triple not in TRIPLES:
        raise InputError(f"there is no system {triple!r}; expected {', '.join(TRIPLES)}")
    given = {"style": "fast", **{name: value for name, value in options.items() if value is not None}}
    if triple is not None and given["style"] == "fast":
        given.setdefault("target", TRIPLES[triple])
    wish = prepared(model, "c", dims=dims, options={**given, "measure": False})
    written = write_model(wish, has_program=kind == "exe", has_example=False)
    target = Path(folder)
    with tempfile.TemporaryDirectory(prefix="intaglio-build-") as place:
        _write(Path(place), written)
        made = Path(place).resolve() / "made"
        made.mkdir()
        names = [_compile(Path(place), made, written, _compiler(triple), kind, triple, compiler_flags)]
        target.mkdir(parents=True, exist_ok=True)
        _move_all(made, target)
    prefix = written.options.prefix
    (target / f"{prefix}.h").write_text(written.source.files[f"{prefix}.h"], encoding="utf-8")
    names.append(f"{prefix}.h")
    if kind == "shared" and triple != "wasm32-wasi":
        text = loader(written.lowered, written.interface, names[0], written.weight_bytes)
        (target / f"{prefix}.py").write_text(text, encoding="utf-8")
        names.append(f"{prefix}.py")
    if written.interface.takes_weights and written.source.save is not None:
        names += written.source.save(target)
    return Exported(target, "c", names)


def _compiler(triple: str | None) -> Compiler:
    if triple is not None:
        if importlib.util.find_spec("ziglang") is None:
            raise CompileError("the package ziglang compiles for other systems: `pip install ziglang`")
        return Compiler((sys.executable, "-m", "ziglang", "cc", "-target", triple), "", "zig")
    found = find_compiler()
    if found is None:
        raise CompileError("there is no C compiler: install gcc or clang, or `pip install ziglang`")
    return found


def _move_all(source: Path, target: Path) -> None:
    """Move files to a folder, in which each is whole as soon as it is there."""
    for file in source.iterdir():
        coming = target / f".{file.name}.coming"
        shutil.move(file, coming)
        coming.replace(target / file.name)


def _write(place: Path, written: Written) -> None:
    for name, text in written.source.files.items():
        (place / name).write_text(text, encoding="utf-8")
    if written.source.save is not None:
        written.source.save(place)


def _compile(
    place: Path,
    target: Path,
    written: Written,
    compiler: Compiler,
    kind: Kind,
    triple: str | None,
    given: Sequence[str] | None,
) -> str:
    options, prefix = written.options, written.options.prefix
    system = next((name for name in _NAMES if triple is not None and name in triple), "linux")
    name = _NAMES[system][kind].format(prefix)
    chosen = [*_flags(written, compiler)] if given is None else list(given)
    files, output = sources(options, written.weights), str(target / name)
    library = [] if system == "windows" else ["-lm"]
    if kind == "exe":
        run_compiler(place, [*compiler.command, *chosen, "-o", output, "main.c", *files, *library])
    elif kind == "shared":
        run_compiler(place, [*compiler.command, *chosen, *_shared(system, prefix), "-o", output, *files, *library])
    else:
        objects = [f"{Path(file).stem}.o" for file in files]
        for file, made in zip(files, objects, strict=True):
            run_compiler(place, [*compiler.command, *chosen, "-c", "-o", made, file])
        archiver = [sys.executable, "-m", "ziglang", "ar"] if compiler.kind == "zig" else ["ar"]
        run_compiler(place, [*archiver, "rcs", output, *objects])
    return name


def _flags(written: Written, compiler: Compiler) -> list[str]:
    chosen = flags(written.options)
    if compiler.kind != "zig":
        return chosen
    machine = written.options.machine.flags if written.options.is_fast else ()
    kept = [flag for flag in chosen if flag not in machine and flag != "-fopenmp"]
    return [*kept, *zig_flags(tuple(flag for flag in machine if not flag.startswith("-D"))), "-fno-sanitize=all"]


def _shared(system: str, prefix: str) -> list[str]:
    if system == "wasi":
        return ["-mexec-model=reactor", *(f"-Wl,--export={prefix}_{name}" for name in ("run", "error"))]
    return ["-shared"] if system == "windows" else ["-shared", "-fPIC"]


def run_compiler(folder: Path, command: Sequence[str]) -> None:
    """Run a compiler in a folder; raises CompileError with what it says."""
    try:
        answer = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"{command[0]} cannot be run: {error}") from None
    if answer.returncode != 0:
        errors = [line for line in answer.stderr.splitlines() if "error" in line] or [f"status {answer.returncode}"]
        shown = f"  command: {' '.join(command)}\n{answer.stderr[:4000]}"
        raise CompileError(f"the C compiler failed: {errors[0]}\n{shown}")
