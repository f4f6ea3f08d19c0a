"""`intaglio reduce`: a failing model cut to the smallest one that fails in the same way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from intaglio.cli.arguments import parse_dims, read_inputs
from intaglio.cli.compare import AtolOption, RtolOption, SamplesOption, SeedOption, quiet_counter
from intaglio.cli.options import Argument, Option, UsageError
from intaglio.cli.run import DimOption, InputOption
from intaglio.cli.session import DisableOption, ExactOption, source_of
from intaglio.cli.terminal import (
    STANDARD,
    EngineOption,
    JsonOption,
    ThreadsOption,
    counting,
    print_json,
    print_pairs,
    seconds,
    tell,
)
from intaglio.runtime.model.loading import load

if TYPE_CHECKING:
    from intaglio.tools.reducing import Reduction

OutOption = Annotated[
    str, Option("--output", "-o", metavar="SMALL", help="The .onnx file to write; inputs go beside it as .npz.")
]

CheckOption = Annotated[
    str | None,
    Option(
        "--check",
        metavar="COMMAND",
        help="A shell command with {} for the model, and {inputs} for an .npz file; a status other than 0 fails.",
    ),
]
MatchOption = Annotated[str | None, Option("--match", metavar="REGEX", help="What a failing command must print, too.")]
AgainstOption = Annotated[
    str | None,
    Option(
        "--against", metavar="WHAT", help="Instead of a command: ort, reference, openvino or a model to differ from."
    ),
]


def reduce(
    model: Annotated[str, Argument("MODEL", "Path of an ONNX model that fails; - is standard input.")],
    output: OutOption,
    check: CheckOption = None,
    match: MatchOption = None,
    against: AgainstOption = None,
    inputs: InputOption = None,
    dims: DimOption = None,
    samples: SamplesOption = 1,
    seed: SeedOption = 0,
    rtol: RtolOption = None,
    atol: AtolOption = None,
    time_limit: Annotated[float | None, Option("--time-limit", least=0, help="Stop after so many seconds.")] = None,
    check_timeout: Annotated[
        float | None, Option("--check-timeout", least=0, help="Seconds that a command may take; then it passes.")
    ] = None,
    engine: EngineOption = None,
    threads: ThreadsOption = None,
    exact: ExactOption = False,
    disable: DisableOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cut a failing model to the smallest one that fails in the same way, and write it with its inputs.

    It fails by a command, or by differing from what --against names. Ctrl-C writes the smallest model so far.
    """
    from intaglio.tools.comparing.tolerances import parse_tolerances
    from intaglio.tools.reducing import reduce as reduce_model

    _check_usage(output, check, against)
    source = source_of(model)
    given = read_inputs(load(source, engine="reference", simplify=False), inputs) if inputs else None
    with counting() as begin:
        told = quiet_counter(begin)
        found = reduce_model(
            source,
            check,
            against=against,
            feeds=given,
            samples=samples,
            seed=seed,
            dims=parse_dims(dims or ()),
            match=match,
            check_timeout=check_timeout,
            tolerances=parse_tolerances(rtol or (), atol or ()),
            engine=engine.value if engine else None,
            threads=threads,
            disable=tuple(disable or ()),
            exact=exact,
            time_limit=time_limit,
            progress=lambda what, done, nodes: told("reducing (tries/nodes)", done, nodes),
        )
    _show(model, found, [str(path) for path in found.save(output)], as_json)


def _check_usage(output: str, check: str | None, against: str | None) -> None:
    if (check is None) == (against is None):
        raise UsageError("give one of --check COMMAND and --against WHAT")
    if output == STANDARD or Path(output).suffix == ".npz":
        raise UsageError(f"-o {output}: the model and its inputs are two files; give the name of an .onnx file")


def _show(model: str, found: Reduction, files: list[str], as_json: bool) -> None:
    if not found.is_complete:
        tell("stopped before it was done: a smaller model may fail, too")
    if as_json:
        names = ("failure", "nodes_before", "nodes", "tries", "seconds", "is_complete")
        operators = dict(Counter(found.operators))
        report = {name: getattr(found, name) for name in names}
        print_json({"model": model, **report, "operators": operators, "files": files})
        return
    print_pairs(
        [
            ("nodes", f"{found.nodes_before} -> {found.nodes}: {', '.join(found.operators)}"),
            ("inputs", ", ".join(f"{name}: {getattr(value, 'shape', '')}" for name, value in found.feeds.items())),
            ("it", found.failure),
            ("tries", f"{found.tries} in {seconds(found.seconds)}"),
            ("written", ", ".join(files)),
        ]
    )
