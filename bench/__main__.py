"""The command `python -m bench`."""

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

from rich.console import Console

from bench import models, report
from bench.peers import EARLIER, ENGINES
from bench.race import BEFORE, OURS, Settings, race

COMMANDS = {
    "check": "every model at many sizes against ONNX Runtime without optimisations",
    "production": "starting time, memory and idle cost, in fresh processes",
    "field": "about two hundred models of the kinds people have, against ONNX Runtime",
    "training": "training steps against PyTorch, eager and compiled",
    "browser": "WebAssembly against onnxruntime-web, in node",
    "c": "exported C against emx-onnx-cgen: bytes of code and memory, time",
    "gemm": "matrix products at the shapes of transformers, against the peak of the machine",
}


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    defaults = Settings()
    command = argparse.ArgumentParser(
        prog="python -m bench",
        description="Race Intaglio against other engines.",
        epilog="Also: " + "; ".join(f"{name}: {text}" for name, text in COMMANDS.items()),
    )
    command.add_argument("--list", action="store_true", help="print one model a line and stop")
    command.add_argument("--models", nargs="+", default=[], metavar="NAME", help="names, patterns, groups, or all")
    command.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES, metavar="ENGINE",
                         help=f"of {', '.join(ENGINES)}")  # fmt: skip
    command.add_argument("--earlier", type=Path, metavar="CHECKOUT", help="also race the Intaglio of another checkout")
    command.add_argument("--threads", type=_at_least_one, default=defaults.threads)
    command.add_argument("--rounds", type=_at_least_one, default=defaults.rounds)
    command.add_argument("--seconds", type=float, default=defaults.seconds, help="length of one engine's turn")
    command.add_argument("--batch", type=_at_least_one, default=defaults.batch)
    command.add_argument("--json", type=Path, metavar="FILE", help="also write the report as JSON")
    command.add_argument("--markdown", type=Path, metavar="FILE", help="also write the report as Markdown")
    return command


def _at_least_one(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Run the command. 0: done; 1: an answer of Intaglio was wrong; 2: wrong usage."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in COMMANDS:
        return importlib.import_module(f"bench.{arguments[0]}").main(arguments[1:])
    command = parser()
    options = command.parse_args(arguments)
    chosen = models.chosen(command, options.models)
    if options.list:
        _print_list(chosen if options.models else models.MODELS)
        return 0
    engines = list(options.engines)
    if options.earlier is not None:
        _choose_earlier(command, options.earlier)
        engines.append(BEFORE)
    settings = Settings(tuple(engines), options.threads, options.rounds, options.seconds, options.batch)
    progress = Console(stderr=True)
    with progress.status("measuring the machine") as status:
        figures = report.machine()
        rows = race(chosen, settings, status.update if progress.is_terminal else _print_progress)
    report.print_report(rows, settings, figures, Console(width=None if sys.stdout.isatty() else 200))
    for path, text in (
        (options.json, lambda: json.dumps(report.as_json(rows, settings, figures), indent=1) + "\n"),
        (options.markdown, lambda: report.markdown(rows, settings, figures)),
    ):
        if path is not None:
            report.write(path, text())
    return 0 if all(OURS not in row.cells or row.is_right(OURS) for row in rows) else 1


def _choose_earlier(command: argparse.ArgumentParser, checkout: Path) -> None:
    if not (checkout / "src" / "intaglio" / "__init__.py").is_file():
        command.error(f"argument --earlier: {checkout} has no src/intaglio: give the folder of a checkout")
    os.environ[EARLIER] = str(checkout.resolve())


def _print_list(chosen: list[models.BenchModel]) -> None:
    for model in chosen:
        print(f"{model.name:20} {model.group:10} {model.about}")


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
