"""Epilogues as C: inline functions that structured kernels call with vectors of results, whole or cut short."""

from __future__ import annotations

from intaglio.kernels.epilogue import RESULT, result_type, stride_names
from intaglio.kernels.language import Let, Load, LoopKernel, Parameter, Store
from intaglio.targets.c.printing.register import MEMORY, kind_of
from intaglio.targets.c.printing.variables import Variables


def epilogue_source(kernel: LoopKernel, buffers: int, sizes: int) -> str:
    """`ig_epilogue` and `ig_epilogue_n`; their operands come behind `buffers` and `sizes` of the structured kernel."""
    printer = _Printer(kernel, buffers, sizes)
    return printer.function(None) + printer.function("n")


class _Printer:
    def __init__(self, kernel: LoopKernel, buffers: int, sizes: int) -> None:
        self.kernel, self.kind = kernel, kind_of(result_type(kernel))
        parameters = enumerate(kernel.parameters)
        self.buffer = {parameter.name: f"buffer[{buffers + place}]" for place, parameter in parameters}
        self.size = {name: f"size[{sizes + place}]" for place, name in enumerate(stride_names(kernel))}
        self.parameters = {parameter.name: parameter for parameter in kernel.parameters}

    def function(self, left: str | None) -> str:
        """The function for a whole vector, or for the first `n` lanes of one."""
        variables = Variables({RESULT: "acc"})
        name, extra = ("ig_epilogue_n", ", int64_t n") if left else ("ig_epilogue", "")
        body: list[str] = []
        for each in self.kernel.body:
            if isinstance(each, Load):
                body.append(variables.declare(each.name, kind_of(each.type), self._load(each, left)))
            elif isinstance(each, Let):
                body.append(variables.assign(each))
            elif isinstance(each, Store):
                body.append(self._store(each.parameter, variables.register(each.value).text, left))
        arguments = f"void *const *buffer, const int64_t *size, int64_t row, int64_t col, ig_{self.kind} acc{extra}"
        lines = [f"static inline void {name}({arguments})", "{", *(f"    {line}" for line in body)]
        return "\n".join([*lines, "    (void)size, (void)row, (void)col;", "}", ""])

    def _pointer(self, parameter: Parameter) -> str:
        """A pointer to the element at (row, col)."""
        element, suffix = MEMORY[parameter.dtype.name][0], ""
        for step, index in zip(parameter.steps, ("row", "col"), strict=True):
            if step != 0:
                suffix += f" + {index}" + (f" * {self.size[step]}" if isinstance(step, str) else "")
        return f"({'' if parameter.is_written else 'const '}{element} *){self.buffer[parameter.name]}{suffix}"

    def _load(self, load: Load, left: str | None) -> str:
        parameter = self.parameters[load.parameter]
        pointer, step, suffix = self._pointer(parameter), parameter.steps[1], MEMORY[parameter.dtype.name][1]
        if step == 0:
            return f"ig_broadcast_{suffix}({pointer})"
        if isinstance(step, str):
            return f"ig_gather_{suffix}({pointer}, {self.size[step]}, {left or 'IG_LANES'})"
        return f"ig_load_n_{suffix}({pointer}, {left})" if left else f"ig_load_{suffix}({pointer})"

    def _store(self, name: str, value: str, left: str | None) -> str:
        parameter = self.parameters[name]
        pointer, step, suffix = self._pointer(parameter), parameter.steps[1], MEMORY[parameter.dtype.name][1]
        if isinstance(step, str):
            return f"ig_scatter_{suffix}({pointer}, {self.size[step]}, {value}, {left or 'IG_LANES'});"
        return (
            f"ig_store_n_{suffix}({pointer}, {value}, {left});" if left else f"ig_store_{suffix}({pointer}, {value});"
        )
