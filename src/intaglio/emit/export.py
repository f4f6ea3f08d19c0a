"""`export`: from a model to a folder of source, weights and a README."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from intaglio.emit.names import comment
from intaglio.emit.pythonic.block import UnprintableError, Writer, write_node
from intaglio.emit.weights import Format, write_weights
from intaglio.errors import InputError, ShapeError, UnsupportedError
from intaglio.ir.clone import clone
from intaglio.ir.expand import expand_node, expand_until
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Array
from intaglio.ir.text import summary
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify as simplify_graph
from intaglio.runtime.engine.specialise import fix_sizes
from intaglio.runtime.model.sources import as_source

CWeights = Literal["c", "object", "bin", "extern"]
"""How C has its weights: as text, linked as they are, given by the caller, or declared for another file to define."""

LANGUAGES: dict[str, str] = {
    name: f"intaglio.emit.{name}.module" for name in ("python", "torch", "c", "zig", "wasm", "onnx")
}
"""The languages, and the modules that write them."""


@dataclass
class Exported:
    """What was written: the folder, its files, and what should be known about it."""

    folder: Path
    language: str
    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Source:
    """What a language makes of a graph: files by name, and the arrays of the weights."""

    files: dict[str, str]
    weights: Mapping[str, Array]
    readme: str
    notes: list[str] = field(default_factory=list)
    save: Callable[[Path], list[str]] | None = None


@dataclass
class ExportRequest:
    """What a language is asked for: the graph, its name, the file of weights, and what only it takes."""

    graph: Graph
    name: str
    weights: Any
    outputs: list[str] = field(default_factory=list[str])
    """The names of the outputs in the model's file."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    phases: dict[str, str] = field(default_factory=dict[str, str])
    """The graph as text after each phase, where that is wanted."""
    given: Any = None
    """What the graph was read from."""
    is_changed: bool = False
    """Whether the graph was simplified, or its sizes were fixed."""


def export(
    model: Any,
    to: str,
    folder: str | os.PathLike[str],
    *,
    simplify: bool = True,
    disable: Collection[str] = (),
    weights: Format | CWeights | None = None,
    debug: bool = False,
    base_folder: str | os.PathLike[str] | None = None,
    dims: Mapping[str, int] | None = None,
    **options: Any,
) -> Exported:
    """Write a model as source of a language into a folder, and tell what was written.

    `model` is what `intaglio.load` takes, or a loaded model. `to` is "python" (one module that needs NumPy), "torch"
    (modules of PyTorch), "c", "zig", "wasm" or "onnx". `simplify=False` writes the model as it is in its file,
    `disable` leaves out passes by name. `weights` is "npz" or "safetensors", for C "c", "object", "bin" or "extern".
    `dims` gives numbers to sizes that have names. With `debug`, the graph after each phase is written to files too.

    ONNX takes `opset`, `external_data` (tensors of at least so many bytes lie in a file of their own) and `functions`
    ("inline", or "keep" for a model that is written as it is). C takes `style` ("readable" or "fast"), `target` and
    `threads` (of fast code; for wasm too), `prefix` (of all names), `globals=False` (memory and weights are given by
    the caller), `heap` (bytes for tensors whose sizes data tells; for wasm too), `measure` (compile to tell the size of
    the code) and `program_memory` (constants where AVR has its code).

    Raises UnsupportedError with all nodes that the language has no words for.
    """
    request = prepared(
        model, to, simplify=simplify, disable=disable, dims=dims, options=options, weights=weights, debug=debug,
        base_folder=base_folder,
    )  # fmt: skip
    source: Source = importlib.import_module(LANGUAGES[to]).write(request)
    if debug:
        request.phases["written"] = summary(request.graph)
    return _write(Path(folder), to, source, request.weights, request.phases)


def prepared(
    model: Any,
    to: str,
    *,
    options: Mapping[str, Any],
    simplify: bool = True,
    disable: Collection[str] = (),
    weights: Any = None,
    dims: Mapping[str, int] | None = None,
    debug: bool = False,
    base_folder: str | os.PathLike[str] | None = None,
) -> ExportRequest:
    """What a language is asked for, with the graph read and simplified."""
    if to not in LANGUAGES:
        raise InputError(f"there is no language {to!r}; expected {', '.join(LANGUAGES)}")
    module, given = importlib.import_module(LANGUAGES[to]), _options_for(to, options)
    graph, name = _graph_of(model, base_folder)
    outputs = [value.name for value in graph.outputs]
    phases = {"imported": summary(graph)} if debug else {}
    if simplify:
        left_out = [*disable, *(each for each in module.LEFT_OUT if each not in disable)]
        simplify_graph(graph, disable=left_out)
        phases |= {"simplified": summary(graph)} if debug else {}
    graph = fix_sizes(graph, dims or {})
    is_changed = simplify or bool(dims)
    return ExportRequest(graph, name, weights or module.WEIGHTS, outputs, given, phases, model, is_changed)


def _options_for(language: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a language that were given; raises InputError for those of others."""
    given = {name: value for name, value in options.items() if value is not None}
    owners = {name: each for each in OPTIONS for name in OPTIONS[each]}
    for name in given:
        if name not in owners:
            raise InputError(f"there is no option {name!r}; expected {', '.join(owners)}")
        if name not in OPTIONS.get(language, ()):
            raise InputError(f"{name} is for {owners[name]}, not for {language}")
    return given


OPTIONS: dict[str, tuple[str, ...]] = {
    "onnx": ("opset", "external_data", "functions"),
    "wasm": ("heap", "threads"),
    "c": ("style", "target", "threads", "prefix", "globals", "heap", "measure", "program_memory"),
}
"""What a language takes besides what every language takes."""


def _graph_of(model: Any, base_folder: str | os.PathLike[str] | None) -> tuple[Graph, str]:
    """A graph of its own that may be changed, and the name of the model."""
    held = getattr(model, "graph", None)
    if isinstance(model, Graph):
        graph = clone(model)
    elif isinstance(held, Graph):
        graph = clone(held)
    else:
        graph = read_model(as_source(model), base_folder=base_folder).graph
    is_path = isinstance(model, (str, os.PathLike))
    return graph, comment(Path(model).stem if is_path else graph.name)


def _write(target: Path, language: str, source: Source, weights: Any, phases: Mapping[str, str]) -> Exported:
    files = {**source.files, "README.md": source.readme}
    files |= {f"graph.{number}-{name}.txt": text for number, (name, text) in enumerate(phases.items())}
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (target / name).write_text(text, encoding="utf-8")
        names = [*([] if source.save is None else source.save(target)), *files]
        if source.weights:
            names.append(f"weights.{weights}")
            write_weights(target / names[-1], source.weights, weights)
    except OSError as error:
        raise InputError(f"{str(target)!r} cannot be written: {error.strerror or error}") from None
    return Exported(target, language, names, source.notes)


def make_printable(graph: Graph, write: Callable[[Node], object]) -> None:
    """Expand what a language has no words for; raises UnsupportedError with all nodes for which nothing helps."""

    def handles(node: Node) -> bool:
        try:
            write(node)
        except UnprintableError:
            return False
        return True

    refused = expand_until(graph, handles, expand=expand_or_refuse, bodies=True)
    if not refused:
        return
    lines = [f"{len(refused)} nodes cannot be said:"]
    for node, reason in list(refused.items())[:20]:
        lines.append(f"  {node.op.name} at {comment(str(node.origin))}: {comment(reason)}")
    raise UnsupportedError("\n".join(lines))


def expand_or_refuse(node: Node) -> None:
    """Expand a node; raises UnsupportedError where its expansion needs sizes that are not known."""
    try:
        expand_node(node)
    except ShapeError as error:
        raise UnsupportedError(str(error)) from None


def print_alone(node: Node, graph: Graph, writer: Writer) -> None:
    """Print one node for nobody, to find out whether there are words for it; raises UnprintableError where not."""
    if next(node.op.subgraphs(), None) is not None:
        if (node.op.domain, node.op.name) not in writer.language.printers:
            raise UnprintableError(f"{node.op.name} has no words")
        return
    writer.texts = _AnyName()
    writer.symbols = _AnySize(graph.inputs[0] if graph.inputs else node.outputs[0])
    write_node(node, writer)


class _AnyName(dict[Value, str]):
    """A name for every value."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: Value) -> str:
        return "x"


class _AnySize(dict[str, tuple[str, Value]]):
    """A text for every size."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self._value = value

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> tuple[str, Value]:
        return "x.shape[0]", self._value
