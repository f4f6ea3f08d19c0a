"""Every rule: text in, text out; the harness verifies the graph and runs it before and after."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from intaglio.passes import PIPELINE, Report

CASES: dict[str, tuple[str, str, str]] = {}
"""The passes to run, the graph before and the body of the graph after, by rule (and variant behind a space)."""

Check = Callable[[str, str, str], Report]

#CASES#

@pytest.mark.parametrize("name", CASES)
def test_rule(name: str, check: Check) -> None:
    passes, before, after = CASES[name]
    report = check(passes, before, after)
    rule = name.split()[0]
    assert rule in {event.rule for events in report.applied.values() for event in events}


def test_every_rule_has_a_case() -> None:
    rules = {rule.name for each in PIPELINE for rule in each.rules}
    assert rules == {name.split()[0] for name in CASES}


def test_every_rule_says_its_algebra() -> None:
    for each in PIPELINE:
        for rule in each.rules:
            assert "->" in rule.algebra, rule.name
