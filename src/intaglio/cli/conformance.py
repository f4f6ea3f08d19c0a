"""`intaglio conformance`: ONNX's own backend tests on our engines, or on any other ONNX backend."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

from intaglio.cli.options import Option, UsageError
from intaglio.cli.terminal import STANDARD, counting, print_json, print_table, print_text, tell
from intaglio.conformance.report import Report, markdown, to_dict
from intaglio.errors import InputError


class Engines(StrEnum):
    """What the option `--engine` takes."""

    native = "native"
    reference = "reference"
    both = "both"


def conformance(
    engine: Annotated[Engines, Option("--engine", help="The engine to test.")] = Engines.native,
    backend: Annotated[
        str | None,
        Option("--backend", metavar="MODULE", help="Test this ONNX backend instead, such as onnxruntime.backend."),
    ] = None,
    pattern: Annotated[
        str, Option("--filter", metavar="PATTERN", help="Only tests whose names match this regular expression.")
    ] = "",
    jobs: Annotated[int, Option("--jobs", least=1, help="Processes to run tests on.")] = 1,
    with_table: Annotated[bool, Option("--table/--no-table", help="Show attributes by operator.")] = True,
    markdown_file: Annotated[
        str | None, Option("--markdown", metavar="FILE", help="Write the report as Markdown.")
    ] = None,
    json_file: Annotated[
        str | None,
        Option(
            "--json",
            metavar="FILE",
            value_if_alone=STANDARD,
            help="Write the report as JSON; without a file, print it.",
        ),
    ] = None,
    export: Annotated[
        list[str] | None,
        Option("--export", metavar="LANGUAGE", help="Test exported source instead, such as python; may be repeated."),
    ] = None,
    support_file: Annotated[
        str | None, Option("--support", metavar="FILE", help="Write the table of operators, and run nothing.")
    ] = None,
) -> int:
    """Run ONNX's own backend tests, none left out, and report what passed and which operators that covers.

    Exits with 1 where a test fails or is declined; tests that compare random numbers are told apart. With several
    jobs, a test that kills its process fails alone.
    """
    if support_file is not None:
        _write_support(support_file)
        return 0
    if export:
        return _show_exports(export, _matching(pattern), jobs)
    reports = _reports(_chosen(engine, backend), _matching(pattern), jobs)
    if markdown_file is not None:
        _write(markdown_file, markdown(reports))
    if json_file is not None and json_file != STANDARD:
        _write(json_file, json.dumps(to_dict(reports), indent=2, allow_nan=False) + "\n")
    print_json(to_dict(reports)) if json_file == STANDARD else _show(reports, with_table)
    return 0 if all(report.is_right for report in reports) else 1


def _show_exports(languages: Sequence[str], names: list[str], jobs: int) -> int:
    """The table of languages; whether all models that one can say give what is expected."""
    from intaglio.conformance.exported import STYLES, UNSAID, export_row, export_subject, prepare_exports
    from intaglio.conformance.workers import run_cases
    from intaglio.emit import LANGUAGES

    rows: list[tuple[str, ...]] = []
    is_right = True
    for language in languages:
        if language not in (*LANGUAGES, *STYLES):
            raise UsageError(f"argument --export: {language!r} is none of {', '.join((*LANGUAGES, *STYLES))}")
        with counting() as bar:
            prepare_exports(language, names, bar(f"{language}: compiling"))
            results = run_cases(names, partial(export_subject, language), jobs, bar(f"{language}: running"))
        rows.append(tuple(map(str, export_row(language, results))))
        for result in results:
            is_wrong = result.outcome == "failed" and not result.reason.startswith(UNSAID)
            is_right = is_right and not is_wrong
            if result.outcome == "failed":
                print_text(f"{language}: {result.name}: {result.reason}")
    print_table("exported source", ("language", "#passed", "#sayable", "#total"), rows)
    return 0 if is_right else 1


def _chosen(engine: Engines, backend: str | None) -> list[tuple[str, bool]]:
    """The names of what is to be tested, each with whether it is an engine of ours."""
    if backend is not None:
        return [(backend, False)]
    return [(name, True) for name in ("native", "reference") if engine in (name, Engines.both)]


def _matching(pattern: str) -> list[str]:
    from intaglio.conformance.suite import cases  # it imports all of ONNX's tests, which no other command needs

    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"argument --filter: {pattern!r} is no regular expression: {error}") from None
    tell("making the tests")
    names = [name for name in cases() if wanted.search(name)]
    if not names:
        raise InputError(f"none of the {len(cases())} tests has a name that matches {pattern!r}")
    return names


def _reports(chosen: Sequence[tuple[str, bool]], names: list[str], jobs: int) -> list[Report]:
    from intaglio.conformance.suite import backend_subject, compile_all, engine_subject
    from intaglio.conformance.workers import run_cases

    reports: list[Report] = []
    for name, is_ours in chosen:
        is_native = is_ours and name == "native"
        title = f"{name} engine" if is_ours else name
        with counting() as bar:
            if is_native:
                compile_all(names, bar(f"{title}: compiling"))
            make = partial(engine_subject if is_ours else backend_subject, name)
            reports.append(Report(title, run_cases(names, make, jobs, bar(f"{title}: running")), is_native))
    return reports


def _show(reports: Sequence[Report], with_table: bool) -> None:
    for report in reports:
        print_text("\n".join(report.lines(with_table)))
    for report in reports:
        print_text(report.verdict())


def _write_support(path: str) -> None:
    from intaglio.conformance.support import page

    _write(path, page())


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path!r} cannot be written: {error.strerror or error}") from None
    tell(f"{path} written")
