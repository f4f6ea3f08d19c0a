"""`set_dtype`: a model in float16, bfloat16, float32 or float64."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import ModelProto

from intaglio.emit.onnx.older import OLDEST, make_older
from intaglio.errors import InputError
from intaglio.ir import dtype as dtypes
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.onnx.reader import read_model
from intaglio.runtime.model.sources import as_source
from intaglio.tools.samples import Difference, differences, make_feeds, runner, worst
from intaglio.tools.simplifying.written import Written, written
from intaglio.tools.types.conversion import RANGE, Conversion

TYPES = {each.name: each for each in (dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.FLOAT32, dtypes.FLOAT64)}
"""The types that a model can be given."""


@dataclass
class Converted:
    """A model in another type: what stayed as it was and why, and how far its answers are from those before."""

    written: Written
    to: str
    casts: int
    kept: dict[str, str]
    """The nodes that compute in the type of the file, each with the reason."""
    notes: list[str]
    differences: list[Difference] = field(default_factory=list[Difference])

    def message(self) -> ModelProto:
        """The model as an ONNX message; raises LimitError where its weights do not fit into one."""
        return self.written.message()

    def save(self, path: str | os.PathLike[str], *, external_data: bool | int | None = None) -> list[Path]:
        """Write the model; returns the files that were written."""
        return self.written.save(path, external_data)


def set_dtype(
    model: Any,
    to: str,
    *,
    keep: Collection[str] = (),
    convert: Collection[str] = (),
    keep_nodes: Collection[str] = (),
    io: bool = False,
    samples: int = 1,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    base_folder: str | os.PathLike[str] | None = None,
) -> Converted:
    """Let a model compute in another floating-point type; `to` is "float16", "bfloat16", "float32" or "float64".

    In 16 bits, operators that need more range or digits (`intaglio.tools.types.conversion.RANGE`) stay as they are:
    `keep` adds some, `convert` takes some out, `keep_nodes` names single nodes. So do operators that the operator set
    has no version of for the type. Inputs and outputs keep their types unless `io`. On `samples` made-up inputs the
    answers are compared with those of the model before; `dims` gives sizes for them. The reference engine runs 16 bits,
    since it rounds after every node; other types are run by ONNX Runtime where it is installed and takes them.
    """
    if to not in TYPES:
        raise InputError(f"there is no type {to!r} to convert to; expected {', '.join(TYPES)}")
    source = as_source(model)
    imported = read_model(source, base_folder=base_folder)
    opset = max(imported.info.opset_imports.get("", OLDEST), OLDEST)
    names = [value.name for value in imported.graph.outputs]
    operators = ((RANGE if TYPES[to].bits == 16 else frozenset[str]()) | set(keep)) - set(convert)
    _check_names(imported.graph, keep_nodes)
    conversion = Conversion(imported.graph, TYPES[to], opset, operators, keep_nodes)
    conversion.run(io)
    make_older(imported.graph, opset)
    count = Counter(node.op.name for node in imported.graph.nodes)["Cast"]
    kept = {str(node.origin): reason for node, reason in conversion.kept.items()}
    result = written(imported.graph, imported.info, None, opset, bool(imported.external_files))
    found = Converted(result, to, count, kept, conversion.notes)
    engine = "reference" if TYPES[to].bits == 16 else None  # ONNX Runtime computes much of float16 in float32
    try:
        found.differences = _compare(source, found, names, samples, seed, dims, engine)
    except InputError as error:
        found.notes.append(f"{str(error).partition(': ')[0]}, so the reference engine compares")
        found.differences = _compare(source, found, names, samples, seed, dims, "reference")
    return found


def _check_names(graph: Graph, names: Collection[str]) -> None:
    known = {node.origin.path.partition(" (")[0] for node in graph.nodes}
    known |= {value.name for node in graph.nodes for value in node.outputs}
    missing = [name for name in names if name not in known]
    if missing:
        raise InputError(f"the model has no node {missing[0]!r}, and no node that gives it")


def _compare(
    source: Any,
    found: Converted,
    names: list[str],
    samples: int,
    seed: int,
    dims: Mapping[str, int] | None,
    engine: str | None,
) -> list[Difference]:
    """The largest difference of each output over all samples, from the model before."""
    if not samples:
        return []
    before = read_model(source).graph
    given = {value.name: value for value in found.written.graph.inputs}
    with tempfile.TemporaryDirectory() as folder:
        found.save(Path(folder) / "converted.onnx")
        old = runner(source if isinstance(source, (str, Path, bytes)) else source.SerializeToString(), engine)
        new = runner(Path(folder) / "converted.onnx", engine)
        rows = list[list[Difference]]()
        for number in range(samples):
            feeds = make_feeds(before, seed + number, dims)
            typed = {name: _typed(array, given[name]) for name, array in feeds.items()}
            rows.append(differences(names, old(feeds), new(typed)))
    return worst(rows)


def _typed(array: Any, value: Value) -> Any:
    is_float = isinstance(value.type, TensorType) and value.dtype.is_float
    return array.astype(value.dtype.numpy) if is_float else array
