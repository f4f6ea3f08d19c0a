"""The commands put together, and what the program does with errors."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from intaglio.cli.add_outputs import add_more_outputs
from intaglio.cli.bench import bench
from intaglio.cli.build import build_model
from intaglio.cli.cache import CACHE
from intaglio.cli.check import check
from intaglio.cli.compare import compare
from intaglio.cli.compile import compile_model
from intaglio.cli.completion import completion_script
from intaglio.cli.conformance import conformance
from intaglio.cli.convert import convert_model
from intaglio.cli.dedupe import dedupe_model
from intaglio.cli.demo import demo
from intaglio.cli.diff import diff_models
from intaglio.cli.doctor import doctor
from intaglio.cli.draw import draw_model
from intaglio.cli.edit import edit_models
from intaglio.cli.explain import explain
from intaglio.cli.export import export_model
from intaglio.cli.externalize import externalize_weights, internalize_weights
from intaglio.cli.extract import extract_part
from intaglio.cli.info import info
from intaglio.cli.inline import inline_functions
from intaglio.cli.inspect import inspect
from intaglio.cli.layout import set_layout
from intaglio.cli.lint import lint
from intaglio.cli.make_dynamic import make_model_dynamic
from intaglio.cli.merge import merge_models
from intaglio.cli.options import Parser, Section, UsageError, all_commands, build_parser
from intaglio.cli.profile import profile_model
from intaglio.cli.prune import prune_model
from intaglio.cli.reduce import reduce
from intaglio.cli.rename import rename_model
from intaglio.cli.run import run
from intaglio.cli.serve import serve_models
from intaglio.cli.set_dtype import set_model_dtype
from intaglio.cli.set_opset import set_operator_set
from intaglio.cli.set_shape import set_shapes
from intaglio.cli.shells import ShellArgument
from intaglio.cli.simplify import simplify_model
from intaglio.cli.stats import stats_of_model
from intaglio.cli.strip import restore_weights, strip_weights
from intaglio.cli.terminal import print_json, tell, tell_error
from intaglio.cli.train import train
from intaglio.cli.view import view_model
from intaglio.errors import IntaglioError
from intaglio.version import __version__


def completion(shell: ShellArgument) -> None:
    """Print a script that completes commands and options in a shell.

    bash: source <(intaglio completion bash)
    zsh:  source <(intaglio completion zsh)
    fish: intaglio completion fish | source
    """
    print(completion_script(shell, COMMANDS))


SECTIONS = (
    Section(
        "Run",
        (
            ("What does it answer, and how fast?", ("run", run)),
            ("How fast is it, beside other runtimes?", ("bench", bench)),
            ("Does it work here at all, without a model of mine?", ("demo", demo)),
            ("How do I train it on my data?", ("train", train)),
            ("How do I put it behind a port?", ("serve", serve_models)),
        ),
    ),
    Section(
        "Look",
        (
            ("How do I see and edit it in a browser?", ("view", view_model)),
            ("What goes in and out, and what is it made of?", ("info", info)),
            ("Is the file valid, and what is wrong with it?", ("check", check)),
            ("Which kernels run, and where is memory used?", ("explain", explain)),
            ("Where does the time of a run go?", ("profile", profile_model)),
            ("What numbers are in its weights, or in a run?", ("inspect", inspect)),
            ("What does it look like?", ("draw", draw_model)),
            ("How do the files of two models differ?", ("diff", diff_models)),
            ("How many weights, multiplications and bytes?", ("stats", stats_of_model)),
        ),
    ),
    Section(
        "Change",
        (
            ("How do I get the part between these values?", ("extract", extract_part)),
            ("How do I join models?", ("merge", merge_models)),
            ("How do I rename inputs, outputs and nodes?", ("rename", rename_model)),
            ("How do I fix or open sizes of inputs?", ("set-shape", set_shapes)),
            ("How do I open a batch that was exported fixed?", ("make-dynamic", make_model_dynamic)),
            ("How do I get it in float16 or another type?", ("set-dtype", set_model_dtype)),
            ("How do I get another operator set?", ("set-opset", set_operator_set)),
            ("How do I get channels first or last?", ("layout", set_layout)),
            ("How do I see values inside of it?", ("add-outputs", add_more_outputs)),
            ("How do I put functions where they are called?", ("inline", inline_functions)),
            ("How do I make the same edits again?", ("edit", edit_models)),
        ),
    ),
    Section(
        "Shrink and store",
        (
            ("How do I make it smaller, with the same answers?", ("simplify", simplify_model)),
            ("How do I drop what no output needs?", ("prune", prune_model)),
            ("How do I drop what is there twice?", ("dedupe", dedupe_model)),
            ("How do I show a model without its weights?", ("strip", strip_weights)),
            ("How do I put weights back?", ("restore", restore_weights)),
            ("How do I put weights into a file of their own?", ("externalize", externalize_weights)),
            ("How do I put them back into the model?", ("internalize", internalize_weights)),
            ("How do I get it as text or JSON, or its weights?", ("convert", convert_model)),
        ),
    ),
    Section(
        "Find faults",
        (
            ("Where does it begin to differ from others?", ("compare", compare)),
            ("What is the smallest part of it that fails?", ("reduce", reduce)),
            ("What will be slow, unsafe or different elsewhere?", ("lint", lint)),
        ),
    ),
    Section(
        "Ship",
        (
            ("How do I compile it ahead, or into one file?", ("compile", compile_model)),
            ("How do I get it as source code, or as another ONNX file?", ("export", export_model)),
            ("How do I get it as a library for C?", ("build", build_model)),
        ),
    ),
    Section(
        "This program",
        (
            ("What does this machine have, and what is missing?", ("doctor", doctor)),
            ("Does it pass ONNX's own tests?", ("conformance", conformance)),
            ("What is in the cache, and how do I clear it?", CACHE),
            ("How does my shell complete commands?", ("completion", completion)),
        ),
    ),
)
"""The commands by what people want, each with the question that it answers; `--help` prints them so."""

COMMANDS = all_commands(SECTIONS)


def make_parser() -> Parser:
    """The parser of the command line."""
    parser = build_parser(
        "intaglio", "Cuts ONNX models into native code: run, look at, change, train and export them.", SECTIONS
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
