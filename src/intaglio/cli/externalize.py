"""`intaglio externalize` and `intaglio internalize`: weights beside a model, and inside of it."""

from __future__ import annotations

from typing import Annotated

from intaglio.cli.files import Files, Force, InPlace, Job, Output, Report, change_files, each_file, jobs
from intaglio.cli.options import Option, UsageError
from intaglio.cli.terminal import STANDARD, JsonOption
from intaglio.ir.limits import parse_bytes


def externalize_weights(
    files: Files,
    output: Output = None,
    location: Annotated[
        str | None, Option("--location", metavar="NAME", help="The file of weights; default: OUT with .data behind.")
    ] = None,
    threshold: Annotated[
        int, Option("--threshold", metavar="BYTES", parse=parse_bytes, help="Smaller tensors stay; default: 1024.")
    ] = 1024,
    in_place: InPlace = False,
    force: Force = False,
    as_json: JsonOption = False,
) -> int:
    """Put the weights of a model into one file beside it."""
    from intaglio.tools import externalize

    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    if any(job.target == STANDARD for job in found) or (location is not None and len(found) > 1):
        raise UsageError("weights beside a model need a file to write, and a --location is for one model")

    def work(job: Job) -> Report:
        return {
            "written": [str(p) for p in externalize(job.read(), job.target, location=location, threshold=threshold)]
        }

    return each_file(found, work, as_json=as_json)


def internalize_weights(
    files: Files, output: Output = None, in_place: InPlace = False, force: Force = False, as_json: JsonOption = False
) -> int:
    """Put the weights that are beside a model into its file, which must then have less than 2 GiB."""
    from intaglio.tools import internalize

    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    return change_files(found, internalize, as_json=as_json)
