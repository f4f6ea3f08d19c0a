"""Kernels that are files of C: how a file becomes the text of one kernel.

A kernel is `kernels/NAME.c`, which compiles by itself. What is chosen for each instance stands in it as a parameter, a
macro with a default between `#ifndef` and `#endif`; its buffers and sizes are the members of two structs. An instance
is the text of the file with other files of the folder in place of their `#include`, the values in place of the
defaults, only those branches of `#if` that the values choose, and an `#undef` for each macro at the end.
docs/kernel-files.md tells more.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from intaglio.kernels.kernel import FileKernel, Setting

KERNEL_FOLDER = Path(__file__).parent / "kernels"

Value = Setting
"""The value of a parameter: a number or truth, or a C type, function or expression."""

_INCLUDE = re.compile(r'^#include "(\w+\.h)"\n', re.MULTILINE)
_PARAMETER = re.compile(r"^#ifndef (\w+)\n#define \1\b *(.*)\n#endif\n", re.MULTILINE)
_DEFINE = re.compile(r"^#define (\w+)(?: +(\w+)$)?", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_COMPARISON = re.compile(r"(\w+) *(==|!=|<=|>=|<|>) *(\w+)|(!?)(\w+)")
_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMMON_HEADERS = frozenset({"ig.h", "ig_math.h", "ig_loop.h", "epilogue.h"})
"""Headers in front of every unit, and the stand-in for the epilogue, which is in front of the kernel."""


@dataclass(frozen=True)
class Instance:
    """A kernel made of a file: the names of its buffers and sizes in the order of its arguments, and its C text."""

    kernel: FileKernel
    text: str
    buffers: tuple[str, ...]
    sizes: tuple[str, ...]


class KernelFileError(ValueError):
    """A kernel's file and those who make instances of it do not agree: a bug of ours."""


def kernel(name: str, values: Mapping[str, Value] | None = None, **more: Value) -> Instance:
    """The instance of `kernels/NAME.c` with a value for each of its parameters.

    >>> kernel("gemm", rows=6)
    Traceback (most recent call last):
    ...
    intaglio.targets.c.kernel_file.KernelFileError: kernels/gemm.c has no parameter rows
    """
    settings = sorted({**(values or {}), **more}.items())
    return instance(
        FileKernel(name, tuple((key, value if isinstance(value, str) else int(value)) for key, value in settings))
    )


@functools.lru_cache(maxsize=512)
def instance(kernel: FileKernel, own_folder: Path | None = None) -> Instance:
    """The instance of a kernel's file, its epilogue aside.

    Files of a target's own folder stand in the place of those of the same name.
    """
    name, values = kernel.name, dict(kernel.parameters)
    whole, parameters = _whole_text(name, own_folder), parameters_of(name, own_folder)
    for wrong in (*(values.keys() - parameters.keys()), *(parameters.keys() - values.keys())):
        problem = f"has no parameter {wrong}" if wrong in values else f"needs a value for {wrong}"
        raise KernelFileError(f"kernels/{name}.c {problem}")
    fixed = _fixed(whole)
    text = _PARAMETER.sub(lambda match: _definition(match[1], values, fixed), whole)
    numbers = _numbers(fixed | values)
    text = _live_lines(text, numbers)
    macros = dict.fromkeys(match[1] for match in _DEFINE.finditer(text))
    text += "".join(f"#undef {macro}\n" for macro in macros)
    return Instance(kernel, text, _members(text, "buffers", numbers), _members(text, "sizes", numbers))


@functools.cache
def parameters_of(name: str, own_folder: Path | None = None) -> dict[str, str]:
    """The parameters of a kernel's file and their defaults."""
    whole = _whole_text(name, own_folder)
    fixed = _fixed(whole)
    return {match[1]: match[2] for match in _PARAMETER.finditer(whole) if match[1] not in fixed}


def _definition(macro: str, values: Mapping[str, Value], fixed: Mapping[str, Value]) -> str:
    if macro in fixed:
        return ""
    value = values[macro]
    return f"#define {macro} {value}\n"


@functools.cache
def _whole_text(name: str, own_folder: Path | None = None) -> str:
    """The text of a kernel's file with the files that it includes, those of `own_folder` first."""
    folders = [KERNEL_FOLDER] if own_folder is None else [own_folder, KERNEL_FOLDER]

    def text(file: str) -> str | None:
        path = next((path for folder in folders if (path := folder / file).exists()), None)
        return None if path is None else _INCLUDE.sub(included, path.read_text(encoding="ascii"))

    def included(match: re.Match[str]) -> str:
        """What an `#include` stands for: a file, nothing where that is in front of the kernel, or itself."""
        found = "" if match[1] in _COMMON_HEADERS else text(match[1])
        return match[0] if found is None else found

    whole = text(f"{name}.c")
    assert whole is not None, f"there is no kernel {name}"
    return whole


def _fixed(whole: str) -> dict[str, Value]:
    """The macros that a file defines for good, with their values where these are a number or a name."""
    rest = _PARAMETER.sub("", whole)
    return {match[1]: match[2] or "" for match in _DEFINE.finditer(rest)}


def _numbers(values: Mapping[str, Value]) -> dict[str, int]:
    """The macros whose value is a number, or the name of one."""
    found: dict[str, int] = {}
    for name, value in values.items():
        while isinstance(value, str) and value in values:
            value = values[value]
        if isinstance(value, int) or value.isdigit():
            found[name] = int(value)
    return found


def _live_lines(text: str, numbers: Mapping[str, int]) -> str:
    """The text without the branches of `#if` that the numbers rule out; other conditions stay."""
    lines: list[str] = []
    stack: list[_Branch] = []
    for line in text.splitlines(keepends=True):
        word = line.lstrip("# \t").split()[0] if line.startswith("#") and line.strip() != "#" else ""
        if word in ("if", "ifdef", "ifndef"):
            chosen = _holds(line.split(None, 1)[1].strip(), numbers) if word == "if" else None
            stack.append(_Branch(chosen is None, bool(chosen), bool(chosen)))
            is_printed = stack[-1].is_kept
        elif word in ("elif", "else"):
            is_printed = stack[-1].is_kept
            if not is_printed:
                stack[-1].turn(word == "else" or bool(_holds(line.split(None, 1)[1].strip(), numbers)))
        elif word == "endif":
            is_printed = stack.pop().is_kept
        else:
            is_printed = True
        if is_printed and all(branch.is_kept or branch.is_live for branch in stack):
            lines.append(line)
    return re.sub(r"\n{3,}", "\n\n", "".join(lines))


@dataclass
class _Branch:
    """An `#if` around the current line: left in the text, or decided here."""

    is_kept: bool
    is_live: bool
    has_been_live: bool

    def turn(self, holds: bool) -> None:
        """Come to the next branch."""
        self.is_live = holds and not self.has_been_live
        self.has_been_live |= holds


def _holds(condition: str, numbers: Mapping[str, int]) -> bool | None:
    """Whether a condition of names, comparisons, `&&` and `||` holds; None where a name is not known.

    >>> _holds("LANES >= 8 && !NARROW", {"LANES": 8, "NARROW": 0}), _holds("__GNUC__ > 4", {})
    (True, None)
    """
    found = [[_term(part.strip(), numbers) for part in choice.split("&&")] for choice in condition.split("||")]
    if any(term is None for choice in found for term in choice):
        return None
    return any(all(choice) for choice in found)


def _term(text: str, numbers: Mapping[str, int]) -> bool | None:
    match = _COMPARISON.fullmatch(text)
    if match is None:
        return None
    values = [_number(word, numbers) for word in ((match[1], match[3]) if match[2] else (match[5],))]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return _OPERATORS[match[2]](known[0], known[1]) if match[2] else (known[0] == 0) == (match[4] == "!")


def _number(word: str, numbers: Mapping[str, int]) -> int | None:
    return int(word) if word.isdigit() else numbers.get(word)


def _members(text: str, which: str, numbers: Mapping[str, int]) -> tuple[str, ...]:
    """The members of the struct IG_FUNCTION_buffers or IG_FUNCTION_sizes; a kernel may lack either."""
    found = re.search(rf"typedef struct \{{([^}}]*)\}} IG_FUNCTION_{which};", _COMMENT.sub("", text))
    declarations = found[1].split(";") if found else []
    members = [member for line in declarations if line.strip() for member in line.split(",")]
    return tuple(name for member in members for name in _names(member, numbers))


def _names(member: str, numbers: Mapping[str, int]) -> list[str]:
    """The name of a member; an array has one for each element, with the element's number behind it.

    >>> _names("int64_t rows", {}), _names(" extent[AXES]", {"AXES": 2})
    (['rows'], ['extent0', 'extent1'])
    """
    name, _, count = member.split()[-1].lstrip("*").rstrip("]").partition("[")
    if not count:
        return [name]
    length = _number(count, numbers)
    if length is None:
        raise KernelFileError(f"the length {count} of the member {name} is no number")
    return [f"{name}{place}" for place in range(length)]
