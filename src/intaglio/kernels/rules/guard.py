"""Sizes that must agree where only the run knows them: a call that looks before a kernel trusts them."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.routine import Routine, disagreement


def require_sizes(context: Context, node: Node, equal: Sequence[tuple[Dim, Dim]]) -> None:
    """Stop the run where two sizes differ; emits nothing where all are known to be equal."""
    mismatch = disagreement(equal)
    if mismatch.dims:
        context.emit(Routine("sizes_agree", _BODY, [], [("mismatch", mismatch)], 1, 1, checks=True).call(node))


_BODY = """
    if (mismatch)
        *fault = 1;
"""
