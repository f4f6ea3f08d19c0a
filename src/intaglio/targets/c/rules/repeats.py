"""Scores of words that must not repeat what stands in the text already."""

from __future__ import annotations

from intaglio.ir.dim import floordiv
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.targets.c.routine import Routine, reads, writes
from intaglio.targets.c.rules.table import anchor


@anchor("RepeatBlock")
def repeat_block(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A task is a row: its scores, and minus infinity behind each place where its last words stand already."""
    words, scores = node.needed(0), node.needed(1)
    sizes: list[tuple[str, Size]] = [("rows", scores.shape[0]), ("length", words.shape[1]), ("count", scores.shape[1])]
    parameters = [reads("words", context.contiguous(words)), reads("scores", context.contiguous(scores))]
    parameters.append(writes("out", context.allocate(node.output)))
    cost = 1 + words.shape[1] + floordiv(scores.shape[1], 16)
    routine = Routine("repeat_block", _REPEATS, parameters, sizes, scores.shape[0], cost, checks=True)
    routine.marks = {"before": str(node.op.ngram_size - 1)}
    context.emit(routine.call(node))


_REPEATS = """
    (void)scratch, (void)rows;
    const int64_t before = $before;
    for (int64_t row = begin; row < end; row++) {
        const int64_t *const text = words + row * length;
        float *const mine = out + row * count;
        __builtin_memcpy(mine, scores + row * count, (unsigned long)count * sizeof *mine);
        for (int64_t start = 0; start < length - before; start++) {
            int64_t same = 0;
            while (same < before && text[start + same] == text[length - before + same])
                same++;
            if (same < before)
                continue;
            const int64_t word = text[start + before];
            if (word < 0 || word >= count)
                *fault = 1;
            else
                mine[word] = -__builtin_inff();
        }
    }
"""
