"""The functions that the entry function calls: kernels in the style that was asked for."""

from __future__ import annotations

import re
from collections.abc import Collection

from intaglio.ir.dim import Dim
from intaglio.kernels.kernel import FileKernel, Kernel, SourceKernel
from intaglio.kernels.language import LoopKernel
from intaglio.kernels.plan import Call, Operand, Plan, Segment, walk
from intaglio.targets.c.kernel_file import KERNEL_FOLDER
from intaglio.targets.c.kernel_source import kernel_source
from intaglio.targets.c.source_file import function_names, kernel_text
from intaglio.targets.plain.expression import Helpers
from intaglio.targets.plain.one_lane import Signature, file_text, function_text, has_parameters, signature_of
from intaglio.targets.plain.printing import memory_type, parameter_sizes, plain_function

_INCLUDE = re.compile(r'^#include "(\w+\.h)"\n', re.MULTILINE)


_DECLARED = [*(KERNEL_FOLDER / "library.h").read_text(encoding="ascii").splitlines(keepends=True), "#undef INFINITY\n"]
"""What kernels declare of C's library. An exported file includes its headers, in which a function may be a macro."""


class KernelTexts:
    """The kernels of a plan as C functions of one file."""

    def __init__(
        self, plan: Plan, segment: Segment, is_readable: bool, flash: Collection[int] = (), space: str = ""
    ) -> None:
        """`flash` are the constants that lie in a memory which has the name `space`."""
        self.kernels = plan.kernels
        self.is_readable = is_readable
        self.flash, self.space = flash, space
        self._names = dict(zip(self.kernels, function_names(self.kernels), strict=True))
        self._calls: dict[Kernel, list[Call]] = {}
        for action in walk(segment.actions):
            if isinstance(action, Call):
                self._calls.setdefault(action.kernel, []).append(action)

    def name(self, call: Call) -> str:
        """The C function of a call: that of its kernel, or the one that reads some buffers from other memory."""
        return self._name(call.kernel, self._places(call))

    def _name(self, kernel: Kernel, places: tuple[int, ...]) -> str:
        return "_".join([self._names[kernel], *(["flash", *map(str, places)] if places else [])])

    def is_flash(self, operand: Operand) -> bool:
        """Whether an operand lies in the other memory."""
        return operand.buffer.home.kind == "constant" and operand.buffer.home.index in self.flash

    def _places(self, call: Call) -> tuple[int, ...]:
        """Which buffers of a call lie in the other memory."""
        return tuple(place for place, operand in enumerate(call.operands) if self.is_flash(operand))

    def is_direct(self, call: Call) -> bool:
        """Whether a kernel is a function of its own parameters."""
        return self.is_readable and has_parameters(call.kernel)

    def elements(self, kernel: Kernel) -> list[str]:
        """The C types of the elements of a kernel's buffers."""
        if isinstance(kernel.body, FileKernel):
            return [each.element for each in _signature(kernel.body).buffers]
        assert isinstance(kernel.body, LoopKernel)
        return [memory_type(each.dtype) for each in kernel.body.parameters]

    def known_sizes(self, kernel: Kernel) -> dict[str, int]:
        """The sizes that are one number in all calls."""
        found: dict[str, Dim] = dict(self._calls[kernel][0].sizes)
        for call in self._calls[kernel][1:]:
            other = dict(call.sizes)
            found = {name: size for name, size in found.items() if other[name] == size}
        return {name: size for name, size in found.items() if isinstance(size, int)}

    def open_sizes(self, kernel: Kernel) -> list[str]:
        """The sizes that are parameters of a kernel's function, in order."""
        known = self.known_sizes(kernel)
        if isinstance(kernel.body, FileKernel):
            return [name for name in _signature(kernel.body).sizes if name not in known]
        assert isinstance(kernel.body, LoopKernel)
        return parameter_sizes(kernel.body, known)

    def texts(self) -> list[str]:
        """All functions, behind the small ones that they use."""
        helpers, found = Helpers(), list[str]()
        for kernel in self.kernels:
            if self.is_readable and has_parameters(kernel):
                for places in dict.fromkeys(self._places(call) for call in self._calls.get(kernel, ())):
                    found.append(self._plain(kernel, places, helpers))
            else:
                body = kernel.body
                if self.is_readable and isinstance(body, (FileKernel, SourceKernel)):
                    found.append(file_text(body, self._names[kernel], helpers))
                else:
                    found.append(_without_declarations(kernel_text(kernel, self._names[kernel])))
        return [*([helpers.text] if helpers.text else []), *found]

    def _plain(self, kernel: Kernel, places: tuple[int, ...], helpers: Helpers) -> str:
        """A function of its own parameters, of which those at some places point to the other memory."""
        name, known, spaces = self._name(kernel, places), self.known_sizes(kernel), dict.fromkeys(places, self.space)
        if isinstance(kernel.body, FileKernel):
            return function_text(kernel.body, name, known, spaces)
        assert isinstance(kernel.body, LoopKernel)
        return plain_function(kernel.body, name, helpers, known, spaces=spaces)

    def headers(self) -> list[str]:
        """Our headers that kernels ask for beyond those that all have."""
        return list(dict.fromkeys(name for kernel in self.kernels for name in _INCLUDE.findall(kernel_source(kernel))))


def _without_declarations(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if line not in _DECLARED)


def _signature(kernel: FileKernel) -> Signature:
    found = signature_of(kernel)
    assert found is not None, f"{kernel.name} is called by arrays"
    return found
