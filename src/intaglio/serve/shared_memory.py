"""System shared memory: tensors of clients on the same machine that go through no socket.

A key names a file of `/dev/shm`. It is opened without following links and must be a plain file that covers what the
client says; it is mapped while it is registered.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import threading
from dataclasses import dataclass
from typing import Any

from intaglio.serve.datatypes import short
from intaglio.serve.messages import RegionSlice, RequestError

MOST_REGIONS = 256
_FOLDER = "/dev/shm"
_KEY = re.compile(r"/?[A-Za-z0-9_][A-Za-z0-9_.\-]{0,250}")


@dataclass
class Region:
    """Shared memory that a client has registered."""

    name: str
    key: str
    offset: int
    byte_size: int
    mapping: mmap.mmap
    file_size: int

    def fields(self) -> dict[str, Any]:
        """The protocol's description."""
        return {"name": self.name, "key": self.key, "offset": self.offset, "byte_size": self.byte_size}


class SharedMemory:
    """Regions by name. Called with a slice of one, it returns the bytes."""

    def __init__(self) -> None:
        self._regions: dict[str, Region] = {}
        self._lock = threading.Lock()

    def register(self, name: str, key: Any, offset: Any, byte_size: Any) -> None:
        """Map a region; raises RequestError where the file is missing or too short, or the name is taken."""
        if not isinstance(key, str) or _KEY.fullmatch(key) is None:
            raise RequestError(f"the key {short(key)} is no name of shared memory")
        for what, number in (("offset", offset), ("byte_size", byte_size)):
            if type(number) is not int or number < 0:
                raise RequestError(f"{what} is {short(number)}, expected an integer of at least 0")
        with self._lock:
            if name in self._regions:
                raise RequestError(f"shared memory {short(name)} is registered already")
            if len(self._regions) >= MOST_REGIONS:
                raise RequestError(f"{MOST_REGIONS} regions of shared memory are registered, which is the limit")
            self._regions[name] = _open(name, key, offset, byte_size)

    def unregister(self, name: str = "") -> None:
        """Let go of a region, or of all; one that is not there is let go of already."""
        with self._lock:
            for each in [name] if name else list(self._regions):
                self._regions.pop(each, None)

    def status(self, name: str = "") -> list[dict[str, Any]]:
        """What is registered; raises RequestError for a name that is not."""
        with self._lock:
            if name and name not in self._regions:
                raise RequestError(f"shared memory {short(name)} is not registered", 404)
            return [region.fields() for region in self._regions.values() if name in ("", region.name)]

    def __call__(self, part: RegionSlice) -> memoryview:
        """The bytes of a slice; raises RequestError where they are not within a region."""
        region = self._regions.get(part.region)
        if region is None:
            raise RequestError(f"shared memory {short(part.region)} is not registered")
        if part.offset + part.byte_size > region.byte_size:
            raise RequestError(
                f"{part.byte_size} bytes at {part.offset} are not within the {region.byte_size} of {short(part.region)}"
            )
        if region.mapping.size() < region.file_size:
            raise RequestError(f"the file of shared memory {short(part.region)} was cut short")
        start = region.offset + part.offset
        return memoryview(region.mapping)[start : start + part.byte_size]


def _open(name: str, key: str, offset: int, byte_size: int) -> Region:
    try:
        file = os.open(f"{_FOLDER}/{key.lstrip('/')}", os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise RequestError(f"shared memory {short(key)} cannot be opened: {os.strerror(error.errno or 0)}") from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise RequestError(f"{short(key)} is no shared memory")
        if not byte_size or offset + byte_size > status.st_size:
            raise RequestError(f"{byte_size} bytes at {offset} are not within the {status.st_size} of {short(key)}")
        return Region(name, key, offset, byte_size, mmap.mmap(file, offset + byte_size), offset + byte_size)
    finally:
        os.close(file)
