"""What the page shows of a tensor: statistics, a histogram, elements, and filters as pictures."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import Any

import numpy as np

from intaglio.tools.inspecting.measure import measure

BINS = 48
MOST_ELEMENTS = 10_000
"""Elements that one answer has at most."""
MOST_MEASURED = 64 << 20
"""Tensors with more elements are measured by that many of them, evenly spread."""
MOST_TILES = 256
LARGEST_TILE = 64
MOST_PIXELS = 1 << 20

Array = np.ndarray[Any, Any]
Json = dict[str, Any]


def tensor_facts(name: str, array: Array, start: int = 0, count: int = 1000) -> Json:
    """A tensor for the page: its type, statistics, histogram, some elements, and pictures where it looks like some."""
    flat = array.reshape(-1)
    count = max(0, min(count, MOST_ELEMENTS))
    start = max(0, min(start, flat.size))
    found: Json = {
        "dtype": _type_name(array),
        "shape": list(array.shape),
        "start": start,
        "total": int(flat.size),
        "values": [element(each) for each in flat[start : start + count]],
    }
    if array.dtype.kind not in "OUSc":
        found |= _statistics(name, flat)
    picture = _picture(array)
    return found if picture is None else {**found, "filters": picture}


def _type_name(array: Array) -> str:
    return "string" if array.dtype.kind in "OUS" else array.dtype.name


def element(value: Any) -> Any:
    """An element as JSON can spell it."""
    if isinstance(value, (bytes, str)):
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        return text[:1000]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value) if abs(int(value)) < 1 << 53 else str(int(value))
    if isinstance(value, (complex, np.complexfloating)):
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)[:1000]
    return number if math.isfinite(number) else str(number)


def _statistics(name: str, flat: Array) -> Json:
    step = -(-flat.size // MOST_MEASURED) if flat.size else 1
    facts = measure(name[:200], np.ascontiguousarray(flat[::step]), bins=BINS)
    numbers = {"min": facts.least, "max": facts.largest, "mean": facts.mean, "std": facts.deviation}
    statistics: Json = {key: None if value is None else element(value) for key, value in numbers.items()}
    statistics |= {"nan": facts.nan, "inf": facts.infinite, "zeros": facts.zeros, "sampled": step > 1}
    statistics["advice"] = list(facts.advice)
    if not facts.histogram or facts.least is None or facts.largest is None:
        return {"statistics": statistics, "histogram": None}
    edges = np.linspace(facts.least, facts.largest, len(facts.histogram) + 1)
    return {
        "statistics": statistics,
        "histogram": {"edges": [element(each) for each in edges], "counts": list(facts.histogram)},
    }


def _picture(array: Array) -> Json | None:
    """The planes of a tensor of three or four dimensions side by side as one PNG; None where it is no picture."""
    if array.ndim not in (2, 3, 4) or array.dtype.kind in "OUSc" or 0 in array.shape:
        return None
    height, width = array.shape[-2:]
    least = 4 if array.ndim == 2 else 2
    if height < least or width < least:
        return None
    tile = LARGEST_TILE if array.ndim > 2 else 512
    if height > tile and array.ndim > 2 and array.shape[0] * (array.shape[1] if array.ndim == 4 else 1) > 16:
        return None
    planes = array.reshape(-1, height, width)[:MOST_TILES]
    down, right = max(1, -(-height // 512)), max(1, -(-width // 512))
    tiles = _as_grey(planes[:, ::down, ::right])
    columns = max(1, math.ceil(math.sqrt(len(tiles) * tiles.shape[1] / tiles.shape[2])))
    sheet = _sheet(tiles, columns)
    if sheet.size > MOST_PIXELS * 4:
        return None
    total = math.prod(array.shape[:-2])
    return {
        "width": tiles.shape[2], "height": tiles.shape[1], "columns": columns, "count": len(tiles), "total": total,
        "png": base64.b64encode(grey_png(sheet)).decode(),
    }  # fmt: skip


def _as_grey(planes: Array) -> Array:
    """Numbers as brightness: the smallest of all is black and the largest white; what is not finite is middle grey."""
    numbers = planes.astype(np.float64)
    finite = np.isfinite(numbers)
    if not finite.any():
        return np.full(planes.shape, 128, np.uint8)
    low, high = numbers[finite].min(), numbers[finite].max()
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (numbers - low) / (high - low) if high > low else np.full(numbers.shape, 0.5)
    return np.where(finite & np.isfinite(scaled), np.nan_to_num(scaled) * 255, 128).astype(np.uint8)


def _sheet(tiles: Array, columns: int) -> Array:
    """Tiles in rows, with a line between them."""
    count, height, width = tiles.shape
    rows = -(-count // columns)
    sheet = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1), 255, np.uint8)
    for place, tile in enumerate(tiles):
        y, x = place // columns * (height + 1), place % columns * (width + 1)
        sheet[y : y + height, x : x + width] = tile
    return sheet


def grey_png(pixels: Array) -> bytes:
    """Pixels of one byte as a PNG file.

    >>> grey_png(np.zeros((2, 2), np.uint8))[:4]
    b'\\x89PNG'
    """

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels], axis=1).tobytes()
    return b"".join([
        b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows, 6)), chunk(b"IEND", b"")
    ])  # fmt: skip
