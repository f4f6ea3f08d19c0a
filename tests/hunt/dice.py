"""Seeded choices, with the sizes at which kernels change their ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.ops.agreement_cases import SIZES, Chooser

SMALL = (1, 2, 3, 4, 5, 7, 8, 9)
"""Sizes around the width of one vector."""
EDGES = (15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 48, 49, 63, 64, 65)
"""Sizes around several vectors and register tiles."""
BROAD = (16, 17, 24, 31, 32, 33, 40, 48)
"""Widths with a whole vector at least, or nearly one."""
LARGE = (96, 100, 127, 129, 257, 1000, 1023)
MOST_ELEMENTS = 4096


class Dice(Chooser):
    """The choices of one seed. Where a maker asks for one of its `SIZES`, it gets sizes of all kinds.

    Structure, sizes and values are drawn apart: `sizes` and `values` give others to the same structure.
    """

    def __init__(self, *seed: int, sizes: int = 0, values: int = 0) -> None:
        self.structure = np.random.default_rng([*seed, 0])
        self.sizes = np.random.default_rng([*seed, 1, sizes])
        self.random = np.random.default_rng([*seed, 2, values])
        self.most = MOST_ELEMENTS if self.structure.random() < 0.9 else 40 * MOST_ELEMENTS

    def draw(self, strategy: Any) -> Any:
        raise NotImplementedError("choices are seeded here, not drawn by hypothesis")

    def of(self, options: Sequence[Any]) -> Any:
        """One of the options."""
        if tuple(options) == SIZES:
            return self.size() if self.sizes.random() < 0.93 else 0
        if tuple(options) == SIZES[:-1]:
            return self.size()
        return options[int(self.structure.integers(len(options)))]

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both counted."""
        return int(self.structure.integers(low, high + 1))

    def chance(self, share: float) -> bool:
        """True in that share of cases."""
        return bool(self.structure.random() < share)

    def size(self, sizes: Sequence[int] | None = None) -> int:
        """A size of at least 1, mostly a small one."""
        if sizes is None:
            sizes = (SMALL, SMALL, EDGES, LARGE)[int(self.sizes.choice(4, p=(0.4, 0.2, 0.3, 0.1)))]
        return int(sizes[int(self.sizes.integers(len(sizes)))])

    def shape(self, low: int = 0, high: int = 3, sizes: Sequence[int] = SIZES) -> tuple[int, ...]:
        """A shape with a rank from low to high and no more elements than this seed may have."""
        shape = [self.of(sizes) for _ in range(self.integer(low, high))]
        while int(np.prod(shape, dtype=np.int64)) > self.most:
            shape[int(np.argmax(shape))] = self.size(SMALL)
        return tuple(shape)

    def subset(self, options: Sequence[Any], low: int, high: int) -> list[Any]:
        """Some different options, in any order."""
        count = min(self.integer(low, high), len(options))
        return [options[int(i)] for i in self.structure.permutation(len(options))[:count]]

    def extreme(self, array: Any) -> Any:
        """The array with a few of its elements huge, or infinities and NaN: most sums meet none of them."""
        ends = self.of(((1e7, -3e8, 2.0**20), (np.inf, -np.inf, np.nan), (np.inf, 1e12, -1e12, 1e-40)))
        found = np.array(array)
        count = min(found.size, int(self.random.integers(0, 5)))
        places = self.random.integers(0, max(found.size, 1), count)
        with np.errstate(over="ignore"):
            found.reshape(-1)[places] = self.random.choice(np.array(ends), count).astype(found.dtype)
        return found
