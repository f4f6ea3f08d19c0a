"""C functions, the keys that address their machine code, and the units in which several are compiled together."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

from intaglio.errors import CompileError
from intaglio.record import Record
from intaglio.targets.c.target import Target
from intaglio.targets.c.toolchain import COMMON_FLAGS, RUNTIME_FOLDER

if TYPE_CHECKING:
    from intaglio.targets.c.compiler import Compiler

FUNCTIONS_PER_UNIT = 24
_HINT_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")


class CFunction(Record):
    """One C function with external linkage, named IG_FUNCTION in `source`, and the static helpers only it uses.

    Every `IG_FUNCTION` in the text becomes the symbol, so a helper named `IG_FUNCTION_row` is private to the function.
    `headers` are included in front of it. `symbol_hint` is made of [a-z0-9_] and starts the symbol's name.
    """

    symbol_hint: str
    source: str
    optimize: str = "-O3"
    headers: tuple[str, ...] = ("ig.h", "ig_math.h")

    def __post_init__(self) -> None:
        if not self.symbol_hint or not _HINT_CHARACTERS.issuperset(self.symbol_hint) or self.symbol_hint[0].isdigit():
            raise CompileError(f"symbol hint {self.symbol_hint!r} is not an identifier of [a-z0-9_]")


class Key(Record):
    """What addresses a function's machine code.

    `source` is a hash of everything that it depends on beside the compiler, `compiler` one of the compiler and the
    flags that only it is given. An empty `compiler` means code that any compiler made.
    """

    source: str
    compiler: str

    def __str__(self) -> str:
        return f"{self.source}-{self.compiler}"


def function_key(function: CFunction, compiler: Compiler | None, target: Target) -> Key:
    """The key of a function; without a compiler, that of what any compiler made of it."""
    environment = _environment_digest(target, function.optimize)
    text = "\0".join((environment, *function.headers, function.symbol_hint, function.source))
    source = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return Key(source, _compiler_digest(compiler, target, function.optimize) if compiler else "")


@functools.cache
def _environment_digest(target: Target, optimize: str) -> str:
    texts = [path.read_text(encoding="utf-8") for path in sorted(RUNTIME_FOLDER.glob("*.h"))]
    level = (optimize, "quick") if target.is_quick else (optimize,)
    parts = (target.name, str(target.lanes), *target.flags, *level, *COMMON_FLAGS, *texts)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _compiler_digest(compiler: Compiler, target: Target, optimize: str) -> str:
    parts = (compiler.version, *compiler.command[1:], *compiler.flags(target, optimize))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def symbol_of(function: CFunction, key: Key) -> str:
    """The linker's name of a function, the same for every compiler."""
    return f"{function.symbol_hint}_{key.source[:12]}"


def partition(functions: dict[Key, CFunction], cores: int) -> list[dict[Key, CFunction]]:
    """Share functions out to units of one optimisation level each, so that every core has as much to compile."""
    shares = _balanced(functions, max(cores, -(-len(functions) // FUNCTIONS_PER_UNIT)))
    units: list[dict[Key, CFunction]] = []
    for level in sorted({function.optimize for function in functions.values()}, reverse=True):
        units += [{key: f for key, f in share.items() if f.optimize == level} for share in shares]
    return [unit for unit in units if unit]


def _balanced(functions: dict[Key, CFunction], count: int) -> list[dict[Key, CFunction]]:
    """Consecutive shares of about one cost. Functions of one kind lie together: a compiler merges what they share."""
    ordered = sorted(functions, key=lambda key: (functions[key].symbol_hint, key.source))
    share = sum(map(_cost, functions.values())) / count
    shares: list[dict[Key, CFunction]] = [{} for _ in range(count)]
    done = 0.0
    for key in ordered:
        cost = _cost(functions[key])
        shares[min(int((done + cost / 2) / share), count - 1)][key] = functions[key]
        done += cost
    return shares


def _cost(function: CFunction) -> float:
    """How long the compiler takes, in characters of kernel; a driver's lines were measured to be this much cheaper."""
    return len(function.source) * (1 if function.optimize == "-O3" else 1 / 16)


def unit_source(functions: dict[Key, CFunction]) -> str:
    """The text of one unit: the headers, then every function under its symbol."""
    headers = dict.fromkeys(header for function in functions.values() for header in function.headers)
    lines = [f'#include "{header}"\n' for header in headers]
    for key, function in functions.items():
        body = function.source.replace("IG_FUNCTION", symbol_of(function, key))
        lines.append(f"\n#pragma GCC visibility push(default)\n{body}\n#pragma GCC visibility pop\n")
    return "".join(lines)
