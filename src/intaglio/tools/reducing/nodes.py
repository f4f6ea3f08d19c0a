"""Fewer nodes: what removed ones would make is fed, or is a constant, as recorded from a run of the whole model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import numpy as np

from intaglio.tools.cutting import Plan, Recorder, cut, plan_cut
from intaglio.tools.document import Document, read_document
from intaglio.tools.reducing.attempts import Attempts, Draft

SHORT = 256
"""Integers of so many elements at most, which are mostly shapes, become constants rather than inputs."""


def reduce_nodes(draft: Draft, attempts: Attempts) -> Draft:
    """The draft with fewer nodes: first without its end, then without its start, then without single ones."""
    return _Nodes(draft, attempts).reduced()


class _Nodes:
    def __init__(self, draft: Draft, attempts: Attempts) -> None:
        self.best, self.attempts = draft, attempts
        self.document: Document = read_document(draft.model)
        self.recorder = Recorder(self.document, draft.feeds)
        self.makers = {
            name: node.shell.op_type for node in self.document.graph.nodes for name in node.shell.output if name
        }

    def reduced(self) -> Draft:
        """The smallest draft that was found."""
        places = list(range(len(self.document.graph.nodes)))
        places = self._shortened(places, is_end=True)
        places = self._shortened(places, is_end=False)
        before = None
        while before != places:
            before = places
            places = self._without_parts(places)
        return self.best

    def _shortened(self, places: list[int], is_end: bool) -> list[int]:
        """Without as many nodes at an end as can go, found by halving."""

        def part(count: int) -> list[int]:
            return places[:count] if is_end else places[len(places) - count :]

        low, high = 1, len(places)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._works(part(middle), "cutting an end") else (middle + 1, high)
        return part(high)

    def _without_parts(self, places: list[int]) -> list[int]:
        """Without parts that are not needed: of half the nodes first, of single ones last."""
        size = max(1, len(places) // 2)
        while True:
            start = 0
            while start < len(places) and len(places) > 1:
                rest = places[:start] + places[start + size :]
                if rest and self._works(rest, f"leaving out {size} of {len(places)} nodes", is_thorough=size == 1):
                    places = rest
                else:
                    start += size
            if size == 1:
                return places
            size //= 2

    def _works(self, places: Collection[int], what: str, is_thorough: bool = False) -> bool:
        plan = plan_cut(self.document, places)
        values = self.recorder.get([*plan.inputs, *plan.outputs])
        if any(name not in values for name in plan.inputs) or not plan.outputs:
            return False
        short = [name for name in plan.inputs if self._is_short(name, values[name])]
        own = [name for name in plan.inputs if name not in self.best.feeds and isinstance(values[name], np.ndarray)]
        ways = [short, own, []] if is_thorough else [short]
        return any(self._try(plan, values, constants, what) for constants in ways)

    def _try(self, plan: Plan, values: dict[str, Any], constants: list[str], what: str) -> bool:
        model = cut(self.document, plan, values, constants=constants, type_of=self.recorder.type_of)
        draft = Draft(model, {name: values[name] for name in plan.inputs if name not in constants})
        if not self.attempts.fails(draft, what):
            return False
        self.best = draft
        return True

    def _is_short(self, name: str, value: Any) -> bool:
        """Whether a value is to be a constant: it was one, or is a shape."""
        if name in self.recorder.feeds or not isinstance(value, np.ndarray):
            return False
        array = cast("np.ndarray[Any, Any]", value)
        return self.makers.get(name) == "Constant" or (array.dtype.kind in "iub" and array.size <= SHORT)
