"""`intaglio rename`: other names."""

from __future__ import annotations

import re
from typing import Annotated

from intaglio.cli.files import Files, Force, InPlace, Output, ScriptOption, assignments, change_files, jobs
from intaglio.cli.options import Option, UsageError
from intaglio.cli.terminal import JsonOption


def rename_model(
    files: Files,
    output: Output = None,
    values: Annotated[
        list[str] | None, Option("--value", metavar="OLD=NEW", help="Another name of a value; may be repeated.")
    ] = None,
    nodes: Annotated[
        list[str] | None, Option("--node", metavar="OLD=NEW", help="Another name of a node; may be repeated.")
    ] = None,
    dims: Annotated[
        list[str] | None, Option("--dim", "-d", metavar="OLD=NEW", help="Another name of a size; may be repeated.")
    ] = None,
    patterns: Annotated[
        list[str] | None,
        Option(
            "--pattern", metavar="s/RE/TEXT/", help="A regular expression for names of values and nodes, as in sed."
        ),
    ] = None,
    in_place: InPlace = False,
    force: Force = False,
    script: ScriptOption = None,
    as_json: JsonOption = False,
) -> int:
    """Rename values (inputs and outputs too), nodes and sizes of a model.

    In TEXT, \\1 is the first group of the expression. Two values may change names at once.
    """
    from intaglio.tools import rename

    changes = [parse_pattern(text) for text in patterns or ()]
    if not (values or nodes or dims or changes):
        raise UsageError("what shall be renamed? Give --value, --node, --dim or --pattern")
    found = jobs(files, output, in_place=in_place, force=force, as_json=as_json)
    named = [assignments(each, "OLD=NEW") for each in (values, nodes, dims)]
    return change_files(
        found,
        lambda document: rename(document, named[0], nodes=named[1], dimensions=named[2], patterns=changes),
        script=script,
        as_json=as_json,
    )


def parse_pattern(text: str) -> tuple[str, str]:
    """The expression and the replacement of `s/RE/TEXT/`; any sign may stand for the slash."""
    sign = re.escape(text[1]) if len(text) > 3 and text[0] == "s" else ""
    parts = re.split(rf"(?<!\\){sign}", text[2:]) if sign else []
    if len(parts) != 3 or parts[2]:
        raise UsageError(f"{text!r} is not s/RE/TEXT/")
    found = [part.replace(f"\\{text[1]}", text[1]) for part in parts]
    return found[0], found[1]
