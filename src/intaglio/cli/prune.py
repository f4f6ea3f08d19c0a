"""`intaglio prune`: less of what nobody reads."""

from __future__ import annotations

from typing import Annotated

from intaglio.cli.files import Files, Force, InPlace, Output, ScriptOption, change_files, jobs
from intaglio.cli.options import Option
from intaglio.cli.terminal import JsonOption


def prune_model(
    files: Files,
    output: Output = None,
    inputs: Annotated[bool, Option("--inputs", help="Take out inputs that nobody reads, too.")] = False,
    in_place: InPlace = False,
    force: Force = False,
    script: ScriptOption = None,
    as_json: JsonOption = False,
) -> int:
    """Take out nodes, constants and functions that no output needs."""
    from intaglio.tools import prune

    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    return change_files(found, lambda document: prune(document, inputs=inputs), script=script, as_json=as_json)
