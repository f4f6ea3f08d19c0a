"""A program that shows a finding, reduced to the few statements that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..judging import Finding, Verdict
from .program_text import Text


def sort_of(finding: Finding) -> str:
    """What a smaller program must show too: which thing differs, and in what way."""
    place = finding.output.partition(" ")[0]
    return f"{place} {finding.text[:40] if place == 'raised' else finding.text.partition(' ')[0].isdigit()}"


class Minimiser:
    """Drops statements, outputs, calls and parts while a program still shows the same sort of finding."""

    def __init__(self, examine: Callable[[Text], Verdict], sort: str) -> None:
        self._examine, self._sort = examine, sort

    def shows(self, text: Text) -> bool:
        """Whether a program is valid and shows the finding."""
        try:
            return any(sort_of(finding) == self._sort for finding in self._examine(text).findings)
        except Exception:  # what was left out was needed
            return False

    def run(self, text: Text) -> Text:
        """The smallest program that was found."""
        last = None
        while text != last:
            last = text
            text = self._drop(text, "returned")
            text = self._drop(text, "body")
            text = self._drop(text, "calls")
            text = self._drop(text, "setup")
            text = self._drop(text, "inputs")
            text = self._try(
                text, replace(text, settings=()), replace(text, mode="plain"), replace(text, is_dynamic=None)
            )
        return text

    def _drop(self, text: Text, name: str) -> Text:
        """Leave out items of a field, many at once first."""
        size = max(len(getattr(text, name)) // 2, 1)
        while size:
            place = 0
            while place < len(items := getattr(text, name)):
                smaller = replace(text, **{name: items[:place] + items[place + size :]})
                if (name == "body" or len(items) > size or name == "setup") and self.shows(smaller):
                    text = smaller
                else:
                    place += size
            size //= 2
        return text

    def _try(self, text: Text, *others: Text) -> Text:
        """The first of other forms of a program that shows the finding, or the program."""
        return next((other for other in others if other != text and self.shows(other)), text)
