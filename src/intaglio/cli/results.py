"""Outputs of a run: as rows of a table, as data, and as files."""

from __future__ import annotations

import io
import json
import math
import os
import secrets
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from intaglio.cli.terminal import STANDARD, tell
from intaglio.errors import InputError
from intaglio.ir.dtype import from_numpy

FIRST_VALUES = 5

Array = np.ndarray[Any, Any]


def summaries(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each array of the results with its statistics; the items of a list count as arrays of their own."""
    return [_summary(name, item) for name, item in flatten(results)]


def reports(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each result with its statistics, where it is an array, and with all of its data, whatever it is."""
    return [_summary(name, item) | {"data": to_data(item)} for name, item in results.items()]


def flatten(results: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and arrays; the items of a list `y` are `y[0]`, `y[1]`, ..."""
    for name, item in results.items():
        if isinstance(item, list):
            yield from flatten({f"{name}[{index}]": part for index, part in enumerate(cast("list[Any]", item))})
        else:
            yield name, item


def to_data(item: Any) -> Any:
    """A result as JSON can spell it: lists, objects, text, numbers.

    Numbers that are not finite are text that `float` reads, complex ones are pairs; keys of maps are text.

    >>> to_data({3: np.float32([1.5, np.inf])})
    {'3': [1.5, 'inf']}
    """
    if isinstance(item, np.ndarray):
        return _array_data(cast("Array", item))
    if isinstance(item, (list, tuple)):
        return [to_data(part) for part in cast("list[Any]", item)]
    if isinstance(item, dict):
        return {_text(key): to_data(part) for key, part in cast("dict[Any, Any]", item).items()}
    if isinstance(item, np.generic):
        return _array_data(np.asarray(item))
    if isinstance(item, float):
        return _json_number(item)
    return _text(item) if isinstance(item, bytes) else item


def _array_data(array: Array) -> Any:
    dtype = from_numpy(array.dtype)
    if dtype.kind == "string":
        return _nested(array, _text)
    if dtype.kind == "complex":
        return _nested(array, lambda number: [_json_number(number.real), _json_number(number.imag)])
    if dtype.is_float:
        numbers = array.astype(np.float64)
        return numbers.tolist() if np.isfinite(numbers).all() else _nested(numbers, _json_number)
    plain = array.astype(np.int8 if dtype.name.startswith("int") else np.uint8) if dtype.is_narrow else array
    return plain.tolist()


def _nested(array: Array, convert: Any) -> Any:
    """The elements, each converted, in lists as deep as the array has dimensions."""
    if array.ndim == 0:
        return convert(array.item())
    return [_nested(part, convert) if part.ndim else convert(part.item()) for part in map(np.asarray, array)]


def _text(item: Any) -> str:
    return item.decode("utf-8", "backslashreplace") if isinstance(item, bytes) else str(item)


def _summary(name: str, item: Any) -> dict[str, Any]:
    if not isinstance(item, np.ndarray):
        return {"name": name, "dtype": type(item).__name__, "shape": None, "first": [str(item)]}
    array = cast("Array", item)
    dtype = from_numpy(array.dtype)
    summary: dict[str, Any] = {"name": name, "dtype": dtype.name, "shape": list(array.shape)}
    flat = array.reshape(-1)
    if dtype.kind in ("string", "complex"):
        return summary | {"first": [_text(value) for value in flat[:FIRST_VALUES]]}
    return summary | _statistics(flat)


def _statistics(flat: Array) -> dict[str, Any]:
    numbers = flat.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    found = {"min": finite.min(), "mean": finite.mean(), "max": finite.max()} if finite.size else {}
    first = [_json_number(value) for value in numbers[:FIRST_VALUES]]
    if flat.dtype.kind in "biu":
        first = [value.item() for value in flat[:FIRST_VALUES]]
    return {
        **{key: _json_number(float(value)) for key, value in found.items()},
        "not_finite": flat.size - finite.size,
        "first": first,
    }


def _json_number(value: float) -> float | str:
    """JSON has no infinities: those become text."""
    return float(value) if math.isfinite(value) else str(float(value))


def row(summary: Mapping[str, Any]) -> list[str]:
    """A summary as cells: name, type, shape, least, mean, largest, first values."""
    shape = "" if summary["shape"] is None else "x".join(map(str, summary["shape"])) or "scalar"
    numbers = [_short(summary[key]) if key in summary else "" for key in ("min", "mean", "max")]
    values = ", ".join(_short(value) for value in summary["first"])
    note = f"  ({summary['not_finite']} not finite)" if summary.get("not_finite") else ""
    return [summary["name"], summary["dtype"], shape, *numbers, values + note]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


COLUMNS = ("output", "type", "shape", "#min", "#mean", "#max", "first values")


def check_path(path: str) -> None:
    """Raise InputError where outputs cannot be written in the format that the name of a file asks for."""
    if path != STANDARD and Path(path).suffix not in (".npz", ".npy", ".json"):
        raise InputError(f"{path!r} does not end in .npz, .npy or .json, the formats that outputs are written in")


def save(results: Mapping[str, Any], path: str) -> None:
    """Write results to a file, which appears whole or not at all; `-` is an .npz archive on standard output.

    An .npz archive holds all arrays by name, an .npy file the only one, and JSON everything.
    """
    check_path(path)
    kind = ".npz" if path == STANDARD else Path(path).suffix
    if kind == ".json":
        data = json.dumps({name: to_data(item) for name, item in results.items()}, allow_nan=False) + "\n"
        _write(path, data.encode())
    elif kind == ".npy":
        _write(path, _one_array(results, path))
    else:
        _write(path, _archive(results))


def _one_array(results: Mapping[str, Any], path: str) -> bytes:
    stored = [_storable(name, item) for name, item in _parts(results)]
    if len(stored) != 1:
        raise InputError(f"{path!r} can hold one array, and there are {len(stored)}; an .npz file holds several")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, stored[0], allow_pickle=False)
    return buffer.getvalue()


def _archive(results: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, item in _parts(results):
            with archive.open(f"{_member(name)}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _storable(name, item), allow_pickle=False)
    return buffer.getvalue()


def _parts(results: Mapping[str, Any]) -> Iterator[tuple[str, Array]]:
    """Everything as arrays by name: maps become their keys and their values; what is absent is left out, and told."""
    for name, item in flatten(results):
        if isinstance(item, dict):
            entries = cast("dict[Any, Any]", item)
            tell(f"output {name!r} is a map: written as its keys and its values")
            yield f"{name}.keys", np.array(list(entries))
            yield from _values(name, list(entries.values()))
        elif item is None:
            tell(f"output {name!r} is absent, and left out")
        else:
            yield name, np.asarray(item)


def _values(name: str, values: list[Any]) -> Iterator[tuple[str, Array]]:
    """The values of a map, as one array where they are single, and each by itself where they are arrays."""
    if all(np.ndim(value) == 0 for value in values):
        yield f"{name}.values", np.array(values)
    else:
        yield from _parts({f"{name}.values": values})


def _write(path: str, data: bytes) -> None:
    if path == STANDARD:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"{path!r} cannot be written: {error.strerror or error}") from None


def _member(name: str) -> str:
    """A name that cannot lead out of a folder when the archive is unpacked."""
    return name.replace("\\", "_").replace("..", "__").replace("\0", "_").lstrip("/") or "_"


def _storable(name: str, item: Array) -> Array:
    dtype = from_numpy(item.dtype) if item.dtype.kind != "U" else None
    if dtype is None or dtype.kind == "string":
        return item.astype(np.str_)
    if dtype.is_narrow:
        wide = np.dtype(np.float32 if dtype.is_float else np.int8 if dtype.name.startswith("int") else np.uint8)
        tell(f"output {name!r} is {dtype}, which .npz cannot hold: written as {wide}, exactly")
        return item.astype(wide)
    return item
