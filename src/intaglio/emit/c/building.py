"""What builds an exported folder: a Makefile and a CMakeLists.txt."""

from __future__ import annotations

from intaglio.emit.c.options import COptions
from intaglio.emit.c.weights import CWeights

READABLE_FLAGS = ("-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2", "-fno-strict-aliasing")
FAST_FLAGS = (
    "-std=gnu11", "-Wall", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing",
)  # fmt: skip


def flags(options: COptions) -> list[str]:
    """The compiler's options."""
    if options.program_memory:
        return ["-std=gnu11", *(flag for flag in READABLE_FLAGS if flag not in ("-std=c11", "-pedantic"))]
    if not options.is_fast:
        return list(READABLE_FLAGS)
    machine = [flag for flag in options.machine.flags if not flag.startswith("-D")]
    return [*FAST_FLAGS, *machine, *(["-fopenmp"] if options.threads > 1 and options.target != "wasm" else [])]


def sources(options: COptions, weights: CWeights) -> list[str]:
    """The files to compile besides main.c."""
    more = {"c": ["weights.c"], "extern": ["weights.c"], "object": ["weights.S"], "bin": []}[weights]
    return [f"{options.prefix}.c", *more]


def makefile(options: COptions, weights: CWeights) -> str:
    """The Makefile."""
    objects = " ".join(name.rpartition(".")[0] + ".o" for name in sources(options, weights))
    headers = f"{options.prefix}.h" + (" weights.h" if weights in ("c", "extern") else "")
    lines = [
        "# `make` builds the test program, `make test` runs it.",
        f"CFLAGS ?= {' '.join(flags(options))}",
        "",
        f"test_{options.prefix}: main.o {objects}",
        "\t$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lm",
        "",
        "%.o: %.c",
        "\t$(CC) $(CFLAGS) -c -o $@ $<",
        "%.o: %.S",
        "\t$(CC) -c -o $@ $<",
        "",
        f"main.o {options.prefix}.o: {headers}",
        "",
        f"test: test_{options.prefix}",
        f"\t./test_{options.prefix}",
        "",
        "clean:",
        f"\trm -f test_{options.prefix} main.o {objects}",
        "",
        ".PHONY: test clean",
        "",
    ]
    return "\n".join(lines)


def cmake(options: COptions, weights: CWeights) -> str:
    """The CMakeLists.txt."""
    files = " ".join(sources(options, weights))
    languages = "C ASM" if weights == "object" else "C"
    public = [flag for flag in flags(options) if not flag.startswith("-std") and flag not in ("-O2", "-O3")]
    return f"""cmake_minimum_required(VERSION 3.13)
project({options.prefix} {languages})

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS {"ON" if options.is_fast else "OFF"})
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library({options.prefix} STATIC {files})
target_include_directories({options.prefix} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_compile_options({options.prefix} PRIVATE {" ".join(public)})
target_link_libraries({options.prefix} PUBLIC m{" -fopenmp" if options.threads > 1 else ""})

add_executable(test_{options.prefix} main.c)
target_link_libraries(test_{options.prefix} {options.prefix})
enable_testing()
add_test(NAME {options.prefix} COMMAND test_{options.prefix} WORKING_DIRECTORY ${{CMAKE_CURRENT_SOURCE_DIR}})
"""
