"""`intaglio check`: everything that is wrong with a model, at once."""

from __future__ import annotations

from intaglio.cli.session import source_of
from intaglio.cli.terminal import JsonOption, ModelArgument, print_json, print_text
from intaglio.errors import IntaglioError
from intaglio.onnx.reader import check_model, read_model
from intaglio.onnx.scope import Problem
from intaglio.runtime.artifact.reading import is_compiled, read_compiled
from intaglio.runtime.engine.guard import guard_files
from intaglio.version import __version__


def check(model: ModelArgument, as_json: JsonOption = False) -> int:
    """Check a model and list every problem; exits with 1 where there is one.

    Of a compiled model, the hashes of all its parts are checked, its graph is read, and warnings tell where its code
    does not fit this machine or this version. None of its code is run.
    """
    guard_files()
    source = source_of(model)
    problems, warnings = _check_compiled(source) if is_compiled(source) else _check_onnx(source)
    if as_json:
        entries = [{"kind": type(p.error).__name__, "where": p.where, "text": str(p.error)} for p in problems]
        print_json({"model": model, "is_valid": not problems, "problems": entries, "warnings": warnings})
    else:
        _show(model, [str(problem) for problem in problems], warnings)
    return 1 if problems else 0


def _check_onnx(source: str | bytes) -> tuple[list[Problem], list[str]]:
    problems = check_model(source)
    return problems, [] if problems else list(read_model(source).info.warnings)


def _check_compiled(source: str | bytes) -> tuple[list[Problem], list[str]]:
    try:
        found = read_compiled(source)
        found.imported()
    except IntaglioError as error:
        return [Problem(error, "")], []
    warnings: list[str] = []
    if found.version != __version__:
        warnings.append(
            f"it was compiled by Intaglio {found.version} and this is {__version__}: a C compiler may be needed"
        )
    missing = found.executor.lacks()
    if missing:
        text = f"it was compiled for {found.executor.target.name} and this processor lacks {', '.join(missing)}"
        warnings.append(f"{text}: it will be compiled anew")
    return [], warnings


def _show(model: str, problems: list[str], warnings: list[str]) -> None:
    for text in problems:
        print_text(f"error: {text}")
    for text in warnings:
        print_text(f"warning: {text}")
    if problems:
        print_text(f"{model}: {len(problems)} problem{'s' if len(problems) > 1 else ''}")
    else:
        print_text(f"{model}: no problems")
