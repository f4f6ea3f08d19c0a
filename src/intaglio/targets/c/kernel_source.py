"""The C text of kernels: made of their values after lowering, once for each distinct kernel."""

from __future__ import annotations

import functools
from typing import cast

from intaglio.kernels.epilogue import stride_names, stride_size
from intaglio.kernels.kernel import FileKernel, Kernel, LibraryCall, SourceKernel
from intaglio.kernels.language import LoopKernel
from intaglio.targets.c.kernel_file import Instance, instance
from intaglio.targets.c.printing.epilogue import epilogue_source
from intaglio.targets.c.printing.loops import loop_source
from intaglio.targets.c.printing.register import with_headers
from intaglio.targets.c.printing.transpose import transpose_source


@functools.lru_cache(maxsize=1024)
def kernel_source(kernel: Kernel) -> str:
    """The C of a kernel, whose function is called IG_FUNCTION in it, with the headers that it needs."""
    body = kernel.body
    if isinstance(body, LoopKernel):
        return loop_source(body)
    if isinstance(body, FileKernel):
        return _file_source(body)
    return _library_source(body) if isinstance(body, LibraryCall) else with_headers(statements_file(body))


def _file_source(kernel: FileKernel) -> str:
    """An instance of a file, behind the functions of its epilogue."""
    own = instance(FileKernel(kernel.name, kernel.parameters))
    if kernel.epilogue is None:
        return with_headers(own.text)
    sizes, epilogue = _epilogue(own, kernel.epilogue)
    text = (epilogue + own.text).replace("ig_epilogue", "IG_FUNCTION_epilogue")
    return f"/* sizes: {', '.join(sizes)} */\n" + with_headers(text)


def _epilogue(own: Instance, epilogue: LoopKernel | FileKernel) -> tuple[list[str], str]:
    """The names of all sizes of a kernel with its epilogue, and the epilogue's text."""
    if isinstance(epilogue, FileKernel):
        return [*own.sizes, "out_step"], instance(epilogue).text
    strides = [stride_size(place) for place in range(len(stride_names(epilogue)))]
    return [*own.sizes, *strides], epilogue_source(epilogue, len(own.buffers), len(own.sizes))


def _library_source(call: LibraryCall) -> str:
    forms = cast("dict[str, int]", dict(call.parameters))
    assert call.name == "transpose", f"C has no function {call.name}"
    return transpose_source(**forms)


def statements_file(kernel: SourceKernel) -> str:
    """The kernel file that statements stand for: a function that declares the buffers and sizes that they use."""
    buffers = ", ".join(f"{each.name} ({'out' if each.is_written else 'in'})" for each in kernel.buffers)
    lines = [
        f"/* {kernel.about}",
        f"   buffers: {buffers}; sizes: {', '.join(kernel.sizes)} */",
        "void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)",
        "{",
    ]
    for index, each in enumerate(kernel.buffers):
        constant = "" if each.is_written else "const "
        lines.append(f"    {constant}{each.element} *const {each.name} = buffer[{index}];")
    if kernel.checks:
        lines.append(f"    int64_t *const fault = buffer[{len(kernel.buffers)}];")
    lines += [f"    const int64_t {name} = size[{index}];" for index, name in enumerate(kernel.sizes)]
    return "\n".join([*lines, kernel.text.strip("\n"), "}", ""])
