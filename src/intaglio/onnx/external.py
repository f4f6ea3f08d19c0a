"""External data: the only place that opens a file which a model names.

The model's folder is the border. A location is a relative path below it, walked part by part from a descriptor of the
folder without following links, and what is checked is the opened descriptor, so nothing can change between check and
use. A symbolic link may lead to another place inside the folder. One link may lead out: that of the Hugging Face cache,
where `snapshots/<revision>/.../file` points at `blobs/<hash>` of the same repository.

A hard link is accepted: it is the file itself under another name, cannot be told from a deduplicated file (package
caches and container layers are full of them), and the system refuses to make one to a file that its maker may not read.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from intaglio.errors import ExternalDataError
from intaglio.onnx.mapped import check_bytes, file_bytes
from intaglio.onnx.protobuf import shorten

_KEYS = frozenset({"location", "offset", "length", "checksum"})
_MAX_LINKS = 8
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class ExternalData:
    """Maps the files that a model's tensors name, each of them once."""

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(os.path.realpath(folder))
        self._maps: dict[tuple[int, int], memoryview] = {}
        self._by_location: dict[str, memoryview] = {}

    def read(self, entries: Sequence[tuple[str, str]], size: int, owner: str) -> memoryview:
        """The `size` bytes that a tensor's external entries describe; `owner` names the tensor in messages."""
        try:
            fields = _fields(entries)
            data = self._data(fields["location"])
            offset = _number(fields.get("offset", "0"), "offset")
            available = len(data) - offset
            length = _number(fields["length"], "length") if "length" in fields else available
            if length > available:
                end = offset + length
                raise ExternalDataError(f"needs bytes {offset} to {end} of a file that has {len(data)}")
            if length != size:
                raise ExternalDataError(f"has {max(length, 0)} bytes, expected {size}")
        except ExternalDataError as error:
            raise ExternalDataError(f"{owner}: its external data {error}") from None
        return data[offset : offset + length]

    def whole(self, location: str) -> memoryview:
        """All bytes of the file that a tensor names."""
        try:
            return self._data(location)
        except ExternalDataError as error:
            raise ExternalDataError(f"the model's external data {error}") from None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were opened, as the model names them."""
        return () if self.folder is None else tuple(self.folder / location for location in self._by_location)

    def check(self) -> None:
        """Raise LoadError where a file was rewritten since it was opened."""
        for data in self._maps.values():
            check_bytes(data)

    def _data(self, location: str) -> memoryview:
        if location not in self._by_location:
            self._by_location[location] = self._map(location)
        return self._by_location[location]

    def _map(self, location: str) -> memoryview:
        if self.folder is None:
            raise ExternalDataError(
                f"{_quote(location)} needs a folder: a model given as bytes has none unless `base_folder` is passed"
            )
        descriptor = _open_inside(self.folder, _parts(location), location)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ExternalDataError(f"{_quote(location)} is not a regular file")
            key = (status.st_dev, status.st_ino)
            if key not in self._maps:
                self._maps[key] = file_bytes(descriptor, self.folder / location)
            return self._maps[key]
        finally:
            os.close(descriptor)


def _fields(entries: Sequence[tuple[str, str]]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for key, value in entries:
        if key in fields:
            raise ExternalDataError(f"has the key {_quote(key)} twice")
        if key not in _KEYS and not key.startswith("prepacked"):
            raise ExternalDataError(f"has the unknown key {_quote(key)}; known are {', '.join(sorted(_KEYS))}")
        fields[key] = value
    if "location" not in fields:
        raise ExternalDataError("has no location")
    return fields


def _number(digits: str, what: str) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", digits, re.ASCII):
        raise ExternalDataError(f"has the {what} {_quote(digits)}; expected a number of at least 0")
    return int(digits)


def _parts(location: str) -> list[str]:
    """The parts of a location; raises where it is not a plain relative path below a folder."""
    if not location or "\0" in location:
        raise ExternalDataError(f"has the location {_quote(location)}, which is not a file name")
    if location.startswith("/") or "\\" in location or re.match(r"[A-Za-z]:", location):
        raise ExternalDataError(f"has the location {_quote(location)}; expected a relative path with `/`")
    parts = [part for part in location.split("/") if part not in ("", ".")]
    if not parts or location.endswith(("/", "/.")):
        raise ExternalDataError(f"has the location {_quote(location)}, which is a folder")
    if any(part == ".." for part in parts):
        raise ExternalDataError(f"has the location {_quote(location)}, which leads out of the model's folder")
    if any(part.endswith((".", " ")) for part in parts):
        raise ExternalDataError(f"has the location {_quote(location)}; names that end in a dot or space are refused")
    return parts


def _open_inside(folder: Path, parts: list[str], location: str) -> int:
    for _ in range(_MAX_LINKS):
        found = _walk(folder, parts, location)
        if isinstance(found, int):
            return found
        position, target = found
        blob = _cache_blob(folder, parts, position, target)
        if blob is not None:
            folder, parts = blob
        else:
            parts = _follow(parts, position, target, location)
    raise ExternalDataError(f"{_quote(location)} goes through more than {_MAX_LINKS} links")


def _walk(folder: Path, parts: list[str], location: str) -> int | tuple[int, str]:
    """An open descriptor, or the position and target of the first link on the way."""
    try:
        current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ExternalDataError(f"{_quote(location)} cannot be opened: {error.strerror}: {folder}") from None
    for position, part in enumerate(parts):
        flags = _FLAGS if position == len(parts) - 1 else _FLAGS | os.O_DIRECTORY
        try:
            following = os.open(part, flags, dir_fd=current)
        except OSError as error:
            target = _link_target(part, current) if error.errno in (errno.ELOOP, errno.ENOTDIR) else None
            if target is not None:
                return position, target
            raise ExternalDataError(f"{_quote(location)} cannot be opened: {_reason(error, folder)}") from None
        finally:
            os.close(current)
        current = following
    return current


def _reason(error: OSError, folder: Path) -> str:
    if error.errno == errno.ENOENT:
        return f"there is no such file in {folder}; it must stand beside the model"
    return error.strerror or str(error)


def _link_target(part: str, folder: int) -> str | None:
    try:
        return os.readlink(part, dir_fd=folder)
    except OSError:
        return None


def _follow(parts: list[str], position: int, target: str, location: str) -> list[str]:
    """The parts after a link inside the folder; raises where it leads out of it."""
    result = parts[:position]
    is_inside = not target.startswith("/")
    for part in target.split("/"):
        if part == "..":
            is_inside = is_inside and bool(result)
            result = result[:-1]
        elif part not in ("", "."):
            result.append(part)
    if not is_inside:
        raise ExternalDataError(f"{_quote(location)} is a link out of the model's folder, to {_quote(target)}")
    return result + parts[position + 1 :]


def _cache_blob(folder: Path, parts: list[str], position: int, target: str) -> tuple[Path, list[str]] | None:
    """Where a link of the Hugging Face cache leads: the repository's folder, and the blob's path in it."""
    if position != len(parts) - 1 or "snapshots" not in folder.parts[:-1]:
        return None
    depth = folder.parts[::-1].index("snapshots")
    blob = re.fullmatch(r"((?:\.\./)+)blobs/([0-9a-f]{40}|[0-9a-f]{64})", target)
    if blob is None or depth == 0 or blob[1].count("..") != depth + 1 + position:
        return None
    return folder.parents[depth], ["blobs", blob[2]]


def _quote(name: str) -> str:
    return repr(shorten(name))
