"""From a `Document` to a file: piece by piece, so that large weights go from file to file and not through memory."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np
from onnx import TensorProto

from intaglio.errors import ExternalDataError, InputError, LimitError
from intaglio.onnx.external import ExternalData
from intaglio.onnx.wire import Piece, joined_model
from intaglio.onnx.writer import MESSAGE_LIMIT, check_target, temporary_file
from intaglio.tools.document.parts import Document
from intaglio.tools.document.weights import CHUNK, external_location, parts_of

STRIPPED = "stripped-weights/"
"""With this begin the locations of weights that were taken out of a document; there are no such files."""


def save_document(document: Document, path: str | os.PathLike[str]) -> list[Path]:
    """Write a document; returns the files that were written. The file appears at once or not at all.

    Files with external data are copied where the document goes to another folder. A file there that has the name of
    one of them and is another one is not overwritten: that raises InputError.
    """
    target = Path(path)
    check_target(target)
    pieces = document_pieces(document)
    size = sum(map(len, pieces))
    if size > MESSAGE_LIMIT:
        raise LimitError(
            f"the model takes {size} bytes, more than one file can hold: put its weights into another file"
        )
    copies = _external_copies(document, target.parent)
    for content, place in copies:
        _write(content, place)
    with temporary_file(target) as (file, keep):
        for piece in pieces:
            write_content(file, memoryview(piece))
        keep()
    return [target, *(place for _, place in copies)]


def document_pieces(document: Document) -> list[Piece]:
    """The bytes of a document, in pieces that may lie in a mapped file."""

    def data_of(message: bytes) -> tuple[bytes, memoryview] | None:
        if not document.held:
            return None
        tensor = TensorProto.FromString(message)
        data = document.held_bytes(tensor)
        if data is None:
            return None
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
        return tensor.SerializeToString(deterministic=True), data

    return joined_model(document.bare_message().SerializeToString(deterministic=True), data_of)


def external_locations(document: Document) -> list[str]:
    """The files that the tensors of a document name, each once; weights that were taken out name none."""
    found: dict[str, None] = {}
    for tensor in document.tensors():
        location = external_location(tensor)
        is_file = tensor.data_location == TensorProto.EXTERNAL and document.held_bytes(tensor) is None
        if is_file and location is not None and not location.startswith(STRIPPED):
            found[location] = None
    return list(found)


def _external_copies(document: Document, folder: Path) -> list[tuple[memoryview, Path]]:
    """Which files must be written beside the document, and what they hold. Files that are missing are warned of."""
    copies: list[tuple[memoryview, Path]] = []
    for location in external_locations(document):
        source, name = document.origins.get(location, (document.folder, location))
        if source is None:
            raise InputError(f"the model's weights are in {location!r}, and it has no folder: give `base_folder`")
        if (source / name).resolve() == (folder / location).resolve():
            continue
        try:
            copies.append((ExternalData(source).whole(name), folder / location))
        except ExternalDataError as error:
            warnings.warn(f"not copied: {error}", UserWarning, stacklevel=4)
    return [(content, place) for content, place in copies if not _is_there(content, place)]


def _is_there(content: memoryview, place: Path) -> bool:
    """Whether a file with this content is there already; another file in its place raises InputError."""
    if not place.exists():
        return False
    with place.open("rb") as file:
        has_size = os.fstat(file.fileno()).st_size == len(content)
        if has_size and all(memoryview(file.read(len(part))) == part for part in parts_of(content)):
            return True
    raise InputError(f"{str(place)!r} exists and is another file than the model's; remove it or save elsewhere")


def write_content(file: BinaryIO, content: memoryview) -> None:
    """Write bytes to a file piece by piece; pieces of zeros become holes, where the file system has them."""
    is_hole = False
    for part in parts_of(content):
        is_hole = len(part) == CHUNK and not np.frombuffer(part, np.uint8).any()
        if is_hole:
            file.seek(len(part), os.SEEK_CUR)
        else:
            file.write(part)
    if is_hole:
        file.truncate()


def _write(content: memoryview, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    check_target(place)
    with temporary_file(place) as (file, keep):
        write_content(file, content)
        keep()
