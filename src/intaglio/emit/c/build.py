"""`build`: a model as a compiled library or program, with its header and a module of Python that calls it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from intaglio.emit.c.building import flags, sources
from intaglio.emit.c.loader import loader
from intaglio.emit.c.module import Written, write_model
from intaglio.emit.export import Exported, prepared
from intaglio.errors import CompileError, InputError
from intaglio.targets.c.compiler import Compiler, find_compiler

Kind = Literal["shared", "static", "exe"]
KINDS = ("shared", "static", "exe")

TIME_LIMIT_SECONDS = 600


def build(
    model: Any,
    folder: str | os.PathLike[str],
    *,
    kind: Kind = "shared",
    dims: Mapping[str, int] | None = None,
    compiler_flags: Sequence[str] | None = None,
    **options: Any,
) -> Exported:
    """Compile a model; the library (or the program that tests itself), its header and a loader go into a folder."""
    if kind not in KINDS:
        raise InputError(f"there is no kind {kind!r}; expected {', '.join(KINDS)}")
    compiler = find_compiler()
    if compiler is None:
        raise CompileError("there is no C compiler: install gcc or clang, or `pip install ziglang`")
    wish = prepared(model, "c", dims=dims, options={"style": "fast", **options, "measure": False})
    written = write_model(wish)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="intaglio-build-") as place:
        _write(Path(place), written)
        names = _compile(Path(place), target, written, compiler, kind, compiler_flags)
    prefix = written.options.prefix
    (target / f"{prefix}.h").write_text(written.source.files[f"{prefix}.h"], encoding="utf-8")
    names.append(f"{prefix}.h")
    if kind == "shared":
        text = loader(written.lowered, written.interface, names[0], 0)
        (target / f"{prefix}.py").write_text(text, encoding="utf-8")
        names.append(f"{prefix}.py")
    return Exported(target, "c", names)


def _write(place: Path, written: Written) -> None:
    for name, text in written.source.files.items():
        (place / name).write_text(text, encoding="utf-8")
    if written.source.save is not None:
        written.source.save(place)


def _compile(
    place: Path, target: Path, written: Written, compiler: Compiler, kind: Kind, given: Sequence[str] | None
) -> list[str]:
    options, prefix = written.options, written.options.prefix
    chosen = [*flags(options)] if given is None else list(given)
    files = sources(options, written.weights)
    if kind == "shared":
        name = f"lib{prefix}.so"
        _call(
            place, [*compiler.command, *chosen, "-fPIC", "-shared", "-o", str(target.resolve() / name), *files, "-lm"]
        )
    elif kind == "exe":
        name = f"test_{prefix}"
        _call(place, [*compiler.command, *chosen, "-o", str(target.resolve() / name), "main.c", *files, "-lm"])
    else:
        name = f"lib{prefix}.a"
        objects = [f"{Path(file).stem}.o" for file in files]
        for file, made in zip(files, objects, strict=True):
            _call(place, [*compiler.command, *chosen, "-c", "-o", made, file])
        _call(place, ["ar", "rcs", str(target.resolve() / name), *objects])
    return [name]


def _call(folder: Path, command: Sequence[str]) -> None:
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
