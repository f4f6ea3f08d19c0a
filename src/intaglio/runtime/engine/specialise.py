"""Graphs made for particular runs: with the sizes of their inputs fixed, or with small inputs turned into constants.

Kernels take axes, shapes, pads, scales and counts from tensors in the run. Where the value of a small input decides
even the number of dimensions, as a condition between two branches may, a plan cannot be made without it; such values
rarely change, so there is one plan for each value met, up to a limit, and behind that the host runs what needs them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence, Set
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from intaglio.errors import InputError, LimitError, OperatorError, ShapeError
from intaglio.ir.build import infer_node
from intaglio.ir.clone import clone
from intaglio.ir.dim import Dim, lone_atom, symbols
from intaglio.ir.dtype import STRING
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.substitution import evaluate
from intaglio.ir.types import TensorType
from intaglio.kernels.lower import CLEANUP
from intaglio.ops.evaluate import describe
from intaglio.ops.shared.indices import check_size
from intaglio.passes import PIPELINE, simplify
from intaglio.runtime.engine.lowered import Lowered
from intaglio.runtime.engine.stored import name_of_shapes, name_of_values

Engine = TypeVar("Engine")

SPECIAL_LIMIT = 16
"""How many plans for single sizes an engine keeps."""

PARAMETER_LIMIT = 8
"""How many values of small inputs an engine makes plans for; behind that the host runs the nodes that need them."""

SIZE_PASSES = tuple(each for each in PIPELINE if each in CLEANUP or each.name == "constant-control")
"""The passes that fixed sizes make worth repeating; none of them changes rounding."""

PARAMETER_ELEMENTS = 64
"""An input of at most so many numbers may be a parameter."""

DECISION_NODES = 16
"""A condition made of more values than these is not followed to the inputs it comes from."""

DATA_OPERANDS = 1
"""The first operand of an operator is its data; Range has none."""


def with_sizes(graph: Graph, inputs: Sequence[Any], names: Set[str] | None = None) -> Graph:
    """A copy whose inputs have the shapes of these arrays, with all types inferred anew.

    With `names`, only sizes that are these symbols are fixed.
    """
    fixed = clone(graph)
    for value, array in zip(fixed.inputs, inputs, strict=True):
        if isinstance(value.type, TensorType) and array is not None:
            value.type = value.type.with_shape(_fixed_shape(value.type.shape, array.shape, names))
    _infer(fixed)
    return fixed


def fix_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """A graph with numbers in the place of sizes that have names; raises InputError where it has none of a name."""
    if not sizes:
        return graph
    shapes = [value.type.shape or () if isinstance(value.type, TensorType) else () for value in graph.inputs]
    known = {name for shape in shapes for dim in shape for name in symbols(dim)}
    unknown = sorted(sizes.keys() - known)
    if unknown:
        raise InputError(f"there is no dimension {unknown[0]!r}; the dimensions are {sorted(known) or 'all numbers'}")
    fixed = [[evaluate(dim, sizes) if symbols(dim) <= sizes.keys() else 0 for dim in shape] for shape in shapes]
    return with_sizes(graph, [SimpleNamespace(shape=tuple(shape)) for shape in fixed], set(sizes))


def _fixed_shape(shape: Sequence[Dim] | None, sizes: tuple[int, ...], names: Set[str] | None) -> tuple[Dim, ...]:
    if shape is None or names is None:
        return sizes
    return tuple([size if symbols(dim) <= names else dim for dim, size in zip(shape, sizes, strict=True)])


def decisive_sizes(graph: Graph, inputs: Sequence[Any]) -> set[str] | None:
    """The sizes of the inputs that must be fixed, to those of these arrays, for all ranks to be known.

    None where that takes all of them, or where a shape is more than numbers and symbols.
    """
    shapes = [value.type.shape for value in graph.inputs if isinstance(value.type, TensorType)]
    dims = [dim for shape in shapes for dim in shape or ()]
    names = {name for dim in dims for name in symbols(dim)}
    if any(shape is None for shape in shapes) or any(symbols(dim) and lone_atom(dim) is None for dim in dims):
        return None
    needed = set(names)
    for name in sorted(names):
        if _has_known_ranks(with_sizes(graph, inputs, needed - {name})):
            needed.remove(name)
    return None if needed == names else needed


def _has_known_ranks(graph: Graph) -> bool:
    """Whether every tensor has a rank, in the bodies of control flow too."""
    values = [value for node in graph.all_nodes() for value in node.outputs]
    return not any(isinstance(value.type, TensorType) and value.type.shape is None for value in values)


def with_parameters(graph: Graph, positions: Sequence[int], inputs: Sequence[Any]) -> Graph:
    """A copy in which the inputs at these positions are constants with these arrays' values."""
    fixed = clone(graph)
    for position in positions:
        value, array = fixed.inputs[position], inputs[position].copy()
        assert isinstance(value.type, TensorType)
        value.replace_uses(Value(value.name, value.type.with_shape(array.shape), constant=array))
    fixed.inputs = [value for position, value in enumerate(fixed.inputs) if position not in positions]
    _infer(fixed)
    return fixed


def _infer(graph: Graph) -> None:
    _infer_nodes(graph)
    simplify(graph, pipeline=SIZE_PASSES)


def _infer_nodes(graph: Graph) -> None:
    for node in graph.nodes:
        try:
            infer_node(node)
            if _infer_bodies(node):
                infer_node(node)
            _check_sizes(node)
        except (LimitError, OperatorError, ShapeError) as error:
            raise type(error)(f"{describe(node)}: {error}") from None


def _infer_bodies(node: Node) -> bool:
    """Infer what stands in the bodies of a node, which read values of the graph around them; whether there are any.

    A body that does not fit the sizes at hand is left as it is: it may never run, and says so itself where it does.
    """
    bodies = [body for _, body in node.op.subgraphs()]
    for body in bodies:
        with contextlib.suppress(LimitError, OperatorError, ShapeError):
            _infer_nodes(body)
    return bool(bodies)


def _check_sizes(node: Node) -> None:
    """Raise LimitError where a result would be far too large; sizes that no machine has cannot be compiled."""
    for value in node.outputs:
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        sizes = [size for size in shape or () if isinstance(size, int) and size >= 0]
        if shape is not None and len(sizes) == len(shape):
            check_size(sizes, value.dtype.numpy)


def parameter_positions(graph: Graph, lowered: Lowered) -> list[int]:
    """The places of the graph's inputs that host nodes read as parameters."""
    nodes = [lowered.node(host.node.id) for host in lowered.form.hosts]
    wanted = {value.name for node in nodes for value in [*_parameters(node), *_decisive(node)]}
    return [place for place, value in enumerate(graph.inputs) if value.name in wanted and _is_small(value)]


def _parameters(node: Node) -> list[Value]:
    """What a node on numbers reads besides its data; no value makes a kernel of strings, sequences or control flow."""
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    is_numeric = all(isinstance(value.type, TensorType) and value.type.dtype != STRING for value in values)
    if not is_numeric or next(node.op.subgraphs(), None) is not None:
        return []
    first = 0 if node.op.name == "Range" else DATA_OPERANDS
    return [value for value in node.inputs[first:] if value is not None]


def _decisive(node: Node) -> list[Value]:
    """The inputs that alone decide which branch of an If is taken, where all of them are small."""
    if node.op.name != "If":
        return []
    roots, pending, seen = list[Value](), [value for value in node.inputs[:1] if value is not None], set[Value]()
    while pending and len(seen) < DECISION_NODES:
        value = pending.pop()
        seen.add(value)
        if value.constant is not None:
            continue
        if value.producer is None:
            roots.append(value)
        else:
            pending += [each for each in value.producer.inputs if each is not None and each not in seen]
    return roots if not pending and all(_is_small(value) for value in roots) else []


def _is_small(value: Value) -> bool:
    if not isinstance(value.type, TensorType) or value.type.dtype.kind not in ("int", "uint", "float", "bool"):
        return False
    size = 1
    for dim in value.type.shape if value.type.shape is not None else (PARAMETER_ELEMENTS + 1,):
        size = size * dim if isinstance(dim, int) else PARAMETER_ELEMENTS + 1
    return size <= PARAMETER_ELEMENTS


class SpecialEngines(Generic[Engine]):
    """The engines for sizes, and for values of small inputs, that need plans of their own; made when they are met.

    `graph` gives the graph that they are made of, and `make` an engine; it is told whether all sizes are fixed.
    `keep` is told of each that was made for values or for all sizes, with a name for these.
    """

    def __init__(self, graph: Callable[[], Graph], make: Callable[[Graph, bool], Engine]) -> None:
        self._graph, self._make = graph, make
        self.keep: Callable[[str, Engine], None] = lambda name, engine: None
        self._kept = set[str]()
        self._by_shapes: dict[tuple[Any, ...], Engine] = {}
        self._by_sizes: tuple[tuple[dict[str, int], Engine], ...] = ()
        self._by_parameters: dict[tuple[Any, ...], Engine] = {}

    def engines(self) -> list[Engine]:
        """Those that there are by now."""
        by_sizes = [engine for _, engine in self._by_sizes]
        return [*self._by_shapes.values(), *self._by_parameters.values(), *by_sizes]

    def for_shapes(self, inputs: Sequence[Any]) -> Engine:
        """The engine for just these input sizes: where an assumption fails, or ranks depend on sizes.

        Sizes that do not fit each other have none, and the type rule that they break says so.
        """
        key = tuple([getattr(array, "shape", None) for array in inputs])
        found = self._by_shapes.get(key)
        if found is None:
            graph = with_sizes(self._graph(), inputs)
            if len(self._by_shapes) >= SPECIAL_LIMIT:
                self._by_shapes.clear()
            found = self._by_shapes[key] = self._make(graph, True)
            self.keep(name_of_shapes(inputs), found)
        return found

    def for_ranks(self, inputs: Sequence[Any], bindings: dict[str, int]) -> Engine:
        """The engine for those input sizes that ranks depend on, with the others open where that is possible."""
        for sizes, engine in self._by_sizes:
            if all(bindings[name] == size for name, size in sizes.items()):
                self._keep_once(name_of_shapes(inputs), engine)
                return engine
        names = decisive_sizes(self._graph(), inputs)
        if not names:
            return self.for_shapes(inputs)
        engine = self._make(with_sizes(self._graph(), inputs, names), False)
        kept = self._by_sizes[1 - SPECIAL_LIMIT :]
        self._by_sizes = (*kept, ({name: bindings[name] for name in names}, engine))
        self._keep_once(name_of_shapes(inputs), engine)
        return engine

    def _keep_once(self, name: str, engine: Engine) -> None:
        """Tell of an engine that serves many sizes, for some of them."""
        if len(self._kept) < SPECIAL_LIMIT and name not in self._kept:
            self._kept.add(name)
            self.keep(name, engine)

    def for_parameters(self, places: Sequence[int], inputs: Sequence[Any]) -> Engine | None:
        """The engine for the values of the parameter inputs; None once there were too many different ones."""
        key = tuple([(inputs[place].shape, inputs[place].tobytes()) for place in places])
        found = self._by_parameters.get(key)
        if found is None and len(self._by_parameters) < PARAMETER_LIMIT:
            found = self._make(with_parameters(self._graph(), list(places), inputs), False)
            self._by_parameters[key] = found
            self.keep(name_of_values(places, inputs), found)
        return found
