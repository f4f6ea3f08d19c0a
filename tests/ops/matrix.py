"""Operators x versions x types: one-node models for all that `onnx.defs` allows.

`python -m tests.ops.matrix` prints which of them the native engine leaves to the host, and why.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from intaglio.errors import IntaglioError
from intaglio.ir.dtype import DTYPES, STRING, DType, from_numpy
from intaglio.ir.graph import Node
from intaglio.ir.types import TensorType
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.runtime.engine.native import NativeEngine

from . import matrix_ml as matrix_ml
from .matrix_recipes import ML, PREVIEW, RECIPES, TRAINING, Data, Recipe, element, packed, type_proto, unwrapped

Schema = Any
Feeds = dict[str, Any]

PREFERRED = ("tensor(float)", "tensor(int64)", "tensor(bool)", "tensor(int32)", "tensor(uint8)", "seq(tensor(float))")
"""The types of variables that are not varied, the first that is allowed."""
COMPANIONS = {ML: 21, PREVIEW: 26, TRAINING: 21}
"""The version of ai.onnx that models of another domain import too."""


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
    found = [cell_of(schema, recipe.tie(variable, {**start, variable: text})) for variable, text in varied]
    return list(dict.fromkeys(found)) or [cell_of(schema, {})]


def _default(recipe: Recipe, variable: str, texts: list[str]) -> str:
    wanted = (recipe.defaults.get(variable, ""), *PREFERRED)
    return next((text for text in wanted if text in texts), texts[0])


def cell_of(schema: Schema, types: dict[str, str]) -> Cell:
    """A version with types for its variables."""
    named = {c.type_param_str for c in schema.type_constraints}
    bound = tuple((variable, text) for variable, text in types.items() if variable in named)
    return Cell(schema.domain, schema.name, schema.since_version, bound)


def cells(domain: str, name: str) -> list[Cell]:
    """All cells of an operator, the newest version first."""
    return [cell for schema in reversed(versions()[(domain, name)]) for cell in cells_of(schema)]


# Values


def numbers(dtype: DType, data: Data, position: int) -> Any:
    """Made-up elements of a type, between two bounds; unsigned ones are not below 0."""
    rng = np.random.default_rng([position, *data.shape])
    if dtype.is_float or dtype.kind == "complex":
        spread = rng.uniform(data.low, data.high, data.shape)
        return cast(np.round(spread) if data.whole else np.round(spread * 8) / 8, dtype)
    low = int(np.ceil(data.low)) if dtype.kind == "int" else max(0, int(np.ceil(data.low)))
    return cast(rng.integers(low, int(data.high) + 1, data.shape), dtype)


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
    text: str = formals[min(position, len(formals) - 1)].type_str
    return dict(cell.types).get(text, text)


def input_type(position: int, cell: Cell) -> str:
    """The type of an input by its place."""
    variable = cell.recipe.input_types.get(position)
    return dict(cell.types)[variable] if variable else formal_type(cell.schema.inputs, position, cell)


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
        text = input_type(i, cell)
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


# Host nodes


def engine_of(problem: Problem) -> NativeEngine:
    """The native engine of a problem, lowered and not yet compiled."""
    graph = read_model(problem.model).graph
    simplify(graph)
    return NativeEngine(graph, 1)


def host_nodes(engine: NativeEngine) -> list[tuple[str, str]]:
    """Operator and reason of each node that an engine leaves to the host."""
    waiting, found = [engine], []
    while waiting:
        engine = waiting.pop()
        found += [(host.form.node.operator, host.form.refusal.text) for host in engine.hosts]
        waiting += engine.body_engines()
    return found


def numeric_host_nodes(engine: NativeEngine) -> list[tuple[str, str]]:
    """Those of `host_nodes` that touch no string, sequence, map or optional, and decode no image.

    Control flow is no node of its own here: what in its bodies needs the host is looked at.
    """
    waiting, found = [engine], []
    while waiting:
        engine = waiting.pop()
        found += [(host.node.op.name, host.form.refusal.text) for host in engine.hosts if _is_numeric(host.node)]
        waiting += engine.body_engines()
    return found


def _is_numeric(node: Node) -> bool:
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    is_plain = all(isinstance(value.type, TensorType) and value.type.dtype != STRING for value in values)
    return is_plain and node.op.name not in ("If", "Loop", "Scan", "ImageDecoder")


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
        found = host_nodes(engine_of(problem_of(cell, constants)))
    except IntaglioError as error:
        return [("-", f"{type(error).__name__}: {str(error).splitlines()[0]}")]
    return [(node, _general(reason)) for node, reason in found]


def _general(reason: str) -> str:
    """A reason without the types and names of one cell, which its line lists."""
    names = "|".join(sorted(DTYPES, key=len, reverse=True))
    reason = re.sub(r"\b\w+ is (seq|optional|map)\(.*\)", r"a value of kind \1", reason)
    reason = re.sub(rf"^(({names})(, )?)+ is", "the element type is", reason)
    return re.sub(rf" of ({names})\b", " of this element type", reason)


def _title(cell: Cell) -> str:
    return f"{cell.domain}::{cell.name}" if cell.domain else cell.name


def _row(title: str, node: str, reason: str, found: list[Cell]) -> str:
    count = len(cells(found[0].domain, found[0].name))
    share = "all cells" if len(found) == count else f"{len(found)} of {count} cells"
    bound = ", ".join(f"{v} {_listed({dict(c.types).get(v, '') for c in found})}" for v, _ in found[0].types)
    numbers = "/".join(str(version) for version in sorted({c.version for c in found}))
    return f"{title} {numbers}: {node}: {reason} ({share}; {bound})"


def _listed(texts: Any) -> str:
    return "/".join(sorted(re.sub(r"tensor\((\w+)\)", r"\1", text) for text in texts if text))


def main() -> None:
    """Print the host nodes with parameters that are constants, then with parameters that are fed."""
    for constants, title in ((True, "parameters are constants"), (False, "parameters are fed")):
        print(f"# {title}")
        print("\n".join(host_report(constants)))


if __name__ == "__main__":
    main()
