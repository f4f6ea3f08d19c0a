"""`intaglio set-shape`: other shapes of inputs."""

from __future__ import annotations

from typing import Annotated

from intaglio.cli.files import Files, Force, InPlace, Output, ScriptOption, assignments, change_files, jobs
from intaglio.cli.options import Option, UsageError
from intaglio.cli.terminal import JsonOption


def set_shapes(
    files: Files,
    output: Output = None,
    shapes: Annotated[
        list[str] | None,
        Option("--shape", metavar="INPUT=SIZES", help="Sizes such as 1,3,N,?; may be repeated."),
    ] = None,
    dims: Annotated[
        list[str] | None, Option("--dim", "-d", metavar="NAME=SIZE", help="A size for a name; may be repeated.")
    ] = None,
    in_place: InPlace = False,
    force: Force = False,
    script: ScriptOption = None,
    as_json: JsonOption = False,
) -> int:
    """Set the shapes of inputs, and what follows from them for all other values.

    A size is a number, a name, or ? for an open one. Sizes that are baked into the model, such as those of a Reshape,
    are left as they are.
    """
    from intaglio.tools import set_shape

    if not shapes and not dims:
        raise UsageError("which shape? Give --shape or --dim")
    sizes = {name: [_size(part) for part in text.split(",") if part.strip()] for name, text in _shapes(shapes)}
    named = {name: _size(text) for name, text in assignments(dims, "NAME=SIZE").items()}
    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    return change_files(
        found, lambda document: set_shape(document, sizes, dimensions=named), script=script, as_json=as_json
    )


def _shapes(texts: list[str] | None) -> list[tuple[str, str]]:
    return [(name, text.strip("[]() ")) for name, text in assignments(texts, "INPUT=SIZES").items()]


def _size(text: str) -> int | str | None:
    text = text.strip()
    return None if text == "?" else int(text) if text.isdecimal() else text
