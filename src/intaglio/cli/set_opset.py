"""`intaglio set-opset`: another operator set."""

from __future__ import annotations

from typing import Annotated

from intaglio.cli.files import Files, Force, InPlace, Output, ScriptOption, change_files, jobs
from intaglio.cli.options import Argument, Option
from intaglio.cli.terminal import JsonOption


def set_operator_set(
    version: Annotated[int, Argument("VERSION", "The version to write.", least=1)],
    files: Files,
    output: Output = None,
    domain: Annotated[str, Option("--domain", help="The domain of the operator set; default: ONNX's own.")] = "",
    in_place: InPlace = False,
    force: Force = False,
    script: ScriptOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write a model in another version of an operator set, newer or older.

    Nodes that mean the same in it stay as they are, and so does everything else of the file. What the version cannot
    say is listed, and nothing is written; `intaglio export --to onnx --opset` writes the whole model anew.
    """
    from intaglio.tools import set_opset

    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    return change_files(
        found, lambda document: set_opset(document, version, domain=domain), script=script, as_json=as_json
    )
