"""Runs on inputs like those of a run before: what was checked and prepared then is not checked and prepared again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from intaglio.runtime.engine.segment import PREPARED_LIMIT

Shapes = tuple[tuple[int, ...], ...]
Kept = TypeVar("Kept")


class RepeatedRuns(Generic[Kept]):
    """What was prepared for the shapes of earlier runs, and the short way to a result with it."""

    def __init__(self, dtypes: Sequence[np.dtype[Any]], run: Callable[[Kept, Sequence[Any]], list[Any] | None]) -> None:
        self._dtypes = dtypes
        self._run = run
        self._kept: dict[Shapes, Kept] = {}

    def again(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The outputs where these arrays need no check, conversion or preparation any more; None where they do."""
        for array, dtype in zip(inputs, self._dtypes, strict=True):
            if type(array) is not np.ndarray or array.dtype != dtype or not array.flags.c_contiguous:
                return None
        kept = self._kept.get(tuple([array.shape for array in inputs]))
        return None if kept is None else self._run(kept, inputs)

    def find(self, inputs: Sequence[Any]) -> Kept | None:
        """What was kept for arrays of these shapes."""
        return self.kept(tuple([array.shape for array in inputs]))

    def kept(self, shapes: Shapes) -> Kept | None:
        """What was kept for these shapes."""
        return self._kept.get(shapes)

    def keep(self, inputs: Sequence[Any], prepared: Kept) -> None:
        """Keep what was prepared for arrays of these shapes."""
        if len(self._kept) >= PREPARED_LIMIT:
            self._kept.clear()
        self._kept[tuple([array.shape for array in inputs])] = prepared

    def forget(self) -> None:
        """Keep nothing of what was prepared."""
        self._kept.clear()


def never_again(inputs: Sequence[Any]) -> None:
    """The second run of an engine whose runs all need the checks of the first."""
