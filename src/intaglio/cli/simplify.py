"""`intaglio simplify`: a smaller model that computes the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from intaglio.cli.arguments import parse_dims
from intaglio.cli.files import Force, InPlace, Job, Output, Report, each_file, jobs
from intaglio.cli.options import Argument, Option, UsageError
from intaglio.cli.session import DisableOption, ExactOption, source_of
from intaglio.cli.terminal import STANDARD, JsonOption, counting, print_table, size, tell
from intaglio.ir.limits import parse_bytes

if TYPE_CHECKING:
    from intaglio.tools.simplifying import Simplified

ModelFiles = Annotated[
    list[str] | None,
    Argument("IN [OUT]", "The model and the file to write; several models or a pattern with -o; - is a pipe."),
]
DimOption = Annotated[
    list[str] | None,
    Option("--dim", "-d", metavar="NAME=NUMBER", help="Give a number to a size that has a name; may be repeated."),
]
ShapeOption = Annotated[
    list[str] | None,
    Option(
        "--shape",
        "--overwrite-input-shape",
        "--input-shapes",
        metavar="NAME:1,3,224,224",
        help="Give an input this shape; may be repeated.",
    ),
]


def refuse(remedy: str) -> Any:
    """What reads an option that others have and this command has not: it raises UsageError with what to do instead."""

    def parse(text: str) -> NoReturn:
        del text
        raise UsageError(f"not taken here: {remedy}")

    return parse


def _refused(*names: str, remedy: str) -> Any:
    return Option(*names, metavar="TEXT", parse=refuse(remedy), value_if_alone="", help=f"Not taken: {remedy}.")


def simplify_model(
    files: ModelFiles = None,
    output: Output = None,
    in_place: InPlace = False,
    force: Force = False,
    disable: DisableOption = None,
    only: Annotated[
        list[str] | None, Option("--only", metavar="PASS", help="Run this pass and no others; may be repeated.")
    ] = None,
    list_passes: Annotated[bool, Option("--list", help="Print the passes and stop.")] = False,
    exact: ExactOption = False,
    keep: Annotated[
        list[str] | None, Option("--keep", metavar="NAMES", help="Values that must stay, with commas between them.")
    ] = None,
    check: Annotated[
        int,
        Option("--check", metavar="N", least=0, help="Compare with the original on N random inputs; default: none."),
    ] = 0,
    seed: Annotated[int, Option("--seed", least=0, help="The seed of those inputs.")] = 0,
    dims: DimOption = None,
    shapes: ShapeOption = None,
    check_shapes: Annotated[
        list[str] | None,
        Option("--test-input-shape", metavar="NAME:1,3,224,224", help="The shape of an input for --check only."),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        Option("--outputs", "--unused-output", metavar="NAMES", help="Return these values, with commas between them."),
    ] = None,
    largest: Annotated[
        int | None,
        Option(
            "--no-large-tensor",
            "--size-threshold",
            metavar="BYTES",
            value_if_alone="1M",
            parse=parse_bytes,
            help="Fold no constant of more bytes than this; 1M where no number follows.",
        ),
    ] = None,
    external_data: Annotated[
        bool, Option("--external-data", "--save-as-external-data", help="Write weights into a file beside the model.")
    ] = False,
    skip_optimization: Annotated[
        bool,
        Option(
            "--skip-optimization", "--skip-optimizations", help="Only fold constants: no pass but fold-* and dead-code."
        ),
    ] = False,
    skip_folding: Annotated[
        bool, Option("--skip-constant-folding", help="As --disable fold-constants --disable fold-shapes.")
    ] = False,
    skip_fusion: Annotated[
        bool,
        Option("--skip-fusion-patterns", "--skip-fuse-bn", help="As --disable for every recognise-* and fuse-* pass."),
    ] = False,
    inputs: Annotated[
        str | None, _refused("--inputs", remedy="`intaglio extract` cuts a model at other inputs")
    ] = None,
    dtype: Annotated[str | None, _refused("--dtype", remedy="`intaglio set-dtype IN OUT --to float16`")] = None,
    custom: Annotated[
        str | None, _refused("--custom-lib", remedy="register operators in Python: docs/extending.md")
    ] = None,
    skip_inference: Annotated[
        str | None, _refused("--skip-shape-inference", "--no-shape-infer", remedy="shapes are always inferred")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Make a model smaller: same answers, same operator set, standard operators only.

    Names of inputs, outputs, sizes and surviving weights stay, and so does metadata. Options of onnxsim and onnxslim
    are taken, or refused with the way to do it here.
    """
    del inputs, dtype, custom, skip_inference
    if list_passes:
        return _list(as_json)
    left_out = [*(disable or ()), *_groups(skip_optimization, skip_folding, skip_fusion)]
    options: dict[str, Any] = {
        "disable": left_out,
        "only": only or (),
        "exact": exact,
        "keep": _names(keep),
        "outputs": _names(outputs),
        "dims": parse_dims(dims or ()),
        "shapes": parse_shapes(shapes or ()),
        "largest": largest,
    }
    if check_shapes and not check:
        raise UsageError("--test-input-shape is for --check N, which is not given")

    def work(job: Job) -> Report:
        return _simplify(job, options, check, seed, parse_shapes(check_shapes or ()), external_data, as_json)

    return each_file(jobs(files or (), output, in_place=in_place, force=force, as_json=as_json), work, as_json=as_json)


def parse_shapes(texts: Sequence[str]) -> dict[str, list[int]]:
    """Read `data:1,3,224,224` options; `data:1x3x224x224` and `data=...` are taken too."""
    shapes: dict[str, list[int]] = {}
    for text in texts:
        name, _, sizes = text.rpartition(":" if ":" in text else "=")
        parts = sizes.replace("x", ",").strip("[]").split(",")
        if not name or not all(part.strip().isdecimal() for part in parts):
            raise UsageError(f"{text!r} is no shape of an input, such as image:1,3,224,224")
        shapes[name] = [int(part) for part in parts]
    return shapes


def _names(texts: Sequence[str] | None) -> list[str]:
    return [name for text in texts or () for name in text.split(",") if name]


def _groups(optimization: bool, folding: bool, fusion: bool) -> list[str]:
    from intaglio.passes.pipeline import FOR_FILES

    names = [each.name for each in FOR_FILES]
    kept = ("fold-shapes", "fold-constants", "dead-code", "constant-control")
    left_out = [name for name in names if name not in kept] if optimization else []
    left_out += ["fold-constants", "fold-shapes"] if folding else []
    return left_out + [name for name in names if fusion and name.startswith(("recognise", "fuse"))]


def _list(as_json: bool) -> int:
    from intaglio.cli.terminal import print_json
    from intaglio.passes.pipeline import FOR_FILES

    if as_json:
        print_json({"passes": [{"name": each.name, "reason": each.reason} for each in FOR_FILES]})
    else:
        print_table("Passes, in order", ("pass", "why it stands there"), ((p.name, p.reason) for p in FOR_FILES))
    return 0


def _simplify(
    job: Job,
    options: dict[str, Any],
    check: int,
    seed: int,
    check_shapes: dict[str, list[int]],
    external_data: bool,
    as_json: bool,
) -> Report:
    from intaglio.tools.simplifying import simplify

    source = source_of(job.source)
    found = simplify(source, **options, base_folder="." if job.source == STANDARD else None)
    for note in found.notes:
        tell(f"note: {note}")
    report: Report = {}
    if check:
        report["check"] = _check(source, found, check, seed, check_shapes)
    if job.target == STANDARD:
        job.write(found.message())
    else:
        report["files"] = [str(path) for path in found.save(job.target, external_data=True if external_data else None)]
    if as_json:
        return report | _as_json(found)
    if job.target != STANDARD:
        _show(found)
    return report


def _check(source: Any, found: Simplified, count: int, seed: int, shapes: dict[str, list[int]]) -> list[str]:
    from intaglio.tools.samples import has_onnxruntime
    from intaglio.tools.simplifying.checking import check, sizes_of

    with counting() as begin:
        told = begin(f"{count} samples")
        results = check(source, found, count, seed=seed, dims=sizes_of(found.written.graph, shapes), progress=told)
    judge = "ONNX Runtime" if has_onnxruntime() else "the reference engine"
    return [f"{count} random inputs, run by {judge}", *map(str, results)]


def _as_json(found: Simplified) -> Report:
    counts = {
        name: {
            "nodes": each.nodes,
            "operators": each.operators,
            "weights": each.weights,
            "bytes": each.bytes,
            "macs": each.macs,
            "flops": each.flops,
        }
        for name, each in (("before", found.before), ("after", found.after))
    }
    applied = {name: len(events) for name, events in found.report.applied.items() if events}
    return {**counts, "passes": applied, "changes_rounding": found.report.changes_rounding}


def _show(found: Simplified) -> None:
    before, after = found.before, found.after
    rows: list[tuple[str, object, object]] = [
        ("nodes", before.nodes, after.nodes),
        ("bytes", size(before.bytes), size(after.bytes)),
        ("weights", f"{before.weights:,}", f"{after.weights:,}"),
        ("MACs", _short(before.macs), _short(after.macs)),
        ("FLOPs", _short(before.flops), _short(after.flops)),
    ]
    names = sorted({*before.operators, *after.operators})
    changed = [name for name in names if before.operators.get(name, 0) != after.operators.get(name, 0)]
    rows += [(name, before.operators.get(name, 0), after.operators.get(name, 0)) for name in changed]
    print_table("Before and after", ("", "#before", "#after"), rows)


def _short(formula: str) -> str:
    return formula if len(formula) <= 40 else f"{formula[:37]}..."
