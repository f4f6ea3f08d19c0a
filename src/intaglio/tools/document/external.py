"""Weights into a file beside the model, and back into the model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from onnx import TensorProto

from intaglio.errors import InputError
from intaglio.onnx.writer import check_target, temporary_file
from intaglio.tools.document.parts import Document, Graph, copied, held_tensor, put_bytes
from intaglio.tools.document.weights import Weights, stored_bytes
from intaglio.tools.document.writing import document_pieces, external_locations, write_content

_PAGE = 4096
_LINE = 64


def save_externally(
    document: Document, path: str | os.PathLike[str], *, location: str | None = None, threshold: int = 1024
) -> list[Path]:
    """Write a document with all constants of at least `threshold` bytes in one file beside it; returns both files.

    The file is named `location`, else like the model with `.data` behind. Constants that are in other external files
    are moved to it. Tensors in attributes and strings stay in the model. The document itself is left as it is.
    """
    target = Path(path)
    name = f"{target.name}.data" if location is None else location
    data_target = _data_target(target, name)
    check_target(target)
    check_target(data_target)
    moved = document.copy()
    weights, chosen = Weights(document), list(_chosen(moved, threshold))
    with temporary_file(data_target) as (file, keep):
        for members, place in chosen:
            members[place] = _moved(members[place], weights.data(members[place]), file, name)
        left = [each for each in external_locations(moved) if each != name]
        if left:
            raise InputError(f"tensors in attributes have their data in {left[0]!r}: internalize the model first")
        keep()
    with temporary_file(target) as (file, keep):
        for piece in document_pieces(moved):
            write_content(file, memoryview(piece))
        keep()
    return [target, data_target]


def _data_target(target: Path, name: str) -> Path:
    data_target = target.parent / name
    if Path(name).name != name or data_target.resolve() == target.resolve():
        raise InputError(f"{name!r} is no name for a file beside the model; expected one without folders")
    return data_target


def _chosen(document: Document, threshold: int) -> Iterator[tuple[list[TensorProto], int]]:
    for graph in document.graph.all_graphs():
        for place, tensor in enumerate(graph.initializers):
            if tensor.data_type != TensorProto.STRING and stored_bytes(tensor) >= max(threshold, 1):
                yield graph.initializers, place


def _moved(tensor: TensorProto, data: memoryview, file: BinaryIO, name: str) -> TensorProto:
    """Write the data of a tensor, aligned; returns the tensor that says where it is."""
    step = _PAGE if len(data) >= _PAGE else _LINE
    file.seek(-file.tell() % step, os.SEEK_CUR)
    new = held_tensor(tensor, name)
    new.external_data.add(key="offset", value=str(file.tell()))
    new.external_data.add(key="length", value=str(len(data)))
    write_content(file, data)
    return new


def internalized(document: Document) -> Document:
    """A copy of a document whose external data is part of the model; it is read when the copy is saved.

    Raises ExternalDataError where a file is missing. What does not fit in 2 GiB is refused by `save_document`.
    """
    copy, weights = document.copy(), Weights(document)
    for graph in copy.graph.all_graphs():
        _internalize(copy, graph, weights)
    for tensor in copy.tensors():
        if _is_external(copy, tensor):
            put_bytes(tensor, weights.data(tensor))
    return copy


def _internalize(document: Document, graph: Graph, weights: Weights) -> None:
    for place, tensor in enumerate(graph.initializers):
        if not _is_external(document, tensor):
            continue
        data = weights.data(tensor)
        if graph is document.graph:
            graph.initializers[place] = held_tensor(tensor, document.hold(data))
        else:
            graph.initializers[place] = copied(tensor)
            put_bytes(graph.initializers[place], data)


def _is_external(document: Document, tensor: TensorProto) -> bool:
    return tensor.data_location == TensorProto.EXTERNAL and document.held_bytes(tensor) is None
