"""The smallest changes to a document. Each knows how it is taken back.

Messages are never changed in place: a new message takes the place of the old one, so that taking back is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class Change(Protocol):
    """Something that was done to a document, or will be."""

    def apply(self) -> None:
        """Do it."""
        ...

    def revert(self) -> None:
        """Take it back."""
        ...


@dataclass(frozen=True)
class Inserted:
    """An item that comes into a list."""

    items: list[Any]
    place: int
    item: Any

    def apply(self) -> None:
        """Put the item into the list."""
        self.items.insert(self.place, self.item)

    def revert(self) -> None:
        """Take the item out of the list."""
        del self.items[self.place]


@dataclass(frozen=True)
class Removed:
    """An item that leaves a list."""

    items: list[Any]
    place: int
    item: Any

    def apply(self) -> None:
        """Take the item out of the list."""
        del self.items[self.place]

    def revert(self) -> None:
        """Put the item back to its place."""
        self.items.insert(self.place, self.item)


@dataclass(frozen=True)
class Replaced:
    """An item of a list in whose place comes another one."""

    items: list[Any]
    place: int
    before: Any
    after: Any

    def apply(self) -> None:
        """Put the new item in place of the old one."""
        self.items[self.place] = self.after

    def revert(self) -> None:
        """Put the old item back."""
        self.items[self.place] = self.before


@dataclass(frozen=True)
class Rewritten:
    """An object whose shell is another message from now on."""

    owner: Any
    before: Any
    after: Any

    def apply(self) -> None:
        """Give the object its new shell."""
        self.owner.shell = self.after

    def revert(self) -> None:
        """Give the object its old shell."""
        self.owner.shell = self.before


@dataclass(frozen=True)
class Refilled:
    """A list that holds other items from now on; it stays the same list."""

    items: list[Any]
    before: list[Any]
    after: list[Any]

    def apply(self) -> None:
        """Put the new items in."""
        self.items[:] = self.after

    def revert(self) -> None:
        """Put the old items back."""
        self.items[:] = self.before
