"""What a drawing shows: boxes in boxes, and the values that go from box to box."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["operator", "input", "output", "group", "fold"]


@dataclass(eq=False)
class Box:
    """A box with text; a group has boxes inside. `number` is the number of the document's node, where it is one."""

    kind: Kind
    title: str
    lines: list[str] = field(default_factory=list[str])
    tip: str = ""
    """More text, for who points at the box."""
    theme: str = "other"
    number: int | None = None
    inside: list[Box] = field(default_factory=list["Box"])
    around: Box | None = None

    def add(self, box: Box) -> Box:
        """Put a box inside; returns it."""
        self.inside.append(box)
        box.around = self
        return box

    def leaves(self) -> Iterator[Box]:
        """The boxes that are drawn with nothing inside, this one included."""
        waiting: list[Box] = [self]
        while waiting:
            box = waiting.pop()
            if not box.inside:
                yield box
            waiting += box.inside[::-1]

    def path(self) -> list[Box]:
        """The boxes around this one, the outermost first, and this one."""
        found, box = list[Box](), self
        while box is not None:
            found.append(box)
            box = box.around
        return found[::-1]


@dataclass(frozen=True)
class Line:
    """A value that goes from one leaf to another; `label` is its type."""

    source: Box
    target: Box
    value: str
    label: str = ""


@dataclass
class Drawing:
    """A tree of boxes and the lines between its leaves."""

    root: Box
    lines: list[Line]

    @property
    def count(self) -> int:
        """How many leaves there are."""
        return sum(1 for _ in self.root.leaves())
