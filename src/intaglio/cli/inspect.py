"""`intaglio inspect`: what is in the tensors of a model, of a run or of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from intaglio.cli.arguments import parse_dims, read_inputs
from intaglio.cli.options import Argument, Option, UsageError
from intaglio.cli.run import DimOption, InputOption
from intaglio.cli.session import source_of
from intaglio.cli.terminal import EngineOption, JsonOption, ThreadsOption, print_json, print_table, print_text, tell
from intaglio.errors import InputError
from intaglio.runtime.model.loading import load

if TYPE_CHECKING:
    from intaglio.tools.inspecting import Facts, Inspection


def inspect(
    model: Annotated[str, Argument("MODEL", "Path of an ONNX model, or of an .npz or .npy file; - is standard input.")],
    names: Annotated[
        list[str] | None, Option("--name", metavar="PATTERN", help="Look at these tensors only; may be repeated.")
    ] = None,
    run: Annotated[bool, Option("--run", help="Look at all tensors that a run computes, and not at weights.")] = False,
    inputs: InputOption = None,
    dims: DimOption = None,
    seed: Annotated[int, Option("--seed", least=0, help="Seed of the inputs that are made up.")] = 0,
    bins: Annotated[int, Option("--bins", least=1, help="Bars of a histogram.")] = 32,
    svg: Annotated[str | None, Option("--svg", metavar="FILE", help="Write the histograms as a picture.")] = None,
    html: Annotated[str | None, Option("--html", metavar="FILE", help="Write a page with the histograms.")] = None,
    engine: EngineOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is in tensors: ranges, quantiles, a histogram, zeros, NaN, infinities, and which type would do.

    These are the weights of a model, with --run all tensors of a run, or the arrays of an .npz or .npy file.
    """
    from intaglio.tools.inspecting import inspect as inspect_tensors
    from intaglio.tools.inspecting.pictures import to_html, to_svg

    if not run and (inputs or dims):
        raise UsageError("--input and --dim are for runs: give --run as well")
    source = source_of(model)
    given = read_inputs(load(source, engine="reference", simplify=False), inputs) if inputs else None
    found = inspect_tensors(
        source,
        run=run,
        feeds=given,
        names=names or (),
        bins=bins,
        seed=seed,
        dims=parse_dims(dims or ()),
        engine=engine.value if engine else None,
        threads=threads,
    )
    for path, text in ((svg, lambda: to_svg(found.tensors)), (html, lambda: to_html(model, found.tensors))):
        if path is not None:
            _write(path, text())
    print_json({"model": model, **found.to_dict()}) if as_json else _show(found)


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path!r} cannot be written: {error.strerror or error}") from None
    tell(f"written to {path}")


def _show(found: Inspection) -> None:
    columns = ("tensor", "type", "shape", "#min", "#1 %", "#median", "#99 %", "#max", "#zero", "histogram", "remarks")
    print_table(f"{len(found.tensors)} tensors", columns, [_row(each) for each in found.tensors])
    if found.not_finite:
        first = found.not_finite[0]
        print_text(f"{len(found.not_finite)} tensors are not finite everywhere; the first is {first.name!r}")


def _row(each: Facts) -> list[str]:
    shares = dict(each.quantiles)
    numbers = [each.least, shares.get(0.01), shares.get(0.5), shares.get(0.99), each.largest]
    remarks = [*each.advice, *([f"{each.infinite} infinite"] if each.infinite else [])]
    return [
        each.name,
        each.dtype,
        "x".join(map(str, each.shape)) or "scalar",
        *("" if number is None else f"{number:.3g}" for number in numbers),
        f"{each.sparsity:.0%}" if each.zeros else "",
        each.sparkline(),
        "; ".join(remarks),
    ]
