"""`intaglio diff`: how two models differ."""

from __future__ import annotations

from typing import Annotated

from intaglio.cli.files import read_input, write_output
from intaglio.cli.options import Argument, Option
from intaglio.cli.terminal import JsonOption, ModelArgument, print_json, print_text


def diff_models(
    model: ModelArgument,
    other: Annotated[str, Argument("OTHER", "The model to compare with.")],
    html: Annotated[
        str | None, Option("--html", metavar="FILE", help="Write a page that needs nothing else; - is standard output.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Show how two models differ: structure, attributes, weights, inputs and outputs, metadata.

    Nodes are matched by names, then by what they compute and by their neighbours. Exits with 0 where the models are
    equal and with 1 where they differ. `intaglio compare` compares what models answer.
    """
    from intaglio.tools.diffing import diff

    found = diff(read_input(model), read_input(other))
    if html is not None:
        write_output(found.html().encode(), html)
    if as_json:
        print_json(found.to_json())
    elif html is None:
        print_text(found.text())
    return 1 if found else 0
