"""Pooling of one to three spatial axes."""

from string import Template
from typing import Literal

from intaglio.targets.c.structured.source import StructuredKernel, VectorTarget
from intaglio.targets.c.structured.window import Window, window_kernel

Pool = Literal["max", "average", "average_with_pads"]


def pool(target: VectorTarget, kind: Pool) -> StructuredKernel:
    """MaxPool or AveragePool of an NDHWC float32 input; `average_with_pads` also counts the pads.

    The output's extents are given, so that any rounding mode is the caller's. A maximum is NaN where a value is.
    """
    return window_kernel(target, _max_window(target) if kind == "max" else _average_window(kind))


def _max_window(target: VectorTarget) -> Window:
    return Window(
        hint="max_pool",
        title="Maximum pooling",
        buffers=("x",),
        start="acc = -__builtin_inff() - (ig_f32){0};",
        step="acc = IG_FUNCTION_maximum(acc, value);",
        finish="",
        functions=_MAXIMUM.substitute(bytes=target.vector_bytes),
    )


def _average_window(kind: Pool) -> Window:
    return Window(
        hint="average_pool",
        title="Average pooling",
        buffers=("x",),
        start="acc = (ig_f32){0};",
        step="acc += value;",
        finish="acc /= (float)count - (ig_f32){0};",
        counts_pads=kind == "average_with_pads",
    )


_MAXIMUM = Template("""\
/* The greater value of each lane; once NaN, always NaN. */
static inline ig_f32 IG_FUNCTION_maximum(ig_f32 a, ig_f32 b)
{
    typedef int32_t mask __attribute__((vector_size($bytes)));
    const mask keeps = (mask)(a >= b) | (mask)(a != a);
    return (ig_f32)(((mask)a & keeps) | ((mask)b & ~keeps));
}

""")
