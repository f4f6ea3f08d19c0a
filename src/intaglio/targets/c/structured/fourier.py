"""Fourier transforms of a length: how it is taken apart, what is read for it, and how much memory a line takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir.dim import Dim, less, select

Array = np.ndarray[Any, Any]

LARGEST_FACTOR = 60
"""A length with a greater prime factor is transformed by Bluestein's method, as a convolution of a smooth length."""


def largest_factor(length: int) -> int:
    """The largest prime factor of a number, or 1.

    >>> [largest_factor(n) for n in (1, 8, 15, 97, 400)]
    [1, 2, 5, 97, 5]
    """
    found, factor = 1, 2
    while factor * factor <= length:
        while length % factor == 0:
            length, found = length // factor, factor
        factor += 1
    return max(found, length)


def smooth_length(length: int) -> int:
    """The power of two for the convolution of Bluestein's method."""
    return 1 << (2 * length - 1 - 1).bit_length() if length > 1 else 1


def tables(length: int, dtype: Any) -> Array:
    """What the routine reads for a length: roots of unity, and for Bluestein's method chirp and filter behind them."""
    if largest_factor(length) <= LARGEST_FACTOR:
        return _parts(_roots(length)).astype(dtype)
    smooth, places = smooth_length(length), np.arange(length)
    chirp = np.exp(-1j * np.pi * (places * places % (2 * length)) / length)
    taps = np.zeros(smooth, np.complex128)
    taps[:length] = chirp.conj()
    taps[smooth - length + 1 :] = chirp[1:][::-1].conj()
    joined = [_parts(_roots(smooth)), _parts(chirp), _parts(np.fft.fft(taps) / smooth)]
    return np.concatenate(joined).astype(dtype)


def _roots(length: int) -> Array:
    return np.exp(-2j * np.pi * np.arange(length) / length)


def _parts(numbers: Array) -> Array:
    return np.concatenate([numbers.real, numbers.imag])


def space(length: Dim) -> Dim:
    """How many numbers a line takes while it is transformed."""
    if not isinstance(length, int):
        return select(less(0, length), 4 * length, 1)
    return length if largest_factor(length) <= LARGEST_FACTOR else smooth_length(length)
