"""Scores of words that must not repeat what stands in the text already."""

from __future__ import annotations

from intaglio.ir.dim import floordiv
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import Routine, reads, writes
from intaglio.targets.c.rules.table import anchor


@anchor("RepeatBlock")
def repeat_block(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A task is a row: its scores, and minus infinity behind each place where its last words stand already."""
    words, scores = node.needed(0), node.needed(1)
    sizes: list[tuple[str, Size]] = [("length", words.shape[1]), ("count", scores.shape[1])]
    parameters = [reads("words", context.contiguous(words)), reads("scores", context.contiguous(scores))]
    parameters.append(writes("out", context.allocate(node.output)))
    cost = 1 + words.shape[1] + floordiv(scores.shape[1], 16)
    instance = kernel("repeat_block", BEFORE=node.op.ngram_size - 1)
    context.emit(Routine("repeat_block", instance, parameters, sizes, scores.shape[0], cost, checks=True).call(node))
