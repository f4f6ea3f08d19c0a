"""`intaglio dedupe`: less of what is there twice."""

from __future__ import annotations

from intaglio.cli.files import Files, Force, InPlace, Output, ScriptOption, change_files, jobs
from intaglio.cli.terminal import JsonOption


def dedupe_model(
    files: Files,
    output: Output = None,
    in_place: InPlace = False,
    force: Force = False,
    script: ScriptOption = None,
    as_json: JsonOption = False,
) -> int:
    """Keep one of equal constants, and one of nodes that do the same.

    Nodes that give random numbers, calls of functions, unknown operators and nodes with bodies stay.
    """
    from intaglio.tools import dedupe

    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    return change_files(found, dedupe, script=script, as_json=as_json)
