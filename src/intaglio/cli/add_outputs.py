"""`intaglio add-outputs`: values as outputs."""

from __future__ import annotations

from typing import Annotated

from intaglio.cli.files import Files, Force, InPlace, Output, ScriptOption, change_files, jobs
from intaglio.cli.options import Option, UsageError
from intaglio.cli.terminal import JsonOption


def add_more_outputs(
    files: Files,
    output: Output = None,
    names: Annotated[
        list[str] | None,
        Option("--name", metavar="VALUE", help="A value or a pattern such as '*/add*'; may be repeated."),
    ] = None,
    all_values: Annotated[bool, Option("--all", help="Every value that a node makes.")] = False,
    in_place: InPlace = False,
    force: Force = False,
    script: ScriptOption = None,
    as_json: JsonOption = False,
) -> int:
    """Let values inside a model be outputs of it too."""
    from intaglio.tools import add_outputs

    if not names and not all_values:
        raise UsageError("which values? Give --name or --all")
    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    return change_files(
        found,
        lambda document: add_outputs(document, ["*"] if all_values else names or []),
        script=script,
        as_json=as_json,
    )
