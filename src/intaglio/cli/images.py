"""Images as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from intaglio.cli.terminal import tell
from intaglio.errors import InputError
from intaglio.ir.types import TensorType
from intaglio.runtime.model.model import Signature

IMAGES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm"})

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Norm:
    """What is taken off each channel of an image, which is between 0 and 1, and what the rest is divided by."""

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def apply(self, pixels: Array) -> Array:
        """The image, whose last axis are the channels."""
        channels = pixels.shape[-1]
        for title, numbers in (("--mean", self.mean), ("--std", self.std)):
            if len(numbers) not in (1, channels):
                raise InputError(f"{title} has {len(numbers)} numbers, the image has {channels} channels")
        return (pixels - np.array(self.mean)) / np.array(self.std)


def parse_numbers(text: str) -> tuple[float, ...]:
    """Numbers with commas between them; raises InputError.

    >>> parse_numbers("0.485,0.456,0.406")
    (0.485, 0.456, 0.406)
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{text!r} is not one number, or several with commas between them") from None


def make_norm(mean: Sequence[float] | None, std: Sequence[float] | None) -> Norm | None:
    """What the options --mean and --std say; None where neither is given."""
    if mean is None and std is None:
        return None
    if std is not None and 0 in std:
        raise InputError("--std is 0 for a channel, and nothing can be divided by that")
    return Norm(tuple(mean or (0.0,)), tuple(std or (1.0,)))


def read_image(signature: Signature | None, name: str, path: Path, norm: Norm | None) -> Array:
    """An image in the layout and size of the input; floats are scaled to 0..1, and normalised where that is asked."""
    type = None if signature is None else signature.type
    if not isinstance(type, TensorType) or type.shape is None or len(type.shape) not in (3, 4):
        raise InputError(f"input {name!r} is {type}: an image needs three or four dimensions")
    if norm is not None and not type.dtype.is_float:
        raise InputError(f"input {name!r} is {type}: --mean and --std are for floats")
    rows, columns, channels, is_first = _layout(type)
    pixels, resized = _pixels(path, rows, columns, channels)
    array = pixels.reshape(*pixels.shape[:2], channels)
    if type.dtype.is_float:
        scaled = array / 255
        array = (scaled if norm is None else norm.apply(scaled)).astype(type.dtype.numpy)
    array = array.transpose(2, 0, 1) if is_first else array
    facts = ["channels first" if is_first else "channels last", "scaled to 0..1" if type.dtype.is_float else "0..255"]
    facts += [f"less {_listed(norm.mean)}, divided by {_listed(norm.std)}"] if norm is not None else []
    tell(f"{path.name}: {array.shape} for {name!r}, {', '.join([*facts, *resized])}")
    return np.ascontiguousarray(array if len(type.shape) == 3 else array[None])


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def _pixels(path: Path, rows: int | None, columns: int | None, channels: int) -> tuple[Array, list[str]]:
    """The bytes of an image in a size, and a word about it where that is not the size in the file."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise InputError("reading an image needs Pillow: pip install pillow") from None
    try:
        with Image.open(path) as opened:
            picture = opened.convert("L" if channels == 1 else "RGB")
            before, size = picture.size, (columns or picture.width, rows or picture.height)
            if size == before:
                return np.asarray(picture), []
            word = f"resized from {before[0]}x{before[1]} to {size[0]}x{size[1]} pixels, bicubic"
            return np.asarray(picture.resize(size, Image.Resampling.BICUBIC)), [word]
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}") from None
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise InputError(f"{str(path)!r} cannot be read as an image: {error}") from None


def _layout(type: TensorType) -> tuple[int | None, int | None, int, bool]:
    """Rows and columns where they are numbers, the number of channels, and whether the channels come first."""
    first, middle, last = [dim if isinstance(dim, int) else None for dim in (type.shape or ())[-3:]]
    if last in (1, 3) and first not in (1, 3):
        return first, middle, last, False
    return middle, last, first if first in (1, 3) else 3, True
