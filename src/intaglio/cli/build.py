"""`intaglio build`: a model as a library or a program for this machine or another."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from intaglio.cli.arguments import parse_dims
from intaglio.cli.options import Option
from intaglio.cli.session import source_of
from intaglio.cli.terminal import JsonOption, ModelArgument, print_json, print_pairs


class LibraryKind(StrEnum):
    """What the option `--kind` takes."""

    shared = "shared"
    static = "static"
    exe = "exe"


def build_model(
    model: ModelArgument,
    output: Annotated[str, Option("--output", "-o", metavar="FOLDER", help="Write the files into this folder.")],
    kind: Annotated[
        LibraryKind, Option("--kind", help="A shared or static library, or the program that tests itself.")
    ] = LibraryKind.shared,
    target: Annotated[
        str | None,
        Option(
            "--target",
            metavar="TRIPLE",
            help="Another system, such as aarch64-linux-musl, x86_64-windows-gnu or wasm32-wasi; needs ziglang.",
        ),
    ] = None,
    dims: Annotated[
        list[str] | None,
        Option("--dim", "-d", metavar="NAME=NUMBER", help="Give a number to a size that has a name; may be repeated."),
    ] = None,
    name: Annotated[
        str | None, Option("--name", metavar="PREFIX", help="Begins the names of functions and files; default: model.")
    ] = None,
    threads: Annotated[
        int | None, Option("--threads", least=1, help="Threads of a run, by OpenMP; default: 1.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compile a model to a library with a C header, and for this machine with a Python module that calls it.

    The library has PREFIX_run, which takes inputs and outputs as pointers, and PREFIX_error for its status. The package
    ziglang compiles for other systems.
    """
    from intaglio.emit.c.build import build

    found = build(
        source_of(model),
        output,
        kind=kind.value,
        triple=target,
        dims=parse_dims(dims or ()),
        prefix=name,
        threads=threads,
    )
    if as_json:
        print_json({"model": model, "kind": kind.value, "folder": str(found.folder), "files": found.files})
        return
    print_pairs([("folder", str(found.folder)), *(("", each) for each in found.files)])
