"""`intaglio check`: everything that is wrong with a model, at once."""

from __future__ import annotations

import typer

from intaglio.cli.terminal import JsonOption, ModelArgument, print_json, print_text
from intaglio.onnx.reader import check_model, read_model
from intaglio.runtime.guard import guard_files


def check(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Check a model and list every problem; exits with 1 where there is one."""
    guard_files()
    problems = check_model(model)
    warnings = [] if problems else list(read_model(model).info.warnings)
    if as_json:
        entries = [{"kind": type(p.error).__name__, "where": p.where, "text": str(p.error)} for p in problems]
        print_json({"model": model, "is_valid": not problems, "problems": entries, "warnings": warnings})
    else:
        _show(model, [str(problem) for problem in problems], warnings)
    if problems:
        raise typer.Exit(1)


def _show(model: str, problems: list[str], warnings: list[str]) -> None:
    for text in problems:
        print_text(f"error: {text}")
    for text in warnings:
        print_text(f"warning: {text}")
    if problems:
        print_text(f"{model}: {len(problems)} problem{'s' if len(problems) > 1 else ''}")
    else:
        print_text(f"{model}: no problems")
