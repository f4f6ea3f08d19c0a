"""The inputs of `intaglio run`: from files, from images, or made up from the signature."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import typer

from intaglio.cli.ranges import index_limit
from intaglio.cli.terminal import tell
from intaglio.errors import InputError
from intaglio.ir.dim import Dim, evaluate, symbols
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Value
from intaglio.ir.types import MapType, SequenceType, TensorType, Type
from intaglio.runtime.binding import bind
from intaglio.runtime.model import Model

IMAGES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm"})
LARGE_SIDE, MIDDLE_SIDE = 64, 8
"""Sizes for dimensions that have only a name: those of images, and others; the first dimension is taken as 1."""


def parse_dims(texts: Iterable[str]) -> dict[str, int]:
    """Read `batch=4` options."""
    dims: dict[str, int] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.isdecimal():
            raise typer.BadParameter(f"{text!r} is not NAME=NUMBER", param_hint="--dim")
        dims[name] = int(number)
    return dims


def read_inputs(model: Model, texts: Iterable[str]) -> dict[str, Any]:
    """Read `name=file` options; without a name the file is for the first input that has none yet, or a .npz of many."""
    feeds: dict[str, Any] = {}
    names = [item.name for item in model.inputs]
    for text in texts:
        name, path = _split(text, names)
        if name is None and path.suffix == ".npz":
            feeds.update(_read_archive(path))
            continue
        target = name if name is not None else next((n for n in names if n not in feeds), None)
        if target is None:
            raise InputError(f"{str(path)!r} is one file more than the model has inputs ({len(names)})")
        feeds[target] = _read_one(model, target, path)
    return feeds


def _split(text: str, names: list[str]) -> tuple[str | None, Path]:
    known = next((name for name in sorted(names, key=len, reverse=True) if text.startswith(f"{name}=")), None)
    if known is not None:
        return known, Path(text[len(known) + 1 :])
    if "=" in text and not Path(text).exists():
        name, _, path = text.partition("=")
        return name, Path(path)
    return None, Path(text)


def _read_one(model: Model, name: str, path: Path) -> Any:
    if path.suffix.lower() in IMAGES:
        return _read_image(model, name, path)
    if path.suffix != ".npz":
        return _load(path)
    arrays = _read_archive(path)
    if name in arrays:
        return arrays[name]
    if len(arrays) != 1:
        raise InputError(f"{str(path)!r} holds {', '.join(map(repr, arrays)) or 'nothing'}, but no {name!r}")
    return next(iter(arrays.values()))


def _read_archive(path: Path) -> dict[str, Any]:
    found = _load(path)
    if isinstance(found, np.ndarray):
        raise InputError(f"{str(path)!r} holds one array and not several by name; write NAME={path}")
    try:
        return {name: found[name] for name in found.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{str(path)!r} cannot be read as arrays: {error}") from None


def _load(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{str(path)!r} cannot be read as .npy or .npz: {error}") from None


def _read_image(model: Model, name: str, path: Path) -> np.ndarray[Any, Any]:
    """An image in the layout and size of the input; floats are scaled to 0..1 and not normalised further."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise InputError("reading an image needs Pillow: pip install intaglio[images]") from None
    type = next((item.type for item in model.inputs if item.name == name), None)
    if not isinstance(type, TensorType) or type.shape is None or len(type.shape) not in (3, 4):
        raise InputError(f"input {name!r} is {type}: an image needs three or four dimensions")
    rows, columns, channels, is_first = _image_layout(type)
    try:
        with Image.open(path) as opened:
            picture = opened.convert("L" if channels == 1 else "RGB")
            pixels = np.asarray(picture.resize((columns or picture.width, rows or picture.height)))
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}") from None
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise InputError(f"{str(path)!r} cannot be read as an image: {error}") from None
    array = pixels.reshape(*pixels.shape[:2], channels)
    if type.dtype.is_float:
        array = (array / 255).astype(type.dtype.numpy)
    array = array.transpose(2, 0, 1) if is_first else array
    scaled = "scaled to 0..1" if type.dtype.is_float else "0..255"
    tell(f"{path.name}: {array.shape} for {name!r}, {'channels first' if is_first else 'channels last'}, {scaled}")
    return np.ascontiguousarray(array if len(type.shape) == 3 else array[None])


def _image_layout(type: TensorType) -> tuple[int | None, int | None, int, bool]:
    """Rows and columns where they are numbers, the number of channels, and whether the channels come first."""
    first, middle, last = [dim if isinstance(dim, int) else None for dim in (type.shape or ())[-3:]]
    if last in (1, 3) and first not in (1, 3):
        return first, middle, last, False
    return middle, last, first if first in (1, 3) else 3, True


def make_inputs(model: Model, given: Mapping[str, Any], dims: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Random values for the inputs that are not given and have no default; sizes of one name agree."""
    known = {symbol for value in model.graph.inputs for symbol in _symbols(value.type)}
    unknown = [name for name in dims if name not in known]
    if unknown:
        raise InputError(f"there is no dimension {unknown[0]!r}; the dimensions are {sorted(known) or 'all numbers'}")
    bindings = dict(dims)
    for value in model.graph.inputs:
        if isinstance(value.type, TensorType) and isinstance(given.get(value.name), np.ndarray):
            bind(value.type.shape, given[value.name].shape, bindings, f"input {value.name!r}")
    generator = np.random.default_rng(seed)
    missing = [value for value in model.graph.inputs if value.name not in given and value.default is None]
    return {value.name: _make(value.type, value, bindings, generator) for value in missing}


def _symbols(type: Type) -> set[str]:
    return {name for dim in (type.shape or () if isinstance(type, TensorType) else ()) for name in symbols(dim)}


def _make(type: Type, value: Value, bindings: dict[str, int], generator: np.random.Generator) -> Any:
    if isinstance(type, TensorType):
        if type.shape is None:
            raise InputError(f"input {value.name!r} has no known rank, so nothing can be made up: give it with --input")
        shape = [_extent(dim, axis, len(type.shape), bindings) for axis, dim in enumerate(type.shape)]
        return random_array(type.dtype, shape, generator, index_limit(value))
    if isinstance(type, MapType):
        raise InputError(f"input {value.name!r} is {type}, which can be given in Python only")
    made = _make(type.element, value, bindings, generator)
    return [made] if isinstance(type, SequenceType) else made


def _extent(dim: Dim, axis: int, rank: int, bindings: dict[str, int]) -> int:
    for name in symbols(dim):
        bindings.setdefault(name, 1 if axis == 0 else LARGE_SIDE if rank >= 4 and axis >= rank - 2 else MIDDLE_SIDE)
    return max(0, evaluate(dim, bindings))


def random_array(
    dtype: DType, shape: list[int], generator: np.random.Generator, limit: int | None = None
) -> np.ndarray[Any, Any]:
    """Normal numbers; integers below `limit`, bytes of the whole range, or else zeros and ones."""
    if dtype.kind == "string":
        return np.full(shape, "text", dtype=object)
    if dtype.is_float or dtype.kind == "complex":
        return generator.standard_normal(shape).astype(dtype.numpy)
    if limit is None and dtype.bits == 8 and dtype.is_integer:
        least = int(np.iinfo(cast("Any", dtype.numpy)).min)
        return generator.integers(least, least + 256, shape).astype(dtype.numpy)
    return generator.integers(0, max(1, limit or 2), shape).astype(dtype.numpy)
