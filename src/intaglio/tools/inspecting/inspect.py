"""`inspect`: the weights of a model, all tensors of a run, or the arrays of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import numpy as np

from intaglio.errors import InputError
from intaglio.onnx.external import ExternalData
from intaglio.onnx.reader import Source
from intaglio.runtime.engine.engine import EngineName
from intaglio.runtime.engine.guard import guard_files
from intaglio.runtime.model.random_inputs import make_feeds
from intaglio.tools.comparing.loading import Loading
from intaglio.tools.comparing.subjects import IntaglioSubject, read_npz
from intaglio.tools.cutting.chunks import CHUNK_BYTES, chunked
from intaglio.tools.cutting.cut import weight_array
from intaglio.tools.document import Document, read_document
from intaglio.tools.inspecting.measure import Facts, measure

Array = np.ndarray[Any, Any]


@dataclass
class Inspection:
    """The facts about each tensor, in the order of the file."""

    tensors: list[Facts] = field(default_factory=list[Facts])

    @property
    def not_finite(self) -> list[Facts]:
        """The tensors with elements that are NaN or infinite; the first one of a run is where it began."""
        return [each for each in self.tensors if each.nan or each.infinite]

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain data."""
        return {
            "tensors": [each.to_dict() for each in self.tensors],
            "not_finite": [each.name for each in self.not_finite],
        }


def inspect(
    model: Source | Document,
    *,
    run: bool = False,
    feeds: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
    bins: int = 32,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    engine: EngineName | None = None,
    threads: int | None = None,
    memory: int = CHUNK_BYTES,
) -> Inspection:
    """Look at the numbers in tensors: weights of a model, with `run` all that a run computes, or arrays of a file.

    `names` are patterns of names; without any, all tensors are looked at. A run takes `feeds`, and makes up the inputs
    that are not given. Tensors of a run are computed some at a time, so that they take about `memory` bytes.
    """
    if bins < 1:
        raise InputError(f"bins is {bins}, expected at least 1")
    if isinstance(model, (str, os.PathLike)) and Path(os.fspath(model)).suffix in (".npz", ".npy"):
        arrays = _stored(os.fspath(model))
    elif run:
        loading = Loading(engine, threads, simplify=False)
        arrays = _of_run(model, loading, feeds or {}, names, seed, dims or {}, memory)
    else:
        arrays = _weights(model if isinstance(model, Document) else _opened(model))
    return Inspection([measure(name, array, kind, bins) for name, array, kind in arrays if _is_wanted(name, names)])


def _opened(model: Source) -> Document:
    guard_files()
    return read_document(model)


def _is_wanted(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _stored(path: str) -> Iterator[tuple[str, Array, str]]:
    if path.endswith(".npz"):
        yield from ((name, array, "tensor") for name, array in read_npz(path).items())
        return
    try:
        yield Path(path).stem, np.load(path, mmap_mode="r", allow_pickle=False), "tensor"
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path!r} cannot be read as an .npy file: {error}") from None


def _weights(document: Document) -> Iterator[tuple[str, Array, str]]:
    external = ExternalData(document.folder)
    for tensor in document.graph.initializers:
        yield tensor.name, weight_array(document, tensor, external), "weight"
    for node in document.graph.all_nodes():
        for attribute in node.attributes:
            if node.shell.op_type == "Constant" and attribute.shell.HasField("t"):
                yield node.outputs[0], weight_array(document, attribute.shell.t, external), "weight"


def _of_run(
    model: Any,
    loading: Loading,
    given: Mapping[str, Any],
    patterns: Sequence[str],
    seed: int,
    dims: Mapping[str, int],
    memory: int,
) -> Iterator[tuple[str, Array, str]]:
    source: Any = model.message() if isinstance(model, Document) else model
    loaded = loading.load(source, model.folder if isinstance(model, Document) else None)
    feeds = {**given, **make_feeds(loaded.graph, given, dims, seed)}
    outputs = {item.name for item in loaded.outputs}
    subject = IntaglioSubject(loaded)
    yield from ((name, cast("Array", value), "input") for name, value in feeds.items() if isinstance(value, np.ndarray))
    made = [value.name for node in loaded.graph.nodes for value in node.outputs]
    wanted = [name for name in made if _is_wanted(name, patterns)]
    for part in chunked(loaded.graph, wanted, feeds, memory):
        for name, value in subject.tensors(feeds, part).items():
            if isinstance(value, np.ndarray):
                yield name, cast("Array", value), "output" if name in outputs else "tensor"
