"""A journal beside the file: the edits that were not saved yet, so that a killed server loses none."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

FORMAT = "intaglio-edits-1"
HASHED = 1 << 20
"""Of large files, so many bytes at the beginning and at the end tell one from another, with size and time."""
MOST_BYTES = 1 << 30

Json = dict[str, Any]


def fingerprint(path: Path) -> Json:
    """What tells a file from other ones: its size, its time, and a hash."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        found = hashlib.sha256(file.read(HASHED))
        if status.st_size > 2 * HASHED:
            file.seek(-HASHED, os.SEEK_END)
        found.update(file.read(HASHED))
    return {"size": status.st_size, "time": status.st_mtime_ns, "sha256": found.hexdigest()}


def is_same_file(one: Json, other: Json) -> bool:
    """Whether two fingerprints are of one content; a file that was only touched is the same."""
    return (one.get("size"), one.get("sha256")) == (other.get("size"), other.get("sha256"))


@dataclass
class Found:
    """A journal that was there already: the steps in it, and whether the file is still the one that it is for."""

    steps: list[Json] = field(default_factory=list[Json])
    is_for_this_file: bool = True


class Recovery:
    """The journal of one file. Each step is on the disk when `add` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.with_name(f".{path.name}.intaglio-edits")
        self.error = ""
        """Why nothing can be written beside the file; empty where it can."""
        self._is_begun = self._is_given_up = False

    def read(self) -> Found | None:
        """The journal of an earlier server; None where there is none. What is damaged at its end is left out."""
        try:
            descriptor = os.open(self.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            lines = file.read(MOST_BYTES).splitlines()
        entries: list[Json] = []
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                break
            if not isinstance(entry, dict):
                break
            entries.append(cast("Json", entry))
        if not entries or entries[0].get("format") != FORMAT:
            return None
        return Found(entries[1:], is_same_file(entries[0], fingerprint(self.path)))

    def resume(self) -> None:
        """Go on behind what an earlier server wrote."""
        self._is_begun = True

    def add(self, step: Json) -> None:
        """Write a step, and wait until it is on the disk. A folder that cannot be written to is noted in `error`."""
        if self._is_given_up:
            return
        try:
            if not self._is_begun:
                self._write({"format": FORMAT, **fingerprint(self.path)}, os.O_TRUNC)
                self._is_begun = True
            self._write(step, os.O_APPEND)
            self.error = ""
        except OSError as error:
            self.error = f"edits are not kept beside the file: {error.strerror or error}"

    def _write(self, entry: Json, flags: int) -> None:
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def set_aside(self) -> Path | None:
        """Give a journal that is for another content of the file another name; returns it."""
        for number in range(1, 1000):
            target = self.file.with_name(f"{self.file.name}.{number}")
            if not os.path.lexists(target):
                try:
                    os.rename(self.file, target)
                except OSError:
                    return None
                return target
        return None

    def give_up(self, reason: str) -> None:
        """Write nothing until the model is saved: what the file and the journal hold no longer lead to the model."""
        self.error, self._is_given_up = reason, True
        self._remove()

    def saved(self, name: str, is_own: bool) -> None:
        """The model was saved: to its own file, from which new steps go on, or to another one, which is noted."""
        if is_own:
            self._is_given_up, self.error = False, ""
            self._remove()
        elif self._is_begun:
            self.add({"saved": name})

    def _remove(self) -> None:
        self._is_begun = False
        try:
            self.file.unlink(missing_ok=True)
        except OSError as error:
            self.error = f"the journal cannot be removed: {error.strerror or error}"
