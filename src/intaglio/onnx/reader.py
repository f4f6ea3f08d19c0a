"""Reading an ONNX model: `read_model` for use, `check_model` for a list of everything that is wrong with it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

from google.protobuf.message import DecodeError
from onnx import ModelProto

from intaglio.errors import IntaglioError, LoadError, ModelNotFoundError, UnsupportedError
from intaglio.onnx.external import ExternalData
from intaglio.onnx.functions import FunctionTable, describe, walk_nodes
from intaglio.onnx.graph_reader import GraphReader
from intaglio.onnx.info import Imported, ModelInfo
from intaglio.onnx.limits import ReadLimits
from intaglio.onnx.mapped import check_bytes, file_bytes, is_held
from intaglio.onnx.protobuf import printable, shorten, text
from intaglio.onnx.schema import NEWEST, defs_has, known_names, normal_domain, resolve
from intaglio.onnx.scope import Problem
from intaglio.onnx.wire import split_model
from intaglio.ops.contrib_layouts import BLOCKED

Source: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | ModelProto

SHOWN_PROBLEMS = 20
"""A message lists at most so many problems in full."""

_UNSUPPORTED_LIMIT = 50


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


def _read(
    source: Source, base_folder: str | os.PathLike[str] | None, limits: ReadLimits
) -> tuple[Imported | None, list[Problem]]:
    model, path, cut = parse_model(source)
    folder = base_folder if base_folder is not None else path.parent if path is not None else None
    opsets = _opset_imports(model)
    functions = FunctionTable(model)
    functions.check_cost(model.graph, limits)
    _check_operators(model, functions, opsets, limits)
    external = ExternalData(folder)
    reader = GraphReader(external, functions, limits)
    graph = reader.read_model_graph(model.graph, opsets, model.ir_version, cut)
    for data in cut.values():
        check_bytes(data)
    external.check()
    if reader.problems:
        return None, reader.problems
    return Imported(graph, _info(model, opsets, path, reader.warnings), external.files), []


def parse_model(source: Source) -> tuple[ModelProto, Path | None, dict[int, memoryview]]:
    """The message that a source holds without its large tensors, its path where it is a file, and those tensors."""
    if isinstance(source, ModelProto):
        return _checked(source, "the model"), None, {}
    if isinstance(source, (bytes, bytearray, memoryview)):
        held = source if is_held(source) else memoryview(bytes(source))
        model, cut = _parse(held, "the model")
        return _checked(model, "the model"), None, cut
    path = Path(source)
    title = f"{shorten(str(path))!r}"
    model, cut = _parse(_map_file(path, title), title)
    return _checked(model, title), path, cut


def _map_file(path: Path, title: str) -> memoryview:
    try:
        if not path.exists():
            raise ModelNotFoundError(f"there is no file {title}")
        if not path.is_file():
            raise LoadError(f"{title} is not a regular file, so not a model")
        with path.open("rb") as file:
            return file_bytes(file.fileno(), path)
    except OSError as error:
        if isinstance(error, IntaglioError):
            raise
        raise LoadError(f"{title} cannot be read: {error.strerror or error}") from None


def _parse(data: memoryview, title: str) -> tuple[ModelProto, dict[int, memoryview]]:
    if not data:
        raise LoadError(f"{title} is empty, so not an ONNX model")
    message, cut = split_model(data)
    check_bytes(data)
    try:
        return ModelProto.FromString(message), cut
    except DecodeError:
        raise LoadError(
            f"{title} is not an ONNX model: the bytes are no protobuf message of that kind"
            " (cut short, another format, or nested more than 100 messages deep)"
        ) from None


def _checked(model: ModelProto, title: str) -> ModelProto:
    if not model.HasField("graph"):
        raise LoadError(f"{title} holds no graph, so it is not an ONNX model")
    if model.ir_version < 1:
        raise LoadError(f"{title} has no valid IR version")
    return model


def _opset_imports(model: ModelProto) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for entry in model.opset_import:
        domain = normal_domain(text(entry.domain))
        if not 1 <= entry.version < 2**31:
            raise LoadError(f"the operator set {domain or 'ai.onnx'!r} is imported in version {entry.version}")
        if opsets.setdefault(domain, entry.version) != entry.version:
            raise LoadError(f"the operator set {domain or 'ai.onnx'!r} is imported in two versions")
    if not opsets and model.ir_version < 3:
        opsets[""] = 1
    return opsets


def _info(model: ModelProto, opsets: Mapping[str, int], path: Path | None, warnings: list[str]) -> ModelInfo:
    if len(model.training_info):
        warnings = [*warnings, "the model's training information is not read"]
    if any(node.domain == BLOCKED for node in model.graph.node):
        warnings = [*warnings, _BLOCKED_WARNING]
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
        warnings=tuple(warnings),
    )


_BLOCKED_WARNING = (
    "ONNX Runtime optimised this file for the processor that it ran on; it is read as if that were this machine's kind,"
    " and results are wrong if that has blocks of another size: better have it write the file with ORT_ENABLE_EXTENDED"
)


def _check_operators(
    model: ModelProto, functions: FunctionTable, opsets: Mapping[str, int], limits: ReadLimits
) -> None:
    """Raise one UnsupportedError that lists every operator which nothing stands for."""
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
    if unknown:
        raise UnsupportedError(_unsupported_text(unknown, first))


def _unsupported_text(unknown: Counter[tuple[str, str, int]], first: Mapping[tuple[str, str, int], str]) -> str:
    lines = [f"{len(unknown)} operator{'s' if len(unknown) > 1 else ''} of this model cannot be read:"]
    for operator, count in list(unknown.items())[:_UNSUPPORTED_LIMIT]:
        domain, name, version = operator
        times = f"{count} nodes, first at" if count > 1 else "at"
        reason = _unknown_reason(domain, name, version)
        title = f"{printable(domain) or 'ai.onnx'}::{printable(name)} version {version}"
        lines.append(f"  {title}: {times} {first[operator]}{reason}")
    if len(unknown) > _UNSUPPORTED_LIMIT:
        lines.append(f"  and {len(unknown) - _UNSUPPORTED_LIMIT} more")
    return "\n".join(lines)


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
