"""`main.c`: a program that runs a model on stored inputs and compares the results with stored answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from intaglio.emit.c.interface import Interface, Port
from intaglio.emit.c.types import literals, parts
from intaglio.emit.c.weights import Constant, comment_text, definition
from intaglio.ir.op import Array
from intaglio.ir.substitution import evaluate


@dataclass
class Example:
    """Inputs, the answers of the reference engine, and the sizes that belong to them."""

    sizes: Mapping[str, int]
    inputs: Sequence[Array]
    outputs: Sequence[Array] | None
    """None where the model has random results, or the reference refuses the inputs."""
    is_rounded: bool
    """Whether whole numbers come of rounding, and may be one off."""


_COMPARE = """\
static int differs(const char *name, double found, double wanted, double relative, double absolute, long place)
{
    const double distance = fabs(found - wanted);
    if (found == wanted || (isnan(found) && isnan(wanted)) || distance <= absolute + relative * fabs(wanted))
        return 0;
    printf("%s[%ld] is %.9g, expected %.9g\\n", name, place, found, wanted);
    return 1;
}
"""

_HALVES = {
    "float16": """\
static double number(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double size = exponent == 31 ? (mantissa ? NAN : INFINITY)
        : exponent ? ldexp(mantissa + 1024, exponent - 25) : ldexp(mantissa, -24);
    return bits & 0x8000 ? -size : size;
}
""",
}

_TOLERANCES = {"float16": (4e-3, 1e-2), "bfloat16": (3e-2, 3e-2), "float64": (1e-6, 1e-8)}


def program(interface: Interface, example: Example | None, alignment: int) -> str:
    """The C text."""
    prefix = interface.prefix
    lines = [f"/* Runs {prefix} on stored inputs and compares the results with stored answers. */"]
    lines += ["#include <math.h>", "#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>", ""]
    lines += [f'#include "{prefix}.h"', '#include "test_data.h"' if example else "", ""]
    if example is None:
        return "\n".join([*lines, "int main(void)", "{", f'    printf("{_NO_TEST}\\n");', "    return 0;", "}", ""])
    body = _body(interface, example, alignment)
    if any("differs(" in line for line in body):
        lines.append(_COMPARE)
    lines += ["int main(void)", "{"]
    lines += [f"    {line}" for line in body]
    return "\n".join([*lines, "}", ""])


_NO_TEST = "no answers are stored: the reference engine takes no random inputs of this model"


def _is_compared(port: Port) -> bool:
    return port.value.dtype.name in ("float32", "float64") or port.value.dtype.kind in ("complex",)


def _body(interface: Interface, example: Example, alignment: int) -> list[str]:
    prefix, macro = interface.prefix, interface.macro
    lines: list[str] = ["int wrong = 0;"]
    arguments = [str(example.sizes[symbol]) for symbol in interface.sizes]
    arguments += [f"test_{port.name}" for port in interface.inputs]
    answers = list(example.outputs or [None] * len(interface.outputs))
    for port, answer in zip(interface.outputs, answers, strict=True):
        count = _count(port, example, answer)
        lines.append(f"static _Alignas({alignment}) {port.type} {port.name}[{max(1, count)}];")
        arguments.append(port.name)
        if port.is_late:
            lines.append(f"int64_t {port.name}_shape[{max(1, len(port.shape))}] = {{0}};")
            arguments += [str(count), f"{port.name}_shape"]
    if interface.takes_arena:
        sizes = ", ".join(str(example.sizes[symbol]) for symbol in interface.sizes)
        lines += [f"const int64_t bytes = {prefix}_arena_bytes({sizes});"]
        lines += ["void *const arena = malloc((size_t)bytes + 64);"]
        arguments.append("(void *)(((uintptr_t)arena + 63) / 64 * 64)")
    if interface.takes_weights:
        lines += [
            "static _Alignas(64) unsigned char weights[WEIGHTS];".replace("WEIGHTS", f"{macro}_WEIGHTS_BYTES + 1")
        ]
        lines += ['FILE *const file = fopen("weights.bin", "rb");']
        lines += [f"if (!file || fread(weights, 1, {macro}_WEIGHTS_BYTES, file) != {macro}_WEIGHTS_BYTES) {{"]
        lines += ['    puts("weights.bin cannot be read");', "    return 2;", "}", "fclose(file);"]
        arguments.append("weights")
    lines += [f"const int status = {prefix}_run({', '.join(arguments)});", "if (status) {"]
    lines += [f'    printf("{prefix}_run: %s\\n", {prefix}_error(status));', "    return 2;", "}"]
    for port, answer in zip(interface.outputs, answers, strict=True):
        lines += _comparison(port, answer, example.is_rounded)
    lines += ["free(arena);"] if interface.takes_arena else []
    good = "the results are as stored" if example.outputs is not None else "it runs; random results are not compared"
    lines += ["if (!wrong)", f'    puts("{good}");', "return wrong != 0;"]
    return lines


def _count(port: Port, example: Example, answer: Array | None) -> int:
    if answer is not None:
        return int(answer.size) * parts(port.value.dtype)
    return evaluate(port.count, example.sizes) if not port.is_late else 65536


def _comparison(port: Port, answer: Array | None, is_rounded: bool) -> list[str]:
    if answer is None:
        return []
    name, dtype = port.name, port.value.dtype
    lines: list[str] = []
    if port.is_late:
        shape = [f"{name}_shape[{axis}] != {size}" for axis, size in enumerate(answer.shape)]
        lines += [f"if ({' || '.join(shape) or '0'}) {{", f'    puts("{name} has another shape");', "    wrong++;", "}"]
    if not answer.size:
        return lines
    count = len(literals(answer))
    if _is_compared(port):
        relative, absolute = _TOLERANCES.get(dtype.name, (1e-3, 1e-4))
        absolute *= max(1.0, _magnitude(answer))
        check = f'differs("{name}", (double){name}[i], (double)answer_{name}[i], {relative!r}, {absolute!r}, i)'
        return [*lines, f"for (long i = 0; i < {count} && wrong < 10; i++)", f"    wrong += {check};"]
    if dtype.kind in ("int", "uint") and dtype.bits == 8 and is_rounded:
        return [*lines, f"for (long i = 0; i < {count}; i++)", f"    wrong += abs({name}[i] - answer_{name}[i]) > 1;"]
    if dtype.name in ("float16", "bfloat16"):
        step = f"abs((int)({name}[i] & 0x7fff) - (int)(answer_{name}[i] & 0x7fff)) > 8"
        return [*lines, f"for (long i = 0; i < {count}; i++)", f"    wrong += {step};"]
    compared = f"memcmp({name}, answer_{name}, sizeof answer_{name})"
    return [*lines, f"if ({compared}) {{", f'    puts("{name} differs");', "    wrong++;", "}"]


def _magnitude(answer: Array) -> float:
    finite = np.abs(answer[np.isfinite(answer)])
    return float(finite.max()) if finite.size else 1.0


def test_data(interface: Interface, example: Example) -> str:
    """`test_data.h`: the inputs and answers."""
    arrays = [(f"test_{p.name}", p, array) for p, array in zip(interface.inputs, example.inputs, strict=True)]
    if example.outputs is not None:
        arrays += [(f"answer_{p.name}", p, a) for p, a in zip(interface.outputs, example.outputs, strict=True)]
    lines = [
        "/* Inputs and answers for main.c. */",
        "#include <math.h>",
        "#include <stdbool.h>",
        "#include <stdint.h>",
        "",
    ]
    for name, port, array in arrays:
        constant = Constant(name, array, comment_text(f"{port.value.name} {list(array.shape)}"))
        text = definition(constant, "static ", 64)
        lines.append(text.replace(f"const {constant.type} {name}", f"const {port.type} {name}"))
    return "\n".join(lines)
