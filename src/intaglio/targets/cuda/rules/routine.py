"""Kernels that are statements about one task; a device has a thread for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.kernel import Kernel, SourceBuffer, SourceKernel
from intaglio.kernels.plan import Call, Operand
from intaglio.kernels.view import View


@dataclass(frozen=True)
class Buffer:
    """A buffer of a kernel: its name, the type of its elements in C, where it lies, and whether it is written."""

    name: str
    element: str
    view: View
    is_written: bool = False


def emit_tasks(
    context: Context, node: Node, name: str, lines: Sequence[str], buffers: Sequence[Buffer], sizes: Mapping[str, Dim],
    tasks: Dim, flops: Dim, *, checks: bool = False,
) -> None:  # fmt: skip
    """Call a kernel whose statements compute the task with the number `begin`.

    Where it `checks`, they set `*fault` for a value that the operator forbids.
    """
    described = tuple(SourceBuffer(each.name, each.element, each.is_written) for each in buffers)
    kernel = SourceKernel(name, described, tuple(sizes), "\n".join(lines), checks)
    output = node.outputs[0]
    title = f"{node.op.name} -> {output.name}: {output.type}" + (f" from {node.origin}" if node.origin else "")
    operands = [Operand(each.view.buffer, each.view.offset, each.is_written) for each in buffers]
    context.emit(
        Call(
            Kernel(name, kernel),
            operands,
            list(sizes.items()),
            tasks,
            1,
            checks=checks,
            nodes=(node,),
            title=title,
            flops=flops,
        )
    )


def taken_apart(number: str, parts: Sequence[tuple[str, str]]) -> list[str]:
    """Lines that take a number apart into indices below limits, of which the last advances first."""
    lines: list[str] = []
    rest = number
    for index, limit in reversed(parts[1:]):
        lines.append(
            f"const int64_t before_{index} = divided({rest}, {limit}), {index} = {rest} - before_{index} * {limit};"
        )
        rest = f"before_{index}"
    return [*lines, f"const int64_t {parts[0][0]} = {rest};"]
