"""`intaglio view`: a model in the browser."""

from __future__ import annotations

import logging
from typing import Annotated

from intaglio.cli.arguments import parse_dims
from intaglio.cli.options import Argument, Option, UsageError
from intaglio.cli.terminal import tell

ModelFiles = Annotated[
    list[str],
    Argument(
        "MODEL [OTHER]", "ONNX, compiled, a program of torch.export (.pt2), or a folder with one; two are compared."
    ),
]


def view_model(
    files: ModelFiles,
    edit: Annotated[
        bool, Option("--edit", help="Let the page change and save models; without it, it only shows.")
    ] = False,
    browser: Annotated[
        bool, Option("--browser/--no-browser", help="Open the page in the browser, or only print its address.")
    ] = True,
    html: Annotated[
        str | None, Option("--html", metavar="OUT.html", help="Write one file that needs no server and no network.")
    ] = None,
    port: Annotated[int | None, Option("--port", least=0, help="The port; default: any free one.")] = None,
    dims: Annotated[
        list[str] | None,
        Option("--dim", "-d", metavar="NAME=NUMBER", help="For --html: give a number to a size that has a name."),
    ] = None,
    weights: Annotated[
        bool, Option("--weights", help="For --html: put statistics and elements of weights in.")
    ] = False,
    profile: Annotated[
        bool, Option("--profile", help="For --html: run the model and put in where the time goes.")
    ] = False,
) -> None:
    """See a model in the browser: its graph to fold and search, weights, costs, times, and with --edit to change it.

    The page is served to this machine only, on a port and with a token that nobody can guess; it loads nothing from
    anywhere else. Files that cannot be run are shown too. Needs: pip install 'intaglio[web]'; --html needs no extra.
    """
    if len(files) > 2:
        raise UsageError(f"one model is shown, or two are compared; {len(files)} are given")
    sizes = parse_dims(dims or ())
    if html is not None:
        _check_alone(files, edit, port)
        _write_page(files[0], html, sizes, weights, profile)
        return
    if weights or profile or sizes:
        raise UsageError("--weights, --profile and --dim are for --html; the served page has buttons for them")
    _serve(files, edit, browser, port or 0)


def _check_alone(files: list[str], edit: bool, port: int | None) -> None:
    if edit or port is not None or len(files) > 1:
        raise UsageError("--html writes a page of one model without a server: leave out --edit, --port and OTHER")


def _write_page(model: str, target: str, sizes: dict[str, int], weights: bool, profiled: bool) -> None:
    from intaglio.web.standalone import standalone_page

    page = standalone_page(model, target, weights=weights, profiled=profiled, dims=sizes)
    tell(f"written to {target}: {len(page):,} bytes")


def _serve(files: list[str], edit: bool, browser: bool, port: int) -> None:
    from intaglio import garbage
    from intaglio.web import require_extra

    require_extra()
    from intaglio.web.server import serve_page
    from intaglio.web.session import Session

    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    session = Session(editable=edit)
    for place, each in enumerate(files):
        with garbage.paused():
            model = session.open(each, "other" if place else "main")
        for notice in model.notices:
            tell(f"{each}: {notice}")
    serve_page(session, port=port, browser=browser)
