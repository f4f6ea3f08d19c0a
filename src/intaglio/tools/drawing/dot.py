"""A drawing in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from intaglio.tools.drawing.boxes import Box, Drawing
from intaglio.tools.drawing.theme import COLOURS


def dot_text(drawing: Drawing) -> str:
    """The drawing as a file for `dot`; groups are clusters."""
    names: dict[Box, str] = {}
    parts = [
        "digraph model {",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11, margin="0.12,0.06"];',
        '  edge [color="#8c959f", arrowsize=0.6, fontname="Helvetica", fontsize=8, fontcolor="#6e7781"];',
        *_box(drawing.root, names, 1),
    ]
    parts += [
        f"  {names[line.source]} -> {names[line.target]} [label={quoted(line.label)}, tooltip={quoted(line.value)}];"
        for line in drawing.lines
    ]
    return "\n".join([*parts, "}", ""])


def quoted(text: str) -> str:
    r"""Text of a model as a string of the language; what is not printable is replaced.

    >>> print(quoted('a"\\b'))
    "a\"\\b"
    """
    plain = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _box(box: Box, names: dict[Box, str], depth: int) -> Iterator[str]:
    indent = "  " * depth
    if not box.inside:
        names[box] = f"n{len(names)}"
        colours = COLOURS[box.theme]
        label = "\\n".join(quoted(line)[1:-1] for line in (box.title, *box.lines))
        yield (
            f'{indent}{names[box]} [label="{label}", fillcolor="{colours.face}", color="{colours.border}", '
            f'fontcolor="{colours.text}"];'
        )
        return
    if box.around is not None:
        yield f"{indent}subgraph cluster_{len(names)}_{depth} {{"
        yield f'{indent}  label={quoted(box.title)}; style="rounded,filled"; color="#d0d7de"; fillcolor="#f6f8fa";'
    for inner in box.inside:
        yield from _box(inner, names, depth + 1)
    if box.around is not None:
        yield f"{indent}}}"
