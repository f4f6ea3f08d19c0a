"""The places where a regular expression matches in a text: the first ones, and of those beginning there the longest."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from intaglio.errors import LimitError
from intaglio.ops.shared.regex import Matcher, compile_pattern

STEP_LIMIT = 1 << 28
"""How many letters may be looked at in one text: a pattern that begins to match everywhere looks at each many times."""

MEMORY_LIMIT = 10_000
"""How many ways from a set of states to another are remembered."""


class _Set:
    """States that are reached together, and the sets to which letters lead from there, as far as they were met."""

    __slots__ = ("following", "is_end", "states")

    def __init__(self, states: frozenset[int], is_end: bool) -> None:
        self.states = states
        self.is_end = is_end
        self.following: dict[str, _Set] = {}


class Searcher:
    """Finds the matches of one pattern."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._has_places = any(matcher.checks)
        self._forget()

    def _forget(self) -> None:
        self._known: dict[frozenset[int], _Set] = {}
        self._remembered = 0
        self._start = self._set([self._matcher.start])

    def matches(self, text: str) -> Iterator[tuple[int, int]]:
        """Where each match begins and ends; behind a match of nothing the search goes on one letter later."""
        place = looked = 0
        while place <= len(text):
            end, last = self._longest(text, place) if self._has_places else self._quick_longest(text, place)
            looked += last - place
            if looked > STEP_LIMIT:
                raise LimitError(f"a search looked at more than {STEP_LIMIT} letters, the limit for one text")
            if end is not None:
                yield place, end
            place = place + 1 if end is None or end == place else end

    def _longest(self, text: str, start: int) -> tuple[int | None, int]:
        """Where the longest match from a place ends, and up to where the text was looked at."""
        matcher, place = self._matcher, start
        current = matcher.reach([matcher.start], text, start)
        end = start if matcher.final in current else None
        while current and place < len(text):
            place += 1
            current = matcher.reach(matcher.step(current, text[place - 1]), text, place)
            end = place if matcher.final in current else end
        return end, place

    def _quick_longest(self, text: str, start: int) -> tuple[int | None, int]:
        """The same where the pattern asks for letters only: each step is worked out once."""
        current, place, length = self._start, start, len(text)
        end = start if current.is_end else None
        while current.states and place < length:
            letter = text[place]
            current = current.following.get(letter) or self._follow(current, letter)
            place += 1
            if current.is_end:
                end = place
        return end, place

    def _follow(self, current: _Set, letter: str) -> _Set:
        if self._remembered >= MEMORY_LIMIT:
            self._forget()
        found = self._set(self._matcher.step(current.states, letter))
        current.following[letter] = found
        self._remembered += 1
        return found

    def _set(self, states: list[int]) -> _Set:
        """The set of the states and of all that they reach without a letter."""
        reached = frozenset(self._matcher.reach(states, "", 0))
        return self._known.setdefault(reached, _Set(reached, self._matcher.final in reached))


@lru_cache(maxsize=64)
def compile_search(pattern: str) -> Searcher:
    """What finds the matches of a pattern.

    >>> list(compile_search("a|ab").matches("abca"))
    [(0, 2), (3, 4)]
    """
    return Searcher(compile_pattern(pattern))
