"""The table of rules. A rule is a generator of places and texts, decorated with its id, severity and remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from intaglio.tools.linting.subject import Subject

Severity = Literal["error", "warning", "info"]
Found = Iterator[tuple[str, str]]
"""Where something was found (a node, a tensor, or empty for the file), and what."""


@dataclass(frozen=True)
class LintRule:
    """One thing that is looked for: `what` it is, and the `remedy`."""

    id: str
    severity: Severity
    what: str
    remedy: str
    find: Callable[[Subject], Found]


RULES: dict[str, LintRule] = {}
"""All rules by their ids, in the order in which they are applied."""


def rule(
    id: str, severity: Severity, remedy: str
) -> Callable[[Callable[[Subject], Found]], Callable[[Subject], Found]]:
    """Enter a function into the table of rules; its docstring says what is looked for."""

    def enter(find: Callable[[Subject], Found]) -> Callable[[Subject], Found]:
        assert id not in RULES
        RULES[id] = LintRule(id, severity, (find.__doc__ or "").strip(), remedy, find)
        return find

    return enter
