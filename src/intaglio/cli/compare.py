"""`intaglio compare`: whether a model computes what somebody else computes, and which node is the first not to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from intaglio.cli.arguments import parse_dims, read_inputs
from intaglio.cli.options import Option
from intaglio.cli.run import DimOption, InputOption
from intaglio.cli.session import DisableOption, ExactOption, source_of
from intaglio.cli.terminal import (
    EngineOption,
    JsonOption,
    ModelArgument,
    ThreadsOption,
    counting,
    print_json,
    print_table,
    print_text,
)
from intaglio.ir.limits import parse_bytes
from intaglio.runtime.model.loading import load

if TYPE_CHECKING:
    from intaglio.tools.comparing import Comparison, Difference, NodeReport
    from intaglio.tools.comparing.results import Bisection, Operand

AgainstOption = Annotated[
    str,
    Option(
        "--against",
        metavar="WHAT",
        help="ort, reference, openvino, another .onnx file, an .npz file of results, or MODULE:FUNCTION.",
    ),
]
RtolOption = Annotated[
    list[str] | None,
    Option(
        "--rtol", metavar="[NAME:]N", help="Relative tolerance; of a type or tensor: float16:1e-2; may be repeated."
    ),
]
AtolOption = Annotated[
    list[str] | None, Option("--atol", metavar="[NAME:]N", help="Absolute tolerance, as --rtol; may be repeated.")
]
SamplesOption = Annotated[int, Option("--samples", least=1, help="How many sets of inputs are made up.")]
SeedOption = Annotated[int, Option("--seed", least=0, help="Seed of the first set of inputs that is made up.")]


def compare(
    model: ModelArgument,
    against: AgainstOption = "reference",
    inputs: InputOption = None,
    dims: DimOption = None,
    samples: SamplesOption = 1,
    seed: SeedOption = 0,
    rtol: RtolOption = None,
    atol: AtolOption = None,
    tensors: Annotated[
        bool | None,
        Option("--tensors/--no-tensors", help="Compare all tensors, or outputs alone; default: where outputs differ."),
    ] = None,
    bisect: Annotated[
        bool, Option("--bisect", help="Find the pass, the kernel or the fusion that makes outputs differ.")
    ] = False,
    memory: Annotated[
        int | None,
        Option(
            "--memory", metavar="BYTES", parse=parse_bytes, help="Most memory of tensors that are compared at a time."
        ),
    ] = None,
    engine: EngineOption = None,
    threads: ThreadsOption = None,
    exact: ExactOption = False,
    disable: DisableOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compare what a model computes with what somebody else computes; exits with 1 where that differs.

    Inputs are given as `run` takes them, and made up where they are not.
    """
    from intaglio.tools.comparing import compare as compare_models
    from intaglio.tools.comparing.tolerances import parse_tolerances
    from intaglio.tools.cutting.chunks import CHUNK_BYTES

    source = source_of(model)
    tolerances = parse_tolerances(rtol or (), atol or ())
    given = read_inputs(load(source, engine="reference", simplify=False), inputs) if inputs else None
    with counting() as begin:
        found = compare_models(
            source,
            against,
            feeds=given,
            samples=samples,
            seed=seed,
            dims=parse_dims(dims or ()),
            tolerances=tolerances,
            tensors=tensors,
            bisection=bisect,
            engine=engine.value if engine else None,
            threads=threads,
            exact=exact,
            disable=tuple(disable or ()),
            memory=CHUNK_BYTES if memory is None else memory,
            progress=quiet_counter(begin),
        )
    print_json({"model": model, **found.to_dict()}) if as_json else _show(model, found)
    return 0 if found.is_equal else 1


def quiet_counter(begin: Any) -> Any:
    """Progress by name on one line of a terminal; a name is told elsewhere once."""
    lines: dict[str, Any] = {}

    def told(what: str, done: int, total: int) -> None:
        if what not in lines:
            lines[what] = begin(what)
        lines[what](done, total)

    return told


COLUMNS = ("tensor", "type", "shape", "#absolute", "#relative", "#ulp", "#cosine", "#PSNR", "verdict")


def row(each: Difference) -> list[str]:
    """A difference as cells of a table."""
    shape = "x".join(map(str, each.shape)) or "scalar"
    numbers = [_number(value) for value in (each.absolute, each.relative, each.ulp)]
    angle = "" if each.cosine is None else f"{each.cosine:.6f}"
    return [each.name, each.dtype, shape, *numbers, angle, _decibel(each.psnr), each.text or "equal"]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _decibel(value: float | None) -> str:
    return "" if value is None else "inf" if math.isinf(value) else f"{value:.1f}"


def _show(model: str, found: Comparison) -> None:
    print_table("Outputs", COLUMNS, [row(each) for each in found.outputs])
    shown = found.tensors if found.are_tensors_judged else [each for each in found.tensors if not each.is_equal][:10]
    if shown:
        print_table("Tensors", COLUMNS, [row(each) for each in shown])
    if found.weights:
        print_table("Weights that differ", COLUMNS, [row(each) for each in found.weights])
    if found.first is not None:
        _show_node(found.first)
    for note in found.notes:
        print_text(note)
    if found.bisection is not None:
        _show_bisection(found.bisection)
    verdict = "equal" if found.is_equal else "differs"
    sets = f"{found.samples} set{'s' if found.samples > 1 else ''} of inputs"
    print_text(f"{model}: {verdict} ({found.subject}, against {found.against}, {sets})")


def _show_node(first: NodeReport) -> None:
    print_text(f"the first node that differs: {first}")
    rows = [_operand_row(each) for each in first.inputs]
    if rows:
        print_table("It reads", ("input", "type", "shape", "#min", "#max", "#not finite", "is"), rows)


def _operand_row(each: Operand) -> list[str]:
    shape = "x".join(map(str, each.shape)) or ("scalar" if each.dtype else "")
    state = "" if each.is_equal is None else "equal" if each.is_equal else "different"
    return [each.name, each.dtype, shape, _number(each.least), _number(each.largest), str(each.not_finite or ""), state]


def _show_bisection(found: Bisection) -> None:
    rows = [[each.title, "equal" if each.is_equal else "differs"] for each in found.experiments]
    print_table("Bisection", ("run", "outputs"), rows)
    print_text(f"to blame: {found.text}")
