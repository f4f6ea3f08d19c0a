"""Kernels as values: what a call runs, described by data that a target turns into code after lowering."""

from __future__ import annotations

from dataclasses import dataclass

from intaglio.kernels.language import LoopKernel

Setting = str | int
"""The value of a kernel's parameter: a number or truth, or a word of the file's own."""

Settings = tuple[tuple[str, Setting], ...]
"""Parameters by name, in the order of their names."""


@dataclass(frozen=True)
class FileKernel:
    """An instance of a kernel that the target has as a file: the file's name and a value for each parameter.

    A structured kernel hands its results to its epilogue, whose operands and sizes come behind its own: loads,
    arithmetic and stores in the neutral language, or another file.
    """

    name: str
    parameters: Settings = ()
    epilogue: LoopKernel | FileKernel | None = None


@dataclass(frozen=True)
class LibraryCall:
    """A function that the target supplies under a name; the parameters choose one of its forms."""

    name: str
    parameters: Settings = ()


@dataclass(frozen=True)
class SourceBuffer:
    """A buffer of a kernel that is given as statements: its name, the type of its elements there, and whether it is
    written."""

    name: str
    element: str
    is_written: bool = False


@dataclass(frozen=True)
class SourceKernel:
    """Statements of C over named buffers and sizes, for kernels that nobody else describes.

    They see `begin`, `end` and `scratch` too, and `fault` where they `check`.
    """

    about: str
    buffers: tuple[SourceBuffer, ...]
    sizes: tuple[str, ...]
    text: str
    checks: bool = False


Body = LoopKernel | FileKernel | LibraryCall | SourceKernel


@dataclass(frozen=True)
class Kernel:
    """What a call runs, without any text of a target; equal where bodies, hints and fixed sizes are."""

    hint: str
    """How the name of its function begins."""
    body: Body
    fixed: tuple[tuple[str, int], ...] = ()
    """Sizes that are numbers in the code: kernels of one body that differ in them are functions of their own."""

    @property
    def loops(self) -> LoopKernel | None:
        """The kernel in the neutral language, where it is one."""
        return self.body if isinstance(self.body, LoopKernel) else None
