"""`intaglio set-dtype`: a model in another floating-point type."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Annotated, Any

from intaglio.cli.arguments import parse_dims
from intaglio.cli.files import Files, Force, InPlace, Job, Output, Report, each_file, jobs
from intaglio.cli.options import Option
from intaglio.cli.session import source_of
from intaglio.cli.simplify import DimOption
from intaglio.cli.terminal import STANDARD, JsonOption, counting, tell


class FloatType(StrEnum):
    """What the option `--to` takes."""

    float16 = "float16"
    bfloat16 = "bfloat16"
    float32 = "float32"
    float64 = "float64"


def _names(texts: list[str] | None) -> list[str]:
    return [name for text in texts or () for name in text.split(",") if name]


def set_model_dtype(
    files: Files,
    to: Annotated[FloatType, Option("--to", help="The type.")],
    output: Output = None,
    in_place: InPlace = False,
    force: Force = False,
    keep: Annotated[
        list[str] | None, Option("--keep", metavar="OPERATORS", help="Operators that stay too, with commas.")
    ] = None,
    convert: Annotated[
        list[str] | None, Option("--convert", metavar="OPERATORS", help="Operators that need not stay, with commas.")
    ] = None,
    keep_nodes: Annotated[
        list[str] | None,
        Option("--keep-node", metavar="NAMES", help="Nodes, or values they give, that stay."),
    ] = None,
    io: Annotated[bool, Option("--io", help="Convert inputs and outputs too.")] = False,
    samples: Annotated[int, Option("--samples", least=0, help="Random inputs on which both are compared.")] = 1,
    seed: Annotated[int, Option("--seed", least=0, help="The seed of those inputs.")] = 0,
    dims: DimOption = None,
    as_json: JsonOption = False,
) -> int:
    """Let a model compute in another floating-point type.

    In 16 bits, operators that overflow or need more digits stay in the type of the file, with Casts around them.
    Inputs and outputs keep their types unless --io. The answers are compared with those before on random inputs.
    """
    options: dict[str, Any] = {
        "keep": _names(keep), "convert": _names(convert), "keep_nodes": _names(keep_nodes), "io": io,
        "samples": samples, "seed": seed, "dims": parse_dims(dims or ()),
    }  # fmt: skip

    def work(job: Job) -> Report:
        from intaglio.tools.types import set_dtype

        with counting() as begin:
            begin(f"{job.source}: converting to {to.value}, and comparing on {samples} samples")
            base = "." if job.source == STANDARD else None
            found = set_dtype(source_of(job.source), to.value, **options, base_folder=base)
        for note in found.notes:
            tell(f"note: {note}")
        if job.target == STANDARD:
            job.write(found.message())
        else:
            found.save(job.target)
        reasons = Counter(found.kept.values())
        report: Report = {"type": found.to, "casts": found.casts}
        report["kept"] = found.kept if as_json else [f"{count} nodes: {why}" for why, count in reasons.most_common()]
        return report | {"largest differences": [str(each) for each in found.differences]}

    return each_file(jobs(files, output, in_place=in_place, force=force, as_json=as_json), work, as_json=as_json)
