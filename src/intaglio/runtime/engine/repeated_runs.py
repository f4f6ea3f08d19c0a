"""Runs on inputs like those of a run before: what was checked and prepared then is not checked and prepared again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from intaglio.targets.step import PREPARED_LIMIT, Into

Shapes = tuple[tuple[int, ...], ...]
Kept = TypeVar("Kept")
RunKept: TypeAlias = Callable[[Kept, Sequence[Any], int, Into | None], list[Any] | None]
"""Runs what was kept on arrays, within some nanoseconds (0: those that the engine has), into arrays or new ones."""


class RepeatedRuns(Generic[Kept]):
    """What was prepared for the shapes of earlier runs, and the short way to a result with it."""

    def __init__(self, dtypes: Sequence[np.dtype[Any]], run: RunKept[Kept]) -> None:
        self._dtypes = dtypes
        self._run = run
        self._kept: dict[Shapes, Kept] = {}

    def again(self, inputs: Sequence[Any], time: int = 0, into: Into | None = None) -> list[Any] | None:
        """The outputs where these arrays need no check, conversion or preparation any more; None where they do."""
        for array, dtype in zip(inputs, self._dtypes, strict=True):
            if type(array) is not np.ndarray or array.dtype != dtype or not array.flags.c_contiguous:
                return None
        kept = self._kept.get(tuple([array.shape for array in inputs]))
        return None if kept is None else self._run(kept, inputs, time, into)

    def find(self, inputs: Sequence[Any]) -> Kept | None:
        """What was kept for arrays of these shapes."""
        return self.kept(tuple([array.shape for array in inputs]))

    def kept(self, shapes: Shapes) -> Kept | None:
        """What was kept for these shapes."""
        return self._kept.get(shapes)

    def keep(self, inputs: Sequence[Any], prepared: Kept) -> None:
        """Keep what was prepared for arrays of these shapes."""
        self.keep_for(tuple([array.shape for array in inputs]), prepared)

    def keep_for(self, shapes: Shapes, prepared: Kept) -> None:
        """Keep what was prepared for these shapes."""
        if len(self._kept) >= PREPARED_LIMIT:
            self._kept.clear()
        self._kept[shapes] = prepared

    def forget(self) -> None:
        """Keep nothing of what was prepared."""
        self._kept.clear()


def never_again(inputs: Sequence[Any], time: int = 0, into: Into | None = None) -> None:
    """The second run of an engine whose runs all need the checks of the first."""
