"""The commands put together, and what the program does with errors."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from intaglio.cli.cache import cache_app
from intaglio.cli.check import check
from intaglio.cli.compile import compile_model
from intaglio.cli.conformance import ConformanceCommand, conformance
from intaglio.cli.demo import demo
from intaglio.cli.doctor import doctor
from intaglio.cli.explain import explain
from intaglio.cli.info import info
from intaglio.cli.run import run
from intaglio.cli.terminal import tell_error
from intaglio.errors import IntaglioError
from intaglio.version import __version__

app = typer.Typer(
    name="intaglio",
    help="Cuts ONNX models into native code: run, check, explain and compile them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(info)
app.command()(check)
app.command("compile")(compile_model)
app.command()(explain)
app.command()(demo)
app.command()(doctor)
app.command(cls=ConformanceCommand)(conformance)
app.add_typer(cache_app)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"intaglio {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> Any:
    """Cuts ONNX models into native code: run, check, explain and compile them."""


def main() -> None:
    """Run the command line; exits with 0, 1 (an error, a check that failed), 2 (usage) or 130 (Ctrl-C)."""
    try:
        app()
    except IntaglioError as error:
        tell_error(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
