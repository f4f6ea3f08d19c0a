"""CUDA C++ becomes code for one kind of device by NVRTC, and is kept in the cache."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import tempfile
from pathlib import Path

from intaglio.errors import CompileError
from intaglio.targets.c.cache import default_cache
from intaglio.targets.cuda.libraries import library

OPTIONS = (
    "--std=c++17",
    "--device-as-default-execution-space",
    "--fmad=true",
    "-w",
    "-D__SIZE_TYPE__=unsigned long",
    "-Drestrict=__restrict__",
    "-D__extension__=",
    "--device-int128",
)


@functools.cache
def prelude() -> str:
    """The text that stands before every kernel."""
    return (Path(__file__).parent / "runtime" / "prelude.cuh").read_text(encoding="ascii")


@functools.cache
def compiler_version() -> tuple[int, int]:
    """The version of NVRTC."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library("libnvrtc").nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
    return major.value, minor.value


def code_of(text: str, architecture: int) -> bytes:
    """The code of a unit of kernels for an architecture such as 90, from the cache or compiled now."""
    source = prelude() + text
    described = "\0".join((source, str(architecture), *OPTIONS, *map(str, compiler_version())))
    path = default_cache().root / "cuda" / f"{hashlib.sha256(described.encode()).hexdigest()}.cubin"
    try:
        return _checked(path.read_bytes())
    except (OSError, ValueError):
        code = compile_text(source, architecture)
        _keep(path, code)
        return code


def _checked(content: bytes) -> bytes:
    """The code in a file of the cache, whose first bytes are its hash."""
    digest, code = content[:32], content[32:]
    if hashlib.sha256(code).digest() != digest:
        raise ValueError("a file of the cache is broken")
    return code


def _keep(path: Path, code: bytes) -> None:
    """Write code into the cache in one step; a folder that cannot be written to is left as it is."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with open(handle, "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(name, path)
    except OSError:
        return


def compile_text(source: str, architecture: int) -> bytes:
    """The machine code of CUDA C++; raises CompileError with what NVRTC says."""
    nvrtc, program = library("libnvrtc"), ctypes.c_void_p()
    _check(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None),
        "create a program",
    )
    try:
        options = [option.encode() for option in (*OPTIONS, f"--gpu-architecture=sm_{architecture}")]
        status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if status:
            raise CompileError(f"NVRTC refuses a kernel:\n{_text(program, 'ProgramLog')}")
        return _bytes(program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _bytes(program: ctypes.c_void_p, what: str) -> bytes:
    nvrtc, size = library("libnvrtc"), ctypes.c_size_t()
    _check(getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"size of {what}")
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(nvrtc, f"nvrtcGet{what}")(program, buffer), what)
    return buffer.raw


def _text(program: ctypes.c_void_p, what: str) -> str:
    return _bytes(program, what).rstrip(b"\0").decode(errors="replace")


def _check(status: int, what: str) -> None:
    if status:
        nvrtc = library("libnvrtc")
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise CompileError(f"NVRTC failed ({what}): {nvrtc.nvrtcGetErrorString(status).decode()}")
