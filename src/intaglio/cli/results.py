"""Outputs of a run: as rows of a table, as data, and as an archive."""

from __future__ import annotations

import io
import math
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from intaglio.cli.terminal import tell
from intaglio.errors import InputError
from intaglio.ir.dtype import from_numpy

FIRST_VALUES = 5


def summaries(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each array of the results with its statistics; the items of a list count as arrays of their own."""
    return [_summary(name, item) for name, item in flatten(results)]


def flatten(results: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and arrays; the items of a list `y` are `y[0]`, `y[1]`, ..."""
    for name, item in results.items():
        if isinstance(item, list):
            yield from flatten({f"{name}[{index}]": part for index, part in enumerate(cast("list[Any]", item))})
        else:
            yield name, item


def _summary(name: str, item: Any) -> dict[str, Any]:
    if not isinstance(item, np.ndarray):
        return {"name": name, "dtype": type(item).__name__, "shape": None, "first": [str(item)]}
    array = cast("np.ndarray[Any, Any]", item)
    dtype = from_numpy(array.dtype)
    summary: dict[str, Any] = {"name": name, "dtype": dtype.name, "shape": list(array.shape)}
    flat = array.reshape(-1)
    if dtype.kind in ("string", "complex"):
        return summary | {"first": [str(value) for value in flat[:FIRST_VALUES]]}
    return summary | _statistics(flat)


def _statistics(flat: np.ndarray[Any, Any]) -> dict[str, Any]:
    numbers = flat.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    found = {"min": finite.min(), "mean": finite.mean(), "max": finite.max()} if finite.size else {}
    first = [_json_number(value) for value in numbers[:FIRST_VALUES]]
    if flat.dtype.kind in "biu":
        first = [value.item() for value in flat[:FIRST_VALUES]]
    return {
        **{key: float(value) for key, value in found.items()},
        "not_finite": flat.size - finite.size,
        "first": first,
    }


def _json_number(value: float) -> float | str:
    """JSON has no infinities: those become text."""
    return float(value) if math.isfinite(value) else str(value)


def row(summary: Mapping[str, Any]) -> list[str]:
    """A summary as cells: name, type, shape, least, mean, largest, first values."""
    shape = "" if summary["shape"] is None else "x".join(map(str, summary["shape"])) or "scalar"
    numbers = [f"{summary[key]:.4g}" if key in summary else "" for key in ("min", "mean", "max")]
    values = ", ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in summary["first"])
    note = f"  ({summary['not_finite']} not finite)" if summary.get("not_finite") else ""
    return [summary["name"], summary["dtype"], shape, *numbers, values + note]


COLUMNS = ("output", "type", "shape", "#min", "#mean", "#max", "first values")


def save(results: Mapping[str, Any], path: str) -> None:
    """Write arrays to an .npz file, which appears whole or not at all."""
    target = Path(path)
    if target.suffix != ".npz":
        raise InputError(f"{path!r} does not end in .npz, the format that outputs are written in")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, item in flatten(results):
            with archive.open(f"{_member(name)}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _storable(name, item), allow_pickle=False)
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(buffer.getbuffer())
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"{path!r} cannot be written: {error.strerror or error}") from None


def _member(name: str) -> str:
    """A name that cannot lead out of a folder when the archive is unpacked."""
    return name.replace("\\", "_").replace("..", "__").replace("\0", "_").lstrip("/") or "_"


def _storable(name: str, item: Any) -> np.ndarray[Any, Any]:
    if not isinstance(item, np.ndarray):
        raise InputError(f"output {name!r} is a {type(item).__name__}, which an .npz file cannot hold")
    array = cast("np.ndarray[Any, Any]", item)
    dtype = from_numpy(array.dtype)
    if dtype.kind == "string":
        return array.astype(np.str_)
    if dtype.is_narrow:
        wide = np.dtype(np.float32 if dtype.is_float else np.int8)
        tell(f"output {name!r} is {dtype}, which .npz cannot hold: written as {wide}, exactly")
        return array.astype(wide)
    return array
