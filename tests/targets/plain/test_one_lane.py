"""Kernel files as plain C: macros, vectors of one element, functions with parameters of their own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.present import compiler

from intaglio.conformance.exported import C_FLAGS, import_exported
from intaglio.emit.c.build import build
from intaglio.errors import UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT64
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.kernels.kernel import FileKernel, SourceBuffer, SourceKernel
from intaglio.ops.ml.svm import CoupledChances
from intaglio.targets.c.kernel_file import KERNEL_FOLDER, instance, parameters_of
from intaglio.targets.plain.expression import Helpers
from intaglio.targets.plain.one_lane import PLAIN_FOLDER, file_text, function_text, signature_of, textbook
from intaglio.targets.plain.preprocessor import preprocessed
from intaglio.targets.plain.target_rules import PlainRules

TEXTBOOK = sorted(path.stem for path in PLAIN_FOLDER.glob("textbook_*.c"))


@pytest.mark.parametrize(
    "text",
    [
        "#define A 1\nint x = A; /* A */\n",
        "#define JOINED(a, b) a##b\n#define JOIN(a, b) JOINED(a, b)\n#define K f32\nJOIN(ig_, K) x JOINED(K, K);\n",
        "#define F(x) G(x)\n#define G(x) (x + F(x))\nF(F(1))\n",
        "#define NAME OTHER\n#define OTHER(x) <x>\nNAME (a) NAME\n",
        "#define OTHER(x, y) y x\n#define NAME OTHER\nNAME (f(a, b), [c])\n",
        "#define N 2\nN\n#undef N\nN\n",
        "#define LONG(x) \\\n    x * \\\n    x\nLONG(2)\n",
        "#define AT(first, place, extent) (first * extent##0 + place##0) * extent##1\n#define in1 7\nAT(AT, p, in)\n",
    ],
)
def test_macros_are_expanded_as_c_does(text: str) -> None:
    command = [*compiler().command, "-E", "-P", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=True)
    found = re.sub(r"/\*.*?\*/", "", "".join(preprocessed(text)))
    assert re.findall(r"\w+|\S", found) == re.findall(r"\w+|\S", done.stdout)


def test_a_comment_goes_with_the_macro_that_it_is_about() -> None:
    text = "/* The kernel. */\n#define A 1\n/* About B. */\n#define B 2\n/* About f. */\nint f = A + B;\n"
    assert "".join(preprocessed(text)) == "/* The kernel. */\n/* About f. */\nint f = 1 + 2;\n"


def test_statements_become_numbers_and_say_what_they_do_not_use() -> None:
    body = """
    const int64_t nobody = 3;
    for (int64_t i = begin; i < end; i += IG_LANES)
        ig_store_f32(y + i, ig_max_f32(ig_load_f32(x + i), ig_set_f32(2)));
"""
    buffers = (SourceBuffer("x", "float"), SourceBuffer("y", "float", True))
    helpers = Helpers()
    text = file_text(SourceKernel("Example.", buffers, ("rows",), body), "example", helpers)
    assert text.startswith("/* Example.\n   buffers: x (in), y (out); sizes: rows */\nstatic void example(")
    assert "*(y + i) = max_f32(*(x + i), (float)(2));" in text
    assert "i += 1" in text
    assert "nobody" not in text
    assert "const int64_t rows" not in text
    assert [name for name in ("size", "scratch") if f"(void){name};" not in text] == []
    assert "max_f32(float a, float b)" in helpers.text


def test_what_has_no_plain_form_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="it uses ig_sqrt_f32"):
        file_text(SourceKernel("x", (), (), "ig_sqrt_f32(y);"), "name", Helpers())


def test_places_of_arrays_are_numbers() -> None:
    kernel = FileKernel("gather_elements", tuple(sorted(parameters_of("gather_elements").items())))
    text = file_text(kernel, "gather", Helpers())
    assert re.findall(r"typedef|__builtin", text) == []
    place = instance(kernel).sizes.index("other_count0")
    assert f"&size[{place}]" in text


@pytest.mark.parametrize("name", TEXTBOOK)
def test_a_textbook_file_is_c11_by_itself(name: str) -> None:
    flags = ["-std=c11", "-pedantic-errors", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-prototypes"]
    headers = [part for each in ("stdint.h", "math.h", "string.h") for part in ("-include", each)]
    command = [*compiler().command, *flags, "-Werror", *headers, "-fsyntax-only", str(PLAIN_FOLDER / f"{name}.c")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_every_file_of_plain_c_is_used() -> None:
    rules = "".join(path.read_text() for path in PLAIN_FOLDER.parent.glob("*.py"))
    words = [name.removeprefix("textbook_") for name in TEXTBOOK]
    assert [name for name in words if f'"{name}"' not in rules and name not in ("lstm", "gru")] == []
    texts = "".join(path.read_text() for folder in (PLAIN_FOLDER, KERNEL_FOLDER) for path in folder.iterdir())
    headers = [path.name for path in PLAIN_FOLDER.glob("*.h")]
    assert [name for name in headers if f'#include "{name}"' not in texts] == []


def test_sizes_that_are_known_are_numbers_and_no_parameters() -> None:
    settings = {"X": "float", "W": "float", "TOTAL": "float", "HAS_BIAS": 1, "X_ZERO": 0, "W_ZERO": 0}
    kernel = textbook("conv", settings, AXES=1, IS_GROUPED=0)
    signature = signature_of(kernel)
    assert signature is not None
    assert signature.about == "Convolution over 1 axes: the sum of kernel times input, where both are."
    assert [(each.name, each.element, each.is_written) for each in signature.buffers] == [
        ("x", "float", False), ("w", "float", False), ("bias", "float", False), ("y", "float", True),
    ]  # fmt: skip
    known = {"channels": 3, "outputs": 1, "in0": 8, "out0": 8, "kernel0": 3, "stride0": 1, "dilation0": 1, "pad0": 0}
    assert (
        function_text(kernel, "conv", known, {1: "__flash"})
        == """\
/* Convolution over 1 axes: the sum of kernel times input, where both are. */
static void conv(const float *x, const __flash float *w, const float *bias, float *y, int64_t batch)
{
    for (int64_t n = 0; n < batch; n++) {
        for (int64_t o = 0; o < 1; o++) {
            for (int64_t i0 = 0; i0 < 8; i0++) {
                float sum = bias[o];
                for (int64_t c = 0; c < 3; c++) {
                    for (int64_t k0 = 0; k0 < 3; k0++) {
                        const int64_t p0 = i0 + k0;
                        if (p0 < 0 || p0 >= 8)
                            continue;
                        sum += x[(n * 3 + c) * 8 + p0] * w[(o * 3 + c) * 3 + k0];
                    }
                }
                y[(n + o) * 8 + i0] = sum;
            }
        }
    }
}
"""
    )


def test_a_rule_without_needs_serves_plain_c(tmp_path: Path) -> None:
    graph = Graph("chances")
    pairs = graph.add_input("pairs", TensorType(FLOAT64, (5, 6)))
    (chances,) = Builder(graph).add(CoupledChances(count=4), [pairs])
    graph.set_outputs([chances])
    assert "CoupledChances" in PlainRules().anchors
    assert "RandomUniform" not in PlainRules().anchors
    build(graph, tmp_path, style="readable", compiler_flags=C_FLAGS["readable"])
    given = np.random.default_rng(1).uniform(0.1, 0.9, (5, 6))
    found = import_exported(tmp_path).load()(given)
    np.testing.assert_allclose(found, CoupledChances(count=4).reference(given), rtol=1e-12)
