"""All the C of a model as one file that compiles alone, for people to read."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from intaglio.kernels.kernel import Kernel
from intaglio.kernels.plan import Call, walk
from intaglio.kernels.plan_form import PlanForm, SegmentForm
from intaglio.targets.c.driver import Driver
from intaglio.targets.c.kernel_source import kernel_source
from intaglio.targets.c.lines import comment, narrowed
from intaglio.targets.c.size_text import Words
from intaglio.targets.c.target import Target
from intaglio.targets.c.toolchain import RUNTIME_FOLDER

HEADERS = ("ig.h", "ig_math.h", "ig_loop.h")
"""What every kernel may use."""

_INCLUDE = re.compile(r'^#include "(\w+\.h)"\n', re.MULTILINE)

_QUIET = ("unused-parameter", "unused-variable", "unused-but-set-variable", "unused-function", "psabi", "pragmas")
"""Warnings that mean nothing here: all kernels have the same parameters, and not every one needs them all."""


def source_file(title: str, plans: Sequence[PlanForm], target: Target) -> str:
    """The C of some plans: what it is, contents, the headers' text, the kernels, and the driver of each segment."""
    kernels = list(dict.fromkeys(kernel for plan in plans for kernel in plan.kernels))
    names = dict(zip(kernels, function_names(kernels), strict=True))
    segments = [segment for plan in plans for segment in plan.segments]
    drivers = [f"run_segment_{place}" if len(segments) > 1 else "run" for place in range(len(segments))]
    parts = [
        _head(title, plans, names, drivers),
        _settings(target),
        *_headers(kernels),
        *(narrowed(kernel_text(kernel, names[kernel])) for kernel in kernels),
    ]
    for segment, name in zip(segments, drivers, strict=True):
        parts.append(narrowed(_NamedDriver(segment, names, name).text()))
    return "\n".join(parts)


def function_names(kernels: Sequence[Kernel]) -> Iterator[str]:
    """A name for each kernel after what it does; the second of the same name has a number behind it."""
    taken: set[str] = set()
    for kernel in kernels:
        name, number = kernel.hint, 2
        while name in taken:
            name, number = f"{kernel.hint}_{number}", number + 1
        taken.add(name)
        yield f"kernel_{name}"


def _head(title: str, plans: Sequence[PlanForm], names: dict[Kernel, str], drivers: Sequence[str]) -> str:
    served: dict[Kernel, list[str]] = {}
    for plan in plans:
        for segment in plan.segments:
            for call in walk(segment.actions):
                if isinstance(call, Call):
                    paths = dict.fromkeys(node.path for node in call.served if node.path)
                    served.setdefault(call.kernel, []).append(", ".join(paths) or call.title)
    lines = [f"{title} as C: {', '.join(drivers)} runs it.", "", "Contents:"]
    for kernel, name in names.items():
        lines.append(f"  {name}: {'; '.join(dict.fromkeys(served.get(kernel, ())))}")
    lines += [f"  {name}: runs the kernels of a segment in order" for name in drivers]
    wrapped = [part for line in lines for part in textwrap.wrap(line, 112, subsequent_indent="      ") or [""]]
    return "/* " + "\n   ".join(map(comment, wrapped)).replace("\n   \n", "\n\n") + " */\n"


def _settings(target: Target) -> str:
    """What the compiler is otherwise told by its options."""
    options = [flag.removeprefix("-m") for flag in target.flags if flag.startswith("-m")]
    defined = [flag.removeprefix("-D") for flag in target.flags if flag.startswith("-D")]
    lines = ["#ifdef __GNUC__", *(f'#pragma GCC diagnostic ignored "-W{name}"' for name in _QUIET), "#endif"]
    if options and target.name != "wasm":
        lines += [
            "#if defined(__GNUC__) && !defined(__clang__)",
            f'#pragma GCC target("{",".join(options)}")',
            "#endif",
        ]
    lines += [f"#define IG_LANES {target.lanes}", *(f"#define {name} 1" for name in defined)]
    return "\n".join([*lines, ""])


def _headers(kernels: Sequence[Kernel]) -> Iterator[str]:
    """The text of every header that is used, each once, behind those that it includes itself."""
    wanted = [*HEADERS, *(name for kernel in kernels for name in _INCLUDE.findall(kernel_source(kernel)))]
    done: set[str] = set()

    def text(name: str) -> Iterator[str]:
        if name in done:
            return
        done.add(name)
        content = (RUNTIME_FOLDER / name).read_text(encoding="utf-8")
        for inner in _INCLUDE.findall(content):
            yield from text(inner)
        yield _INCLUDE.sub("", content)

    for name in wanted:
        yield from text(name)


def kernel_text(kernel: Kernel, name: str) -> str:
    """The text of a kernel as a static function of a file."""
    text = _INCLUDE.sub("", kernel_source(kernel)).replace("IG_FUNCTION", name)
    return re.sub(rf"^void {name}\(", f"static void {name}(", text, flags=re.MULTILINE)


class _NamedDriver(Driver):
    """The driver of a segment as a function of a file, which calls kernels by their names there."""

    def __init__(self, segment: SegmentForm, names: Mapping[Kernel, str], function: str) -> None:
        self.words = Words(prefix=f"{function}_")
        super().__init__(segment, names, function)

    def head(self) -> list[str]:
        """The function's declaration, and its head."""
        first, *rest = super().head()
        return [f"{first};", first, *rest]


def function_lines(source: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The kernels of a file that `source_file` wrote, by name, each with its first and last line, counted from 1."""
    name, first = "", 0
    for number, line in enumerate(source.split("\n"), 1):
        if found := re.match(r"static void (kernel_\w+)\(", line):
            name, first = found[1], number
        elif line == "}" and name:
            yield name, (first, number)
            name = ""
