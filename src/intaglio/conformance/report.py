"""The coverage report that ONNX describes, and what else a run of its tests tells: as text, as Markdown, as data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import onnx
from onnx import defs

from intaglio.conformance.result import Outcome, Result

OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "declined", "random")


@dataclass
class Operator:
    """What the tests tell of one operator.

    `values` are the attributes in tests that passed, with what tells their values apart. `worst` is the test of this
    operator alone that passed with the largest distance, `worst_scaled` that with the largest scaled one.
    """

    name: str
    domain: str
    tests: int = 0
    passed: int = 0
    values: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    worst: Result | None = None
    worst_scaled: Result | None = None

    @property
    def title(self) -> str:
        """The name, with the domain in front of it where that is not ONNX's own."""
        return f"{self.domain}.{self.name}" if self.domain else self.name

    @property
    def attributes(self) -> dict[str, int]:
        """The number of values of each attribute in tests that passed: those that were used, then the others."""
        others = set(defs.get_schema(self.name, self.domain).attributes) - set(self.values)
        return {name: len(self.values[name]) for name in sorted(self.values)} | dict.fromkeys(sorted(others), 0)

    def add(self, result: Result, attributes: Iterable[tuple[str, str]]) -> None:
        """Count the attributes of one node in."""
        if result.outcome == "passed":
            for name, value in attributes:
                self.values[name].add(value)

    def finish(self, result: Result) -> None:
        """Count a test in, once."""
        self.tests += 1
        self.passed += result.outcome == "passed"
        if len(result.usage) == 1:
            self.worst = farthest([self.worst, result])
            self.worst_scaled = farthest([self.worst_scaled, result], is_scaled=True)


def farthest(results: Iterable[Result | None], is_scaled: bool = False) -> Result | None:
    """The result that passed with the largest distance; None where no test that passed has floating-point outputs."""
    passed = [each for each in results if each is not None and each.outcome == "passed" and each.ulp is not None]
    return max(passed, key=lambda each: (each.scaled if is_scaled else each.ulp) or 0.0, default=None)


@dataclass(frozen=True)
class Report:
    """The results of all tests on one subject."""

    title: str
    results: Sequence[Result]
    is_native: bool = False

    @cached_property
    def counts(self) -> dict[Outcome, int]:
        """How many tests had each outcome."""
        found = Counter(result.outcome for result in self.results)
        return {outcome: found[outcome] for outcome in OUTCOMES}

    @cached_property
    def operators(self) -> dict[tuple[str, str], Operator]:
        """The operators of ONNX that occur in the tests, by domain and name."""
        found: dict[tuple[str, str], Operator] = {}
        for result in self.results:
            used = [(domain, name, values) for domain, name, values in result.usage if defs.has(name, domain)]
            for domain, name, attributes in used:
                found.setdefault((domain, name), Operator(name, domain)).add(result, attributes)
            for key in {(domain, name) for domain, name, _ in used}:
                found[key].finish(result)
        return dict(sorted(found.items()))

    @property
    def is_right(self) -> bool:
        """Whether every test passed but those that compare random numbers."""
        return self.counts["passed"] + self.counts["random"] == len(self.results)

    @property
    def compiled(self) -> int:
        """How many tests passed without a host node; those that compare random numbers pass by chance alone."""
        return sum(result.is_compiled for result in self.of("passed"))

    @property
    def worst(self) -> tuple[Result | None, Result | None]:
        """The tests that passed with the largest distance and with the largest scaled one."""
        return farthest(self.results), farthest(self.results, is_scaled=True)

    def of(self, *outcomes: Outcome) -> list[Result]:
        """The results with these outcomes."""
        return [result for result in self.results if result.outcome in outcomes]

    @property
    def coverage(self) -> tuple[int, int, int]:
        """How many operators are in tests that passed, in all of these tests, and in ONNX."""
        passed = sum(operator.passed > 0 for operator in self.operators.values())
        return passed, len(self.operators), len(defs.get_all_schemas())

    def verdict(self) -> str:
        """The counts in one line."""
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items())
        return f"{self.title}: {counts}, {len(self.results)} in total"

    def facts(self) -> Iterator[tuple[str, str]]:
        """What matters most, each with its name."""
        yield "Tests (passed/failed/total)", f"{self.counts['passed']}/{self.counts['failed']}/{len(self.results)}"
        yield "Declined by the backend, not passed", str(self.counts["declined"])
        yield "Comparing random numbers, apart", str(self.counts["random"])
        yield "Operators (passed/loaded/total)", "/".join(map(str, self.coverage))
        if self.is_native:
            yield "Passed with no host node", str(self.compiled)
        worst, scaled = self.worst
        if worst is not None and scaled is not None:
            yield "Worst error of a test that passed", f"{_text(worst.ulp)} ULP ({worst.name})"
            yield "In ULP of an output's largest number", f"{_text(scaled.scaled)} ULP ({scaled.name})"

    def lines(self, with_table: bool = True) -> list[str]:
        """The report as text, as the ONNX documentation shows it."""
        heading = f"---------- onnx coverage, {self.title}: ----------"
        facts = [f"{name}: {value}" for name, value in self.facts()]
        notes = [f"{result.outcome}: {result.name}: {result.reason}" for result in self.of("failed", "declined")]
        return [heading, *facts, "-" * len(heading), *(self._table() if with_table else ()), *notes]

    def _table(self) -> list[str]:
        passed = [operator for operator in self.operators.values() if operator.passed]
        rows = [(each.title, "\n".join(_attribute_texts(each)) or "No attributes") for each in passed]
        return grid(("Operator", "Attributes\n(name: #values)"), rows)

    def markdown(self) -> list[str]:
        """The report as a section of a page."""
        lines = [f"## {self.title}", "", "| what | how many |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in self.facts()]
        for outcome in ("failed", "declined", "random"):
            if found := self.of(outcome):
                lines += ["", f"### {outcome.capitalize()}", "", "| test | reason |", "|---|---|"]
                lines += [f"| `{result.name}` | {_cell(result.reason)} |" for result in found]
        lines += ["", "### Operators", "", "| operator | passed | tests | attributes (#values) | worst ULP | scaled |"]
        return [*lines, "|---|--:|--:|---|--:|--:|", *(_markdown_row(each) for each in self.operators.values())]

    def to_dict(self) -> dict[str, Any]:
        """The report as data."""
        passed, loaded, total = self.coverage
        return {
            "subject": self.title,
            "tests": {**self.counts, "total": len(self.results)},
            "passed_without_host_nodes": self.compiled if self.is_native else None,
            "operators": {"passed": passed, "loaded": loaded, "total": total},
            "worst": _distances(*self.worst),
            "by_operator": {each.title: _operator_data(each) for each in self.operators.values()},
            "not_passed": [
                {"test": each.name, "outcome": each.outcome, "reason": each.reason}
                for each in self.of("failed", "declined", "random")
            ],
        }


def _attribute_texts(operator: Operator) -> list[str]:
    return [f"{name}: {count}" for name, count in operator.attributes.items()]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _markdown_row(operator: Operator) -> str:
    ulp = "" if operator.worst is None else _text(operator.worst.ulp)
    scaled = "" if operator.worst_scaled is None else _text(operator.worst_scaled.scaled)
    attributes = ", ".join(_attribute_texts(operator))
    return f"| {operator.title} | {operator.passed} | {operator.tests} | {attributes} | {ulp} | {scaled} |"


def _text(number: float | None) -> str:
    """A distance as people read it: whole where it is large."""
    return f"{number or 0:,.0f}" if (number or 0) >= 10 else f"{number or 0:.2g}"


def _distances(worst: Result | None, scaled: Result | None) -> dict[str, Any] | None:
    if worst is None or scaled is None:
        return None
    return {"ulp": worst.ulp, "test": worst.name, "scaled_ulp": scaled.scaled, "scaled_test": scaled.name}


def _operator_data(operator: Operator) -> dict[str, Any]:
    counts = {"passed": operator.passed, "tests": operator.tests}
    distances = _distances(operator.worst, operator.worst_scaled)
    return counts | {"attributes": operator.attributes, "worst": distances}


def markdown(reports: Iterable[Report]) -> str:
    """Reports as a page."""
    lines = ["# Conformance", "", f"The backend tests of ONNX {onnx.__version__}."]
    for report in reports:
        lines += ["", *report.markdown()]
    return "\n".join(lines) + "\n"


def to_dict(reports: Iterable[Report]) -> dict[str, Any]:
    """Reports as data."""
    return {"onnx": onnx.__version__, "reports": [report.to_dict() for report in reports]}


def grid(header: tuple[str, str], rows: Iterable[tuple[str, str]]) -> list[str]:
    """A table with double lines around it."""
    split = [tuple(cell.splitlines() for cell in row) for row in [header, *rows]]
    widths = [max(len(line) for row in split for line in row[column]) + 2 for column in (0, 1)]

    def rule(left: str, bar: str, middle: str, right: str) -> str:
        return left + middle.join(bar * width for width in widths) + right

    lines = [rule("╒", "═", "╤", "╕")]
    for index, row in enumerate(split):
        for place in range(max(len(cell) for cell in row)):
            cells = [cell[place] if place < len(cell) else "" for cell in row]
            lines.append(
                "│" + "│".join(f" {text}".ljust(width) for text, width in zip(cells, widths, strict=True)) + "│"
            )
        is_last = index == len(split) - 1
        lines.append(rule("╘", "═", "╧", "╛") if is_last else rule(*("╞═╪╡" if index == 0 else "├─┼┤")))
    return lines
