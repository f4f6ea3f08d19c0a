"""Routines: kernels written by hand as a C body, in a frame that names their buffers and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from intaglio.ir.dim import Dim, at_most, equal, floordiv, maximum, pieces, product
from intaglio.ir.dtype import FLOAT32, FLOAT64, DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.kernel import FileKernel, Kernel, SourceBuffer, SourceKernel
from intaglio.kernels.plan import Call, Operand, Size
from intaglio.kernels.view import View
from intaglio.targets.c.kernel_file import Instance, KernelFileError
from intaglio.targets.c.printing.register import MEMORY

TASK_BYTES = 16384
"""About what one task writes where an output is cut into blocks of rows."""


@dataclass(frozen=True)
class Parameter:
    """A buffer of a routine: its name and element type in C, and where it points."""

    name: str
    element: str
    operand: Operand


def reads(name: str, view: View, element: str | None = None) -> Parameter:
    """A buffer that the routine reads."""
    return Parameter(name, element or memory_type(view.buffer.dtype), Operand(view.buffer, view.offset))


def writes(name: str, view: View, element: str | None = None) -> Parameter:
    """A buffer that the routine writes."""
    return Parameter(name, element or memory_type(view.buffer.dtype), Operand(view.buffer, view.offset, True))


def memory_type(dtype: DType) -> str:
    """The C type of an element in memory."""
    return MEMORY[dtype.name][0]


def reader(dtype: DType) -> str:
    """What reads a number at an address in C: `*`, or a function of kernels/read.h for the floats that C lacks.

    >>> reader(FLOAT32)
    '*'
    """
    return f"IG_FUNCTION_read_{dtype.name}" if dtype.name in ("float16", "bfloat16") else "*"


def writer(dtype: DType) -> str:
    """What writes a number to an address in C: a kernel's own function, or one of kernels/write.h."""
    return f"IG_FUNCTION_write_{dtype.name if dtype.name in ('float16', 'bfloat16') else 'number'}"


def bits_type(dtype: DType) -> str:
    """The C type that moves an element without looking at it.

    >>> from intaglio.ir.dtype import FLOAT32
    >>> bits_type(FLOAT32)
    'uint32_t'
    """
    return f"uint{8 * dtype.itemsize}_t"


def part_type(dtype: DType) -> DType:
    """The element type of the parts of complex numbers; other types are their own."""
    return {"complex64": FLOAT32, "complex128": FLOAT64}.get(dtype.name, dtype)


@dataclass
class Routine:
    """A kernel's file, or a C body, and what the driver needs to call it.

    An instance of a file names the buffers and sizes itself; those given here must be the same, in its order, with
    `fault` behind the other buffers where it `checks`. A body in text, which is for kernels outside of this package,
    sees its buffers and sizes by name, `begin`, `end` and `scratch`, and, where it `checks`, `fault`.
    """

    hint: str
    body: str | Instance
    parameters: Sequence[Parameter]
    sizes: Sequence[tuple[str, Size]]
    tasks: Size
    cost: Size
    scratch: Size = 0
    checks: bool = False

    def call(self, node: Node, work: Value | None = None) -> Call:
        """The call of the routine for a node; `work` is the value whose size tells how much there is to do."""
        output = node.outputs[0]
        return Call(
            Kernel(self.hint, self._body()),
            [parameter.operand for parameter in self.parameters],
            list(self.sizes),
            self.tasks,
            self.cost,
            self.scratch,
            nodes=(node,),
            title=f"{node.op.name} -> {output.name}: {output.type}" + (f" from {node.origin}" if node.origin else ""),
            checks=self.checks,
            flops=product((work or output).shape),
        )

    def _body(self) -> FileKernel | SourceKernel:
        if isinstance(self.body, Instance):
            return self._checked(self.body).kernel
        buffers = tuple(SourceBuffer(p.name, p.element, p.operand.is_written) for p in self.parameters)
        return SourceKernel(self.hint, buffers, tuple(name for name, _ in self.sizes), self.body, self.checks)

    def _checked(self, instance: Instance) -> Instance:
        """The instance, whose arguments are found to be those that the driver hands over."""
        buffers = (*(parameter.name for parameter in self.parameters), *(["fault"] if self.checks else []))
        sizes = tuple(name for name, _ in self.sizes)
        if (buffers, sizes) != (instance.buffers, instance.sizes):
            wanted = f"buffers {instance.buffers} and sizes {instance.sizes}"
            raise KernelFileError(f"the kernel {self.hint} takes {wanted}, got {buffers} and {sizes}")
        return instance


def numbered(name: str, sizes: Iterable[Dim]) -> list[tuple[str, Size]]:
    """The members of an array among the sizes of a kernel's file.

    >>> numbered("extent", (3, 4))
    [('extent0', 3), ('extent1', 4)]
    """
    return [(f"{name}{place}", size) for place, size in enumerate(sizes)]


def row_blocks(rows: Dim, row_bytes: Dim, cost: Dim) -> tuple[list[tuple[str, Size]], Dim, Dim]:
    """Sizes, tasks and cost for a routine over a number of rows, cut into blocks of about TASK_BYTES.

    `row_bytes` and `cost` (nanoseconds) are those of one row. The kernel finds the number of rows in the size `rows`,
    and how many a task has in `block`.
    """
    block = 1 + floordiv(TASK_BYTES, row_bytes + 1)
    return [("block", block)], pieces(rows, block), 1 + block * cost


def at_least_one(tasks: Dim) -> Dim:
    """The tasks of a routine that must run even where nothing is written, to find a fault."""
    return maximum(tasks, 1)


def disagreement(pairs: Sequence[tuple[Dim, Dim]], within: Sequence[tuple[Dim, Dim]] = ()) -> Dim:
    """A flag: whether two dimensions that must be equal differ, or one exceeds the other that must hold it."""
    agrees = product([*(equal(left, right) for left, right in pairs), *(at_most(*pair) for pair in within)])
    return 1 - agrees


def three_parts(shape: Sequence[Dim], axis: int) -> tuple[Dim, Dim, Dim]:
    """The elements before an axis, along it, and behind it.

    >>> three_parts((2, 3, 4, 5), 1)
    (2, 3, 20)
    """
    return product(shape[:axis]), shape[axis], product(shape[axis + 1 :])
