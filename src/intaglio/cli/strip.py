"""`intaglio strip` and `intaglio restore`: weights out of a model, and back."""

from __future__ import annotations

from typing import Annotated

from intaglio.cli.files import Files, Force, InPlace, Output, change_files, jobs
from intaglio.cli.options import Option, UsageError
from intaglio.cli.terminal import JsonOption
from intaglio.ir.limits import parse_bytes


def strip_weights(
    files: Files,
    output: Output = None,
    threshold: Annotated[
        int, Option("--threshold", metavar="BYTES", parse=parse_bytes, help="Smaller tensors stay; default: 1024.")
    ] = 1024,
    in_place: InPlace = False,
    force: Force = False,
    as_json: JsonOption = False,
) -> int:
    """Take the weights out of a model: what is left shows its structure, such as in a report of a bug.

    Types, shapes and checksums stay, so that `restore` knows what belongs where.
    """
    from intaglio.tools import strip

    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    return change_files(found, lambda document: strip(document, threshold=threshold), as_json=as_json)


def restore_weights(
    files: Files,
    output: Output = None,
    source: Annotated[
        str | None, Option("--from", metavar="FILE", help="The model that had the weights, or .safetensors or .npz.")
    ] = None,
    random: Annotated[int | None, Option("--random", metavar="SEED", least=0, help="Make up what is missing.")] = None,
    in_place: InPlace = False,
    force: Force = False,
    as_json: JsonOption = False,
) -> int:
    """Put weights back into a model that was stripped."""
    from intaglio.tools import restore

    if source is None and random is None:
        raise UsageError("where are the weights? Give --from FILE or --random SEED")
    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    return change_files(found, lambda document: restore(document, source, seed=random), as_json=as_json)
