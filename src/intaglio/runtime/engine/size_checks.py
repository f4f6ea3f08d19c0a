"""Whether the sizes of a run fit each other as its plan requires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from intaglio.ir.requirements import Requirement
from intaglio.record import Record

FITTING_LIMIT = 256
"""How many sets of sizes are remembered as fitting."""


class _Stage(Record):
    """What can be checked once certain symbols have values."""

    names: list[str]
    requirements: list[Requirement]
    fitting: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])


class Fitting:
    """The requirements of a plan; sizes that were found to fit are not looked at again."""

    def __init__(self, requirements: Sequence[Requirement]) -> None:
        self.requirements = requirements
        self._stages: dict[frozenset[str], _Stage] = {}

    def broken(self, bindings: Mapping[str, int]) -> Requirement | None:
        """The first requirement that these sizes do not meet; those of which sizes are missing are left out."""
        if not self.requirements:
            return None
        stage = self._stage(frozenset(bindings))
        key = tuple([bindings[name] for name in stage.names])
        if key in stage.fitting:
            return None
        for each in stage.requirements:
            if not each.holds(bindings):
                return each
        if len(stage.fitting) >= FITTING_LIMIT:
            stage.fitting.clear()
        stage.fitting.add(key)
        return None

    def _stage(self, names: frozenset[str]) -> _Stage:
        if names not in self._stages:
            ready = [each for each in self.requirements if each.symbols <= names]
            self._stages[names] = _Stage(sorted(set[str]().union(*(each.symbols for each in ready))), ready)
        return self._stages[names]
