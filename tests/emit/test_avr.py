"""Constants in the program memory of AVR: compiled by avr-gcc, run by the emulator simavr."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.emit.models import MODELS, drawn, parse
from tests.emit.test_c import classifier, make, quantised

import intaglio
from intaglio.errors import InputError, UnsupportedError

HAS_COMPILER = shutil.which("avr-gcc") is not None
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="avr-gcc is missing: `apt install gcc-avr avr-libc`")
needs_emulator = pytest.mark.skipif(
    not HAS_COMPILER or shutil.which("simavr") is None,
    reason="avr-gcc or simavr is missing: `apt install gcc-avr avr-libc simavr`",
)

BOARD = """\
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#define main model_main
#include "main.c"
#undef main

static int put(char letter, FILE *file)
{
    (void)file;
    while (!(UCSR0A & (1 << UDRE0)))
        ;
    UDR0 = (uint8_t)letter;
    return 0;
}

static FILE serial = FDEV_SETUP_STREAM(put, NULL, _FDEV_SETUP_WRITE);

int main(void)
{
    UCSR0B = 1 << TXEN0;
    stdout = &serial;
    const int status = model_main();
    printf("status %d\\n", status);
    cli();
    sleep_enable();
    sleep_cpu();
}
"""
"""The program that tests itself, with its words on the serial line; the emulator ends where it sleeps for ever."""


def compile_avr(folder: Path, chip: str = "atmega1284p") -> subprocess.CompletedProcess[str]:
    (folder / "board.c").write_text(BOARD)
    command = ["avr-gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Os", "-fno-strict-aliasing", f"-mmcu={chip}"]
    return subprocess.run(
        [*command, "-o", "test.elf", "board.c", "model.c", "weights.c", "-lm"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def check_avr(folder: Path, chip: str = "atmega1284p") -> None:
    done = compile_avr(folder, chip)
    assert done.returncode == 0, done.stderr
    command = ["simavr", "-m", chip, "-f", "20000000", "test.elf"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    words = run.stdout + run.stderr
    assert "the results are as stored" in words, words
    assert "status 0" in words


def mixed() -> onnx.ModelProto:
    """One kernel whose right operand is a constant in one call and none in another."""
    return parse(
        "net (float[4, 4] x, float[4, 4] y) => (float[4, 4] z) { a = MatMul(x, w) z = MatMul(a, y) }", w=drawn(4, 4)
    )


def gathered() -> onnx.ModelProto:
    """A constant that is read by way of pointers, and one that is not."""
    return parse(
        "net (float[2, 4] x, int64[2] i) => (float[2, 4] z) { g = Gather(t, i) a = MatMul(x, w) z = Add(a, g) }",
        t=drawn(6, 4), w=drawn(4, 4),
    )  # fmt: skip


def half() -> onnx.ModelProto:
    return parse("net (float16[2, 4] x) => (float16[2, 4] y) { y = Mul(x, w) }", w=drawn(4).astype(np.float16))


AVR: dict[str, Callable[[], onnx.ModelProto]] = {
    **{name: MODELS[name] for name in ("convolution", "loop", "recurrent", "shapes")},
    **{each.__name__: each for each in (classifier, quantised, mixed, gathered, half)},
}


@needs_emulator
@pytest.mark.parametrize("name", sorted(AVR))
def test_models_on_avr(name: str, tmp_path: Path) -> None:
    intaglio.export(AVR[name](), "c", tmp_path, program_memory=True, measure=False)
    check_avr(tmp_path)


def far() -> onnx.ModelProto:
    layers = {f"w{place}": drawn(64, 64) / 8 for place in range(5)}
    text = " ".join(f"a{place + 1} = MatMul(a{place}, w{place})" for place in range(5))
    return parse(f"net (float[1, 64] a0) => (float[1, 64] a5) {{ {text} }}", **layers)


@needs_emulator
def test_constants_behind_the_first_64_kilobytes(tmp_path: Path) -> None:
    intaglio.export(far(), "c", tmp_path, program_memory=True, measure=False)
    assert "MODEL_FLASH __memx" in (tmp_path / "weights.h").read_text()
    check_avr(tmp_path, "atmega2560")


@needs_compiler
def test_constants_take_no_ram(tmp_path: Path) -> None:
    sizes: list[int] = []
    for name, is_flash in (("ram", None), ("flash", True)):
        folder = tmp_path / name
        intaglio.export(MODELS["recurrent"](), "c", folder, program_memory=is_flash, measure=False)
        assert compile_avr(folder).returncode == 0
        told = subprocess.run(["avr-size", "-A", "test.elf"], cwd=folder, capture_output=True, text=True, check=True)
        sizes.append(int(re.findall(r"\.data\s+(\d+)", told.stdout)[0]))
    constants = sum(array.nbytes for array in map(onnx.numpy_helper.to_array, MODELS["recurrent"]().graph.initializer))
    assert sizes[0] - sizes[1] >= constants


@needs_compiler
def test_numbers_that_avr_lacks_are_told(tmp_path: Path) -> None:
    model = parse("net (double[3] x) => (double[3] y) { y = Mul(x, w) }", w=drawn(3).astype(np.float64))
    intaglio.export(model, "c", tmp_path, program_memory=True, measure=False)
    done = compile_avr(tmp_path)
    assert done.returncode != 0
    assert "double has 32 here" in done.stderr


@pytest.mark.parametrize("name", ["gathered", "mixed", "recurrent"])
def test_other_processors_take_the_same_source(name: str, tmp_path: Path) -> None:
    intaglio.export(AVR[name](), "c", tmp_path, program_memory=True, measure=False)
    assert "as stored" in make(tmp_path, "test")


def test_what_stays_in_ram_is_told(tmp_path: Path) -> None:
    found = intaglio.export(gathered(), "c", tmp_path, program_memory=True, measure=False)
    assert found.notes == ["96 bytes of constants stay in RAM: t"]
    assert "(64 of them in program memory)" in (tmp_path / "README.md").read_text()
    header = (tmp_path / "weights.h").read_text()
    assert "extern const MODEL_FLASH float model_w_w[16];" in header
    assert "extern const float model_w_t[24];" in header


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"style": "fast"}, "for the style 'readable'"),
        ({"weights": "bin"}, "weights that are C"),
        ({"weights": "object"}, "weights that are C"),
        ({"globals": False}, "weights that are C"),
    ],
)
def test_what_program_memory_does_not_go_with(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        intaglio.export(classifier(), "c", tmp_path, program_memory=True, **options)  # type: ignore[arg-type]


def test_models_that_are_too_large_are_refused(tmp_path: Path) -> None:
    weights = parse("net (float[1, 64] x) => (float[1, 200] y) { y = MatMul(x, w) }", w=drawn(64, 200))
    with pytest.raises(UnsupportedError, match="the constant w has 51200 bytes"):
        intaglio.export(weights, "c", tmp_path, program_memory=True)
    memory = parse(
        "net (float[100, 100] x) => (float[100, 100] y) { a = Softmax(x) b = MatMul(a, x) y = MatMul(b, a) }"
    )
    with pytest.raises(UnsupportedError, match="a run needs 8"):
        intaglio.export(memory, "c", tmp_path, program_memory=True)
