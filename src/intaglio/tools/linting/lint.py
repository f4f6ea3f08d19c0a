"""`lint`: all rules over one model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import Any

from intaglio.errors import InputError
from intaglio.onnx.reader import Source
from intaglio.tools.document import Document, read_document
from intaglio.tools.linting import file_rules, operator_rules, plan_rules, weight_rules
from intaglio.tools.linting.rules import RULES, Severity
from intaglio.tools.linting.subject import Subject

THEMES = (file_rules, operator_rules, weight_rules, plan_rules)
"""The files in which the rules stand."""


@dataclass(frozen=True)
class Finding:
    """What one rule found at one place."""

    rule: str
    severity: Severity
    where: str
    text: str
    what: str
    remedy: str

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{self.severity}: {self.rule}: {place}{self.text}"


@dataclass
class Findings:
    """Everything that was found. `is_clean` where none of it is an error."""

    found: list[Finding] = field(default_factory=list[Finding])

    @property
    def is_clean(self) -> bool:
        """Whether no finding is an error."""
        return not any(each.severity == "error" for each in self.found)

    def to_dict(self) -> dict[str, Any]:
        """The findings as plain data."""
        return {"is_clean": self.is_clean, "findings": [asdict(each) for each in self.found]}


def lint(model: Source | Document, *, ignore: Collection[str] = (), only: Collection[str] = ()) -> Findings:
    """What will be slow, unsafe, unportable or wrong elsewhere, by rule and place, errors first.

    `ignore` leaves rules out by their ids, and `only` all others. Files that cannot be run are examined too. Raises
    InputError for an id that no rule has.
    """
    for id in (*ignore, *only):
        if id not in RULES:
            near = get_close_matches(id, RULES, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the rules are {', '.join(RULES)}"
            raise InputError(f"there is no rule {id!r}; {hint}")
    subject = Subject(model if isinstance(model, Document) else read_document(model))
    findings = Findings()
    for each in RULES.values():
        if each.id in ignore or (only and each.id not in only):
            continue
        for where, text in each.find(subject):
            findings.found.append(Finding(each.id, each.severity, where, text, each.what, each.remedy))
    findings.found.sort(key=lambda each: ("error", "warning", "info").index(each.severity))
    return findings
