"""Derivatives of models as models: `grad`, `value_and_grad`, `vjp`, `jvp`, `jacobian`, `hessian_vector_product`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from intaglio.autodiff.backward import input_like
from intaglio.autodiff.recompute import Recompute, check_recompute, recompute_values
from intaglio.autodiff.reverse import pull_back, remove_unread
from intaglio.autodiff.sequences import zero_bar
from intaglio.errors import InputError
from intaglio.ir.build import Builder
from intaglio.ir.clone import clone_with_values
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Tensor
from intaglio.ir.types import TensorType
from intaglio.ir.verify import verify
from intaglio.ops.control import Scan
from intaglio.passes import recognise
from intaglio.runtime.engine.limits import settled
from intaglio.runtime.model.loading import import_source, load
from intaglio.runtime.model.model import Model
from intaglio.runtime.model.state import State, StatefulModel
from intaglio.runtime.model.traced import also_of_functions

if TYPE_CHECKING:
    from intaglio.onnx.reader import Source

Names = str | Sequence[str] | None
Parameters = Literal["inputs", "constants", "state"]


@also_of_functions
def grad(
    model: Model | Source | Graph | Callable[..., Any],
    of: str | None = None,
    wrt: Names = None,
    *,
    parameters: Parameters = "constants",
    recompute: Recompute = "none",
    straight_through: bool = False,
    **options: Any,
) -> Any:
    """A model that computes the gradients of a tensor by others, one output for each of `wrt`, in that order.

    `model` is a Model, or what `load` reads; of a Python function of tensors, it is a function of arrays. `of` names
    the tensor to differentiate, by default the model's only output; where it has several elements, the gradient is that
    of their sum. `wrt` names inputs, weights or any other tensors of the model, by default all inputs that are
    floating-point numbers. A gradient has the type of its tensor, the name of it with `.gradient` behind, and is zero
    where `of` does not depend on it smoothly.

    The model has the inputs of the given one. With `parameters="inputs"`, the weights in `wrt` become inputs too,
    behind those, in the order of `wrt`; with `"state"` they are state of it, and it is a `StatefulModel`, whose
    `state[name]` reads and writes them. With `recompute="all"` the backward pass computes elementwise values anew where
    it can, instead of keeping them: less memory, more work. A number keeps as many of them as take so many bytes, and a
    list of names or patterns lets it compute whole blocks anew. With `straight_through`, quantizing counts as if it did
    not round. `options` are those of `load`; without them, the engine, threads and limits are those of the given model.
    """
    work = _Work(model, parameters, recompute, straight_through, options)
    of_value, wrt_values = work.begin_one(of, wrt)
    bars = work.pull_back([(of_value, work.ones(of_value))], wrt_values)
    return work.model(work.named(wrt_values, bars, "gradient"))


@also_of_functions
def value_and_grad(
    model: Model | Source | Graph | Callable[..., Any],
    of: str | None = None,
    wrt: Names = None,
    *,
    parameters: Parameters = "constants",
    recompute: Recompute = "none",
    straight_through: bool = False,
    **options: Any,
) -> Any:
    """What `grad` gives, with the value of `of` as the first output."""
    work = _Work(model, parameters, recompute, straight_through, options)
    of_value, wrt_values = work.begin_one(of, wrt)
    bars = work.pull_back([(of_value, work.ones(of_value))], wrt_values)
    return work.model([of_value, *work.named(wrt_values, bars, "gradient")])


@also_of_functions
def vjp(
    model: Model | Source | Graph | Callable[..., Any],
    of: Names = None,
    wrt: Names = None,
    *,
    parameters: Parameters = "constants",
    recompute: Recompute = "none",
    straight_through: bool = False,
    **options: Any,
) -> Any:
    """A model of the product of weights with the Jacobian: the gradients of sum(weights * of), one for each of `wrt`.

    The weights are further inputs, one for each of `of` (by default all outputs), named with `.bar` behind.
    """
    work = _Work(model, parameters, recompute, straight_through, options)
    of_values, wrt_values = work.begin(of, wrt)
    seeds = [(value, input_like(work.builder, f"{value.name}.bar", value)) for value in of_values]
    return work.model(work.named(wrt_values, work.pull_back(seeds, wrt_values), "gradient"))


@also_of_functions
def jvp(
    model: Model | Source | Graph | Callable[..., Any],
    of: Names = None,
    wrt: Names = None,
    *,
    parameters: Parameters = "constants",
    recompute: Recompute = "none",
    straight_through: bool = False,
    **options: Any,
) -> Any:
    """A model of the product of the Jacobian with tangents: how fast each of `of` changes as `wrt` move along them.

    The tangents are further inputs, one for each of `wrt`, named with `.tangent` behind. The outputs are named so too,
    one for each of `of` (by default all outputs).
    """
    work = _Work(model, parameters, recompute, straight_through, options)
    of_values, wrt_values = work.begin(of, wrt)
    tangents = [input_like(work.builder, f"{value.name}.tangent", value) for value in wrt_values]
    weights = [work.zeros(value) for value in of_values]
    bars = work.pull_back(list(zip(of_values, weights, strict=True)), wrt_values)
    # The gradients are linear in the weights: their derivative by the weights is the Jacobian, whatever those are.
    seeds = [(bar, tangent) for bar, tangent in zip(bars, tangents, strict=True) if bar is not None]
    return work.model(work.named(of_values, work.pull_back(seeds, weights), "tangent"))


@also_of_functions
def hessian_vector_product(
    model: Model | Source | Graph | Callable[..., Any],
    of: str | None = None,
    wrt: Names = None,
    *,
    parameters: Parameters = "constants",
    recompute: Recompute = "none",
    straight_through: bool = False,
    **options: Any,
) -> Any:
    """A model of the second derivatives of a tensor, multiplied with a vector: one output for each of `wrt`.

    The vector consists of further inputs, one for each of `wrt`, named with `.tangent` behind. Where `of` has several
    elements, it is their sum that is differentiated.
    """
    work = _Work(model, parameters, recompute, straight_through, options)
    of_value, wrt_values = work.begin_one(of, wrt)
    tangents = [input_like(work.builder, f"{value.name}.tangent", value) for value in wrt_values]
    bars = work.pull_back([(of_value, work.ones(of_value))], wrt_values)
    seeds = [(bar, tangent) for bar, tangent in zip(bars, tangents, strict=True) if bar is not None]
    return work.model(work.named(wrt_values, work.pull_back(seeds, wrt_values), "product"))


@also_of_functions
def jacobian(
    model: Model | Source | Graph | Callable[..., Any],
    of: str | None = None,
    wrt: Names = None,
    *,
    parameters: Parameters = "constants",
    recompute: Recompute = "none",
    straight_through: bool = False,
    **options: Any,
) -> Any:
    """A model of all derivatives of a tensor by others: one output for each of `wrt`, of both shapes together.

    The backward pass runs once for each element of `of`. The outputs are named with `.jacobian` behind.
    """
    work = _Work(model, parameters, recompute, straight_through, options)
    of_value, wrt_values = work.begin_one(of, wrt)
    with work.builder.active() as b:
        rows = _all_rows(b, of_value, wrt_values, work.pull_back)
        shapes = [b.Concat(b.Shape(of_value), b.Shape(value), axis=0) for value in wrt_values]
        found = [b.Reshape(row, shape, allowzero=1) for row, shape in zip(rows, shapes, strict=True)]
    return work.model(work.named(wrt_values, found, "jacobian"))


def _all_rows(
    b: Builder, of: Value, wrt: Sequence[Value], pull_back: Callable[..., list[Value | None]]
) -> tuple[Value, ...]:
    """The gradients of each element, stacked: a Scan over the elements, whose body is the backward pass."""
    count, zero, one = b.Size(of), b.constant(0, INT64), b.constant(1, INT64)
    numbers = b.Range(zero, count, one)
    body = Graph("rows", outer=b.graph)
    number = body.add_input("element", TensorType(INT64, ()))
    inner = Builder(body)
    with inner.active():
        chosen = inner.CastLike(inner.Equal(numbers, number), of)
        seed = inner.Reshape(chosen, inner.Shape(of), allowzero=1)
        bars = pull_back([(of, seed)], wrt, inner)
        outputs = [zero_bar(inner, v) if bar is None else inner.Identity(bar) for v, bar in zip(wrt, bars, strict=True)]
    body.set_outputs(outputs)
    remove_unread(body, outputs)
    return b.add(Scan(body=body, num_scan_inputs=1, output_count=len(wrt)), [numbers], len(wrt))


class _Work:
    """A copy of a model's graph, to which derivatives are added."""

    def __init__(
        self,
        model: Model | Source | Graph | Callable[..., Any],
        parameters: str,
        recompute: Recompute,
        straight_through: bool,
        options: dict[str, Any],
    ) -> None:
        if parameters not in ("inputs", "constants", "state"):
            raise InputError(f"parameters is {parameters!r}, expected 'inputs', 'constants' or 'state'")
        check_recompute(recompute)
        graph, self._options = _source(model, options)
        self.graph = clone_with_values(graph)[0]
        self.builder = Builder(self.graph)
        self._straight_through = straight_through
        self._recompute = recompute
        self._border: Value | None = None
        self._parameters = parameters
        self._state: dict[str, Any] = {}
        self._original: set[Value] = set()
        self._known = {v.name: v for v in (*self.graph.constants(), *self.graph.values(), *self.graph.outputs)}

    def begin_one(self, of: str | None, wrt: Names) -> tuple[Value, list[Value]]:
        """The tensor to differentiate and those to differentiate by, in a graph that is ready for gradients."""
        of_value, wrt_values = self._tensor(of), self._tensors(wrt)
        self._prepare([of_value, *wrt_values])
        return of_value, wrt_values

    def begin(self, of: Names, wrt: Names) -> tuple[list[Value], list[Value]]:
        """The tensors to differentiate and those to differentiate by, in a graph that is ready for gradients."""
        of_values, wrt_values = self._outputs(of), self._tensors(wrt)
        self._prepare([*of_values, *wrt_values])
        return of_values, wrt_values

    def _prepare(self, kept: Sequence[Value]) -> None:
        """Find patterns that have short gradients; `kept` are what the user named."""
        if self._options.get("simplify", True):
            known = {name: self._options[name] for name in ("disable", "exact") if name in self._options}
            recognise(self.graph, kept, **known)
        self._original = set(self.graph.values())
        if self._recompute != "none":
            self._border = self.builder.Identity(self.builder.constant(0))

    def _tensor(self, name: str | None) -> Value:
        """The tensor to differentiate, by default the only output that can be."""
        if name is not None:
            return self._find(name, "of")
        outputs = [value for value in self.graph.outputs if _is_float(value)]
        if len(outputs) != 1:
            names = ", ".join(f"{v.name!r} ({v.type})" for v in self.graph.outputs)
            raise InputError(f"say which tensor to differentiate, `of=`: the outputs are {names}")
        return outputs[0]

    def _outputs(self, names: Names) -> list[Value]:
        """The tensors to differentiate, by default all outputs that can be."""
        if names is not None:
            return [self._find(name, "of") for name in _listed(names)]
        found = [value for value in self.graph.outputs if _is_float(value)]
        if not found:
            raise InputError("the model has no output of a floating-point type; name a tensor, `of=`")
        return found

    def _tensors(self, names: Names) -> list[Value]:
        """The tensors to differentiate by, by default the inputs; weights become inputs where that is wanted."""
        if names is None:
            found = [value for value in self.graph.inputs if _is_float(value)]
            if not found:
                raise InputError("the model has no input of a floating-point type; name tensors, `wrt=`")
            return found
        found = [self._find(name, "wrt") for name in _listed(names)]
        if len(set(found)) < len(found):
            raise InputError(f"wrt names a tensor twice: {', '.join(map(repr, _listed(names)))}")
        if self._parameters != "constants":
            self._open(value for value in found if value.constant is not None)
        return found

    def _open(self, weights: Iterable[Value]) -> None:
        for value in weights:
            if self._parameters == "state":
                self._state[value.name] = value.constant
            self.graph.open(value)

    def _find(self, name: str, role: str) -> Value:
        value = self._known.get(name)
        if value is None:
            raise InputError(self._unknown(name, role))
        if not _is_float(value):
            raise InputError(
                f"{role}={name!r} is {value.type}: only tensors of real floating-point numbers have gradients"
            )
        return value

    def _unknown(self, name: str, role: str) -> str:
        inner = {v.name for node in self.graph.all_nodes() for _, g in node.op.subgraphs() for v in g.values()}
        if name in inner:
            return f"{role}={name!r} is a tensor in the body of an operator, which has a value for each round or none"
        near = get_close_matches(name, self._known, 3)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else _some(self._known)
        return f"the model has no tensor {name!r} ({role}); {hint}"

    def ones(self, value: Value) -> Value:
        """Ones in the shape of a value."""
        return self.builder.ConstantOfShape(self.builder.Shape(value), value=Tensor(np.ones(1, value.dtype.numpy)))

    def zeros(self, value: Value) -> Value:
        """Zeros in the shape of a value."""
        return zero_bar(self.builder, value)

    def pull_back(
        self, seeds: Sequence[tuple[Value, Value]], wrt: Sequence[Value], builder: Builder | None = None
    ) -> list[Value | None]:
        """The gradients of weighted tensors by others; None where there is no path."""
        b = builder or self.builder
        with b.active():
            return pull_back(b, lambda: self.graph.nodes, seeds, wrt, self._straight_through)

    def named(self, values: Sequence[Value], found: Sequence[Value | None], suffix: str) -> list[Value]:
        """The results under names of their own, zeros where there are none."""
        return list(self._named(values, found, suffix))

    def _named(self, values: Sequence[Value], found: Sequence[Value | None], suffix: str) -> Iterator[Value]:
        taken: set[Value] = set()
        for value, bar in zip(values, found, strict=True):
            result = self.zeros(value) if bar is None else bar
            if result.producer is None or result in self._original or result in taken:
                result = self.builder.Identity(result)
            taken.add(result)
            result.name = self.graph.unique_name(f"{value.name}.{suffix}")
            yield result

    def model(self, outputs: Sequence[Value]) -> Model | StatefulModel:
        """The model of these outputs, ready to run."""
        self.graph.set_outputs(outputs)
        if self._border is not None and self._border.producer is not None:
            recompute_values(self.graph, self._border.producer, self._recompute)
        remove_unread(self.graph, outputs)
        verify(self.graph)
        model = load(self.graph, **self._options)
        if self._parameters != "state":
            return model
        return StatefulModel(model, State(self._state), {name: name for name in self._state}, {})


def _source(model: Any, options: dict[str, Any]) -> tuple[Graph, dict[str, Any]]:
    """The graph of a model, and the options of the model that is made of it."""
    if not isinstance(model, Model):
        return import_source(model, settled(options.get("limits"))).graph, options
    return model.graph, model.options.keywords() | options


def _is_float(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.dtype.kind == "float"


def _listed(names: str | Sequence[str]) -> list[str]:
    found = [names] if isinstance(names, str) else list(names)
    if not found or not all(isinstance(cast("Any", name), str) for name in found):
        raise InputError(f"expected the names of one or more tensors, got {names!r}")
    return found


def _some(known: Iterable[str]) -> str:
    names = list(known)
    return f"it has {', '.join(map(repr, names[:8]))}{', ...' if len(names) > 8 else ''}"
