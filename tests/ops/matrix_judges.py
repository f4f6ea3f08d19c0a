"""Who judges the cells of the matrix, and how results are compared."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

from intaglio.ir.build import type_of
from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.types import TensorType, Type
from intaglio.ir.verify import is_compatible
from intaglio.onnx.reader import read_model
from intaglio.runtime.model.loading import load

from .matrix import Cell, Feeds, Problem, Schema, allowed, cast, cell_of, is_array, problem_of, schema_of, versions
from .matrix_recipes import element, unwrapped

STEPS = {"float64": 1e-6, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""How far results may differ, relative to their size."""

_STATE: Any = onnxruntime.capi.onnxruntime_pybind11_state  # pyright: ignore[reportAttributeAccessIssue]
REFUSALS = (_STATE.NotImplemented, _STATE.InvalidGraph, _STATE.Fail, _STATE.InvalidArgument,
            _STATE.RuntimeException, RuntimeError, TypeError)  # fmt: skip
"""How ONNX Runtime says no; the last for types that it cannot make a NumPy array of."""


def is_foreign(text: str) -> bool:
    """Whether NumPy knows an element type only by `ml_dtypes`."""
    return text.startswith("tensor(") and element(text).is_narrow


def carrier(text: str) -> int:
    """The element type in which numbers of a narrow type go into ONNX Runtime and come out."""
    return onnx.TensorProto.INT32 if element(text).is_integer else onnx.TensorProto.FLOAT


def for_runtime(problem: Problem) -> tuple[onnx.ModelProto, Feeds]:
    """The model with casts around it wherever ONNX Runtime exchanges no arrays of a type."""
    model, feeds = onnx.ModelProto(), dict(problem.feeds)
    model.CopyFrom(problem.model)
    graph, before, after = model.graph, [], []
    for info in graph.input:
        number = info.type.tensor_type.elem_type
        text = f"tensor({onnx.TensorProto.DataType.Name(number).lower()})"
        if info.type.HasField("tensor_type") and is_foreign(text):
            carried, info.type.tensor_type.elem_type = f"{info.name}_carried", carrier(text)
            before.append(helper.make_node("Cast", [carried], [info.name], to=number))
            feeds[carried] = feeds.pop(info.name).astype(helper.tensor_dtype_to_np_dtype(carrier(text)))
            info.name = carried
    for output, text in zip(graph.output, problem.results, strict=True):
        if is_foreign(text):
            after.append(helper.make_node("Cast", [output.name], [f"{output.name}_carried"], to=carrier(text)))
            output.name += "_carried"
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return model, feeds


def ask_runtime(problem: Problem) -> list[Any] | None:
    """What ONNX Runtime computes; None where it does not take the operator, its version or its types."""
    model, feeds = for_runtime(problem)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        found: list[Any] = list(session.run(None, feeds))
    except REFUSALS:
        return None
    pairs = zip(found, problem.results, strict=True)
    return [item.astype(element(text).numpy) if is_foreign(text) else item for item, text in pairs]


def ask_evaluator(problem: Problem) -> list[Any] | None:
    """What ONNX's reference evaluator computes; None where it fails."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = list(ReferenceEvaluator(problem.model).run(None, problem.feeds))
        except Exception:  # it fails in many ways on inputs that are valid
            return None
    pairs = zip(found, problem.results, strict=True)
    return [item[0] if text.startswith("optional(") and isinstance(item, list) else item for item, text in pairs]


def sibling(cell: Cell) -> Cell | None:
    """The cell in 64-bit types, or in others where it has those already; None where its version has no others."""
    options = allowed(cell.schema)
    for order in (WIDE, PLAIN):
        types = tuple((variable, _among(text, options[variable], order)) for variable, text in cell.types)
        if types != cell.types:
            return Cell(cell.domain, cell.name, cell.version, types)
    return None


WIDE = {"float": ("double", "float"), "int": ("int64", "int32", "double"), "uint": ("uint64", "int64", "double"),
        "complex": ("complex128",)}  # fmt: skip
PLAIN = {"float": ("float",), "int": ("int32",), "uint": ("uint32", "uint8"), "complex": ("complex64",)}
"""The element types in which results are computed again, by kind, the first that is allowed."""


def _among(text: str, options: list[str], order: dict[str, tuple[str, ...]]) -> str:
    kind = element(text).kind if text.startswith("tensor(") else ""
    return next((f"tensor({name})" for name in order.get(kind, ()) if f"tensor({name})" in options), text)


def with_values(cell: Cell, feeds: Feeds) -> Problem:
    """A cell fed with the numbers of another one, in its own types."""
    own = problem_of(cell)
    values = {
        name: cast(value, from_array(own.feeds[name])) if is_array(value) else value for name, value in feeds.items()
    }
    return problem_of(cell, values=values)


def from_array(array: Any) -> DType:
    """The element type of an array."""
    return from_numpy(array.dtype)


def newer(cell: Cell) -> Cell | None:
    """The same types in the next version, where the recipe gives the same there."""
    later = [s for s in versions()[(cell.domain, cell.name)] if s.since_version > cell.version]
    if not later or later[0].since_version in cell.recipe.changes:
        return None
    options, wanted = allowed(later[0]), dict(cell.types)
    if set(options) != set(wanted) or any(wanted[v] not in texts for v, texts in options.items()):
        return None
    return cell_of(later[0], wanted)


DISTRUSTED = (
    ("runtime", "Bernoulli", "", "gives ones with the probability 1 - p, after ONNX's function body"),
    ("runtime", "Dropout-10", "", "gives a mask of zeros for data that all stay"),
    ("runtime", "Gather", "string", "copies only the first string of each slice"),
    ("runtime", "Loop", "string", "gives empty strings from the second trip on"),
    ("evaluator", "CenterCropPad", "string", "pads strings with the number 0"),
    ("evaluator", "DictVectorizer", "", "gives a vector instead of a row"),
    ("evaluator", "LRN", "", "leaves out the last channels"),
    ("evaluator", "Loop", "", "joins the outputs of the trips instead of stacking them"),
)
"""What a judge gets wrong: its name, the operator, a type, and how it is wrong."""


def is_trusted(judge: str, cell: Cell) -> bool:
    """Whether a judge may judge a cell."""
    title = f"{cell.name}-{cell.version}-"
    return not any(
        judge == by and title.startswith(f"{name}-") and text in str(cell) for by, name, text, _ in DISTRUSTED
    )


def run_reference(problem: Problem) -> list[Any]:
    """What our reference engine computes."""
    return list(load(problem.model, engine="reference").run(problem.feeds).values())


def inference_difference(problem: Problem, results: list[Any]) -> str:
    """Where the types that we infer do not fit what was computed."""
    pairs = zip(read_model(problem.model).graph.outputs, results, strict=True)
    wrong = [f"{value.type} is inferred for {type_of(item)}" for value, item in pairs if not fits(value.type, item)]
    return "; ".join(wrong)


def fits(type: Type, result: Any) -> bool:
    """Whether an inferred type is that of a tensor; other results are not looked into."""
    return not is_array(result) or not isinstance(type, TensorType) or is_compatible(type_of(result), type)


def opinions(cell: Cell, problem: Problem) -> Iterator[tuple[str, list[Any] | None]]:
    """Judges and what they compute, the best first; None for one that does not take the cell.

    After ONNX Runtime comes ONNX's reference evaluator, for the newest version only, since it knows no others; then the
    next version, then our own result in another type.
    """
    if is_trusted("runtime", cell):
        yield "runtime", ask_runtime(problem)
    if is_trusted("evaluator", cell) and cell.schema is newest(cell):
        yield "evaluator", ask_evaluator(problem)
    if (later := newer(cell)) is not None:
        yield "newer version", run_reference(problem_of(later))
    if (other := sibling(cell)) is not None:
        found = run_reference(with_values(other, problem.feeds))
        pairs = zip(found, problem.results, strict=True)
        yield "other type", [cast(item, element(text)) if is_array(item) else item for item, text in pairs]


def newest(cell: Cell) -> Schema:
    """The newest version of a cell's operator."""
    last = versions()[(cell.domain, cell.name)][-1]
    return schema_of(cell.domain, cell.name, last.since_version)


def judge(cell: Cell, problem: Problem, ours: list[Any]) -> tuple[str, str]:
    """Who judged the results of a cell, and what is wrong with them."""
    for name, theirs in opinions(cell, problem):
        if theirs is not None and not type_differences(theirs, problem.results):
            return name, differences(ours, theirs, tolerance(cell))
    return "nobody", ""


# Comparison


def step_of(dtype: DType) -> float:
    """How far results of a type may differ, relative to their size."""
    if dtype.name in STEPS:
        return STEPS[dtype.name]
    if dtype.kind == "complex":
        return 1e-5
    return float(ml_dtypes.finfo(dtype.numpy).eps) if dtype.is_float else 0.0


def tolerance(cell: Cell) -> float:
    """How far results may differ: as far as the coarsest of the cell's types that is computed in."""
    steps = [STEPS.get(element(text).name, 0.0) for _, text in cell.types if text.startswith("tensor(")]
    return max([cell.recipe.rtol, *steps])


def differences(ours: list[Any], theirs: list[Any], rtol: float) -> str:
    """What lists of results do not agree in."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    return "; ".join(filter(None, (difference(a, b, rtol) for a, b in zip(ours, theirs, strict=True))))


def difference(ours: Any, theirs: Any, rtol: float) -> str:
    """What two results do not agree in; empty where they agree."""
    if isinstance(theirs, list):
        return differences(ours, theirs, rtol) if isinstance(ours, list) else f"{ours!r} instead of {theirs!r}"
    if isinstance(theirs, dict):
        if not isinstance(ours, dict) or list(ours) != list(theirs):
            return f"{ours!r} instead of {theirs!r}"
        return differences([*ours.values()], [*theirs.values()], rtol)
    if theirs is None or isinstance(theirs, str):
        return "" if ours == theirs else f"{ours!r} instead of {theirs!r}"
    return array_difference(np.asarray(ours), np.asarray(theirs), rtol)


def array_difference(ours: Any, theirs: Any, rtol: float) -> str:
    """What two arrays do not agree in."""
    if ours.shape != theirs.shape:
        return f"shape {ours.shape} instead of {theirs.shape}"
    if ours.dtype == object:
        is_same = ours.tolist() == theirs.tolist()
    elif ours.dtype.kind in "iub" or from_array(ours).is_integer:
        is_same = bool(np.all(ours.astype(object) == theirs.astype(object)))
    else:
        wide = np.complex128 if ours.dtype.kind == "c" else np.float64
        limit = max(rtol, step_of(from_array(ours)))
        is_same = np.allclose(ours.astype(wide), theirs.astype(wide), rtol=limit, atol=limit, equal_nan=True)
    return "" if is_same else f"{ours.tolist()} instead of {theirs.tolist()}"


def type_differences(results: list[Any], texts: tuple[str, ...]) -> str:
    """What results have not in common with the types that a schema demands."""
    if len(results) != len(texts):
        return f"{len(results)} results instead of {len(texts)}"
    return "; ".join(filter(None, (type_difference(item, text) for item, text in zip(results, texts, strict=True))))


def type_difference(result: Any, text: str) -> str:
    """What a result has not in common with a type as schemas spell it."""
    if text.startswith("optional("):
        return "" if result is None else type_difference(result, unwrapped(text))
    if text.startswith("seq("):
        if not isinstance(result, list):
            return f"{type(result).__name__} instead of {text}"
        return type_differences(result, (unwrapped(text),) * len(result))
    if text.startswith("map("):
        return "" if isinstance(result, dict) else f"{type(result).__name__} instead of {text}"
    if not isinstance(result, (np.ndarray, np.generic)):
        return f"{type(result).__name__} instead of an array"
    kind = element(text)
    is_right = result.dtype == kind.numpy or (kind.kind == "string" and result.dtype.kind in "OUS")
    return "" if is_right else f"{result.dtype} instead of {text}"


def is_finite(result: Any) -> bool:
    """Whether all numbers in a result are finite."""
    if isinstance(result, (list, dict)):
        return all(is_finite(item) for item in (result.values() if isinstance(result, dict) else result))
    if not is_array(result) or result.dtype == object or from_array(result).is_integer:
        return True
    wide = np.complex128 if result.dtype.kind == "c" else np.float64
    return bool(np.isfinite(result.astype(wide)).all())
