"""`intaglio draw`: a picture of a model."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from intaglio.cli.files import Files, Force, Job, Output, Report, each_file, jobs
from intaglio.cli.options import Option
from intaglio.cli.terminal import STANDARD, JsonOption


class PictureFormat(StrEnum):
    """What the option `--format` takes."""

    svg = "svg"
    dot = "dot"
    png = "png"
    pdf = "pdf"


class LayoutChoice(StrEnum):
    """What the option `--layout` takes."""

    layered = "layered"
    dot = "dot"


def draw_model(
    files: Files,
    output: Output = None,
    format: Annotated[
        PictureFormat | None, Option("--format", help="The format; default: what the file's ending says, else svg.")
    ] = None,
    depth: Annotated[
        int | None, Option("--depth", least=0, help="Draw groups that are deeper than this as one box each.")
    ] = None,
    fold: Annotated[bool, Option("--fold/--no-fold", help="Draw a group that repeats the one above it once.")] = True,
    shapes: Annotated[bool, Option("--shapes/--no-shapes", help="Write the types of values at lines.")] = True,
    weights: Annotated[bool, Option("--weights/--no-weights", help="Write the types of constants into boxes.")] = True,
    layout: Annotated[
        LayoutChoice, Option("--layout", help="Our own layout, or that of Graphviz, which takes long for large models.")
    ] = LayoutChoice.layered,
    force: Force = False,
    as_json: JsonOption = False,
) -> int:
    """Draw a model as SVG, PNG, PDF or in the language of Graphviz.

    Modules of the exporter are groups; in models without names, blocks that follow one another several times are.
    Files that cannot be run are drawn too. PNG and PDF need: pip install 'intaglio[draw]'.
    """
    from intaglio.tools.drawing import Choices, format_of, picture, render

    def work(job: Job) -> Report:
        chosen = format.value if format is not None else format_of(None if job.target == STANDARD else job.target)
        choices = Choices(shapes, weights, depth, fold)
        data = render(picture(job.read(), choices), chosen, layout.value)
        job.write(data)
        return {"bytes": len(data)}

    suffix = f".{format or PictureFormat.svg}"
    return each_file(jobs(files, output, force=force, suffix=suffix, as_json=as_json), work, as_json=as_json)
