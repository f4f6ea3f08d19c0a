"""Pooling of one to three spatial axes, and the gradient of maxima."""

from functools import partial
from typing import Literal

from intaglio.ir.dim import THREADS, Dim, floordiv, maximum, minimum, pieces
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.structured.source import Element, Sizes, StructuredKernel, VectorTarget, register_tile
from intaglio.targets.c.structured.window import window_kernel

Pool = Literal["max", "average", "average_with_pads"]


def pool(target: VectorTarget, kind: Pool, channels: Dim | None = None) -> StructuredKernel:
    """MaxPool or AveragePool of an NDHWC float32 input; `average_with_pads` also counts the pads.

    The output's extents are given, so that any rounding mode is the caller's. A maximum is NaN where a value is.
    """
    if kind == "max":
        return window_kernel("max_pool", target, is_maximum=True, channels=channels)
    counts_pads = kind == "average_with_pads"
    return window_kernel("average_pool", target, is_average=True, counts_pads=counts_pads, channels=channels)


def max_pool_gradient(target: VectorTarget, element: Element = "float32") -> StructuredKernel:
    """The gradient of MaxPool by its input, of an NDHWC input, output and gradient of the output.

    The order in which a sum is made depends on the sizes alone.
    """
    tile = register_tile(target, element)
    instance = kernel("max_pool_gradient", ELEMENT=tile.parameters["ELEMENT"], LANES=tile.lanes)
    return StructuredKernel(
        hint="max_pool_gradient",
        instance=instance,
        tasks=lambda size: size["images"] * pieces(size["H"], size["row_block"]),
        cost=partial(_gradient_cost, target),
        defaults=_gradient_rows,
    )


def _gradient_cost(target: VectorTarget, size: Sizes) -> Dim:
    windows = pieces(size["OH"] * size["row_block"], size["H"] + 1) * size["OD"] * size["OW"]
    return 1 + floordiv(windows * size["KD"] * size["KH"] * size["KW"] * size["C"], target.vector_bytes // 4)


def _gradient_rows(size: Sizes) -> dict[str, Dim]:
    """Rows of the input of a task: windows that reach two tasks are gone through by both."""
    share = floordiv(size["images"] * size["H"], 4 * THREADS)
    return {"row_block": maximum(1, minimum(size["H"], maximum(share, 4 * size["KH"])))}
