"""The loops that depthwise and grouped convolution and pooling share: few channels by themselves, channels last."""

from functools import partial

from intaglio.ir.dim import THREADS, Dim, floordiv, maximum, minimum, pieces
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.structured.source import Sizes, StructuredKernel, VectorTarget, fill


def window_kernel(
    hint: str,
    target: VectorTarget,
    *,
    has_weights: bool = False,
    is_grouped: bool = False,
    is_maximum: bool = False,
    is_average: bool = False,
    counts_pads: bool = False,
    channels: Dim | None = None,
) -> StructuredKernel:
    """The kernel that moves a window over an NDHWC float32 input; the epilogue's row is the output pixel.

    `end_*` of its sizes are the pads behind the last value, which averages may count; OC = C but for groups of several
    channels. With `is_grouped` an output channel reads all channels of its group. The code is for any number of
    channels, or for this one.
    """
    instance = kernel(
        "window",
        HAS_WEIGHTS=has_weights,
        IS_GROUPED=is_grouped,
        IS_MAXIMUM=is_maximum,
        IS_AVERAGE=is_average,
        COUNTS_PADS=counts_pads,
        PIXELS=8 if target.vector_registers >= 32 else 6,
        FILL=fill(target, channels),
    )
    return StructuredKernel(
        hint=hint,
        instance=instance,
        tasks=lambda size: size["images"] * size["OD"] * pieces(size["OH"], size["row_block"]),
        cost=partial(_cost, target, is_grouped),
        defaults=row_block,
    )


def _cost(target: VectorTarget, is_grouped: bool, size: Sizes) -> Dim:
    inputs = floordiv(size["C"], size["groups"]) if is_grouped else 1
    values = size["row_block"] * size["OW"] * size["OC"] * size["KD"] * size["KH"] * size["KW"]
    return 1 + floordiv(values * inputs, target.vector_bytes // 2)


def row_block(size: Sizes) -> dict[str, Dim]:
    """Rows of output pixels of a task."""
    share = floordiv(size["images"] * size["OD"] * size["OH"], 8 * THREADS)
    return {"row_block": maximum(1, minimum(size["OH"], share))}
