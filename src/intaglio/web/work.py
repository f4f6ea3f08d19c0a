"""What jobs do: runs, profiles, tools, source code, comparisons."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from onnx import ModelProto

from intaglio import tools
from intaglio.emit.export import LANGUAGES, export
from intaglio.errors import InputError, IntaglioError
from intaglio.runtime.engine.engine import EngineName
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model
from intaglio.runtime.model.random_inputs import make_feeds
from intaglio.tools.document import Document
from intaglio.tools.profiling import profile
from intaglio.web.arguments import decoded, numbers_by_name
from intaglio.web.costs import profile_json
from intaglio.web.jobs import Job
from intaglio.web.opening import Opened
from intaglio.web.paths import NodePaths
from intaglio.web.session import OpenModel, Session
from intaglio.web.tensors import tensor_facts

MOST_TENSORS = 2_000
MOST_RUNS = 10_000
MOST_SOURCE = 8 << 20
"""Characters of generated source that the page is sent of one file."""
MOST_KEPT_BYTES = 512 << 20
"""Tensors of a run that are kept to be looked at."""

Json = dict[str, Any]
Work = Callable[[Job], Json]


def loaded(model: OpenModel, job: Job, engine: EngineName | None = None, **options: Any) -> Model:
    """The model as it is now, ready to run; its compiling is the job's progress."""
    job.say("compiling")
    message = snapshot(model)
    return load(message, base_folder=model.document.folder, engine=engine, progress=job.progress, **options)


def snapshot(model: OpenModel) -> ModelProto:
    """The model as it is now as one message."""
    with model.lock:
        return model.document.message()


def run_work(model: OpenModel, request: Mapping[str, Any]) -> Work:
    """A run: outputs and the tensors that were asked for; `against` compares with another runtime."""
    names = wanted_names(request)
    dims, seed = numbers_by_name(request.get("dims")), whole(request, "seed", 0)
    against = request.get("against")
    given = given_inputs(request)

    def work(job: Job) -> Json:
        ready = loaded(model, job, simplify=not names)
        feeds = given | make_feeds(ready.graph, given, dims, seed)
        job.say("running")
        outputs = [item.name for item in ready.outputs]
        found = ready.run(feeds, [*dict.fromkeys([*outputs, *names])])
        job.kept = _within({**{name: np.asarray(value) for name, value in feeds.items() if _is_array(value)},
                            **{name: value for name, value in found.items() if _is_array(value)}})  # fmt: skip
        result: Json = {
            "inputs": [_summary(name, value) for name, value in feeds.items()],
            "outputs": [_summary(name, found[name]) for name in outputs],
            "tensors": [_summary(name, found[name]) for name in names],
            "nodes": _made_by(model.document, found),
        }
        if against is not None:
            result["against"] = _compared(model, job, str(against), feeds)
        return result

    return work


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _within(arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays that fit in what is kept, in order."""
    kept, total = dict[str, np.ndarray[Any, Any]](), 0
    for name, array in arrays.items():
        total += array.nbytes
        if total > MOST_KEPT_BYTES:
            break
        kept[name] = array
    return kept


def wanted_names(request: Mapping[str, Any]) -> list[str]:
    """The tensors that a request names; raises InputError."""
    names: Any = request.get("tensors", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in cast("list[Any]", names)):
        raise InputError("tensors is a list of names")
    if len(cast("list[str]", names)) > MOST_TENSORS:
        raise InputError(f"a run gives at most {MOST_TENSORS} tensors at a time")
    return cast("list[str]", names)


def given_inputs(request: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a request that are not to be made up; raises InputError."""
    inputs: Any = request.get("inputs", {})
    if not isinstance(inputs, dict):
        raise InputError("inputs is an object of values by name")
    found: dict[str, Any] = {}
    for name, value in cast("Json", inputs).items():
        if value != "random":
            fields: Any = value
            is_json = isinstance(fields, dict) and set(cast("Json", fields)) == {"json"}
            found[name] = cast("Json", fields)["json"] if is_json else decoded(value, _no_model)
    return found


def _no_model(id: str) -> Any:
    raise InputError(f"model {id[:40]!r} is no input")


def whole(request: Mapping[str, Any], name: str, default: int, most: int = 1 << 31) -> int:
    """A whole number of a request; raises InputError."""
    found = request.get(name, default)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= most:
        raise InputError(f"{name} is {str(found)[:40]!r}, expected a whole number from 0 to {most}")
    return found


def _summary(name: str, value: Any) -> Json:
    if not _is_array(value):
        return {"name": name, "dtype": type(value).__name__, "shape": [], "values": [str(value)[:4000]], "total": 1}
    facts = tensor_facts(name, value, 0, 64)
    facts.pop("filters", None)
    return {"name": name, **facts}


def _made_by(document: Document, names: Mapping[str, Any]) -> Json:
    paths = NodePaths(document)
    return {name: number for name in names if (number := paths.maker(name)) is not None}


def _compared(model: OpenModel, job: Job, against: str, feeds: Mapping[str, Any]) -> Json:
    """How far the run is from another runtime, and the first node that differs."""
    if against not in ("ort", "reference"):
        raise InputError(f"a run is compared with 'ort' or 'reference', not {against[:40]!r}")
    job.say(f"comparing with {'ONNX Runtime' if against == 'ort' else 'the reference'}")
    with model.lock:
        document = model.document.copy()
    found = tools.compare(document, against, feeds=feeds, progress=lambda _, done, total: job.progress(done, total))
    paths = NodePaths(document)
    rows = [each.to_dict() | {"id": paths.maker(each.name)} for each in [*found.outputs, *found.tensors]]
    first = None if found.first is None else {"tensor": found.first.tensor, "id": paths.maker(found.first.tensor)}
    return plain({"equal": found.is_equal, "rows": rows, "first": first, "notes": found.notes})


def profile_work(model: OpenModel, request: Mapping[str, Any]) -> Work:
    """Where the time of runs goes."""
    dims, runs = numbers_by_name(request.get("dims")), whole(request, "runs", 20, MOST_RUNS)

    def work(job: Job) -> Json:
        ready = loaded(model, job)
        job.say("running")
        found = profile(ready, None, max(1, runs), dims=dims, progress=job.progress)
        return profile_json(model.document, ready, found)

    return work


def source_work(model: OpenModel, to: str) -> Work:
    """The model as source of a language; `native` is the C that runs here, with the lines of each node."""
    if to != "native" and to not in LANGUAGES:
        raise InputError(f"there is no language {to[:40]!r}; expected native, {', '.join(LANGUAGES)}")

    def native(job: Job) -> Json:
        ready = loaded(model, job)
        text, paths, lines = ready.c_source(), NodePaths(model.document), dict[str, list[Any]]()
        for each in ready.lineage():
            for number in paths.numbers(each.path)[:1] if each.code else ():
                lines.setdefault(str(number), ["kernels.c", each.code[0].first_line, each.code[0].last_line])
        return {"files": [{"name": "kernels.c", "text": text[:MOST_SOURCE]}], "lines": lines}

    def exported(job: Job) -> Json:
        job.say("exporting")
        with tempfile.TemporaryDirectory() as folder:
            written = export(snapshot(model), to, Path(folder) / "made", base_folder=model.document.folder)
            files = [{"name": name, "text": text} for name in sorted(written.files)
                     if (text := _text(written.folder / name)) is not None]  # fmt: skip
        return {"files": files, "notes": written.notes}

    return native if to == "native" else exported


def _text(path: Path) -> str | None:
    """The text of a file; None for weights and others that are no text."""
    if not path.is_file() or path.suffix in (".npz", ".safetensors", ".bin", ".o", ".onnx", ".wasm"):
        return None
    try:
        return path.read_text("utf-8")[:MOST_SOURCE]
    except (OSError, UnicodeDecodeError):
        return None


def _simplify(model: OpenModel, options: Json) -> tuple[Any, Any]:
    dims = numbers_by_name(options.get("dims"))
    made = tools.simplify(snapshot(model), dims=dims, exact=bool(options.get("exact")), base_folder=_folder(model))
    counts = {"before": sum(made.before.operators.values()), "after": sum(made.after.operators.values())}
    return made.message(), {"nodes": counts, "notes": made.notes, "rules": str(made.report)[:20_000]}


def _make_dynamic(model: OpenModel, options: Json) -> tuple[Any, Any]:
    name = str(options.get("name", "batch"))
    made = tools.make_dynamic(
        snapshot(model), axis=whole(options, "axis", 0, 16), name=name, base_folder=_folder(model)
    )
    return made.message(), {"name": made.name, "inputs": made.inputs, "outputs": made.outputs, "changed": made.changed}


def _set_opset(model: OpenModel, options: Json) -> tuple[Any, Any]:
    made = tools.set_opset(_copy(model), whole(options, "version", 21, 1000))
    return made.document, made.report


def _set_dtype(model: OpenModel, options: Json) -> tuple[Any, Any]:
    made = tools.set_dtype(snapshot(model), str(options.get("to", "float16")), base_folder=_folder(model))
    differences = [str(each) for each in made.differences]
    return made.message(), {"casts": made.casts, "kept": made.kept, "notes": made.notes, "differences": differences}


def _prune(model: OpenModel, options: Json) -> tuple[Any, Any]:
    del options
    made = tools.prune(_copy(model))
    return made.document, made.report


def _dedupe(model: OpenModel, options: Json) -> tuple[Any, Any]:
    del options
    made = tools.dedupe(_copy(model))
    return made.document, made.report


def _inline(model: OpenModel, options: Json) -> tuple[Any, Any]:
    del options
    made = tools.inline(_copy(model))
    return made.document, made.report


def _lint(model: OpenModel, options: Json) -> tuple[Any, Any]:
    del options
    found = tools.lint(_copy(model))
    paths = NodePaths(model.document)
    rows = [{"id": next(iter(paths.numbers(each.where)), None), "rule": each.rule, "severity": each.severity,
             "where": each.where, "text": each.text, "remedy": each.remedy} for each in found.found]  # fmt: skip
    return None, rows


TOOLS: dict[str, Callable[[OpenModel, Json], tuple[Any, Any]]] = {
    "simplify": _simplify,
    "make-dynamic": _make_dynamic,
    "set-opset": _set_opset,
    "set-dtype": _set_dtype,
    "prune": _prune,
    "dedupe": _dedupe,
    "inline": _inline,
    "lint": _lint,
}
"""The tools that have a button: each gives a new model or None, and a report."""


def tool_work(session: Session, model: OpenModel, tool: str, options: Json) -> Work:
    """What a tool makes of the model, which is opened as another one; raises InputError for an unknown tool."""
    if tool not in TOOLS:
        raise InputError(f"there is no tool {tool[:40]!r}; there are {', '.join(TOOLS)}")

    def work(job: Job) -> Json:
        job.say(tool)
        made, report = TOOLS[tool](model, options)
        job.check()
        if made is None:
            return {"model": None, "report": plain(report)}
        document = made if isinstance(made, Document) else tools.read_document(made, base_folder=_folder(model))
        name = f"{Path(model.opened.name).stem}.{tool}.onnx"
        new = session.add(Opened(document, name, tool, None, 0), "tool")
        return {"model": new.id, "report": plain(report)}

    return work


def _folder(model: OpenModel) -> Path | None:
    return model.document.folder


def _copy(model: OpenModel) -> Document:
    with model.lock:
        return model.document.copy()


def plain(data: Any) -> Any:
    """Data as JSON can spell it: what it has no form for is text."""
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in cast("Mapping[Any, Any]", data).items()}
    if isinstance(data, (list, tuple)):
        return [plain(value) for value in cast("list[Any]", data)]
    if isinstance(data, float):
        return data if np.isfinite(data) else str(data)
    return data if isinstance(data, (str, int, bool)) or data is None else str(data)


def type_texts(model: OpenModel, dims: Mapping[str, int]) -> Json:
    """The types of values when sizes that have names are numbers; raises InputError where that cannot be."""
    from intaglio.tools.editing.types import type_text, value_types

    document = _copy(model)
    for info in [*document.graph.inputs, *document.graph.outputs, *document.graph.infos]:
        for dim in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]
    try:
        return {name: type_text(info) for name, info in value_types(document).items()}
    except IntaglioError as error:
        raise InputError(f"these sizes do not fit: {error}") from None
