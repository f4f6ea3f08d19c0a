"""Constants in the program memory of AVR, whose addresses are none of ordinary pointers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from intaglio.emit.c.interface import Interface
from intaglio.emit.c.kernels import KernelTexts
from intaglio.emit.c.lowered import Lowered
from intaglio.emit.c.weights import Constant
from intaglio.emit.names import comment
from intaglio.errors import UnsupportedError
from intaglio.ir.dim import symbols
from intaglio.kernels.plan import Call, operands_of, walk

LARGEST = 32767
"""Bytes that an array has at most on AVR."""
NEAR = 60 << 10
"""So many bytes of constants lie where addresses of 16 bits reach; others need 24."""


def flash_constants(lowered: Lowered) -> set[int]:
    """The constants that only functions with parameters of their own read, by their places in the plan.

    Others are read by way of arrays of pointers, which know no other memory; they stay in RAM.
    """
    texts = KernelTexts(lowered.plan, lowered.segment, True)
    found, others = set[int](), set[int]()
    for action in walk(lowered.segment.actions):
        for operand in operands_of(action):
            home = operand.buffer.home
            if home.kind == "constant":
                is_direct = isinstance(action, Call) and texts.is_direct(action)
                (found if is_direct else others).add(home.index)
    return found - others


def check_limits(lowered: Lowered, constants: Mapping[int, Constant]) -> None:
    """Raise UnsupportedError for what is larger than an array of AVR."""
    for each in constants.values():
        if each.bytes > LARGEST:
            raise UnsupportedError(
                f"the constant {comment(each.title)} has {each.bytes} bytes, and an array of AVR at most {LARGEST}: "
                "use smaller layers, or export without program memory"
            )
    total = lowered.memory.total
    if not symbols(total) and int(str(total)) > LARGEST:
        raise UnsupportedError(
            f"a run needs {total} bytes of memory, and an array of AVR has at most {LARGEST}: fix smaller sizes (--dim)"
        )


def flash_macro(interface: Interface, constants: Mapping[int, Constant]) -> str:
    """What a file says of program memory: nothing where the compiler is for another processor."""
    macro, total = interface.flash, sum(each.bytes for each in constants.values() if each.is_flash)
    space = "__flash" if total <= NEAR else "__memx"
    return "\n".join([
        "/* Where constants lie: in the program memory of AVR (__memx: behind its first 64 KB too). */",
        f"#ifndef {macro}", "#ifdef __AVR__", f"#define {macro} {space}", "#else", f"#define {macro}", "#endif",
        "#endif", "",
    ])  # fmt: skip


_DOUBLE = """\
#if defined(__AVR__) && __SIZEOF_DOUBLE__ < 8
#error "this model computes in 64 bits, and double has 32 here: -mdouble=64 (GCC 10 and newer)"
#endif
"""
_RINT = """\
#ifdef __AVR__
/* The nearest whole number, the even one of two: the library of AVR has it for whole numbers alone. */
static float rintf(float x)
{
    return fabsf(x) < 8388608.0f ? copysignf((float)lrint(x), x) : x;
}
#endif
"""
_LACKING = frozenset(
    f"{name}{suffix}"
    for name in (
        "erf",
        "erfc",
        "asinh",
        "acosh",
        "atanh",
        "expm1",
        "log1p",
        "exp2",
        "log2",
        "nearbyint",
        "lgamma",
        "tgamma",
    )
    for suffix in ("", "f")
)
"""Functions that avr-libc does not have."""


def avr_prelude(code: str) -> str:
    """What a code needs on AVR: a refusal where `double` is too narrow for it, a function that AVR lacks."""
    has_double, has_rint = re.search(r"\bdouble\b", code), re.search(r"\brintf\(", code)
    return "\n".join([*([_DOUBLE] if has_double else []), *([_RINT] if has_rint else [])])


def flash_notes(constants: Mapping[int, Constant], code: str) -> list[str]:
    """What a user should know: constants that are not in program memory, functions that AVR lacks."""
    notes: list[str] = []
    if left := [each for each in constants.values() if not each.is_flash]:
        names = ", ".join(comment(each.title) for each in left[:5]) + (", ..." if len(left) > 5 else "")
        notes.append(f"{sum(each.bytes for each in left)} bytes of constants stay in RAM: {names}")
    if called := sorted(_LACKING.intersection(re.findall(r"\b(\w+)\(", code))):
        notes.append(f"avr-libc has no {', '.join(called)}, which the model calls: define it where you link")
    return notes
