"""The inputs of `intaglio run`: from files, from images, from the command line, or made up from the signature."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from intaglio.cli.images import IMAGES, Norm, read_image
from intaglio.cli.options import UsageError
from intaglio.cli.terminal import STANDARD
from intaglio.errors import InputError
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from intaglio.runtime.model.arrays import as_input, unknown_name
from intaglio.runtime.model.model import Model, Signature
from intaglio.runtime.model.random_inputs import make_feeds


def parse_dims(texts: Iterable[str]) -> dict[str, int]:
    """Read `batch=4` options."""
    dims: dict[str, int] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.isdecimal():
            raise UsageError(f"argument --dim/-d: {text!r} is not NAME=NUMBER")
        dims[name] = int(number)
    return dims


def read_inputs(model: Model, texts: Iterable[str], norm: Norm | None = None) -> dict[str, Any]:
    """Read `name=file` and `name=value` options.

    Without a name the file is for the first input that has none yet, or a .npz of many. `norm` is for images.
    """
    feeds: dict[str, Any] = {}
    names = [item.name for item in model.inputs]
    has_image = False
    for text in texts:
        name, given = _split(text, names)
        if name is None and Path(given).suffix == ".npz":
            feeds.update(read_archive(given))
            continue
        target = name if name is not None else next((n for n in names if n not in feeds), None)
        if target is None:
            raise InputError(f"{given!r} is one file more than the model has inputs ({len(names)})")
        has_image |= Path(given).suffix.lower() in IMAGES
        feeds[target] = _read_one(model, target, given, norm)
    if norm is not None and not has_image:
        raise UsageError("--mean and --std are for images, and no input is one")
    return feeds


def _split(text: str, names: list[str]) -> tuple[str | None, str]:
    known = next((name for name in sorted(names, key=len, reverse=True) if text.startswith(f"{name}=")), None)
    if known is not None:
        return known, text[len(known) + 1 :]
    if "=" in text and not Path(text).exists():
        name, _, given = text.partition("=")
        return name, given
    return None, text


def _read_one(model: Model, name: str, given: str, norm: Norm | None) -> Any:
    signature = next((item for item in model.inputs if item.name == name), None)
    if signature is None:
        names = [item.name for item in model.inputs]
        raise InputError(f"{unknown_name(name, names)}; the inputs are {', '.join(map(repr, names)) or 'none'}")
    if given != STANDARD:
        is_literal, value = _literal(given)
        if is_literal:
            return as_input(signature, _with_keys(signature.type, value))
    if Path(given).suffix.lower() in IMAGES:
        return read_image(signature, name, Path(given), norm)
    found = _load(given, signature)
    if isinstance(found, np.ndarray):
        return cast("Any", found)
    arrays = _members(given, found)
    if name in arrays:
        return arrays[name]
    if len(arrays) != 1:
        raise InputError(f"{given!r} holds {', '.join(map(repr, arrays)) or 'nothing'}, but no {name!r}")
    return next(iter(arrays.values()))


def _literal(text: str) -> tuple[bool, Any]:
    """Whether a text is a value as JSON spells it, and which: a number, a list, `"text"`, true, null, an object."""
    if Path(text).exists():
        return False, None
    try:
        return True, json.loads(text)
    except (ValueError, RecursionError):
        return False, None


def _with_keys(type: Type, value: Any) -> Any:
    """What JSON spells as an object, as a map: its keys are numbers where the type says so."""
    if isinstance(type, OptionalType):
        return value if value is None else _with_keys(type.element, value)
    if isinstance(type, SequenceType) and isinstance(value, list):
        return [_with_keys(type.element, item) for item in cast("list[Any]", value)]
    if isinstance(type, MapType) and isinstance(value, dict) and type.key.kind != "string":
        items = cast("dict[str, Any]", value)
        return {int(key) if key.lstrip("-").isdecimal() else key: item for key, item in items.items()}
    return value


def read_archive(given: str) -> dict[str, Any]:
    """The arrays of an .npz file by name."""
    found = _load(given, None)
    if isinstance(found, np.ndarray):
        raise InputError(f"{given!r} holds one array and not several by name; write NAME={given}")
    return _members(given, found)


def _members(given: str, found: Any) -> dict[str, Any]:
    try:
        return {name: found[name] for name in found.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{given!r} cannot be read as arrays: {error}") from None


def _load(given: str, signature: Signature | None) -> Any:
    """An array or an archive of arrays from a file or from standard input."""
    try:
        source = io.BytesIO(sys.stdin.buffer.read()) if given == STANDARD else Path(given)
        return np.load(source, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"there is no file {given!r}, and it is no value{_text_hint(signature, given)}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        title = "standard input" if given == STANDARD else repr(given)
        raise InputError(f"{title} cannot be read as .npy or .npz: {error}") from None


def _text_hint(signature: Signature | None, given: str) -> str:
    """How to write text, where the input takes text."""
    type = None if signature is None else signature.type
    if signature is None or not isinstance(type, TensorType) or type.dtype.kind != "string":
        return ""
    return f"; text is written in quotes: {signature.name}='\"{given}\"'"


def make_inputs(model: Model, given: Mapping[str, Any], dims: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Random values for the inputs that are not given and have no default; sizes of one name agree."""
    return make_feeds(model.graph, given, dims, seed)
