"""`intaglio extract`: a part of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from intaglio.cli.files import Files, Force, InPlace, Output, ScriptOption, change_files, jobs
from intaglio.cli.options import Option
from intaglio.cli.terminal import JsonOption

if TYPE_CHECKING:
    from intaglio.tools import Changed
    from intaglio.tools.document import Document


def extract_part(
    files: Files,
    output: Output = None,
    inputs: Annotated[
        list[str] | None, Option("--from", metavar="VALUE", help="A value that becomes an input; may be repeated.")
    ] = None,
    outputs: Annotated[
        list[str] | None, Option("--to", metavar="VALUE", help="A value that becomes an output; may be repeated.")
    ] = None,
    in_place: InPlace = False,
    force: Force = False,
    script: ScriptOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write the part of a model that makes some values of others.

    Without --from the part begins at the inputs of the model, without --to it ends at its outputs. Inputs that the part
    needs besides stay inputs; only weights that are read stay.
    """
    from intaglio.tools import extract

    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)

    def verb(document: Document) -> Changed:
        ends = outputs or [info.name for info in document.graph.outputs]
        return extract(document, inputs or [], ends)

    return change_files(found, verb, script=script, as_json=as_json)
