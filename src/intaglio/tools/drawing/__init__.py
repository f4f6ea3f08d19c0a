"""Pictures of models: SVG, PNG, PDF and the language of Graphviz."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from intaglio.errors import InputError, UnsupportedError
from intaglio.onnx.reader import Source
from intaglio.onnx.writer import temporary_file
from intaglio.tools.document import Document, read_document
from intaglio.tools.drawing.boxes import Drawing
from intaglio.tools.drawing.dot import dot_text
from intaglio.tools.drawing.nested import nested_layout
from intaglio.tools.drawing.picture import Choices, picture
from intaglio.tools.drawing.svg import svg_text

__all__ = ["FORMATS", "Choices", "Drawing", "draw", "format_of", "picture", "render"]

FORMATS = ("svg", "dot", "png", "pdf")
DOT_TIME_LIMIT_SECONDS = 300
MOST_PIXELS = 120_000_000


def draw(
    source: Source | Document,
    path: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    shapes: bool = True,
    weights: bool = True,
    depth: int | None = None,
    fold: bool = True,
    layout: Literal["layered", "dot"] = "layered",
) -> bytes:
    """Draw a model; returns the picture, and writes it to `path` where one is given.

    The format follows from the path's ending unless it is given. `shapes` writes types at lines, `weights` the types of
    constants into boxes. Groups deeper than `depth` are one box each; with `fold` a group that repeats the one above
    is not drawn again. PNG and PDF need the package cairosvg, `layout="dot"` needs Graphviz; UnsupportedError says how
    to install them. Files that cannot be run are drawn too.
    """
    document = source if isinstance(source, Document) else read_document(source)
    chosen = _checked(format) if format is not None else format_of(path)
    drawing = picture(document, Choices(shapes, weights, depth, fold))
    data = render(drawing, chosen, layout)
    if path is not None:
        with temporary_file(Path(path)) as (file, keep):
            file.write(data)
            keep()
    return data


def format_of(path: str | os.PathLike[str] | None) -> str:
    """The format that the ending of a path means, svg where there is none; raises InputError for an unknown one."""
    return _checked((Path(path).suffix[1:].lower() if path is not None else "") or "svg")


def _checked(format: str) -> str:
    if format not in FORMATS:
        raise InputError(f"a picture cannot be {format!r}; there are {', '.join(FORMATS)}")
    return format


def render(drawing: Drawing, format: str, layout: str = "layered") -> bytes:
    """A drawing as a picture; raises UnsupportedError where the program or package for it is missing."""
    if layout not in ("layered", "dot"):
        raise InputError(f"there is no layout {layout!r}; there are 'layered' and 'dot'")
    if format == "dot":
        return dot_text(drawing).encode()
    if layout == "dot":
        return _graphviz(dot_text(drawing), format)
    place = nested_layout(drawing)
    text = svg_text(place).encode()
    if format == "svg":
        return text
    scale = min(2.0, (MOST_PIXELS / max(place.width * place.height, 1.0)) ** 0.5)
    renderer = _cairosvg(format)
    return renderer.svg2pdf(bytestring=text) if format == "pdf" else renderer.svg2png(bytestring=text, scale=scale)


def _cairosvg(format: str) -> Any:
    try:
        return import_module("cairosvg")
    except (ImportError, OSError) as error:
        raise UnsupportedError(
            f"{format} pictures need the package cairosvg and the library cairo: pip install 'intaglio[draw]', "
            f"and on Debian apt install libcairo2; SVG needs neither ({error})"
        ) from None


def _graphviz(text: str, format: str) -> bytes:
    """Have Graphviz lay out a drawing and write it."""
    program = shutil.which("dot")
    if program is None:
        raise UnsupportedError(
            "the layout dot needs Graphviz, whose program `dot` is not on the path; on Debian: apt install graphviz"
        )
    try:
        done = subprocess.run(
            [program, f"-T{format}"],
            input=text.encode(),
            capture_output=True,
            timeout=DOT_TIME_LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnsupportedError(
            f"Graphviz took longer than {DOT_TIME_LIMIT_SECONDS} s; the layout 'layered' takes seconds"
        ) from None
    if done.returncode:
        raise UnsupportedError(f"Graphviz failed: {done.stderr.decode(errors='replace').strip()[:500]}")
    return done.stdout
