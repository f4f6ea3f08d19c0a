"""`intaglio inline`: functions where they are called."""

from __future__ import annotations

from typing import Annotated

from intaglio.cli.files import Files, Force, InPlace, Output, ScriptOption, change_files, jobs
from intaglio.cli.options import Option
from intaglio.cli.terminal import JsonOption


def inline_functions(
    files: Files,
    output: Output = None,
    functions: Annotated[
        list[str] | None, Option("--function", metavar="NAME", help="Only this function; may be repeated.")
    ] = None,
    in_place: InPlace = False,
    force: Force = False,
    script: ScriptOption = None,
    as_json: JsonOption = False,
) -> int:
    """Put the functions of a model in place of their calls."""
    from intaglio.tools import inline

    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    return change_files(found, lambda document: inline(document, functions), script=script, as_json=as_json)
