"""`intaglio conformance`: ONNX's own backend tests on our engines, on exported source, or on any other backend."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

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
    device: Annotated[
        str, Option("--device", metavar="DEVICE", help="Run the native engine on cpu, cuda or cuda:NUMBER.")
    ] = "cpu",
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
    cases: Annotated[
        str | None,
        Option("--cases", metavar="MODULE", help="Test exported source with the cases of a module, as bench.exported."),
    ] = None,
    keep: Annotated[
        str | None,
        Option("--keep", metavar="FILE", help="Keep results of exported source in a file, and run what is not in it."),
    ] = None,
    time_limit: Annotated[
        float | None, Option("--time-limit", metavar="SECONDS", least=0, help="A test that takes longer is ended.")
    ] = None,
    support_file: Annotated[
        str | None, Option("--support", metavar="FILE", help="Write the table of operators, and run nothing.")
    ] = None,
) -> int:
    """Run ONNX's own backend tests, none left out, and report what passed and which operators that covers.

    Exits with 1 where a test fails or is declined; tests that compare random numbers are told apart. With several
    jobs, a test that kills its process fails alone.

    A module of cases has a function `cases`, which gives tests by name: each has a model and can be run on a subject.
    """
    if support_file is not None:
        _write_support(support_file)
        return 0
    if export:
        return _show_exports(_languages(export), _matching(pattern, cases), keep, jobs, time_limit, cases is not None)
    for option, given in (("--cases", cases), ("--keep", keep)):
        if given is not None:
            raise UsageError(f"argument {option}: it is for exported source: give --export LANGUAGE too")
    if device != "cpu" and (backend is not None or engine is not Engines.native):
        raise UsageError("argument --device: it is for the native engine")
    reports = _reports(_chosen(engine, backend), _matching(pattern), jobs, time_limit, device)
    if markdown_file is not None:
        _write(markdown_file, markdown(reports))
    if json_file is not None and json_file != STANDARD:
        _write(json_file, json.dumps(to_dict(reports), indent=2, allow_nan=False) + "\n")
    print_json(to_dict(reports)) if json_file == STANDARD else _show(reports, with_table)
    return 0 if all(report.is_right for report in reports) else 1


def _languages(given: Sequence[str]) -> Sequence[str]:
    """The languages of a command, all known."""
    from intaglio.conformance.exported import STYLES
    from intaglio.emit import LANGUAGES

    for language in given:
        if language not in (*LANGUAGES, *STYLES):
            raise UsageError(f"argument --export: {language!r} is none of {', '.join((*LANGUAGES, *STYLES))}")
    return given


def _show_exports(
    languages: Sequence[str],
    cases: Mapping[str, Any],
    file: str | None,
    jobs: int,
    time_limit: float | None,
    is_optimised: bool,
) -> int:
    """The table of languages; whether all models that one can say give what is expected."""
    from intaglio.conformance.exported import UNSAID, export_row
    from intaglio.conformance.kept import KeptResults

    kept, rows, is_right = KeptResults(file), list[tuple[str, ...]](), True
    for language in languages:
        left = {name: case for name, case in cases.items() if name not in kept.of(language)}
        _run_exports(language, left, kept, jobs, time_limit, is_optimised)
        results = [kept.of(language)[name] for name in cases]
        rows.append(tuple(map(str, export_row(language, results))))
        for result in results:
            is_wrong = result.outcome == "failed" and not result.reason.startswith(UNSAID)
            is_right = is_right and not is_wrong
            if result.outcome == "failed":
                print_text(f"{language}: {result.name}: {result.reason}")
    print_table("exported source", ("language", "#passed", "#sayable", "#total"), rows)
    return 0 if is_right else 1


def _run_exports(
    language: str, cases: Mapping[str, Any], kept: Any, jobs: int, time_limit: float | None, is_optimised: bool
) -> None:
    from intaglio.conformance.exported import export_subject, prepare_exports
    from intaglio.conformance.workers import run_cases

    with counting() as bar:
        if not is_optimised:
            prepare_exports(language, (case.model() for case in cases.values()), bar(f"{language}: compiling"))
        make, keep = partial(export_subject, language, is_optimised), partial(kept.add, language)
        run_cases(cases, make, jobs, bar(f"{language}: running"), time_limit=time_limit, keep=keep)


def _chosen(engine: Engines, backend: str | None) -> list[tuple[str, bool]]:
    """The names of what is to be tested, each with whether it is an engine of ours."""
    if backend is not None:
        return [(backend, False)]
    return [(name, True) for name in ("native", "reference") if engine in (name, Engines.both)]


def _matching(pattern: str, module: str | None = None) -> dict[str, Any]:
    """The cases of ONNX's suite or of a module whose names match a pattern."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"argument --filter: {pattern!r} is no regular expression: {error}") from None
    tell("making the tests")
    known = _cases(module)
    found = {name: case for name, case in known.items() if wanted.search(name)}
    if not found:
        raise InputError(f"none of the {len(known)} tests has a name that matches {pattern!r}")
    return found


def _cases(module: str | None) -> dict[str, Any]:
    if module is None:
        from intaglio.conformance.suite import cases  # it imports all of ONNX's tests, which no other command needs

        return cases()
    try:
        return import_module(module).cases()
    except (ImportError, AttributeError, TypeError) as error:
        raise InputError(f"{module!r} has no cases: {type(error).__name__}: {error}") from error


def _reports(
    chosen: Sequence[tuple[str, bool]], cases: Mapping[str, Any], jobs: int, time_limit: float | None, device: str
) -> list[Report]:
    from intaglio.conformance.suite import backend_subject, compile_all, engine_subject
    from intaglio.conformance.workers import run_cases

    reports: list[Report] = []
    for name, is_ours in chosen:
        is_native = is_ours and name == "native"
        title = (f"{name} engine" if is_ours else name) + ("" if device == "cpu" else f" on {device}")
        with counting() as bar:
            if is_native and device == "cpu":
                compile_all(cases, bar(f"{title}: compiling"))
            make = partial(engine_subject, name, device) if is_ours else partial(backend_subject, name)
            results = run_cases(cases, make, jobs, bar(f"{title}: running"), time_limit=time_limit)
            reports.append(Report(title, results, is_native))
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
