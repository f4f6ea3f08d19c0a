"""Kernels that are files of C: each compiles by itself, and instances are what their values say."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.present import compiler

from intaglio.ir.dtype import FLOAT32
from intaglio.kernels.plan import Buffer, Operand
from intaglio.processor import cpu_features
from intaglio.targets.c import kernel_file
from intaglio.targets.c.kernel_file import KERNEL_FOLDER, KernelFileError, instance, kernel, parameters_of
from intaglio.targets.c.routine import Parameter, Routine
from intaglio.targets.c.structured.gemm import gemm
from intaglio.targets.c.structured.igemm import integer_gemm
from intaglio.targets.c.structured.source import plain_epilogue
from intaglio.targets.c.target import TARGETS, Target
from intaglio.targets.c.toolchain import RUNTIME_FOLDER

FILES = sorted(path.stem for path in KERNEL_FOLDER.glob("*.c"))

PLAIN_FILES = [name for name in FILES if '#include "plain.h"' in (KERNEL_FOLDER / f"{name}.c").read_text()]

LIBRARY = """\
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#define SIZE(name) size[offsetof(IG_FUNCTION_sizes, name) / sizeof(int64_t)]
#define BUFFER(name) buffer[offsetof(IG_FUNCTION_buffers, name) / sizeof(void *)]
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch);
"""
"""What somebody who has nothing but C11 puts in the place of plain.h."""

SMALL = """\
/* Adds. */
#include "kernel.h"
#include "shared.h"

typedef struct {
    void *x, *y;
#if HAS_Z
    void *z; /* what is added, if anything */
#endif
} IG_FUNCTION_buffers;

typedef struct {
    int64_t rows, columns;
    int64_t step;
} IG_FUNCTION_sizes;

#ifndef HAS_Z
#define HAS_Z 0
#endif
#ifdef __clang__
#define PICKED clang
#endif
#if HAS_Z && WIDTH > 2
int wide;
#elif HAS_Z
int narrow;
#else
int none;
#endif
"""

SHARED = """\
#ifndef WIDTH
#define WIDTH 4
#endif
#ifndef TWICE
#define TWICE 1
#endif
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one kernel in place of the package's."""
    (tmp_path / "small.c").write_text(SMALL.replace("#include", "#define TWICE 2\n#include", 1))
    (tmp_path / "shared.h").write_text(SHARED)
    monkeypatch.setattr(kernel_file, "KERNEL_FOLDER", tmp_path)
    for cached in (kernel_file._whole_text, kernel_file.parameters_of, kernel_file.instance):
        cached.cache_clear()
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_a_file_compiles_by_itself(name: str) -> None:
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-fsyntax-only", "-DIG_LANES=4"]
    command = [*compiler().command, *flags, f"-I{RUNTIME_FOLDER}", str(KERNEL_FOLDER / f"{name}.c")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


def test_plain_files_are_c11(tmp_path: Path) -> None:
    for path in KERNEL_FOLDER.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "plain.h").write_text(LIBRARY)
    flags = ["-std=c11", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    files = [f"{name}.c" for name in PLAIN_FILES]
    command = [*compiler().command, *flags, *files]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert files
    assert result.returncode == 0, result.stderr


def test_every_file_is_used() -> None:
    rules = "".join(path.read_text() for path in KERNEL_FOLDER.parent.rglob("*.py"))
    assert [name for name in FILES if f'"{name}"' not in rules] == []
    texts = "".join(path.read_text() for path in KERNEL_FOLDER.iterdir())
    headers = [path.name for path in KERNEL_FOLDER.glob("*.h")]
    assert [name for name in headers if f'#include "{name}"' not in texts] == []


@pytest.mark.parametrize("path", sorted(KERNEL_FOLDER.iterdir()), ids=lambda path: path.name)
def test_a_file_is_plain_and_names_its_sizes(path: Path) -> None:
    text = path.read_bytes().decode("ascii")
    lines = text.splitlines()
    assert [line for line in lines if len(line) > 120 or "\t" in line or line != line.rstrip()] == []
    assert re.findall(r"\b(?:size|buffer)\[\d", text) == []


@pytest.mark.parametrize(("has_z", "width", "chosen"), [(1, 4, "wide"), (1, 2, "narrow"), (0, 4, "none")])
def test_values_choose_branches_and_members(folder: Path, has_z: int, width: int, chosen: str) -> None:
    instance = kernel("small", HAS_Z=has_z, WIDTH=width)
    assert [word for word in ("wide", "narrow", "none") if f"int {word};" in instance.text] == [chosen]
    assert instance.buffers == (("x", "y", "z") if has_z else ("x", "y"))
    assert instance.sizes == ("rows", "columns", "step")
    assert f"#define WIDTH {width}\n" in instance.text
    assert "#ifdef __clang__" in instance.text, "what only the compiler knows stays"
    assert instance.text.count("#endif") == 1


def test_every_macro_of_an_instance_ends_with_it(folder: Path) -> None:
    text = kernel("small", HAS_Z=1, WIDTH=2).text
    defined = {line.split()[1] for line in text.splitlines() if line.startswith("#define")}
    undone = {line.split()[1] for line in text.splitlines() if line.startswith("#undef")}
    assert defined == undone == {"TWICE", "WIDTH", "HAS_Z", "PICKED"}


def test_what_a_file_defines_before_an_include_is_no_parameter(folder: Path) -> None:
    assert parameters_of("small") == {"WIDTH": "4", "HAS_Z": "0"}
    assert "#define TWICE 2" in kernel("small", HAS_Z=0, WIDTH=1).text


def test_a_member_that_is_an_array_is_a_size_for_each_of_its_elements(folder: Path) -> None:
    text = SMALL.replace("int64_t step;", "int64_t step[WIDTH], last;").replace("void *x, *y;", "void *x[2];")
    (folder / "small.c").write_text(text)
    instance = kernel("small", HAS_Z=0, WIDTH=3, TWICE=1)
    assert instance.buffers == ("x0", "x1")
    assert instance.sizes == ("rows", "columns", "step0", "step1", "step2", "last")
    (folder / "other.c").write_text(text.replace("[WIDTH]", "[PICKED]"))
    with pytest.raises(KernelFileError, match="the length PICKED of the member step is no number"):
        kernel("other", HAS_Z=0, WIDTH=3, TWICE=1)


def test_values_must_be_those_of_the_parameters(folder: Path) -> None:
    with pytest.raises(KernelFileError, match=r"small\.c needs a value for WIDTH"):
        kernel("small", HAS_Z=1)
    with pytest.raises(KernelFileError, match=r"small\.c has no parameter DEPTH"):
        kernel("small", HAS_Z=1, WIDTH=1, DEPTH=1)


def test_a_routine_must_name_the_buffers_and_sizes_of_its_file(folder: Path) -> None:
    own = kernel("small", HAS_Z=0, WIDTH=1)
    x, y = (Parameter(name, "float", Operand(Buffer("x", FLOAT32, 1))) for name in "xy")
    sizes = [("rows", 1), ("columns", 1), ("step", 1)]
    assert Routine("small", own, [x, y], sizes, 1, 1)._body() == own.kernel
    for parameters, wrong in (([y, x], sizes), ([x], sizes), ([x, y], sizes[1:])):
        with pytest.raises(KernelFileError, match="the kernel small takes buffers"):
            Routine("small", own, parameters, wrong, 1, 1)._body()
    with pytest.raises(KernelFileError, match="fault"):
        Routine("small", own, [x, y], sizes, 1, 1, checks=True)._body()


def _compiles(source: str, folder: Path, target: Target) -> None:
    compiler().compile_unit(f'#include "ig.h"\n#include "ig_loop.h"\n{source}', folder / "unit.so", target)


def test_instances_share_a_unit(tmp_path: Path) -> None:
    kernels = [gemm(TARGETS["c"], "float32", "rows", layout) for layout in ("packed", "rows", "columns")]
    kernels.append(gemm(TARGETS["c"], "int64", "columns"))
    texts = [
        kernel.named(
            f"kernel{index}", instance(plain_epilogue("int64" if index == 3 else "float32", 2, len(kernel.sizes))).text
        )
        for index, kernel in enumerate(kernels)
    ]
    _compiles("\n".join(texts), tmp_path, TARGETS["c"])


@pytest.mark.skipif("sse2" not in cpu_features(), reason="code for x86 processors")
@pytest.mark.parametrize("left", ["uint8", "int8"])
def test_byte_products_compile_for_processors_with_vnni_and_narrow_vectors(tmp_path: Path, left: str) -> None:
    flags = (*TARGETS["avx2"].flags, "-mavxvnni")
    target = Target("avx2", 32, 16, flags, features=frozenset({"avx_vnni"}))
    kernel = integer_gemm(target, left)  # pyright: ignore[reportArgumentType]
    _compiles(kernel.named("kernel", instance(plain_epilogue("int32", 3, len(kernel.sizes))).text), tmp_path, target)
