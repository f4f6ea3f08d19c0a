"""`intaglio lint`: what will be slow, unsafe, unportable or wrong elsewhere in a model."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

from intaglio.cli.files import read_input
from intaglio.cli.options import Argument, Option
from intaglio.cli.terminal import JsonOption, print_json, print_table, print_text

if TYPE_CHECKING:
    from intaglio.tools.linting import Findings


def lint(
    model: Annotated[str, Argument("MODEL", "Path of an ONNX model; - is standard input.")],
    ignore: Annotated[
        list[str] | None, Option("--ignore", metavar="ID", help="Leave this rule out; may be repeated.")
    ] = None,
    only: Annotated[
        list[str] | None, Option("--only", metavar="ID", help="Apply this rule alone; may be repeated.")
    ] = None,
    rules: Annotated[bool, Option("--rules", help="Print the table of rules as well.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Look for what will be slow, unsafe, unportable or wrong in other runtimes; exits with 1 where that is an error.

    `check` says whether a model can be read at all; `lint` says what to expect of it.
    """
    from intaglio.tools.linting import RULES
    from intaglio.tools.linting import lint as lint_model

    found = lint_model(read_input(model), ignore=ignore or (), only=only or ())
    table = [[each.id, each.severity, each.what, each.remedy] for each in RULES.values()]
    if as_json:
        extra = {"rules": [dict(zip(("id", "severity", "what", "remedy"), row, strict=True)) for row in table]}
        print_json({"model": model, **found.to_dict(), **(extra if rules else {})})
        return 0 if found.is_clean else 1
    if rules:
        print_table("Rules", ("rule", "severity", "what", "remedy"), table)
    _show(model, found)
    return 0 if found.is_clean else 1


def _show(model: str, findings: Findings) -> None:
    for id in dict.fromkeys(each.rule for each in findings.found):
        same = [each for each in findings.found if each.rule == id]
        print_text(f"{same[0].severity}: {id}: {same[0].what} Remedy: {same[0].remedy}.")
        for each in same[:5]:
            print_text(f"    {each.where}: {each.text}" if each.where else f"    {each.text}")
        if len(same) > 5:
            print_text(f"    and {len(same) - 5} more")
    counts = Counter(each.severity for each in findings.found)
    text = ", ".join(
        f"{counts[level]} {level}{'s' if counts[level] != 1 else ''}" for level in ("error", "warning", "info")
    )
    print_text(f"{model}: {text}")
