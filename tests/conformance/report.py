"""The coverage report that ONNX describes: operators and attribute values in the tests that passed."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import onnx
from onnx import defs

Usage: TypeAlias = list[tuple[str, str, list[tuple[str, str]]]]
"""The nodes of a model as plain data that can travel between processes: domain, operator, attributes and values."""


def usage(model: onnx.ModelProto) -> Usage:
    """The operators of a model with their attributes; values are told apart by a hash."""
    return [
        (node.domain, node.op_type, [(a.name, hashlib.sha1(a.SerializeToString()).hexdigest()) for a in node.attribute])
        for node in _nodes(model.graph)
    ]


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


COUNTED = {"passed": "passed", "xpassed": "passed", "failed": "failed", "xfailed": "known"}
"""Pytest's words for outcomes, and what they count as."""


@dataclass
class Coverage:
    """What the tests of one engine covered."""

    loaded: set[tuple[str, str]] = field(default_factory=set)
    passed: dict[tuple[str, str], dict[str, set[str]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, nodes: Usage, is_passed: bool) -> None:
        """Count the nodes of one test in."""
        for domain, operator, attributes in nodes:
            self.loaded.add((domain, operator))
            if is_passed:
                values = self.passed.setdefault((domain, operator), defaultdict(set))
                for name, value in attributes:
                    values[name].add(value)

    def lines(self, engine: str, with_table: bool) -> list[str]:
        """The report as text."""
        total = len(defs.get_all_schemas())
        failed = self.counts["failed"] + self.counts["known"]
        tests = f"{self.counts['passed']} passed, {failed} failed ({self.counts['known']} of them known)"
        if engine == "native":
            tests += f"; {self.counts['compiled']} passed with no host node"
        lines = [
            f"---------- onnx coverage, {engine} engine: ----------",
            f"Tests: {tests}",
            f"Operators (passed/loaded/total): {len(self.passed)}/{len(self.loaded)}/{total}",
        ]
        return [*lines, *(self._table() if with_table else ())]

    def _table(self) -> list[str]:
        rows = [(self._title(key), self._attributes(key)) for key in sorted(self.passed)]
        return grid(("Operator", "Attributes\n(name: #values)"), rows)

    @staticmethod
    def _title(key: tuple[str, str]) -> str:
        return f"{key[0]}.{key[1]}" if key[0] else key[1]

    def _attributes(self, key: tuple[str, str]) -> str:
        covered = self.passed[key]
        names = set(defs.get_schema(key[1], key[0]).attributes) if defs.has(key[1], key[0]) else set()
        lines = [f"{name}: {len(covered[name])}" for name in sorted(covered)]
        return "\n".join([*lines, *(f"{name}: 0" for name in sorted(names - set(covered)))]) or "No attributes"


def grid(header: tuple[str, str], rows: Iterable[tuple[str, str]]) -> list[str]:
    """A table with double lines around it, as the ONNX documentation shows it."""
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


def summary(stats: Mapping[str, list[Any]], with_table: bool) -> list[str]:
    """The report of each engine from the test reports of a run; the table of attributes for the first of them."""
    lines: list[str] = []
    for index, (engine, coverage) in enumerate(sorted(_coverages(stats).items())):
        lines += coverage.lines(engine, with_table and index == 0)
    return lines


def _coverages(stats: Mapping[str, list[Any]]) -> dict[str, Coverage]:
    found: dict[str, Coverage] = {}
    for outcome, counted in COUNTED.items():
        for report in stats.get(outcome, []):
            properties = dict(getattr(report, "user_properties", ()))
            if "engine" not in properties:
                continue
            coverage = found.setdefault(properties["engine"], Coverage())
            coverage.counts[counted] += 1
            coverage.counts["compiled"] += bool(properties.get("is_compiled"))
            coverage.add(properties["usage"], counted == "passed")
    return found
