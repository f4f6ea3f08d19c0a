"""`python -m bench field`: models of the kinds people have, against ONNX Runtime."""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import report
from bench.field import page
from bench.field.catalogue import select
from bench.field.measure import Settings, check, generate, keep, problems, race, ratio, read_result, source_hash
from bench.field.specimen import Specimen
from bench.race import write_bytecode


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    defaults = Settings()
    command = argparse.ArgumentParser(prog="python -m bench field", description=__doc__)
    command.add_argument("--select", nargs="+", default=[], metavar="PATTERN", help="names, patterns or kinds")
    command.add_argument("--list", action="store_true", help="print one model a line and stop")
    command.add_argument("--generate-only", action="store_true", help="make the files and stop")
    command.add_argument("--remake", action="store_true", help="make the files again, those that could not be made too")
    command.add_argument("--report-only", action="store_true", help="make and measure nothing, tell what is known")
    command.add_argument("--no-speed", action="store_true", help="load and compare only")
    command.add_argument("--again", action="store_true", help="measure what was measured with the same sources too")
    command.add_argument("--failed", action="store_true", help="only models that were wrong or failed last time")
    command.add_argument("--jobs", type=int, default=defaults.jobs, help="models made and examined at a time")
    command.add_argument("--threads", type=int, default=defaults.threads)
    command.add_argument("--rounds", type=int, default=defaults.rounds, help="turns that each engine gets on a model")
    command.add_argument("--seconds", type=float, default=defaults.seconds, help="length of one engine's turn")
    command.add_argument("--starts", type=int, default=defaults.starts, help="processes for each warm start")
    command.add_argument("--processor-time", action="store_true",
                         help="count processor time in the race, on one thread: for a busy machine")  # fmt: skip
    command.add_argument("--patience", type=float, default=defaults.patience, help="seconds for one model's step")
    command.add_argument("--json", type=Path, metavar="FILE", help="also write all figures as JSON")
    command.add_argument("--write", type=Path, metavar="FILE", help="write the page there instead of to the output")
    return command


def main(arguments: list[str]) -> int:
    """Measure. 0: all agree; 1: a model failed or was wrong; 2: wrong usage."""
    command = parser()
    options = command.parse_args(arguments)
    try:
        chosen = select(options.select)
    except ValueError as error:
        command.error(str(error))
    if options.failed:
        chosen = [specimen for specimen in chosen if problems(read_result(specimen))]
    if options.list:
        for specimen in chosen:
            print(f"{specimen.name:40} {specimen.kind}")
        return 0
    settings = Settings(
        1 if options.processor_time else options.threads, options.rounds, options.seconds, options.starts,
        options.patience, options.jobs, "process_time" if options.processor_time else "perf_counter",
    )  # fmt: skip
    if not options.report_only:
        _measure(chosen, settings, options)
    if options.generate_only:
        return 0
    there = [specimen for specimen in chosen if (specimen.facts() or {}).get("failure") == ""]
    called = " ".join(["python -m bench field", *arguments])
    text = page.page(chosen, settings, called)
    if options.write is not None:
        report.write(options.write, text)
    else:
        print(text, end="")
    if options.json is not None:
        report.write(options.json, json.dumps(page.as_json(chosen, settings, called), indent=1) + "\n")
    return 1 if any(problems(read_result(specimen)) for specimen in there) else 0


def _was_made(specimen: Specimen) -> bool:
    facts = specimen.facts()
    assert facts is not None, f"{specimen.name} was not generated"
    return not facts["failure"]


def _measure(chosen: list[Specimen], settings: Settings, options: argparse.Namespace) -> None:
    """Make the models, examine them, time them."""
    if options.remake:
        for specimen in chosen:
            specimen.forget()
    generate(chosen, settings, _say)
    if options.generate_only:
        return
    there = [specimen for specimen in chosen if _was_made(specimen)]
    source = source_hash()
    write_bytecode()
    _check_all(there, settings, source, options.again or options.failed)
    if not options.no_speed:
        _race_all(there, settings, options.again)


def _check_all(specimens: list[Specimen], settings: Settings, source: str, again: bool) -> None:
    """Examine those that were not with these sources."""
    waiting = [s for s in specimens if again or read_result(s).get("source") != source]

    def one(specimen: Specimen) -> None:
        found = check(specimen, settings)
        result = keep(specimen, source=source, check=found, race={})
        said = "; ".join(problems(result))[:300] or f"right, cold {found.get('cold', 0):.1f} s"
        _say(f"{specimen.name}: {said}")

    with ThreadPoolExecutor(settings.jobs) as pool:
        list(pool.map(one, waiting))


def _race_all(specimens: list[Specimen], settings: Settings, again: bool) -> None:
    """Time those that load, one at a time."""
    for specimen in specimens:
        result = read_result(specimen)
        if result.get("check", {}).get("failure") or (result.get("race") and not again):
            continue
        result = keep(specimen, race=race(specimen, settings))
        _say(f"{specimen.name}: ONNX Runtime's time over ours {ratio(result):.2f}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
