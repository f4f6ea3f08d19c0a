"""Commands that read models and write models: which files go in, which come out, and what is printed of it.

    def prune(files: Files, output: Output = None, in_place: InPlace = False, force: Force = False,
              as_json: JsonOption = False) -> int:
        return each_file(jobs(files, output, in_place=in_place, force=force), work, as_json=as_json)

Both `VERB IN OUT` and `VERB IN -o OUT` work. Several models go to a folder: `VERB IN IN IN -o FOLDER`. `-` is standard
input and output. A model that is read is written over only with `--in-place` or `--force`.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from intaglio.cli.options import Argument, Option, UsageError
from intaglio.cli.session import source_of
from intaglio.cli.terminal import STANDARD, counting, print_json, print_pairs, tell_error
from intaglio.errors import InputError, IntaglioError

if TYPE_CHECKING:
    from onnx import ModelProto

    from intaglio.tools import Changed
    from intaglio.tools.document import Document

Files = Annotated[
    list[str],
    Argument("IN [OUT]", "The model and the file to write; several models or a pattern with -o; - is a pipe."),
]
Inputs = Annotated[list[str], Argument("MODEL ...", "Paths of models, or patterns such as 'm*.onnx'; - is a pipe.")]
Output = Annotated[
    str | None, Option("--output", "-o", metavar="OUT", help="The file to write, or a folder; - is standard output.")
]
InPlace = Annotated[bool, Option("--in-place", help="Write the result over the model that was read.")]
Force = Annotated[bool, Option("--force", help="Let OUT be a file that is read too.")]

Report = dict[str, Any]
"""What a command has to say about one file: names and values, as JSON can spell them."""


@dataclass(frozen=True)
class Job:
    """One model to read, and the file to write; `-` is standard input and output."""

    source: str
    target: str

    def read(self) -> Document:
        """The model as it is in its file; one from standard input has its external data in the working folder."""
        return read_input(self.source)

    def write(self, result: Document | ModelProto | bytes) -> list[str]:
        """Write the result; returns the names of the files that were written. A file appears at once or not at all."""
        return write_output(result, self.target)


def read_input(source: str) -> Document:
    """A model as it is in its file; `-` is standard input, whose external data is in the working folder."""
    from intaglio.tools import read_document

    return read_document(source_of(source), base_folder="." if source == STANDARD else None)


def write_output(result: Document | ModelProto | bytes, target: str) -> list[str]:
    """Write a model, or bytes, to a file or to standard output; returns the names of the files that were written."""
    if isinstance(result, bytes):
        return _write_bytes(result, target)
    from intaglio.tools import read_document, save_document
    from intaglio.tools.document import Document
    from intaglio.tools.document.writing import document_pieces

    document = result if isinstance(result, Document) else read_document(result, base_folder=".")
    if target != STANDARD:
        return [str(path) for path in save_document(document, target)]
    for piece in document_pieces(document):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    return []


def _write_bytes(data: bytes, target: str) -> list[str]:
    from intaglio.onnx.writer import check_target, temporary_file

    if target == STANDARD:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return []
    check_target(Path(target))
    with temporary_file(Path(target)) as (file, keep):
        file.write(data)
        keep()
    return [target]


def inputs(files: Sequence[str]) -> list[str]:
    """The files that are named, patterns replaced by what fits them; raises InputError where nothing does."""
    found: list[str] = []
    for name in files:
        if name == STANDARD or not glob.has_magic(name) or os.path.exists(name):
            found.append(name)
            continue
        matches = sorted(glob.glob(name, recursive=True))
        if not matches:
            raise InputError(f"no file fits the pattern {name!r}")
        found += matches
    return found


def jobs(
    files: Sequence[str],
    output: str | None,
    *,
    in_place: bool = False,
    force: bool = False,
    suffix: str | None = None,
    as_json: bool = False,
) -> list[Job]:
    """What to read and what to write, from the arguments of a command; raises UsageError where that is not clear.

    `suffix` is the ending of files in a folder of results, where it is another one than that of the model.
    """
    if output is None and not in_place and len(files) == 2:
        files, output = files[:1], files[1]
    sources = list(dict.fromkeys(inputs(files)))
    if in_place:
        if output is not None or STANDARD in sources:
            raise UsageError("--in-place writes over the model that was read: give no other output, and a file")
        return [Job(source, source) for source in sources]
    found = [Job(source, target) for source, target in zip(sources, _targets(sources, output, suffix), strict=True)]
    _check(found, force, as_json)
    return found


def _targets(sources: Sequence[str], output: str | None, suffix: str | None) -> list[str]:
    if output is None:
        if list(sources) == [STANDARD]:
            return [STANDARD]
        what = "OUT, -o FILE or --in-place" if len(sources) == 1 else "-o FOLDER or --in-place"
        raise UsageError(f"where shall the result go? Give {what}")
    is_folder = os.path.isdir(output) or output.endswith(("/", os.sep))
    if len(sources) == 1 and not is_folder:
        return [output]
    if output == STANDARD or (os.path.exists(output) and not is_folder):
        raise UsageError(f"{len(sources)} results need a folder, and {output!r} is none")
    if STANDARD in sources:
        raise UsageError("a model from standard input has no name in a folder; give the file to write")
    os.makedirs(output, exist_ok=True)
    names = [Path(source).name if suffix is None else Path(source).stem + suffix for source in sources]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two of the models would be written to {twice!r} in {output!r}: do them one by one")
    return [str(Path(output) / name) for name in names]


def _check(found: Sequence[Job], force: bool, as_json: bool) -> None:
    if as_json and any(job.target == STANDARD for job in found):
        raise UsageError("--json and the model would both write to standard output: give a file to write")
    if force:
        return
    for job in found:
        for other in found:
            if is_same_file(job.target, other.source):
                raise UsageError(f"{job.target!r} is a model that is read: --in-place or --force writes over it")


def is_same_file(one: str, other: str) -> bool:
    """Whether two names are of one file that exists."""
    try:
        return STANDARD not in (one, other) and os.path.samefile(one, other)
    except OSError:
        return False


def each_file(found: Sequence[Job], work: Callable[[Job], Report], *, as_json: bool = False) -> int:
    """Do the work on each model and print what it reports; returns 1 where one failed, after the others are done.

    A single model that fails raises its error. With `as_json` one model is one object, and several are a list under
    `files`, each with its report or its error.
    """
    if len(found) == 1:
        report = {"input": found[0].source, "output": found[0].target, **work(found[0])}
        if as_json:
            print_json(report)
        elif found[0].target != STANDARD:
            _show(report)
        return 0
    reports: list[Report] = []
    with counting() as begin:
        told = begin(f"{len(found)} models")
        for place, job in enumerate(found):
            told(place, len(found))
            reports.append(_one(job, work, as_json))
    if as_json:
        print_json({"files": reports})
    return 1 if any("error" in report for report in reports) else 0


def _one(job: Job, work: Callable[[Job], Report], as_json: bool) -> Report:
    report: Report = {"input": job.source, "output": job.target}
    try:
        report |= work(job)
    except IntaglioError as error:
        tell_error(f"{job.source}: {error}")
        return report | {"error": {"kind": type(error).__name__, "text": str(error)}}
    if not as_json:
        _show(report)
    return report


def _show(report: Report) -> None:
    print_pairs(pair for name, value in report.items() for pair in _pairs(name, value))


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, (list, tuple)):
        return [("" if place else name, str(item)) for place, item in enumerate(value)] or [(name, "none")]
    if isinstance(value, dict):
        return [("" if place else name, f"{key}: {item}") for place, (key, item) in enumerate(value.items())]
    return [] if value is None else [(name, str(value))]


ScriptOption = Annotated[
    str | None, Option("--script", metavar="FILE", help="Write the edits as a script that `intaglio edit` replays.")
]


def change_files(
    found: Sequence[Job], verb: Callable[[Document], Changed], *, script: str | None = None, as_json: bool = False
) -> int:
    """Change each model by a function of `intaglio.tools`, write it, and print what was done."""
    if script is not None and len(found) > 1:
        raise UsageError("--script is for one model")

    def work(job: Job) -> Report:
        changed = verb(job.read())
        written = job.write(changed.document)
        if script is not None and changed.editor is not None:
            written += [str(path) for path in changed.editor.save_script(script)]
        return {**changed.report, "written": written}

    return each_file(found, work, as_json=as_json)


def assignments(texts: Sequence[str] | None, what: str) -> dict[str, str]:
    """Texts such as `OLD=NEW` as names and values, split at the last sign; raises UsageError for others."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, sign, value = text.rpartition("=")
        if not sign or not name:
            raise UsageError(f"{text!r} is not {what}")
        found[name] = value
    return found
