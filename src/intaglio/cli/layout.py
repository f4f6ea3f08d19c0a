"""`intaglio layout`: channels first or last."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from intaglio.cli.files import Files, Force, InPlace, Output, ScriptOption, change_files, jobs
from intaglio.cli.options import Argument, Option
from intaglio.cli.terminal import JsonOption


class Layout(StrEnum):
    """What `layout` takes."""

    nchw = "nchw"
    nhwc = "nhwc"


def set_layout(
    wanted: Annotated[Layout, Argument("{nchw,nhwc}", "The layout to have.")],
    files: Files,
    output: Output = None,
    inputs: Annotated[
        list[str] | None, Option("--input", metavar="NAME", help="An input to change; default: those of 4 dimensions.")
    ] = None,
    outputs: Annotated[
        list[str] | None,
        Option("--output-name", metavar="NAME", help="An output to change; default: those of 4 dimensions."),
    ] = None,
    in_place: InPlace = False,
    force: Force = False,
    script: ScriptOption = None,
    as_json: JsonOption = False,
) -> int:
    """Let inputs and outputs have their channels first (nchw) or last (nhwc), by a Transpose at the border.

    They are taken to be in the other layout now. Where only inputs or only outputs are named, the others stay.
    """
    from intaglio.tools import layout

    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    is_named = bool(inputs or outputs)
    return change_files(
        found,
        lambda document: layout(
            document,
            wanted.value,
            inputs=inputs or ([] if is_named else None),
            outputs=outputs or ([] if is_named else None),
        ),
        script=script,
        as_json=as_json,
    )
