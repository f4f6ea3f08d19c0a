"""DynamicQuantizeLinear: the range of a tensor in one pass, and its bytes in a second one."""

from __future__ import annotations

from intaglio.ir.dim import Dim
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.view import whole
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import Routine, reads, writes
from intaglio.targets.c.rules.table import anchor

BLOCK = 16384
"""Elements that one task reads."""


@anchor("DynamicQuantizeLinear", needs={"vectors"})
def dynamic_quantize(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Range of each block, range of all with the scale and zero point it needs, bytes."""
    x = node.input
    data = context.contiguous(x)
    count: Dim = x.tensor.size
    blocks = (count + BLOCK - 1) // BLOCK
    ranges = whole(context.temporary(FLOAT32, blocks * 2 + 2, f"{x.name}.range"), (blocks * 2 + 2,))
    y, scale, zero_point = (context.allocate(value) for value in node.outputs)
    cost = BLOCK // 8
    found = [reads("x", data), writes("ranges", ranges)]
    instance = kernel("quantize_ranges", BLOCK=BLOCK)
    context.emit(Routine("quantize_ranges", instance, found, [("count", count)], blocks, cost).call(node, x))
    chosen = [reads("ranges", ranges), writes("scale", scale), writes("zero_point", zero_point)]
    instance = kernel("quantize_scale")
    context.emit(Routine("quantize_scale", instance, chosen, [("blocks", blocks)], 1, 1 + blocks).call(node))
    parts = [reads("x", data), reads("scale", scale), reads("zero_point", zero_point), writes("y", y)]
    instance = kernel("quantize", BLOCK=BLOCK)
    context.emit(Routine("quantize", instance, parts, [("count", count)], blocks, cost).call(node, x))
