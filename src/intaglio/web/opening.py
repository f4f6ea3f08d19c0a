"""Models of any kind as documents: ONNX, compiled files, programs of torch.export, folders with one of these."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from intaglio.errors import InputError, LimitError, LoadError, UnsupportedError
from intaglio.ir.graph import Graph
from intaglio.onnx.info import ModelInfo
from intaglio.onnx.reader import parse_message
from intaglio.onnx.writer import write_model
from intaglio.runtime.artifact.reading import SUFFIX, is_compiled, read_compiled
from intaglio.runtime.model.model import Model
from intaglio.runtime.model.sources import as_source
from intaglio.tools.document import Document, read_document

MOST_NODES = 200_000
"""Files with more nodes are refused: no page could show them."""

PROGRAM_SUFFIXES = (".pt2", ".ep")
"""How programs of torch.export are named."""
_ENDINGS = (".onnx", *PROGRAM_SUFFIXES, SUFFIX)


@dataclass
class Opened:
    """A model that was opened: its document, what kind of file it was, and the file."""

    document: Document
    name: str
    format: str
    path: Path | None = None
    size: int = 0


def open_model(source: Any, *, base_folder: str | os.PathLike[str] | None = None) -> Opened:
    """A model as a document.

    `source` is a path, bytes, or what `intaglio.load` takes. A folder must hold one model, or one that is named
    model.onnx. Files that cannot be run are opened too. Raises LoadError for what is no model, and LimitError for one
    with more than 200,000 nodes.
    """
    if isinstance(source, Document):
        return Opened(source, _title(source, source.path), "ONNX", source.path)
    if not isinstance(source, (str, os.PathLike)):
        return _open_object(source, base_folder)
    path = _file_in(Path(source)) if Path(source).is_dir() else Path(source)
    size = path.stat().st_size if path.is_file() else 0
    if is_compiled(path):
        compiled = read_compiled(path)
        return Opened(_of_graph(compiled.read_graph(), compiled.info), path.name, "compiled model", path, size)
    if path.suffix in PROGRAM_SUFFIXES:
        return Opened(_of_graph(_program_graph(path)), path.name, "torch.export program", path, size)
    return Opened(_of_message(path, base_folder), path.name, "ONNX", path, size)


def _file_in(folder: Path) -> Path:
    """The one model in a folder."""
    found = sorted(each for each in folder.iterdir() if each.suffix in _ENDINGS and each.is_file())
    named = [each for each in found if each.name == "model.onnx"]
    if named or len(found) == 1:
        return named[0] if named else found[0]
    if not found:
        raise LoadError(
            f"the folder {str(folder)!r} holds no model; expected a file that ends in {', '.join(_ENDINGS)}"
        )
    raise InputError(
        f"the folder {str(folder)!r} holds {len(found)} models: name one, such as {str(folder / found[0].name)!r}"
    )


def _open_object(source: Any, base_folder: str | os.PathLike[str] | None) -> Opened:
    if isinstance(source, Model):
        return Opened(read_document(source.to_onnx()), source.graph.name or "model", "loaded model")
    given = as_source(source)
    if isinstance(given, Graph):
        return Opened(_of_graph(given), given.name or "model", "graph")
    if is_compiled(given):
        compiled = read_compiled(given)
        return Opened(_of_graph(compiled.read_graph(), compiled.info), "model", "compiled model")
    document = _of_message(given, base_folder)
    return Opened(document, _title(document, None), "ONNX", None, len(given) if isinstance(given, bytes) else 0)


def _title(document: Document, path: Path | None) -> str:
    return path.name if path is not None else document.graph.shell.name or "model"


def _of_graph(graph: Graph, info: ModelInfo | None = None) -> Document:
    return read_document(write_model(graph, info))


def _of_message(source: Any, base_folder: str | os.PathLike[str] | None) -> Document:
    """A file as a document, where it is not too large to be shown."""
    message, _, _ = parse_message(source)
    count = len(message.graph.node) + sum(len(function.node) for function in message.functions)
    if count > MOST_NODES:
        raise LimitError(
            f"the model has {count:,} nodes, and at most {MOST_NODES:,} can be shown; "
            "`intaglio extract` cuts a part out of it"
        )
    return read_document(source, base_folder=base_folder)


def _program_graph(path: Path) -> Graph:
    """The graph of a program that torch.export.save wrote."""
    try:
        torch_export = import_module("torch.export")
    except ImportError:
        raise UnsupportedError(f"{path.name!r} is a program of PyTorch: pip install 'intaglio[torch]'") from None
    try:
        program = torch_export.load(path)
    except Exception as error:  # PyTorch raises what it likes for a damaged file
        raise LoadError(f"{str(path)!r} cannot be read as a program of torch.export: {error}") from error
    return as_source(program)
