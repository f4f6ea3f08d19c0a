"""Epilogues: elementwise nodes fused behind a structured kernel, applied to its results while they are in registers."""

from __future__ import annotations

from dataclasses import dataclass, field

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.expression import round_once, scalar_constant
from intaglio.kernels.plan import Operand, Size
from intaglio.kernels.program import Variables
from intaglio.kernels.register import MEMORY, register_kind, with_headers
from intaglio.kernels.view import View


@dataclass(frozen=True)
class EpilogueCode:
    """The C of an epilogue, and the operands and sizes to append to the kernel's own."""

    source: str
    operands: list[Operand]
    sizes: list[tuple[str, Size]]


@dataclass
class Epilogue:
    """Nodes behind `result`, the structured kernel's output.

    `loads` and `stores` are views of the result's shape, filled in when the group is lowered.
    """

    result: Value
    nodes: list[Node] = field(default_factory=list[Node])
    loads: dict[Value, View] = field(default_factory=dict[Value, View])
    stores: dict[Value, View] = field(default_factory=dict[Value, View])

    def code(self, buffers: int, sizes: int, bias: Value | None = None, bias_view: View | None = None) -> EpilogueCode:
        """Print `ig_epilogue` and `ig_epilogue_n`; the operands come behind `buffers` and `sizes` of the kernel.

        `bias`, if given, is added to the result first: one value for each column.
        """
        return _Printer(self, buffers, sizes, bias, bias_view).code()


def rows_and_columns(view: View) -> tuple[Dim, Dim] | None:
    """The strides of a view along its rows (all axes but the last, as one) and columns; None where rows are uneven."""
    if not view.shape:
        return 0, 0
    step: Dim | None = None
    expected: Dim = 0
    for extent, stride in reversed(list(zip(view.shape[:-1], view.strides[:-1], strict=True))):
        if extent == 1:
            continue
        if step is None:
            step, expected = stride, stride * extent
        elif stride != expected:
            return None
        else:
            expected = stride * extent
    column = 0 if view.shape[-1] == 1 else view.strides[-1]
    return (0 if step is None else step), column


class _Printer:
    def __init__(
        self, epilogue: Epilogue, buffers: int, sizes: int, bias: Value | None, bias_view: View | None
    ) -> None:
        self.epilogue = epilogue
        self.buffers, self.first_size = buffers, sizes
        self.bias, self.bias_view = bias, bias_view
        self.operands: list[Operand] = []
        self.sizes: list[tuple[str, Size]] = []
        self.variables = self._variables()

    def _variables(self) -> Variables:
        return Variables(self.epilogue.loads, {self.epilogue.result: "acc"})

    def code(self) -> EpilogueCode:
        full, tail = self._function(None), None
        self.operands, self.sizes = [], []
        tail = self._function("n")
        return EpilogueCode(with_headers(full + tail), self.operands, self.sizes)

    def _function(self, left: str | None) -> str:
        self.variables = self._variables()
        name, extra = ("ig_epilogue_n", ", int64_t n") if left else ("ig_epilogue", "")
        body: list[str] = []
        if self.bias is not None and self.bias_view is not None:
            body.append(f"    acc = acc + {self._load_text(self.bias, self.bias_view, left)};")
        producer = self.epilogue.result.producer
        if producer is not None and (rounded := round_once("acc", producer)) != "acc":
            body.append(f"    acc = {rounded};")
        for value, view in self.epilogue.loads.items():
            if scalar_constant(value) is None:
                kind, text = register_kind(value.dtype), self._load_text(value, view, left)
                body.append("    " + self.variables.declare(value, kind, text))
        body += ["    " + self.variables.assign(node) for node in self.epilogue.nodes]
        body += [self._store(value, view, left) for value, view in self.epilogue.stores.items()]
        vector = f"ig_{register_kind(self.epilogue.result.dtype)}"
        arguments = f"void *const *buffer, const int64_t *size, int64_t row, int64_t col, {vector} acc{extra}"
        return "\n".join(
            [
                f"static inline void {name}({arguments})",
                "{",
                *body,
                "    (void)size, (void)row, (void)col;",
                "}",
                "",
            ]
        )

    def _place(self, value: Value, view: View, is_written: bool) -> tuple[str, Dim]:
        """A pointer to the element at (row, col), and the stride from column to column."""
        strides = rows_and_columns(view)
        assert strides is not None, "lowering makes the operands of an epilogue even"
        constant = "" if is_written else "const "
        text = f"({constant}{MEMORY[value.dtype.name][0]} *)buffer[{self.buffers + len(self.operands)}]"
        self.operands.append(Operand(view.buffer, view.offset, is_written))
        for stride, index in zip(strides, ("row", "col"), strict=True):
            if stride == 1:
                text += f" + {index}"
            elif stride != 0:
                text += f" + {index} * size[{self.first_size + len(self.sizes)}]"
                self.sizes.append((f"epilogue_stride{len(self.sizes)}", stride))
        return text, strides[1]

    def _load_text(self, value: Value, view: View, left: str | None) -> str:
        pointer, step = self._place(value, view, False)
        suffix = MEMORY[value.dtype.name][1]
        if step == 0:
            return f"ig_broadcast_{suffix}({pointer})"
        if step == 1:
            return f"ig_load_n_{suffix}({pointer}, {left})" if left else f"ig_load_{suffix}({pointer})"
        stride = f"size[{self.first_size + len(self.sizes) - 1}]"
        return f"ig_gather_{suffix}({pointer}, {stride}, {left or 'IG_LANES'})"

    def _store(self, value: Value, view: View, left: str | None) -> str:
        pointer, step = self._place(value, view, True)
        suffix = MEMORY[value.dtype.name][1]
        name = self.variables.name(value)
        if step == 1 or view.shape[-1:] == (1,):
            return (
                f"    ig_store_n_{suffix}({pointer}, {name}, {left});"
                if left
                else f"    ig_store_{suffix}({pointer}, {name});"
            )
        stride = f"size[{self.first_size + len(self.sizes) - 1}]"
        return f"    ig_scatter_{suffix}({pointer}, {stride}, {name}, {left or 'IG_LANES'});"
