"""`intaglio make-dynamic`: a fixed batch becomes an open one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from intaglio.cli.files import Files, Force, InPlace, Job, Output, Report, each_file, jobs
from intaglio.cli.options import Option, UsageError
from intaglio.cli.session import source_of
from intaglio.cli.terminal import STANDARD, JsonOption, counting

if TYPE_CHECKING:
    from intaglio.tools.dynamic import Dynamic
    from intaglio.tools.dynamic.proof import Proof


def make_model_dynamic(
    files: Files,
    output: Output = None,
    in_place: InPlace = False,
    force: Force = False,
    axis: Annotated[int, Option("--axis", least=0, help="The axis of the inputs that holds the rows.")] = 0,
    name: Annotated[str, Option("--name", metavar="NAME", help="What the open size is called.")] = "batch",
    inputs: Annotated[
        list[str] | None,
        Option("--input", "-i", metavar="NAME", help="An input that has rows; default: all of that size."),
    ] = None,
    sizes: Annotated[
        str | None, Option("--sizes", metavar="1,2,5", help="The sizes that are run; default: three, the file's too.")
    ] = None,
    seed: Annotated[int, Option("--seed", least=0, help="The seed of the inputs that are made up.")] = 0,
    as_json: JsonOption = False,
) -> int:
    """Open the size of an axis that was exported as a number, and prove that each row is what it was.

    Numbers in Reshape, Expand and the like that follow the batch are rewritten. The result is run at three sizes and
    compared row by row with the original. A node that mixes rows, or whose numbers cannot follow, is named; nothing is
    written then.
    """

    def work(job: Job) -> Report:
        from intaglio.tools.dynamic import make_dynamic

        with counting() as begin:
            begin(f"{job.source}: opening axis {axis}, and running it at three sizes")
            found = make_dynamic(
                source_of(job.source),
                axis=axis,
                name=name,
                inputs=inputs or (),
                sizes=_sizes(sizes),
                seed=seed,
                base_folder="." if job.source == STANDARD else None,
            )
        if job.target == STANDARD:
            job.write(found.message())
        else:
            found.save(job.target)
        return _report(found)

    return each_file(jobs(files, output, in_place=in_place, force=force, as_json=as_json), work, as_json=as_json)


def _sizes(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"argument --sizes: {text!r} is no list of sizes, such as 1,2,5")
    return [int(part) for part in parts]


def _report(found: Dynamic) -> Report:
    return {
        "opened": f"axis {found.axis} of {', '.join(found.inputs)}: {found.size} -> {found.name}",
        "outputs": [f"{name}: rows along axis {axis}" for name, axis in found.outputs.items()],
        "rewritten": found.changed,
        "proof": [f"{proof.size} rows: {_worst(proof):.2g} of the largest value" for proof in found.proofs],
    }


def _worst(proof: Proof) -> float:
    return max((each.relative for each in proof.differences), default=0.0)
