"""What a server holds: models with their revisions and edits, and jobs."""

from __future__ import annotations

import base64
import gc
import io
import itertools
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ValueInfoProto

from intaglio.errors import InputError, IntaglioError, LimitError
from intaglio.onnx.scope import Problem
from intaglio.tools.document import Document, save_document, save_externally
from intaglio.tools.editing import Editor
from intaglio.tools.editing.types import value_types
from intaglio.web.arguments import give
from intaglio.web.jobs import Jobs
from intaglio.web.opening import MOST_NODES, Opened, open_model
from intaglio.web.recovery import Recovery, fingerprint, is_same_file
from intaglio.web.standalone import script_safe
from intaglio.web.structure import faults, structure

MOST_CHECKED = 3_000
"""Models of at most so many nodes are checked with each answer; of larger ones the page asks for faults later."""
MOST_MODELS = 24
MOST_COMMANDS = 20_000

Json = dict[str, Any]


class ConflictError(IntaglioError, ValueError):
    """A request is about another state of a model or file than there is."""


class NotAllowedError(IntaglioError, PermissionError):
    """A request would change something, and the server was started without --edit."""


class OpenModel:
    """One model: its document, its editor, and the steps that were made. A step may be several commands."""

    def __init__(self, id: str, opened: Opened, role: str, editable: bool) -> None:
        self.id, self.opened, self.role = id, opened, role
        self.editable = editable
        self.revision = 0
        self.editor = Editor(opened.document)
        self.lock = threading.RLock()
        self.notices: list[str] = []
        self._steps: list[int] = []
        self._undone: list[int] = []
        self._problems: tuple[int, list[Problem]] | None = None
        self._structure: tuple[int, str] | None = None
        self._types: tuple[int, dict[str, ValueInfoProto]] | None = None
        path = opened.path
        is_file = path is not None and opened.format == "ONNX"
        self.recovery = Recovery(path) if is_file and editable and path is not None else None
        self._known_file = fingerprint(path) if is_file and path is not None else None
        self.is_saved = True
        self._steps_in_file = 0
        """How many of the steps the model's own file holds."""

    @property
    def document(self) -> Document:
        """The model as it is now."""
        return self.editor.document

    def describe(self) -> Json:
        """A row of the list of models."""
        opened = self.opened
        found: Json = {
            "id": self.id,
            "name": self.document.graph.shell.name[:1000],
            "file": opened.name,
            "format": opened.format,
            "size": opened.size,
            "editable": self.editable,
            "role": self.role,
            "revision": self.revision,
            "undo": self.undo_title,
            "redo": self.redo_title,
            "saved": self.is_saved,
            "changed_on_disk": self.is_changed_on_disk(),
            "notices": self.notices,
        }
        if self.recovery is not None and self.recovery.error:
            found["notices"] = [*self.notices, self.recovery.error]
        return found

    def structure(self) -> Json:
        """The structure of the model as it is now."""
        with self.lock:
            return structure(self.opened, revision=self.revision, problems=self._checked())

    def structure_text(self) -> str:
        """The structure as JSON that is safe in scripts; made once for each revision."""
        with self.lock:
            if self._structure is None or self._structure[0] != self.revision:
                self._structure = self.revision, script_safe(self.structure())
            return self._structure[1]

    def types(self) -> dict[str, ValueInfoProto]:
        """The types of the values of the model's graph, stated or inferred."""
        with self.lock:
            if self._types is None or self._types[0] != self.revision:
                self._types = self.revision, value_types(self.document)
            return self._types[1]

    def faults(self) -> Json:
        """Everything that is wrong with the model as it is now."""
        with self.lock:
            return {"revision": self.revision, "faults": faults(self.document, self._find_problems())}

    def _checked(self) -> list[Problem] | None:
        known = self._problems is not None and self._problems[0] == self.revision
        is_small = sum(1 for _ in self.document.all_nodes()) <= MOST_CHECKED
        return self._find_problems() if known or is_small else None

    def _find_problems(self) -> list[Problem]:
        if self._problems is None or self._problems[0] != self.revision:
            self._problems = self.revision, self.editor.faults()
        return self._problems[1]

    def edit(self, commands: Sequence[Any], session: Session, *, is_kept: bool = True) -> list[int]:
        """Give commands as one step, all of them or none; returns the nodes that they made."""
        if not commands or len(commands) > MOST_COMMANDS:
            raise InputError(f"a step is 1 to {MOST_COMMANDS} commands, not {len(commands)}")
        made: list[int] = []
        done = 0
        undone = list(self.editor.journal.undone)
        try:
            for command in commands:
                result = give(self.editor, command, lambda id: session.find(id).document)
                done += 1
                made += [result] if isinstance(result, int) else []
            if sum(1 for _ in self.document.all_nodes()) > MOST_NODES:
                raise LimitError(f"the model would have more than {MOST_NODES:,} nodes")
        except BaseException:
            for _ in range(done):
                self.editor.undo()
            self.editor.journal.undone[:] = undone
            raise
        self._steps.append(done)
        self._undone.clear()
        self._changed({"edit": list(commands)} if is_kept else None)
        return made

    def undo(self, *, is_kept: bool = True) -> None:
        """Take the last step back; raises InputError where there is none."""
        if not self._steps:
            raise InputError("there is nothing to undo")
        count = self._steps.pop()
        for _ in range(count):
            self.editor.undo()
        self._undone.append(count)
        if len(self._steps) < self._steps_in_file and self.recovery is not None:
            self.recovery.give_up("you went back behind what the file holds: save, so that nothing can be lost")
        self._changed({"undo": True} if is_kept else None)

    def redo(self, *, is_kept: bool = True) -> None:
        """Make the step again that was taken back last; raises InputError where there is none."""
        if not self._undone:
            raise InputError("there is nothing to redo")
        count = self._undone.pop()
        for _ in range(count):
            self.editor.redo()
        self._steps.append(count)
        self._changed({"redo": True} if is_kept else None)

    def _changed(self, step: Json | None) -> None:
        self.revision += 1
        self.is_saved = False
        if step is not None and self.recovery is not None:
            self.recovery.add(step)

    def state(self, made: Sequence[int] = ()) -> Json:
        """What the page is told after a step."""
        found = self.structure()
        return {
            "revision": self.revision, "faults": found["faults"], "checked": found["checked"], "changed": True,
            "structure": found, "undo": self.undo_title, "redo": self.redo_title,
            "selection": list(made),
        }  # fmt: skip

    @property
    def undo_title(self) -> str | None:
        """What undo would take back; None where there is nothing."""
        return _title(self.editor.journal.done, self._steps)

    @property
    def redo_title(self) -> str | None:
        """What redo would make again; None where there is nothing."""
        return _title(self.editor.journal.undone, self._undone)

    def restore(self, session: Session) -> None:
        """Make the steps of a journal that an earlier server left beside the file."""
        found = None if self.recovery is None else self.recovery.read()
        if self.recovery is None or found is None or not found.steps or "saved" in found.steps[-1]:
            return
        if not found.is_for_this_file:
            place = self.recovery.set_aside()
            kept = "" if place is None else f"; they are kept in {place.name!r}"
            self.notices.append(f"the file was changed since {len(found.steps)} unsaved edits were made{kept}")
            return
        for place, step in enumerate(found.steps, 1):
            try:
                self._repeat(step, session)
            except IntaglioError as error:
                aside = self.recovery.set_aside()
                kept = "" if aside is None else f"; all are kept in {aside.name!r}"
                self.notices.append(
                    f"step {place} of {len(found.steps)} unsaved edits cannot be made again: {error}{kept}"
                )
                return
        self.recovery.resume()
        self.notices.append(f"{len(found.steps)} unsaved edits were restored")

    def _repeat(self, step: Json, session: Session) -> None:
        if "edit" in step:
            self.edit(step["edit"], session, is_kept=False)
        elif "undo" in step:
            self.undo(is_kept=False)
        elif "redo" in step:
            self.redo(is_kept=False)

    def is_changed_on_disk(self) -> bool:
        """Whether the file is another one than was read."""
        path = self.opened.path
        if self._known_file is None or path is None:
            return False
        try:
            return not is_same_file(self._known_file, fingerprint(path))
        except OSError:
            return True

    def save(self, name: str | None, overwrite: bool) -> list[Path]:
        """Write the model beside its file; a file that is there is replaced only where that is said."""
        folder = self.opened.path.parent if self.opened.path is not None else Path.cwd()
        stem = Path(self.opened.name).stem or "model"
        target = folder / plain_name(f"{stem}.edited.onnx" if name is None else name)
        if os.path.lexists(target) and not overwrite:
            raise ConflictError(f"there is a file {target.name!r} already; save it under another name, or overwrite it")
        is_own = self.opened.path is not None and target == self.opened.path
        try:
            written = save_document(self.document, target)
        except LimitError:
            data = target.with_name(f"{target.name}.data")
            if data.exists() and not overwrite:
                raise ConflictError(f"the weights would go to {data.name!r}, which is there already") from None
            written = save_externally(self.document, target)
        self.is_saved = True
        if is_own:
            self._known_file = fingerprint(target)
            self._steps_in_file = len(self._steps)
        if self.recovery is not None:
            self.recovery.saved(target.name, is_own)
        return written

    def script(self) -> Json:
        """The edits as a Python script; arrays that are too long for it are an .npz file in base64."""
        with self.lock:
            arrays: dict[str, Any] = {}
            text = self.editor.journal.script(str(self.opened.path or "model.onnx"), arrays)
        data: str | None = None
        if arrays:
            written = io.BytesIO()
            np.savez(written, **arrays)
            data = base64.b64encode(written.getvalue()).decode()
        return {"name": f"{Path(self.opened.name).stem or 'model'}.edits.py", "text": text, "arrays": data}


def _title(entries: Sequence[Any], steps: Sequence[int]) -> str | None:
    """What the last step did, for a button; None where there is none."""
    if not steps or not entries:
        return None
    name = entries[-1].command.replace("_", " ")
    return name if steps[-1] == 1 else f"{name} and {steps[-1] - 1} more"


def plain_name(name: str) -> str:
    """A name for an ONNX file in the model's folder; raises InputError for anything with a folder in it."""
    bad = {"/", "\\", "\0", ":"} & set(name)
    if bad or name in ("", ".", "..") or name.startswith(".") or len(name.encode("utf-8", "replace")) > 200:
        raise InputError(f"{name[:80]!r} is no plain file name; expected one such as 'edited.onnx'")
    if not name.isprintable() or not name.endswith(".onnx"):
        raise InputError(f"{name[:80]!r} must be printable and end in .onnx")
    return name


class Session:
    """The models and jobs of a server."""

    def __init__(self, *, editable: bool = False) -> None:
        self.editable = editable
        self.models: dict[str, OpenModel] = {}
        self.jobs = Jobs()
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def open(self, source: Any, role: str = "other") -> OpenModel:
        """Open a model and give it a number; raises LoadError and LimitError."""
        return self.add(source if isinstance(source, Opened) else open_model(source), role)

    def add(self, opened: Opened, role: str) -> OpenModel:
        """Take a model that is open."""
        with self._lock:
            if len(self.models) >= MOST_MODELS:
                raise LimitError(f"{MOST_MODELS} models are open; close one first")
            model = OpenModel(str(next(self._numbers)), opened, role, self.editable)
            self.models[model.id] = model
        model.restore(self)
        return model

    def find(self, id: str) -> OpenModel:
        """A model by its number; raises InputError."""
        if id not in self.models:
            raise InputError(f"there is no model {id[:40]!r}")
        return self.models[id]

    def forget(self, id: str) -> None:
        """Close a model that a tool made or that was sent."""
        model = self.find(id)
        if model.role == "main":
            raise InputError("the model that the page was opened for stays open")
        del self.models[id]

    def prepare(self) -> None:
        """Make what the page asks for first, in a thread, while the browser starts.

        What is there already is not looked through for garbage any more: a collection would take longer than the work.
        """
        gc.collect()
        gc.freeze()
        models = list(self.models.values())
        threading.Thread(target=lambda: [each.structure_text() for each in models], name="prepare", daemon=True).start()

    def close(self) -> None:
        """End all jobs."""
        self.jobs.close()
