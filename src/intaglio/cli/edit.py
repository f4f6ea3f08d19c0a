"""`intaglio edit`: edits that were written down, on any model."""

from __future__ import annotations

from typing import Annotated

from intaglio.cli.files import Files, Force, InPlace, Output, change_files, jobs
from intaglio.cli.options import Argument
from intaglio.cli.terminal import JsonOption


def edit_models(
    commands: Annotated[str, Argument("SCRIPT", "A script of edits, as --script and Editor.save_script write it.")],
    files: Files,
    output: Output = None,
    in_place: InPlace = False,
    force: Force = False,
    as_json: JsonOption = False,
) -> int:
    """Replay a script of edits on a model.

    Only commands of an editor are taken from the script, and nothing of it is run as Python.
    """
    from intaglio.tools import replay

    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    return change_files(found, lambda document: replay(commands, document), as_json=as_json)
