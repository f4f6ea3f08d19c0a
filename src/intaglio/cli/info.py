"""`intaglio info`: what a model is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from intaglio.cli.session import source_of
from intaglio.cli.terminal import JsonOption, ModelArgument, print_json, print_pairs, print_table, size
from intaglio.ir.graph import Graph, Value
from intaglio.onnx.reader import read_model
from intaglio.runtime.artifact.reading import Compiled, is_compiled, read_compiled
from intaglio.runtime.engine.guard import guard_files


def info(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Show a model's inputs, outputs, operators, parameters and metadata."""
    report = describe(model)
    print_json(report) if as_json else _show(report)


def describe(model: str) -> dict[str, Any]:
    """What a model is, as data; of a compiled one also how it was compiled. None of its code is run."""
    guard_files()
    source = source_of(model)
    compiled = read_compiled(source) if is_compiled(source) else None
    imported = read_model(source) if compiled is None else compiled.imported()
    graph, about = imported.graph, imported.info
    operators = Counter(_operator(node.op.domain, node.op.name) for node in graph.all_nodes())
    parameters = _parameters(graph)
    report = {
        "model": model,
        "graph": graph.name,
        "file_bytes": len(source) if isinstance(source, bytes) else Path(source).stat().st_size,
        "inputs": _signature(graph.inputs),
        "outputs": _signature(graph.outputs),
        "nodes": sum(operators.values()),
        "operators": dict(operators.most_common()),
        "parameters": sum(value.constant.size for value in parameters if value.constant is not None),
        "parameter_bytes": sum(value.constant.nbytes for value in parameters if value.constant is not None),
        "ir_version": about.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in about.opset_imports.items()},
        "producer": f"{about.producer_name} {about.producer_version}".strip(),
        "domain": about.domain,
        "model_version": about.model_version,
        "description": about.doc or graph.doc,
        "metadata": dict(about.metadata_props),
        "warnings": list(about.warnings),
    }
    return report if compiled is None else report | {"compiled": _compiled(compiled)}


def _compiled(compiled: Compiled) -> dict[str, Any]:
    """How a model was compiled."""
    libraries = [library for library, _ in compiled.libraries if not isinstance(library, str)]
    return {
        "version": compiled.version,
        "target": compiled.executor.target.name,
        "extensions": sorted(compiled.executor.target.features),
        "exact": compiled.exact,
        "donate": dict(compiled.donate),
        "functions": sum(len(functions) for _, functions in compiled.libraries),
        "code_bytes": sum(library.nbytes for library in libraries),
        "needs_graph": compiled.stored is None,
    }


def _operator(domain: str, name: str) -> str:
    return f"{domain}.{name}" if domain else name


def _parameters(graph: Graph) -> list[Value]:
    """Every constant of the graph and its subgraphs, once."""
    found = dict.fromkeys(graph.constants())
    for node in graph.all_nodes():
        found.update((v, None) for v in node.inputs if v is not None and v.constant is not None)
    return list(found)


def _signature(values: Iterable[Value]) -> list[dict[str, Any]]:
    return [{"name": v.name, "type": str(v.type), "has_default": v.default is not None} for v in values]


def _compiled_pairs(compiled: dict[str, Any] | None) -> list[tuple[str, object]]:
    if compiled is None:
        return []
    target = " + ".join([compiled["target"], *compiled["extensions"]])
    code = f"{compiled['functions']} functions, {size(compiled['code_bytes'])}"
    rounding = ", exact" if compiled["exact"] else ""
    return [("compiled", f"by Intaglio {compiled['version']} for {target}{rounding}; {code} of machine code")]


def _show(report: dict[str, Any]) -> None:
    opsets = ", ".join(f"{domain} {version}" for domain, version in report["opsets"].items())
    pairs: list[tuple[str, object]] = [
        ("model", f"{report['model']} ({size(report['file_bytes'])})"),
        *_compiled_pairs(report.get("compiled")),
        ("graph", report["graph"]),
        ("operator sets", f"{opsets} (IR version {report['ir_version']})"),
        ("parameters", f"{report['parameters']:,} ({size(report['parameter_bytes'])})"),
        ("producer", report["producer"]),
        ("domain", report["domain"]),
        ("version", report["model_version"] or ""),
        ("description", report["description"]),
        *((f"metadata {key}", value) for key, value in report["metadata"].items()),
        *(("warning", text) for text in report["warnings"]),
    ]
    print_pairs((name, value) for name, value in pairs if value != "")
    rows = [
        ("input", v["name"], v["type"] + (" (has a default)" if v["has_default"] else "")) for v in report["inputs"]
    ]
    rows += [("output", v["name"], v["type"]) for v in report["outputs"]]
    print_table("\nSignature", ("", "name", "type"), rows)
    print_table(f"{report['nodes']} nodes", ("operator", "#count"), report["operators"].items())
