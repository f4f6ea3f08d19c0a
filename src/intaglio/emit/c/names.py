"""Names of C: those of the model as far as C allows, each used once and none that a header or our own code has."""

from __future__ import annotations

import re
from collections.abc import Iterable

from intaglio.emit.names import Names, identifier

KEYWORDS = frozenset(
    {"auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
     "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
     "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "bool",
     "true", "false", "asm", "typeof", "alignas", "alignof", "constexpr", "nullptr", "static_assert", "thread_local",
     "class", "new", "delete", "this", "namespace", "template", "operator", "private", "protected", "public", "try",
     "catch", "throw", "using", "virtual", "friend", "explicit", "export", "mutable", "and", "or", "not", "xor",
     "complex", "imaginary"}
)  # fmt: skip
"""Words of C and of C++, which may include the header."""

_LIBRARY = frozenset(
    {"abs", "fabs", "exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
     "asinh", "acosh", "atanh", "erf", "pow", "fmod", "floor", "ceil", "rint", "round", "ldexp", "frexp", "copysign",
     "signbit", "isnan", "isinf", "fmin", "fmax", "memcpy", "memset", "memmove", "memcmp", "malloc", "free",
     "calloc", "printf", "main", "errno", "stdin", "stdout", "stderr", "NULL", "EOF", "NAN", "INFINITY", "offsetof",
     "unix", "linux", "i386", "near", "far", "interrupt", "index", "y0", "y1", "yn", "j0", "j1", "jn", "gamma",
     "lgamma", "signgam", "div", "exit", "puts", "size_t", "ptrdiff_t", "wchar_t", "max_align_t", "PROGMEM", "assert"}
)  # fmt: skip
_OWN = frozenset(
    {"buffer", "size", "tasks", "cost", "scratch", "fault", "overflow", "threads", "limit", "goes_on", "is_true",
     "value", "other", "shape", "used", "arena", "weights", "heap", "out", "differ", "stop", "begin", "end", "call",
     "memory", "status", "room", "bytes", "offset", "number"}
)  # fmt: skip
_FUNCTIONS = frozenset(
    {"heap_piece", "heap_begin", "heap_allocate", "heap_release", "heap_grow", "HEAP_HEADER", "output_memory",
     "run_tasks", "scratch_memory", "size_floordiv", "size_ceildiv", "size_mod", "size_min", "size_max",
     "size_broadcast", "size_times", "size_product", "size_sum", "size_place", "size_cost"}
)  # fmt: skip
"""What the entry function calls."""

_MACRO = re.compile(r"(U?INT\w*_(MIN|MAX|C)|(SIZE|PTRDIFF|WCHAR|SIG_ATOMIC|DBL|FLT|LDBL|HUGE|FP|M|IG)_\w*|__\w*)")
_NUMBERED = re.compile(r"(n|b|r|p|calc|value|argument)\d+")


class CNames:
    """The giving of names, with all those taken that code of the folder uses itself."""

    def __init__(self, prefix: str, reserved: Iterable[str] = ()) -> None:
        self.prefix = prefix
        self._names = Names(KEYWORDS | _LIBRARY | _OWN | _FUNCTIONS | set(reserved))

    def give(self, text: str, fallback: str = "value") -> str:
        """An identifier like a text of the model."""
        name = identifier(text, fallback)
        is_ours = name.lower().startswith((f"{self.prefix.lower()}_", "ig_", "kernel_")) or name == self.prefix
        if is_ours or name.endswith("_t") or _MACRO.fullmatch(name) or _NUMBERED.fullmatch(name):
            name = f"{fallback}_{name}"
        return self._names.give(name)

    def take(self, name: str) -> str:
        """A name of our own making, with a number behind it where it is taken."""
        return self._names.give(name)
