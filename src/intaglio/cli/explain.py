"""`intaglio explain`: how a model runs, and the C that it became."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from intaglio.cli.arguments import parse_dims
from intaglio.cli.options import Option
from intaglio.cli.run import DimOption
from intaglio.cli.session import (
    DeviceOption,
    DisableOption,
    DonateOption,
    ExactOption,
    LoadRequest,
    StrictOption,
    Tf32Option,
    load_timed,
)
from intaglio.cli.terminal import (
    STANDARD,
    EngineOption,
    JsonOption,
    ModelArgument,
    ThreadsOption,
    print_json,
    print_text,
    shown,
    tell,
)
from intaglio.errors import InputError
from intaglio.runtime.model.explain import fold_lines


def explain(
    model: ModelArgument,
    c_file: Annotated[
        str | None, Option("--c", metavar="FILE", help="Write the generated C here; - is standard output.")
    ] = None,
    dims: DimOption = None,
    engine: EngineOption = None,
    threads: ThreadsOption = None,
    strict: StrictOption = False,
    exact: ExactOption = False,
    disable: DisableOption = None,
    donate: DonateOption = None,
    device: DeviceOption = "cpu",
    tf32: Tf32Option = False,
    as_json: JsonOption = False,
) -> None:
    """Show the kernels of a model in the order they run, what each computes, and what is not compiled and why."""
    sizes = parse_dims(dims or ())
    passes, given = tuple(disable or ()), tuple(donate or ())
    request = LoadRequest(engine, threads, None, strict, exact, False, passes, device, tf32, given)
    loaded, _ = load_timed(model, request)
    if c_file == STANDARD:
        print(loaded.c_source())
        return
    if c_file is not None:
        _write(c_file, loaded.c_source())
    explanation = loaded.explain(dims=sizes)
    print_json(explanation.to_dict()) if as_json else print_text(fold_lines(shown(explanation)))


def _write(path: str, source: str) -> None:
    try:
        Path(path).write_text(source, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path!r} cannot be written: {error.strerror or error}") from None
    tell(f"{len(source.splitlines())} lines of C written to {path}")
