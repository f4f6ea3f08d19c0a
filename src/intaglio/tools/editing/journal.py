"""What was done to a document: the stacks of undo and redo, and a script that does it all again."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np
from onnx import ModelProto

from intaglio.errors import InputError
from intaglio.tools.document import Document
from intaglio.tools.editing.changes import Change

SHORT_ARRAY = 64
"""Arrays of at most so many elements stand in the script itself."""

SHORT_MODEL = 2000
"""Models of at most so many bytes stand in the script itself."""


@dataclass
class Entry:
    """One command: its name and arguments, and what it did."""

    command: str
    arguments: dict[str, Any]
    changes: list[Change] = field(default_factory=list[Change])


class Journal:
    """The commands that were given, in order, and those that were taken back."""

    def __init__(self) -> None:
        self.done: list[Entry] = []
        self.undone: list[Entry] = []
        self.check: Callable[[], None] | None = None
        """What is called at the end of every command, and raises where the command shall be taken back."""
        self._open: Entry | None = None

    @contextmanager
    def entry(self, entry: Entry) -> Generator[Entry]:
        """Record what is changed meanwhile. Where it fails, all of it is taken back, and nothing is recorded."""
        if self._open is not None:  # a command that another one gives is a part of that
            yield self._open
            return
        self._open = entry
        try:
            yield entry
            if self.check is not None:
                self.check()
        except BaseException:
            for change in reversed(entry.changes):
                change.revert()
            raise
        finally:
            self._open = None
        self.done.append(entry)
        self.undone.clear()

    def change(self, change: Change) -> None:
        """Make one change as a part of the command that is under way."""
        assert self._open is not None
        change.apply()
        self._open.changes.append(change)

    def undo(self) -> str:
        """Take the last command back; returns its name."""
        if not self.done:
            raise InputError("there is nothing to undo")
        entry = self.done.pop()
        for change in reversed(entry.changes):
            change.revert()
        self.undone.append(entry)
        return entry.command

    def redo(self) -> str:
        """Give the command again that was taken back last; returns its name."""
        if not self.undone:
            raise InputError("there is nothing to redo")
        entry = self.undone.pop()
        for change in entry.changes:
            change.apply()
        self.done.append(entry)
        return entry.command

    def script(self, source: str, arrays: dict[str, Any] | None = None) -> str:
        """A Python script that makes all changes to `source` again.

        Arrays that are too long for a line of text go into `arrays`, from which the script reads them by name; without
        that, they raise InputError.
        """
        lines = ["import sys", "", "import numpy as np", "", "import intaglio.tools", ""]
        calls = [self._call(entry, arrays) for entry in self.done]
        if arrays:
            lines.append('arrays = np.load(sys.argv[3] if len(sys.argv) > 3 else __file__ + ".npz")')
        lines.append(f"editor = intaglio.tools.edit(sys.argv[1] if len(sys.argv) > 1 else {source!r})")
        return "\n".join([*lines, *calls, "editor.save(sys.argv[2])", ""])

    def _call(self, entry: Entry, arrays: dict[str, Any] | None) -> str:
        given = ", ".join(f"{name}={_spelled(value, arrays)}" for name, value in entry.arguments.items())
        return f"editor.{entry.command}({given})"


def _spelled(value: Any, arrays: dict[str, Any] | None) -> str:
    """An argument as Python spells it."""
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.size <= SHORT_ARRAY and array.dtype.kind in "biuf" and np.isfinite(array).all():
            return f"np.array({array.tolist()!r}, {array.dtype.name!r})"
        if arrays is None:
            raise InputError("the changes have arrays that do not fit in a script: give `arrays`, or save the script")
        name = f"array_{len(arrays)}"
        arrays[name] = array
        return f"arrays[{name!r}]"
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    if isinstance(value, (bytes, bytearray, memoryview, ModelProto, Document)):
        return _spelled_model(value, arrays)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_spelled(item, arrays)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_spelled(item, arrays) for item in value) + "]"
    if isinstance(value, float) and not np.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def _spelled_model(value: Any, arrays: dict[str, Any] | None) -> str:
    """A model as an argument: its path where it is a file, else its bytes."""
    if isinstance(value, Document):
        if value.path is not None:
            return repr(str(value.path))
        value = value.message()
    data = value.SerializeToString(deterministic=True) if isinstance(value, ModelProto) else bytes(value)
    if len(data) <= SHORT_MODEL:
        return repr(data)
    return f"{_spelled(np.frombuffer(data, np.uint8), arrays)}.tobytes()"


class HasJournal(Protocol):
    """What can be given commands."""

    journal: Journal


Self = TypeVar("Self", bound=HasJournal)
P = ParamSpec("P")
R = TypeVar("R")


def command(function: Callable[Concatenate[Self, P], R]) -> Callable[Concatenate[Self, P], R]:
    """A method that is recorded as one command, and takes back what it did where it raises."""
    names = function.__code__.co_varnames[1 : function.__code__.co_argcount + function.__code__.co_kwonlyargcount]

    @wraps(function)
    def call(self: Self, *arguments: P.args, **named: P.kwargs) -> R:
        given: dict[str, Any] = {**dict(zip(names, arguments, strict=False)), **named}
        with self.journal.entry(Entry(function.__name__, given)):
            return function(self, *arguments, **named)

    call.is_command = True  # pyright: ignore[reportAttributeAccessIssue]
    return call
