"""Reading an ONNX model: `read_model` for use, `check_model` for a list of everything that is wrong with it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto

from intaglio.errors import IntaglioError, LoadError, ModelNotFoundError, UnsupportedError
from intaglio.onnx.external import ExternalData
from intaglio.onnx.foreign import foreign_folder, foreign_format
from intaglio.onnx.functions import FunctionTable, describe, walk_nodes
from intaglio.onnx.graph_reader import GraphReader
from intaglio.onnx.info import Imported, ModelInfo
from intaglio.onnx.limits import ReadLimits
from intaglio.onnx.mapped import check_bytes, file_bytes, is_held
from intaglio.onnx.protobuf import printable, shorten, text
from intaglio.onnx.schema import NEWEST, defs_has, known_names, normal_domain, resolve
from intaglio.onnx.scope import Problem
from intaglio.onnx.wire import split_model
from intaglio.ops.contrib.layouts import BLOCKED

Source: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | ModelProto

SHOWN_PROBLEMS = 20
"""A message lists at most so many problems in full."""


def read_model(
    source: Source, *, base_folder: str | os.PathLike[str] | None = None, limits: ReadLimits | None = None
) -> Imported:
    """Read a model from a path, bytes or a ModelProto; one exception tells all its problems.

    External data is looked for beside the file, or in `base_folder`; a model that is not a file has none unless that
    is given.
    """
    imported, problems = _read(source, base_folder, limits or ReadLimits())
    if problems or imported is None:
        raise merged_error(problems) from problems[0].error.__cause__
    return imported


def check_model(
    source: Source, *, base_folder: str | os.PathLike[str] | None = None, limits: ReadLimits | None = None
) -> list[Problem]:
    """Everything that stops a model from being read; an empty list where nothing does."""
    try:
        return _read(source, base_folder, limits or ReadLimits())[1]
    except IntaglioError as error:
        return [Problem(error, "")]


def check_message(
    model: ModelProto, cut: Mapping[int, memoryview], *, base_folder: str | os.PathLike[str] | None = None
) -> list[Problem]:
    """As `check_model`, of a message without its large tensors; `cut` has their bytes by the initializer's position."""
    try:
        return _read_parsed(_checked(model, "the model", memoryview(b""), None), None, cut, base_folder, ReadLimits())[
            1
        ]
    except IntaglioError as error:
        return [Problem(error, "")]


def _read(
    source: Source, base_folder: str | os.PathLike[str] | None, limits: ReadLimits
) -> tuple[Imported | None, list[Problem]]:
    return _read_parsed(*parse_model(source), base_folder, limits)


def _read_parsed(
    model: ModelProto,
    path: Path | None,
    cut: Mapping[int, memoryview],
    base_folder: str | os.PathLike[str] | None,
    limits: ReadLimits,
) -> tuple[Imported | None, list[Problem]]:
    folder = base_folder if base_folder is not None else path.parent if path is not None else None
    opsets, problems = _opset_imports(model)
    functions = FunctionTable(model)
    functions.check_cost(model.graph, limits)
    implied = _implied_imports(model, functions, opsets, limits)
    opsets |= implied
    unknown = _unknown_operators(model, functions, opsets, limits)
    problems += unknown.values()
    external = ExternalData(folder)
    reader = GraphReader(external, functions, limits, unknown.keys())
    graph = reader.read_model_graph(model.graph, opsets, model.ir_version, cut)
    for data in cut.values():
        check_bytes(data)
    external.check()
    problems += reader.problems
    if problems:
        return None, problems
    return Imported(graph, _info(model, opsets, implied, path, reader.warnings), external.files), []


def parse_model(source: Source) -> tuple[ModelProto, Path | None, dict[int, memoryview]]:
    """The message that a source holds without its large tensors, its path where it is a file, and those tensors.

    Raises LoadError where it is no model: without a graph or a version.
    """
    model, path, cut, data = _parse_source(source)
    return _checked(model, "the model" if path is None else f"{shorten(str(path))!r}", data, path), path, cut


def parse_message(source: Source) -> tuple[ModelProto, Path | None, dict[int, memoryview]]:
    """As `parse_model`, for any message: also one that is no model."""
    return _parse_source(source)[:3]


def _parse_source(source: Source) -> tuple[ModelProto, Path | None, dict[int, memoryview], memoryview]:
    if isinstance(source, ModelProto):
        return source, None, {}, memoryview(b"")
    if isinstance(source, (bytes, bytearray, memoryview)):
        held = source if is_held(source) else memoryview(bytes(source))
        return *_message(held, "the model", None), memoryview(held)
    path = Path(source)
    title = f"{shorten(str(path))!r}"
    data = _map_file(path, title)
    return *_message(data, title, path), data


def _message(data: memoryview, title: str, path: Path | None) -> tuple[ModelProto, Path | None, dict[int, memoryview]]:
    model, cut = _parse(data, title, path)
    return model, path, cut


def _map_file(path: Path, title: str) -> memoryview:
    try:
        if not path.exists():
            raise ModelNotFoundError(f"there is no file {title}")
        if not path.is_file():
            known = foreign_folder(path) if path.is_dir() else ""
            raise LoadError(f"{title} is not a regular file, so not a model" + (f"; {known}" if known else ""))
        with path.open("rb") as file:
            return file_bytes(file.fileno(), path)
    except OSError as error:
        if isinstance(error, IntaglioError):
            raise
        raise LoadError(f"{title} cannot be read: {error.strerror or error}") from None


def _parse(data: memoryview, title: str, path: Path | None = None) -> tuple[ModelProto, dict[int, memoryview]]:
    if not data:
        raise LoadError(f"{title} is empty, so not an ONNX model")
    message, cut = split_model(data)
    check_bytes(data)
    try:
        return ModelProto.FromString(message), cut
    except DecodeError:
        known = foreign_format(data, path) or (
            "the bytes are no protobuf message of that kind (cut short, another format, or nested more than 100 "
            "messages deep)"
        )
        raise LoadError(f"{title} is not an ONNX model: {known}") from None


def _checked(model: ModelProto, title: str, data: memoryview, path: Path | None) -> ModelProto:
    if not model.HasField("graph"):
        known = foreign_format(data, path)
        raise LoadError(f"{title} holds no graph, so it is not an ONNX model" + (f": {known}" if known else ""))
    if model.ir_version < 1:
        raise LoadError(f"{title} has no valid IR version")
    return model


def _opset_imports(model: ModelProto) -> tuple[dict[str, int], list[Problem]]:
    """The versions of operator sets by domain, and what is wrong with them."""
    opsets: dict[str, int] = {}
    problems: list[Problem] = []
    for entry in model.opset_import:
        domain = normal_domain(text(entry.domain))
        title = f"the operator set {printable(shorten(domain or 'ai.onnx'))!r} is imported"
        if not 1 <= entry.version < 2**31:
            problems.append(Problem(LoadError(f"{title} in version {entry.version}, expected 1 or more"), ""))
            opsets.setdefault(domain, NEWEST.get(domain, 1))
        elif opsets.setdefault(domain, entry.version) != entry.version:
            problems.append(Problem(LoadError(f"{title} in two versions, {opsets[domain]} and {entry.version}"), ""))
    if not opsets and model.ir_version < 3:
        opsets[""] = 1
    return opsets, problems


IMPLIED = {"ai.onnx.ml": NEWEST["ai.onnx.ml"], "com.microsoft": 1, BLOCKED: 1}
"""The operator sets that a model may use without importing them, each with the version that it then means.

ONNX Runtime reads such files, in the newest version that it knows.
"""


def _implied_imports(
    model: ModelProto, functions: FunctionTable, opsets: Mapping[str, int], limits: ReadLimits
) -> dict[str, int]:
    """The operator sets that the nodes of the graph use, that are not imported and need not be."""
    nodes = [node for node, _ in walk_nodes(model.graph.node, limits.depth) if functions.find(node) is None]
    used = dict.fromkeys(text(node.domain) for node in nodes)
    return {domain: IMPLIED[domain] for domain in used if domain in IMPLIED and domain not in opsets}


def _not_imported(implied: Mapping[str, int]) -> list[str]:
    return [
        f"the operator set {domain} is used and not imported: it is read in version {version}, as ONNX Runtime does"
        for domain, version in implied.items()
    ]


def _newer(model: ModelProto, opsets: Mapping[str, int]) -> tuple[str, ...]:
    """What of a model's versions is newer than what the installed `onnx` and this package know."""
    known = f"which is known here with onnx {onnx.__version__}"
    found = [
        f"opset {version} of {domain or 'ai.onnx'} is newer than {NEWEST[domain]}, the newest {known}: operators are "
        f"read as opset {NEWEST[domain]} defines them"
        for domain, version in opsets.items()
        if version > NEWEST.get(domain, version)
    ]
    if model.ir_version > onnx.IR_VERSION:
        found.append(f"IR version {model.ir_version} is newer than {int(onnx.IR_VERSION)}, the newest {known}")
    return tuple(found)


def _info(
    model: ModelProto, opsets: Mapping[str, int], implied: Mapping[str, int], path: Path | None, warnings: list[str]
) -> ModelInfo:
    if len(model.training_info):
        warnings = [*warnings, "the model has training information, which intaglio.train.training_step runs"]
    if any(node.domain == BLOCKED for node in model.graph.node):
        warnings = [*warnings, _BLOCKED_WARNING]
    newer = (*_newer(model, opsets), *_not_imported(implied))
    return ModelInfo(
        ir_version=model.ir_version,
        opset_imports=opsets,
        producer_name=text(model.producer_name),
        producer_version=text(model.producer_version),
        domain=text(model.domain),
        model_version=model.model_version,
        doc=text(model.doc_string),
        metadata_props={text(entry.key): text(entry.value) for entry in model.metadata_props},
        path=path,
        warnings=(*newer, *warnings),
        newer=newer,
    )


_BLOCKED_WARNING = (
    "ONNX Runtime optimised this file for the processor that it ran on; it is read as if that were this machine's kind,"
    " and results are wrong if that has blocks of another size: better have it write the file with ORT_ENABLE_EXTENDED"
)


def _unknown_operators(
    model: ModelProto, functions: FunctionTable, opsets: Mapping[str, int], limits: ReadLimits
) -> dict[tuple[str, str, int], Problem]:
    """Every operator which nothing stands for, once, at the first node that has it."""
    unknown: Counter[tuple[str, str, int]] = Counter()
    first: dict[tuple[str, str, int], str] = {}
    bodies = [("", model.graph.node, opsets)]
    for key, proto in functions.items():
        imports = {normal_domain(text(entry.domain)): entry.version for entry in proto.opset_import}
        bodies.append((f"function {describe(key)}/", proto.node, imports or opsets))
    known: dict[tuple[str, str, int], bool] = {}
    for prefix, nodes, imports in bodies:
        for node, _ in walk_nodes(nodes, limits.depth):
            if functions.find(node) is not None:
                continue
            domain = normal_domain(text(node.domain))
            if domain not in imports and domain in NEWEST:
                continue  # reported with the node
            operator = (domain, text(node.op_type), imports.get(domain, 1))
            if operator not in known:
                known[operator] = resolve(*operator).is_known or operator[:2] == ("", "Constant")
            if not known[operator]:
                unknown[operator] += 1
                first.setdefault(operator, f"{prefix}{printable(text(node.name)) or 'a node without a name'}")
    return {operator: _unknown_operator(operator, count, first[operator]) for operator, count in unknown.items()}


def _unknown_operator(operator: tuple[str, str, int], count: int, where: str) -> Problem:
    domain, name, version = operator
    title = f"{printable(shorten(domain)) or 'ai.onnx'}::{printable(shorten(name))} version {version}"
    times = f", which {count} nodes have," if count > 1 else ""
    return Problem(UnsupportedError(f"the operator {title}{times} is not known{_unknown_reason(*operator)}"), where)


def _unknown_reason(domain: str, name: str, version: int) -> str:
    if defs_has(domain, name):
        return f" (it exists in {domain or 'ai.onnx'}, but not in version {version})"
    if domain not in NEWEST:
        return " (a custom operator: register a class for it, or give the model a function of that name)"
    close = get_close_matches(name[:100], known_names(domain), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def merged_error(problems: list[Problem]) -> IntaglioError:
    """One exception of the first problem's class whose text lists them all."""
    kind = type(problems[0].error)
    if len(problems) == 1:
        return kind(shorten(str(problems[0]), 4000))
    lines = [f"the model has {len(problems)} problems:"]
    lines += [f"  {shorten(str(problem), 1000)}" for problem in problems[:SHOWN_PROBLEMS]]
    if len(problems) > SHOWN_PROBLEMS:
        lines.append(f"  and {len(problems) - SHOWN_PROBLEMS} more")
    return kind("\n".join(lines))
