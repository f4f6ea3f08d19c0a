"""Functions that exported code calls, kept as real Python and copied into a module where they are used."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path


class Library:
    """The functions and classes of some modules, each with those that it uses; modules are read and not imported."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules

    @cached_property
    def _sources(self) -> dict[str, str]:
        """The text of each function, class and constant by name, in order."""
        found: dict[str, str] = {}
        for module in self._modules:
            spec = find_spec(module)
            assert spec is not None
            assert spec.origin is not None
            text = Path(spec.origin).read_text(encoding="utf-8")
            lines = text.splitlines()
            for item in ast.parse(text).body:
                first = item.lineno
                if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
                    first = min([item.lineno, *(each.lineno for each in item.decorator_list)])
                    found[item.name] = "\n".join(lines[first - 1 : item.end_lineno])
                elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
                    found[item.targets[0].id] = "\n".join(lines[first - 1 : item.end_lineno])
        return found

    @cached_property
    def _needs(self) -> dict[str, set[str]]:
        names = self._sources.keys()
        return {name: _names_in(text) & names - {name} for name, text in self._sources.items()}

    def __contains__(self, name: str) -> bool:
        return name in self._sources

    @property
    def names(self) -> frozenset[str]:
        """All names that the library defines."""
        return frozenset(self._sources)

    def source(self, used: Iterable[str]) -> list[str]:
        """The texts of some functions and of all that they call, in the order of the library."""
        wanted: set[str] = set()
        waiting = list(used)
        while waiting:
            name = waiting.pop()
            if name not in wanted:
                wanted.add(name)
                waiting += self._needs[name]
        return [text for name, text in self._sources.items() if name in wanted]


def _names_in(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
