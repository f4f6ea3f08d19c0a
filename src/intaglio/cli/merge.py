"""`intaglio merge`: one model of several."""

from __future__ import annotations

from typing import Annotated

from intaglio.cli.files import (
    Force,
    Job,
    Output,
    Report,
    ScriptOption,
    assignments,
    each_file,
    inputs,
    is_same_file,
    read_input,
)
from intaglio.cli.options import Argument, Option, UsageError
from intaglio.cli.terminal import STANDARD, JsonOption


def merge_models(
    files: Annotated[list[str], Argument("FIRST SECOND [OUT]", "The models in order, and the file to write.")],
    output: Output = None,
    connect: Annotated[
        list[str] | None,
        Option("--connect", metavar="VALUE=INPUT", help="A value of the models before for an input; may be repeated."),
    ] = None,
    prefix: Annotated[
        list[str] | None,
        Option("--prefix", metavar="TEXT", help="Before the names of the second model, then of the third, ..."),
    ] = None,
    keep_outputs: Annotated[bool, Option("--keep-outputs", help="Let outputs that are read stay outputs.")] = False,
    force: Force = False,
    script: ScriptOption = None,
    as_json: JsonOption = False,
) -> int:
    """Join models: inputs of each read outputs of those before it.

    Without --connect they are joined by equal names, else one by one in order. Names that two models have need a
    --prefix. The older of two operator sets is brought to the newer one.
    """
    names = inputs(files)
    if output is None and len(names) > 2:
        names, output = names[:-1], names[-1]
    if output is None or len(names) < 2:
        raise UsageError("give two models or more, and where the result shall go: OUT or -o FILE")
    _check(names, output, force, as_json)
    wishes = [*(prefix or []), *[""] * (len(names) - 1)]
    return each_file(
        [Job(names[0], output)],
        lambda job: _merge(job, names[1:], wishes, connect, keep_outputs, script),
        as_json=as_json,
    )


def _check(names: list[str], output: str, force: bool, as_json: bool) -> None:
    if as_json and output == STANDARD:
        raise UsageError("--json and the model would both write to standard output: give a file to write")
    if not force and any(is_same_file(name, output) for name in names):
        raise UsageError(f"{output!r} is a model that is read: --force writes over it")


def _merge(
    job: Job, others: list[str], prefixes: list[str], connect: list[str] | None, keep: bool, script: str | None
) -> Report:
    from intaglio.tools import edit

    editor = edit(job.read())
    wanted = {name: value for value, name in assignments(connect, "VALUE=INPUT").items()}
    for other, prefix in zip(others, prefixes, strict=False):
        document = read_input(other)
        known = {info.name for info in document.graph.inputs}
        chosen = {name: wanted.pop(name) for name in list(wanted) if name in known}
        editor.merge(document, chosen or None, prefix=prefix, keep_outputs=keep)
    if wanted:
        raise UsageError(f"no model has the input {next(iter(wanted))!r} that --connect names")
    written = job.write(editor.document)
    if script is not None:
        written += [str(path) for path in editor.save_script(script)]
    graph = editor.document.graph
    report = {"nodes": len(editor.nodes()), "inputs": [info.name for info in graph.inputs]}
    return {**report, "outputs": [info.name for info in graph.outputs], "written": written}
