"""Files behind any address that fsspec knows: `s3://bucket/file`, `gs://`, `memory://`, or a plain path."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from intaglio.errors import ModelNotFoundError, UnsupportedError
from intaglio.ray import require_extra

if TYPE_CHECKING:
    from intaglio.train.trainer import Trainer


def is_remote(source: Any) -> TypeGuard[str]:
    """Whether this is an address with a protocol, and no path."""
    return isinstance(source, str) and "://" in source


def fetched(address: str) -> bytes:
    """The bytes of a file. Raises ModelNotFoundError where there is none."""
    system, path = _open(address)
    try:
        return system.cat_file(path)
    except FileNotFoundError:
        raise ModelNotFoundError(f"there is no file {address!r}") from None


def stored(address: str, data: bytes) -> None:
    """Put a file in the place of another: who reads the address gets the old file or the whole new one.

    Where the store has folders, the file is written beside its place and moved there. Stores of objects show an object
    only when it is complete.
    """
    system, path = _open(address)
    protocols = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
    if not {"file", "local", "memory", "sftp", "hdfs"} & set(protocols):
        system.pipe_file(path, data)
        return
    system.makedirs(os.path.dirname(path), exist_ok=True)
    beside = f"{path}.{uuid.uuid4().hex}"
    try:
        system.pipe_file(beside, data)
        system.mv(beside, path)
    except BaseException:
        if system.exists(beside):
            system.rm_file(beside)
        raise


def exists(address: str) -> bool:
    """Whether there is a file."""
    system, path = _open(address)
    return system.exists(path)


def save_checkpoint(trainer: Trainer, address: str) -> None:
    """Write a trainer's checkpoint to an address, at once."""
    with tempfile.TemporaryDirectory(prefix="intaglio-") as folder:
        path = Path(folder) / "checkpoint.safetensors"
        trainer.save_checkpoint(path)
        stored(address, path.read_bytes())


def load_checkpoint(trainer: Trainer, address: str) -> None:
    """Go on from the checkpoint at an address."""
    with tempfile.TemporaryDirectory(prefix="intaglio-") as folder:
        path = Path(folder) / "checkpoint.safetensors"
        path.write_bytes(fetched(address))
        trainer.load_checkpoint(path)


def _open(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path there."""
    try:
        return require_extra("fsspec.core").url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise UnsupportedError(f"{address!r} cannot be opened: {error}") from error
