"""Models in other forms: ONNX's text, JSON, and files of weights."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import onnx.parser
import onnx.printer
from onnx import ModelProto, TensorProto

from intaglio.errors import InputError, LoadError
from intaglio.ir.dtype import NUMBERED
from intaglio.onnx.writer import check_target, temporary_file
from intaglio.tools.document import (
    Document,
    Weights,
    document_from_json,
    document_to_json,
    internalized,
    read_document,
    save_document,
)
from intaglio.tools.document.weights import stored_bytes
from intaglio.tools.document.writing import write_content
from intaglio.tools.verbs.change import Model
from intaglio.tools.verbs.stripping import is_stripped, strip

Form = Literal["onnx", "text", "json", "safetensors", "npz"]
SUFFIXES: dict[str, Form] = {
    ".onnx": "onnx", ".onnxtxt": "text", ".txt": "text", ".json": "json", ".safetensors": "safetensors", ".npz": "npz",
}  # fmt: skip


def form_of(path: str | os.PathLike[str]) -> Form:
    """The form of a file by the end of its name; raises InputError for one that is not known."""
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        raise InputError(f"{os.fspath(path)!r} ends in none of {', '.join(SUFFIXES)}: say the form")
    return SUFFIXES[suffix]


def read_form(data: Model, form: Form) -> Document:
    """The document that a file, or its bytes, holds in some form."""
    if isinstance(data, Document) or form == "onnx":
        return data if isinstance(data, Document) else read_document(data)
    if form in ("safetensors", "npz"):
        raise InputError(f"a file of {form} has weights and no structure: `restore` puts them into a stripped model")
    text, folder = _text(data)
    document = _from_text(text) if form == "text" else _from_json(text)
    document.folder = folder
    return document


def _text(data: Any) -> tuple[str, Path | None]:
    try:
        if isinstance(data, (bytes, bytearray, memoryview)):
            return bytes(data).decode(), None
        return Path(data).read_text(encoding="utf-8"), Path(data).parent
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"the model cannot be read as text: {error}") from None


def _from_text(text: str) -> Document:
    try:
        return Document.read(onnx.parser.parse_model(text))
    except onnx.parser.ParseError as error:
        raise LoadError(f"the text is no ONNX model: {error}") from None


def _from_json(text: str) -> Document:
    try:
        return document_from_json(json.loads(text))
    except json.JSONDecodeError as error:
        raise LoadError(f"the text is no JSON: {error}") from None


def convert(
    source: Model,
    path: str | os.PathLike[str],
    *,
    to: Form | None = None,
    source_form: Form | None = None,
    weights: bool | None = None,
) -> list[str]:
    """Write a model in another form, which the ends of the file names say; returns notes on what the form cannot hold.

    `weights` says whether text and JSON have the weights of 1 KiB and more; without, they are taken out as by `strip`.
    A file of safetensors or npz has the constants of the graph by name and nothing else.
    """
    form = form_of(path) if to is None else to
    if form not in get_args(Form):
        raise InputError(f"there is no form {form!r}; expected {', '.join(get_args(Form))}")
    if source_form is None:
        source_form = form_of(source) if isinstance(source, (str, os.PathLike)) else "onnx"
    document = read_form(source, source_form)
    if form == "onnx":
        save_document(document, path)
        return []
    if form in ("safetensors", "npz"):
        return _write_weights(document, Path(path), form)
    data, notes = written_text(document, form, weights=bool(weights))
    check_target(Path(path))
    with temporary_file(Path(path)) as (file, keep):
        file.write(data)
        keep()
    return notes


def written_text(document: Document, form: Form, *, weights: bool = False) -> tuple[bytes, list[str]]:
    """A document as text or JSON, and notes on what that form cannot hold."""
    shown = internalized(document) if weights else strip(document).document
    if form == "json":
        return (json.dumps(document_to_json(shown), indent=1, allow_nan=False) + "\n").encode(), []
    message = shown.message()
    text = onnx.printer.to_text(message)
    try:
        is_same = _normal(onnx.parser.parse_model(text)) == _normal(message)
        notes = [] if is_same else ["ONNX's text form does not hold all of this model; JSON does"]
    except Exception as error:  # the parser raises what it likes for names that the printer does not quote
        notes = [f"ONNX's text form cannot be read back: {str(error).splitlines()[0]}; JSON can"]
    return (text + "\n").encode("utf-8", "surrogateescape"), notes


def _normal(message: ModelProto) -> ModelProto:
    """The same model with the data of all tensors as raw bytes, so that equal numbers are equal messages."""
    document = Document.read(message)
    weights = Weights(document)
    for tensor in document.tensors():
        if tensor.data_location != TensorProto.EXTERNAL and tensor.data_type != TensorProto.STRING:
            name, dtype, dims, data = tensor.name, tensor.data_type, list(tensor.dims), bytes(weights.data(tensor))
            tensor.CopyFrom(TensorProto(name=name, data_type=dtype, dims=dims, raw_data=data))
    return document.message()


def _write_weights(document: Document, path: Path, form: Form) -> list[str]:
    weights, notes = Weights(document), list[str]()
    chosen: list[TensorProto] = []
    for tensor in document.graph.initializers:
        if is_stripped(tensor) or (form == "safetensors" and tensor.data_type == TensorProto.STRING):
            notes.append(f"{tensor.name!r} is left out: {'it was stripped' if is_stripped(tensor) else 'strings'}")
        else:
            chosen.append(tensor)
    check_target(path)
    if form == "npz":
        _write_npz(path, chosen, weights)
    else:
        _write_safetensors(path, chosen, weights)
    return notes


def _write_npz(path: Path, tensors: list[TensorProto], weights: Weights) -> None:
    import zipfile

    with temporary_file(path) as (file, keep):
        with zipfile.ZipFile(file, "w") as archive:
            for tensor in tensors:
                array = weights.array(tensor)
                if NUMBERED[tensor.data_type].is_narrow:
                    array = array.view(np.uint16 if array.itemsize == 2 else np.uint8)
                stored = array.astype(np.str_) if tensor.data_type == TensorProto.STRING else array
                with archive.open(
                    f"{tensor.name.replace('..', '__').lstrip('/')}.npy", "w", force_zip64=True
                ) as member:
                    np.lib.format.write_array(member, stored, allow_pickle=False)
        keep()


_SAFETENSORS = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8e4m3fn": "F8_E4M3",
    "float8e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64",
    "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def _write_safetensors(path: Path, tensors: list[TensorProto], weights: Weights) -> None:
    """Eight bytes of length, a header in JSON, then the bytes of all tensors, which go from file to file."""
    header: dict[str, Any] = {}
    start = 0
    for tensor, kind, shape, size in _safe(tensors):
        header[tensor.name] = {"dtype": kind, "shape": shape, "data_offsets": [start, start + size]}
        start += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with temporary_file(path) as (file, keep):
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors:
            write_content(file, weights.data(tensor))
        keep()


def _safe(tensors: list[TensorProto]) -> Iterator[tuple[TensorProto, str, list[int], int]]:
    """Each tensor with its type and shape in the file; types that the format lacks are the bytes that carry them."""
    for tensor in tensors:
        kind, size = _SAFETENSORS.get(NUMBERED[tensor.data_type].name), stored_bytes(tensor)
        yield tensor, kind or "U8", list(tensor.dims) if kind else [size], size
