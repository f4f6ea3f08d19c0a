"""From a file, bytes or a message to a `Document`."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from onnx import ModelProto, TensorProto

from intaglio.onnx.reader import Source, parse_message
from intaglio.runtime.engine.guard import guard_files
from intaglio.tools.document.parts import Document


def read_document(source: Source, *, base_folder: str | os.PathLike[str] | None = None) -> Document:
    """Read an ONNX file as it is. Only what is no ONNX message at all raises LoadError.

    Weights of 64 KiB and more that are stored in the file stay in the mapped file. External data is not opened; it is
    looked for beside the file, or in `base_folder`, when somebody asks for it.
    """
    guard_files()
    message, path, cut = parse_message(source)
    held = hold(message, cut)
    document = Document.read(message)
    document.path, document.held = path, held
    folder = base_folder if base_folder is not None else None if path is None else path.parent
    document.folder = None if folder is None else Path(folder)
    return document


def hold(message: ModelProto, cut: dict[int, memoryview]) -> dict[str, memoryview]:
    """Let locations that nobody can guess stand for the weights that were cut out of a message; returns their bytes."""
    prefix = f"\0{secrets.token_hex(16)}/"
    held: dict[str, memoryview] = {}
    for position, data in cut.items():
        tensor = message.graph.initializer[position]
        if tensor.HasField("data_location") or tensor.external_data:
            tensor.raw_data = bytes(data)  # a location in its place would not leave the other fields as they are
            continue
        location = f"{prefix}{position}"
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        held[location] = data
    return held
