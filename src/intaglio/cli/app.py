"""The commands put together, and what the program does with errors."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from intaglio.cli.build import build_model
from intaglio.cli.cache import CACHE
from intaglio.cli.check import check
from intaglio.cli.compare import compare
from intaglio.cli.compile import compile_model
from intaglio.cli.completion import completion_script
from intaglio.cli.conformance import conformance
from intaglio.cli.demo import demo
from intaglio.cli.doctor import doctor
from intaglio.cli.explain import explain
from intaglio.cli.export import export_model
from intaglio.cli.info import info
from intaglio.cli.options import Function, Group, Parser, UsageError, build_parser
from intaglio.cli.run import run
from intaglio.cli.shells import ShellArgument
from intaglio.cli.terminal import print_json, tell, tell_error
from intaglio.cli.train import train
from intaglio.errors import IntaglioError
from intaglio.version import __version__


def completion(shell: ShellArgument) -> None:
    """Print a script that completes commands and options in a shell.

    bash: source <(intaglio completion bash)
    zsh:  source <(intaglio completion zsh)
    fish: intaglio completion fish | source
    """
    print(completion_script(shell, COMMANDS))


COMMANDS: tuple[tuple[str, Function] | Group, ...] = (
    ("run", run),
    ("info", info),
    ("check", check),
    ("compile", compile_model),
    ("explain", explain),
    ("compare", compare),
    ("train", train),
    ("export", export_model),
    ("build", build_model),
    ("demo", demo),
    ("doctor", doctor),
    ("conformance", conformance),
    CACHE,
    ("completion", completion),
)


def make_parser() -> Parser:
    """The parser of the command line."""
    parser = build_parser(
        "intaglio", "Cuts ONNX models into native code: run, check, explain, compile, train and export them.", COMMANDS
    )
    parser.add_argument("--version", action="version", version=f"intaglio {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exits with 0, 1 (an error, a check that failed), 2 (usage) or 130 (Ctrl-C)."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            status = _run(given)
            sys.stdout.flush()
    except IntaglioError as error:
        _tell(error, is_json="--json" in given)
        status = 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:  # whoever read our output has enough; nothing more can be written, at exit neither
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)


def _run(given: Sequence[str]) -> int:
    parser = make_parser()
    found = parser.parse_args(given)
    if not hasattr(found, "function"):
        parser.error("a command is missing")
    return found.function(**{name: getattr(found, name) for name in found.parameters}) or 0


def _tell(error: IntaglioError, is_json: bool) -> None:
    """An error for people, and for the program that asked for JSON."""
    tell_error(str(error))
    if is_json:
        print_json({"error": {"kind": type(error).__name__, "text": str(error)}})


def _show_warning(message: Warning | str, category: type[Warning], *place: Any) -> None:
    """A warning without the line of code that gave it, which is ours."""
    tell(f"warning: {message}")
