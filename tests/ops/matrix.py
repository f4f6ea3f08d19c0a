"""Operators x versions x types: one-node models for all that `onnx.defs` allows, and who judges them.

`python -m tests.ops.matrix` prints which of them the native engine leaves to the host, and why.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from intaglio.errors import IntaglioError
from intaglio.ir.dtype import DTYPES, DType, from_numpy
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.runtime.native import NativeEngine

from . import matrix_ml as matrix_ml
from .matrix_recipes import ML, PREVIEW, RECIPES, TRAINING, Data, Recipe, element, packed, type_proto, unwrapped

Schema = Any
Feeds = dict[str, Any]

PREFERRED = ("tensor(float)", "tensor(int64)", "tensor(bool)", "tensor(int32)", "tensor(uint8)", "seq(tensor(float))")
"""The types of variables that are not varied, the first that is allowed."""
COMPANIONS = {ML: 21, PREVIEW: 26, TRAINING: 21}
"""The version of ai.onnx that models of another domain import too."""
STEPS = {"float64": 1e-6, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""How far results may differ, relative to their size."""

_STATE = onnxruntime.capi.onnxruntime_pybind11_state
REFUSALS = (_STATE.NotImplemented, _STATE.InvalidGraph, _STATE.Fail, _STATE.InvalidArgument, RuntimeError, TypeError)
"""How ONNX Runtime says no; the last for types that it cannot make a NumPy array of."""


@dataclass(frozen=True)
class Cell:
    """One operator in one version with one choice of types."""

    domain: str
    name: str
    version: int
    types: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        bound = ", ".join(f"{variable}={text}" for variable, text in self.types)
        return f"{self.domain + '::' if self.domain else ''}{self.name}-{self.version}({bound})"

    @property
    def recipe(self) -> Recipe:
        """How its node is made."""
        return RECIPES[(self.domain, self.name)]

    @property
    def schema(self) -> Schema:
        """ONNX's definition."""
        return schema_of(self.domain, self.name, self.version)


@cache
def schema_of(domain: str, name: str, version: int) -> Schema:
    """A version of an operator."""
    return defs.get_schema(name, version, domain)


@cache
def versions() -> dict[tuple[str, str], list[Schema]]:
    """All versions of all operators, oldest first."""
    found: dict[tuple[str, str], list[Schema]] = {}
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version)):
        found.setdefault((schema.domain, schema.name), []).append(schema)
    return found


def allowed(schema: Schema) -> dict[str, list[str]]:
    """The types that each type variable may be bound to."""
    return {c.type_param_str: sorted(c.allowed_type_strs) for c in schema.type_constraints}


def cells_of(schema: Schema) -> list[Cell]:
    """The default binding, then every type of each variable in turn."""
    recipe, options = RECIPES[(schema.domain, schema.name)], allowed(schema)
    start = {variable: _default(recipe, variable, texts) for variable, texts in options.items()}
    varied = [(variable, text) for variable, texts in options.items() for text in (start[variable], *texts)]
    found = [_cell(schema, recipe.tie(variable, {**start, variable: text})) for variable, text in varied]
    return list(dict.fromkeys(found)) or [_cell(schema, {})]


def _default(recipe: Recipe, variable: str, texts: list[str]) -> str:
    wanted = (recipe.defaults.get(variable, ""), *PREFERRED)
    return next((text for text in wanted if text in texts), texts[0])


def _cell(schema: Schema, types: dict[str, str]) -> Cell:
    named = {c.type_param_str for c in schema.type_constraints}
    bound = tuple((variable, text) for variable, text in types.items() if variable in named)
    return Cell(schema.domain, schema.name, schema.since_version, bound)


def cells(domain: str, name: str) -> list[Cell]:
    """All cells of an operator, the newest version first."""
    return [cell for schema in reversed(versions()[(domain, name)]) for cell in cells_of(schema)]


# Values


def numbers(dtype: DType, data: Data, position: int) -> Any:
    """Made-up elements of a type, between two bounds."""
    rng = np.random.default_rng([position, *data.shape])
    if dtype.kind in ("string", "bool") or dtype.is_integer:
        low = 0 if dtype.kind in ("uint", "string", "bool") else int(np.ceil(data.low))
        whole = rng.integers(max(low, 0 if dtype.kind != "int" else low), int(data.high) + 1, data.shape)
        return cast(whole, dtype)
    spread = rng.uniform(data.low, data.high, data.shape)
    return cast(np.round(spread * 8) / 8, dtype)


def cast(values: Any, dtype: DType) -> Any:
    """Values in a type; narrow integers wrap around, as everywhere."""
    array = np.asarray(values)
    if dtype.kind == "string":
        return array.astype(str).astype(object)
    if array.dtype == object:
        return array
    if dtype.name == "float8e8m0":
        array = np.exp2(np.round(np.clip(array.astype(np.float64), -2, 2)))  # it has powers of two only
    if dtype.bits < 8 and dtype.is_integer:
        array = array.astype(np.int8)
    return np.asarray(array.astype(dtype.numpy))


def value_of(text: str, item: Any, position: int) -> Any:
    """A value of a type as schemas spell it: an array, a list, a dictionary."""
    if text.startswith("optional("):
        return value_of(unwrapped(text), item, position)
    if text.startswith("seq("):
        return [value_of(unwrapped(text), item, position + 7 * i) for i in range(3)]
    if text.startswith("map("):
        return _map_of(text, item, position)
    array = numbers(element(text), item, position) if isinstance(item, Data) else cast(item, element(text))
    array.flags.writeable = False
    return array


def _map_of(text: str, item: Any, position: int) -> dict[Any, Any]:
    key, _, value = text[len("map(") : -1].partition(", ")
    values = numbers(element(value), item, position)
    keys = [0, 2, 7][: len(values)]
    return {str(k) if key == "string" else k: v for k, v in zip(keys, values.tolist(), strict=True)}


# Models


@dataclass(frozen=True)
class Problem:
    """A model of one node, what is fed to it, and the types of its results."""

    model: onnx.ModelProto
    feeds: Feeds
    results: tuple[str, ...]


def resolved(item: Any, cell: Cell) -> Any:
    """An input or attribute of a recipe for one cell."""
    return item(dict(cell.types), cell.version) if callable(item) else item


def formal_type(formals: Any, position: int, cell: Cell) -> str:
    """The type of an input or output by its place."""
    text = formals[min(position, len(formals) - 1)].type_str
    return dict(cell.types).get(text, text)


def is_variadic(formals: Any) -> bool:
    """Whether the last formal may be repeated."""
    return bool(formals) and formals[-1].option.name == "Variadic"


def inputs_of(cell: Cell) -> list[tuple[str, Any, str]]:
    """Name, value (None where left out) and type of each input."""
    formals, items = cell.schema.inputs, [resolved(item, cell) for item in cell.recipe.inputs]
    if not is_variadic(formals):
        items = items[: len(formals)]
    while items and items[-1] is None:
        items.pop()
    found = []
    for i, item in enumerate(items):
        text = formal_type(formals, i, cell)
        found.append(("" if item is None else f"x{i}", None if item is None else value_of(text, item, i), text))
    return found


def attributes_of(cell: Cell) -> dict[str, Any]:
    """The attributes that this version knows."""
    known = cell.schema.attributes
    found = {name: resolved(value, cell) for name, value in cell.recipe.attributes.items() if name in known}
    return {name: value for name, value in found.items() if value is not None}


def output_types(cell: Cell) -> tuple[str, ...]:
    """The types of the node's outputs."""
    formals, count = cell.schema.outputs, resolved(cell.recipe.outputs, cell)
    count = count if is_variadic(formals) else min(count, len(formals))
    return tuple(formal_type(formals, i, cell) for i in range(count))


def parameters_of(cell: Cell, inputs: list[tuple[str, Any, str]]) -> set[str]:
    """The inputs that a recipe gives as numbers, such as axes and shapes."""
    items = [resolved(item, cell) for item in cell.recipe.inputs]
    pairs = zip(inputs, items, strict=False)
    return {name for (name, value, _), item in pairs if name and not isinstance(item, Data) and is_array(value)}


def is_array(value: Any) -> bool:
    """Whether a value is a tensor."""
    return isinstance(value, np.ndarray)


def problem_of(cell: Cell, constants: bool = False, values: Feeds | None = None) -> Problem:
    """The model of a cell; with `constants` its parameters are initializers. `values` replaces what is fed."""
    inputs = inputs_of(cell)
    if values is not None:
        inputs = [(name, values.get(name), text) for name, _, text in inputs]
    kept = parameters_of(cell, inputs) if constants else set()
    outer = [(name, value_of(dict(cell.types)[v], item, 9), dict(cell.types)[v]) for name, (item, v) in _outer(cell)]
    fed = [(name, value, text) for name, value, text in (*inputs, *outer) if name and name not in kept]
    results = output_types(cell)
    names = [f"y{i}" for i in range(len(results))]
    given = [name for name, _, _ in inputs]
    node = helper.make_node(cell.name, given, names, "node", domain=cell.domain, **attributes_of(cell))
    graph = helper.make_graph(
        [*cell.recipe.before, node],
        cell.name,
        [helper.make_value_info(name, type_proto(text, shape_of(value))) for name, value, text in fed],
        [onnx.ValueInfoProto(name=name) for name in names],
        [initializer(name, value) for name, value, _ in inputs if name in kept],
    )
    model = helper.make_model(graph, opset_imports=imports(cell), ir_version=13)
    return Problem(model, {name: value for name, value, _ in fed}, results)


def _outer(cell: Cell) -> Any:
    return cell.recipe.outer.items()


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of the tensor inside a value."""
    return shape_of(value[0]) if isinstance(value, list) else () if isinstance(value, dict) else value.shape


def imports(cell: Cell) -> list[onnx.OperatorSetIdProto]:
    """The operator sets of a cell's model."""
    own = helper.make_opsetid(cell.domain, cell.version)
    return [own] if not cell.domain else [helper.make_opsetid("", COMPANIONS[cell.domain]), own]


def initializer(name: str, array: Any) -> onnx.TensorProto:
    """A constant of any type."""
    if array.dtype == object:
        return numpy_helper.from_array(array, name)
    made = packed(from_numpy(array.dtype), array)
    made.name = name
    return made


# Judges


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
        found = session.run(None, feeds)
    except REFUSALS:
        return None
    pairs = zip(found, problem.results, strict=True)
    return [item.astype(element(text).numpy) if is_foreign(text) else item for item, text in pairs]


def ask_evaluator(problem: Problem) -> list[Any] | None:
    """What ONNX's reference evaluator computes; None where it fails."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(ReferenceEvaluator(problem.model).run(None, problem.feeds))
        except Exception:  # it fails in many ways on inputs that are valid
            return None


def widened(cell: Cell) -> Cell | None:
    """The cell in 64-bit types, or in the widest that its version allows; None where that is the same."""
    options = allowed(cell.schema)
    types = tuple((variable, _widest(text, options[variable])) for variable, text in cell.types)
    return None if types == cell.types else Cell(cell.domain, cell.name, cell.version, types)


def _widest(text: str, options: list[str]) -> str:
    if not text.startswith("tensor("):
        return text
    dtype = element(text)
    wide = {"float": ("double", "float"), "int": ("int64", "int32", "double"), "uint": ("uint64", "int64", "double"),
            "complex": ("complex128",)}  # fmt: skip
    return next((f"tensor({w})" for w in wide.get(dtype.kind, ()) if f"tensor({w})" in options), text)


def with_values(cell: Cell, feeds: Feeds) -> Problem:
    """A cell fed with the numbers of another one, in its own types."""
    own = problem_of(cell)
    values = {name: cast(value, from_array(own.feeds[name])) if is_array(value) else value for name, value in feeds.items()}
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
    return _cell(later[0], wanted)


# Comparison


def step_of(dtype: DType) -> float:
    """How far results of a type may differ, relative to their size."""
    if dtype.name in STEPS:
        return STEPS[dtype.name]
    if dtype.kind == "complex":
        return 1e-5
    return float(ml_dtypes.finfo(dtype.numpy).eps) if dtype.is_float else 0.0


def difference(ours: Any, theirs: Any, rtol: float) -> str:
    """What two results do not agree in; empty where they agree."""
    if isinstance(theirs, (list, dict)):
        return _collection_difference(ours, theirs, rtol)
    if theirs is None or isinstance(theirs, str):
        return "" if ours == theirs else f"{ours!r} instead of {theirs!r}"
    theirs = np.asarray(theirs)
    ours = np.asarray(ours)
    if ours.shape != theirs.shape:
        return f"shape {ours.shape} instead of {theirs.shape}"
    if (ours.dtype == object) != (theirs.dtype.kind in "OUS"):
        return f"{ours.dtype} instead of {theirs.dtype}"
    if ours.dtype == object:
        return "" if ours.astype(str).tolist() == theirs.astype(str).tolist() else f"{ours} instead of {theirs}"
    return _number_difference(ours, theirs, rtol)


def _number_difference(ours: Any, theirs: Any, rtol: float) -> str:
    rtol = max(rtol, step_of(from_array(ours)))
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64 if ours.dtype.kind not in "iu" or rtol else object
    mine, other = ours.astype(wide), theirs.astype(wide)
    same = mine == other if wide is object else np.isclose(mine, other, rtol=rtol, atol=rtol, equal_nan=True)
    return "" if np.all(same) else f"{ours.tolist()} instead of {theirs.tolist()}"


def _collection_difference(ours: Any, theirs: Any, rtol: float) -> str:
    if type(ours) is not type(theirs) or len(ours) != len(theirs):
        return f"{ours!r} instead of {theirs!r}"
    if isinstance(theirs, dict):
        if set(ours) != set(theirs):
            return f"{ours!r} instead of {theirs!r}"
        pairs: Iterator[Any] = ((ours[key], theirs[key]) for key in theirs)
    else:
        pairs = zip(ours, theirs, strict=True)
    return "; ".join(filter(None, (difference(a, b, rtol) for a, b in pairs)))


def type_difference(result: Any, text: str) -> str:
    """What a result's type has not in common with the schema's."""
    if text.startswith("optional("):
        return "" if result is None else type_difference(result, unwrapped(text))
    if text.startswith("seq("):
        if not isinstance(result, list):
            return f"{type(result).__name__} instead of {text}"
        return "; ".join(filter(None, (type_difference(item, unwrapped(text)) for item in result)))
    if text.startswith("map("):
        return "" if isinstance(result, dict) else f"{type(result).__name__} instead of {text}"
    if not is_array(result):
        return f"{type(result).__name__} instead of an array"
    return "" if result.dtype == element(text).numpy else f"{result.dtype} instead of {text}"


# Host nodes


def host_nodes(problem: Problem) -> list[tuple[str, str]]:
    """Operator and reason of each node of a problem that the native engine leaves to the host; nothing is compiled."""
    graph = read_model(problem.model).graph
    simplify(graph)
    waiting, found = [NativeEngine(graph, 1)], []
    while waiting:
        engine = waiting.pop()
        found += [(step.node.op.name, step.reason) for step in engine.plan.host_steps]
        waiting += [inner for bodies in engine.bodies.values() for inner in bodies.engines]
    return found


def host_report(constants: bool) -> list[str]:
    """A line for each operator, node and reason, with the versions and types that are left to the host."""
    rows: dict[tuple[str, str, str], list[Cell]] = {}
    for key in versions():
        for cell in cells(*key):
            for node, reason in dict.fromkeys(_host_nodes_or_error(cell, constants)):
                rows.setdefault((_title(cell), node, reason), []).append(cell)
    return [_row(*key, found) for key, found in sorted(rows.items())]


def _host_nodes_or_error(cell: Cell, constants: bool) -> list[tuple[str, str]]:
    try:
        found = host_nodes(problem_of(cell, constants))
    except IntaglioError as error:
        return [("-", f"{type(error).__name__}: {str(error).splitlines()[0]}")]
    return [(node, _general(reason)) for node, reason in found]


def _general(reason: str) -> str:
    """A reason without the types and names of one cell, which its line lists."""
    names = "|".join(sorted(DTYPES, key=len, reverse=True))
    reason = re.sub(r"\b\w+ is (seq|optional|map)\(.*\)", r"a \1", reason)
    reason = re.sub(rf"^(({names})(, )?)+ is", "the element type is", reason)
    return re.sub(rf" of ({names})\b", " of this element type", reason)


def _title(cell: Cell) -> str:
    return f"{cell.domain}::{cell.name}" if cell.domain else cell.name


def _row(title: str, node: str, reason: str, found: list[Cell]) -> str:
    count = len(cells(found[0].domain, found[0].name))
    share = "all cells" if len(found) == count else f"{len(found)} of {count} cells"
    bound = ", ".join(f"{v} {_listed({dict(c.types).get(v, '') for c in found})}" for v, _ in found[0].types)
    return f"{title} {_listed(sorted({c.version for c in found}))}: {node}: {reason} ({share}; {bound})"


def _listed(texts: Any) -> str:
    return "/".join(sorted(str(text).replace("tensor(", "").rstrip(")") for text in texts if text))


def main() -> None:
    """Print the host nodes with parameters that are constants, then with parameters that are fed."""
    for constants, title in ((True, "parameters are constants"), (False, "parameters are fed")):
        print(f"# {title}")
        print("\n".join(host_report(constants)))


if __name__ == "__main__":
    main()
