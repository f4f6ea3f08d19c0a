"""The constants of a model as text, as a file for the linker, or as one that the caller reads."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from intaglio.emit.c.interface import Interface
from intaglio.emit.c.options import COptions
from intaglio.emit.c.types import array_type, literals
from intaglio.emit.export import CWeights
from intaglio.emit.names import comment
from intaglio.ir.op import Array
from intaglio.targets.arrays import exportable

TEXT_BYTES = 4 << 20
"""Weights of up to so many bytes are text unless something else is asked for."""

FILE_ALIGNMENT = 64


@dataclass
class Constant:
    """An array of the model: its name in C, and where it lies in the file of weights."""

    name: str
    array: Array
    title: str
    offset: int = 0
    is_flash: bool = False
    """Whether it lies in the program memory of AVR."""

    @property
    def type(self) -> str:
        """The C type of its numbers."""
        return array_type(self.array)

    @property
    def bytes(self) -> int:
        """Its size in memory."""
        return int(self.array.nbytes)


def chosen_format(options: COptions, total: int) -> CWeights:
    """How weights are written."""
    if options.weights is not None:
        return options.weights
    if not options.globals:
        return "bin"
    return "c" if options.program_memory or total <= TEXT_BYTES else "object"


def placed(constants: Sequence[Constant]) -> int:
    """Give each constant its place in the file of weights, whose size is returned."""
    end = 0
    for constant in constants:
        constant.offset = end
        end += -(-max(1, constant.bytes) // FILE_ALIGNMENT) * FILE_ALIGNMENT
    return end


def file_content(constants: Sequence[Constant]) -> bytes:
    """The file of weights."""
    total = placed(constants)
    content = bytearray(total)
    for constant in constants:
        data = exportable(np.asarray(constant.array)).tobytes()
        content[constant.offset : constant.offset + len(data)] = data
    return bytes(content)


def definition(constant: Constant, qualifiers: str, alignment: int, space: str = "") -> str:
    """A constant as an array of C, in a memory of its own where `space` names one."""
    items = literals(constant.array) or ["0"]
    head = f"{qualifiers}_Alignas({alignment}) const {space}{constant.type} {constant.name}[{len(items)}] = {{"
    lines = textwrap.wrap(", ".join(items), 112, break_long_words=False)
    return "\n".join([f"/* {comment_text(constant.title)} */", head, *(f"    {line}" for line in lines), "};", ""])


def comment_text(text: str) -> str:
    """A text of the model inside of a C comment."""
    return comment(text).replace("*/", "* /").replace("/*", "/ *")


def weights_source(constants: Sequence[Constant], interface: Interface, options: COptions) -> str:
    """`weights.c`."""
    head = f'/* The weights of {interface.prefix}. */\n#include "weights.h"\n'
    return "\n".join([head, *(definition(each, "", options.alignment, _space(each, interface)) for each in constants)])


def _space(constant: Constant, interface: Interface) -> str:
    return f"{interface.flash} " if constant.is_flash else ""


def weights_header(constants: Sequence[Constant], interface: Interface, more: str = "") -> str:
    """`weights.h`: the declarations of what is in `weights.c`, behind what else is to be said."""
    guard = f"{interface.macro}_WEIGHTS_H"
    lines = [f"/* The weights of {interface.prefix}, which another file may define instead of weights.c. */"]
    lines += [f"#ifndef {guard}", f"#define {guard}", ""]
    lines += ["#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>", ""]
    lines += [more] if more else []
    for each in constants:
        count = max(1, each.array.size * _parts(each))
        lines.append(f"extern const {_space(each, interface)}{each.type} {each.name}[{count}];")
    return "\n".join([*lines, "", "#endif", ""])


def _parts(constant: Constant) -> int:
    return 2 if np.asarray(constant.array).dtype.kind == "c" else 1


def object_source(prefix: str) -> str:
    """`weights.S`, by which an assembler makes an object of the file of weights."""
    return f"""/* The file of weights as an object, for assemblers of ELF and Mach-O. */
#if defined(__APPLE__)
    .const
    .globl _{prefix}_weights
    .p2align 6
_{prefix}_weights:
#else
    .section .rodata
    .globl {prefix}_weights
    .balign 64
{prefix}_weights:
#endif
    .incbin "weights.bin"
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack,"",%progbits
#endif
"""
