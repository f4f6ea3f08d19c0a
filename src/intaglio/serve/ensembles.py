"""Ensembles: several ONNX models one behind the other, as one model.

`NAME.ensemble.json` in the server's folder lists them. They become one graph, so that they run in one call and are
batched where the graph proves that rows do not mix, over all of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from intaglio.errors import InputError, LoadError
from intaglio.serve.datatypes import short
from intaglio.tools.document.writing import save_document
from intaglio.tools.editing.editor import Editor, edit

ENDING = ".ensemble.json"


@dataclass(frozen=True)
class Step:
    """One model of an ensemble, and which values of those before it its inputs read, by the input's name.

    Without `connect` the inputs read the outputs of the step before that have the same name, or each its own in order.
    """

    path: Path
    connect: dict[str, str] | None = None


def steps_of(path: Path) -> list[Step]:
    """The models that a file lists; raises LoadError where it is no list of files of its own folder."""
    try:
        found: Any = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise LoadError(f"{path.name} is no JSON: {error}") from None
    steps: Any = cast("dict[str, Any]", found).get("steps") if isinstance(found, dict) else None
    if not isinstance(steps, list) or not steps:
        raise LoadError(f'{path.name} has no steps; expected {{"steps": [{{"model": "first.onnx"}}, ...]}}')
    return [_step(path, each) for each in cast("list[Any]", steps)]


def _step(path: Path, fields: Any) -> Step:
    known: dict[str, Any] = fields if isinstance(fields, dict) else {"model": fields}
    name, connect = known.get("model"), known.get("connect")
    if not isinstance(name, str) or not name.endswith(".onnx") or set(known) - {"model", "connect"}:
        raise LoadError(
            f'{path.name}: a step is {short(fields)}, expected {{"model": "NAME.onnx", "connect": {{...}}}}'
        )
    if connect is not None and not _is_table_of_texts(connect):
        raise LoadError(f"{path.name}: connect of {name!r} is {short(connect)}, expected values by the names of inputs")
    place = (path.parent / name).resolve()
    if not place.is_relative_to(path.parent.resolve()):
        raise LoadError(f"{path.name}: {name!r} is not within the folder of the ensemble")
    if not place.is_file():
        raise LoadError(f"{path.name}: there is no file {name!r}")
    return Step(place, connect)


def _is_table_of_texts(found: Any) -> bool:
    table = cast("dict[Any, Any]", found)
    return isinstance(found, dict) and all(isinstance(each, str) for pair in table.items() for each in pair)


def write_joined(path: Path, folder: Path) -> Path:
    """Write the models of an ensemble as one; returns the file. Raises LoadError where they do not fit."""
    first, *others = steps_of(path)
    editor = edit(first.path)
    for number, step in enumerate(others, start=2):
        try:
            _append(editor, step, number)
        except InputError as error:
            raise LoadError(f"{path.name}: step {number}, {step.path.name}: {error}") from None
    target = folder / f"{path.name.removesuffix(ENDING)}.onnx"
    save_document(editor.document, target)
    return target


def _append(editor: Editor, step: Step, number: int) -> None:
    """Put a model behind the others, under names of its own where it has to have them."""
    try:
        editor.merge(step.path, step.connect)
    except InputError as error:
        try:
            editor.merge(step.path, step.connect, prefix=f"step{number}/")
        except InputError:
            raise error from None
