"""Results in a file, one a line, so that a long run which was stopped goes on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intaglio.conformance.result import Result
from intaglio.errors import InputError


class KeptResults:
    """The results of subjects in a file; without a file, none."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self._known: dict[tuple[str, str], Result] = {}
        if self._path is not None and self._path.exists():
            for line in self._read(self._path):
                subject, result = _parsed(line, self._path)
                self._known[subject, result.name] = result

    @staticmethod
    def _read(path: Path) -> list[str]:
        try:
            return path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{str(path)!r} cannot be read: {error}") from None

    def of(self, subject: str) -> dict[str, Result]:
        """What is known of a subject, by the names of tests."""
        return {name: result for (title, name), result in self._known.items() if title == subject}

    def add(self, subject: str, result: Result) -> None:
        """Note a result, in the file too; the operators of a test are not kept."""
        self._known[subject, result.name] = result
        if self._path is None:
            return
        entry = {key: value for key, value in asdict(result).items() if key != "usage"}
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"subject": subject, **entry}) + "\n")
        except OSError as error:
            raise InputError(f"{str(self._path)!r} cannot be written: {error.strerror or error}") from None


def _parsed(line: str, path: Path) -> tuple[str, Result]:
    try:
        entry: dict[str, Any] = json.loads(line)
        return str(entry.pop("subject")), Result(**entry)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{str(path)!r} has a line that is no result: {line[:80]!r}; give another file") from None
