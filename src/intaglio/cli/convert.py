"""`intaglio convert`: a model as text or JSON and back, and its weights as a file."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

from intaglio.cli.files import Files, Force, Job, Output, Report, each_file, jobs, write_output
from intaglio.cli.options import Option, UsageError
from intaglio.cli.terminal import STANDARD, JsonOption, tell
from intaglio.errors import LoadError


class Form(StrEnum):
    """What `--to` and `--as` take."""

    onnx = "onnx"
    text = "text"
    json = "json"
    safetensors = "safetensors"
    npz = "npz"


_SUFFIXES = {Form.text: ".onnxtxt"}


def convert_model(
    files: Files,
    output: Output = None,
    to: Annotated[Form | None, Option("--to", help="The form to write; default: by the name of OUT.")] = None,
    source_form: Annotated[Form | None, Option("--as", help="The form of IN; default: by its name.")] = None,
    weights: Annotated[bool, Option("--weights", help="Let text and JSON have the weights, too.")] = False,
    force: Force = False,
    as_json: JsonOption = False,
) -> int:
    """Write a model as text or JSON, or its weights as a file; or make a model of text or JSON.

    The names of files say the form: .onnx, .onnxtxt for ONNX's text, .json, .safetensors, .npz.

    Without --weights, text and JSON are of the structure alone; `restore` puts weights back.
    """
    suffix = None if to is None else _SUFFIXES.get(to, f".{to.value}")
    found = jobs(files, output, force=force, suffix=suffix, as_json=as_json)

    def work(job: Job) -> Report:
        notes = _convert(job, to, source_form, weights)
        for note in notes:
            tell(f"note: {note}")
        return {"notes": notes} if notes else {}

    return each_file(found, work, as_json=as_json)


def _convert(job: Job, to: Form | None, source_form: Form | None, weights: bool) -> list[str]:
    from intaglio.tools.verbs.converting import convert, form_of, read_form, written_text

    by_name = "onnx" if job.source == STANDARD or source_form is not None else form_of(job.source)
    document = read_form(_input(job.source), by_name if source_form is None else source_form.value)
    if job.target != STANDARD:
        return convert(document, job.target, to=None if to is None else to.value, weights=weights)
    if to in (None, Form.onnx):
        write_output(document, STANDARD)
        return []
    if to in (Form.safetensors, Form.npz):
        raise UsageError("files of weights are not written to standard output: give a file")
    data, notes = written_text(document, to.value, weights=weights)
    write_output(data, STANDARD)
    return notes


def _input(source: str) -> str | bytes:
    if source != STANDARD:
        return source
    data = sys.stdin.buffer.read()
    if not data:
        raise LoadError("standard input is empty, so not a model")
    return data
