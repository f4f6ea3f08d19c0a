"""The forward pass in training: weights are inputs, batches are normalized by their own statistics, dropout drops."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from intaglio.errors import InputError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.clone import clone_with_values
from intaglio.ir.dim import Dim, Symbol, lone_atom, product, symbols
from intaglio.ir.dtype import INT64, UINT32
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.substitution import evaluate
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import describe
from intaglio.ops.shared.operand import cast, wide
from intaglio.record import Record
from intaglio.runtime.model.state import FIXED, LOST_DROPOUT, matching, noted, weight_names
from intaglio.train.inference import leave_training_mode
from intaglio.train.initial import initial_value

Array = np.ndarray[Any, Any]
Patterns = str | Sequence[str]

SEED = "dropout@seed"
"""The input that has the two random words of a step."""


class Weights(Record):
    """Which tensors of a model are trained, and which change with the batches; and what all of them begin with."""

    trained: tuple[str, ...]
    statistics: tuple[str, ...]
    first: Mapping[str, Array]


def with_weights(graph: Graph, initialize: Patterns | None, seed: int) -> Graph:
    """A copy of a graph as it is used, in which the inputs that `initialize` names are weights with first values."""
    graph, _ = clone_with_values(graph)
    leave_training_mode(graph)
    if initialize is None:
        return graph
    inputs = {value.name: value for value in graph.inputs if isinstance(value.type, TensorType)}
    generator = np.random.default_rng(seed)
    for name in matching(list(inputs), initialize, "input"):
        graph.close(inputs[name], initial_value(graph, inputs[name], generator))
    return graph


def find_weights(graph: Graph, trainable: Patterns | None, frozen: Patterns | None) -> Weights:
    """The weights of a graph by name."""
    statistics = list(dict.fromkeys(name for node in _normalizations(graph) for name in _statistics(node)))
    candidates = [name for name in weight_names(graph) if name not in statistics]
    if not candidates:
        raise InputError(
            "the model has no weights that could be trained; where they are inputs, name them: initialize=['*.weight']"
        )
    values = {value.name: value for value in graph.constants()}
    fixed = noted(graph, FIXED)
    trained = [name for name in candidates if not _is_number(values[name]) and name not in fixed]
    if trainable is not None:
        trained = matching(candidates, trainable, "weight")
    elif not trained:
        raise InputError("no weight of the module needs a gradient (requires_grad); name those to train: trainable='*'")
    if frozen is not None:
        left_out = set(matching(candidates, frozen, "weight"))
        trained = [name for name in trained if name not in left_out]
    if not trained:
        raise InputError("all weights are frozen, nothing is left to train")
    first = {name: np.asarray(values[name].constant) for name in (*trained, *statistics) if name in values}
    return Weights(tuple(trained), tuple(statistics), first)


def warn_of_lost_layers(graph: Graph) -> None:
    """Warn of layers of a module that train in another way than PyTorch would train them."""
    lost = noted(graph, LOST_DROPOUT)
    if lost:
        warnings.warn(f"the dropout inside of {_listed(lost)} is no node of the model: nothing is dropped there in "
                      "training. A Dropout layer of its own is kept", UserWarning, stacklevel=4)  # fmt: skip
    statistics = {name for node in _normalizations(graph) for name in _statistics(node)}
    used = {value.name for value in graph.constants()} - statistics
    fixed = [name for name in noted(graph, FIXED) if name.endswith("running_var") and name in used]
    if fixed:
        warnings.warn(f"{_listed(fixed)}: batches are normalized by these running statistics, which stay as they are, "
                      "and not by their own", UserWarning, stacklevel=4)  # fmt: skip


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:4])) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _is_number(value: Value) -> bool:
    """Whether a constant is a number of a formula, such as the scale of attention, and no weight."""
    return value.is_literal and value.constant is not None and value.constant.size == 1


def _normalizations(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op.name == "BatchNormalization" and node.op.domain == ""]


def _statistics(node: Node) -> list[str]:
    return [node.needed(place).name for place in (3, 4)]


def normalized_counts(graph: Graph, statistics: Sequence[str]) -> dict[str, Dim]:
    """How many numbers of a batch each normalization takes for one channel, by the node; of those that are trained."""
    nodes = [node for node in _normalizations(graph) if node.needed(3).name in statistics and node.input.tensor.shape]
    return {describe(node): product((node.input.shape[0], *node.input.shape[2:])) for node in nodes}


def check_counts(graph: Graph, counts: Mapping[str, Dim], feeds: Mapping[str, Any]) -> None:
    """Raise InputError where a batch gives a normalization one number for a channel, of which nothing is left."""
    if not counts:
        return
    sizes: dict[str, int] = {}
    for value in graph.inputs:
        if value.name in feeds and isinstance(value.type, TensorType):
            for dim, size in zip(value.type.shape or (), np.shape(feeds[value.name]), strict=False):
                sizes |= {str(dim): size} if isinstance(lone_atom(dim), Symbol) else {}
    for where, count in counts.items():
        if symbols(count) <= sizes.keys() and evaluate(count, sizes) == 1:
            raise InputError(
                f"the batch gives {where} one number for each channel, which leaves nothing when it is normalized; "
                "train with more rows (leave out a last batch of one), or keep its scale and bias `frozen`"
            )


class Forward:
    """A copy of a model's graph, as it is trained. `changed` are the new statistics by the names of the old ones."""

    def __init__(self, graph: Graph, weights: Weights) -> None:
        self.graph, values = clone_with_values(graph)
        self.builder = Builder(self.graph)
        self.weights = weights
        named = {value.name: values[value] for value in (*graph.constants(), *graph.inputs) if value in values}
        self.trained = {name: self._open(named[name]) for name in weights.trained}
        self.data = [value for value in self.graph.inputs if value.name not in weights.first]
        self.statistics: dict[str, Value] = {}
        self.changed: dict[str, Value] = {}
        self.has_seed = False
        self._train_normalizations()
        self._train_dropouts()

    def _open(self, value: Value) -> Value:
        return value if value.constant is None else self.graph.open(value)

    def _train_normalizations(self) -> None:
        """Batches are normalized by their own statistics, but for layers whose scale and bias are frozen."""
        for node in _normalizations(self.graph):
            if any(node.needed(place).name in self.trained for place in (1, 2)):
                self._train_normalization(node)

    def _train_normalization(self, node: Node) -> None:
        names = _statistics(node)
        if not set(names) <= self.weights.first.keys():
            where = describe(node)
            raise UnsupportedError(f"{where}: the running statistics of BatchNormalization are computed by the model")
        for place, name in zip((3, 4), names, strict=True):
            self.statistics[name] = self._open(node.needed(place))
        builder = Builder(self.graph, before=node, origin=node.origin)
        x, *rest = node.inputs
        with builder.active():
            op = node.op.changed(training_mode=1)
            made, mean, variance = builder.add(op, [x, *rest], 3)
            for old, new in zip(node.outputs, (made, mean, variance), strict=False):
                old.replace_uses(new)
            self.changed |= dict(zip(names, (mean, self._unbiased(builder, op, node, variance)), strict=True))
        self.graph.remove(node)

    def _unbiased(self, b: Builder, op: Any, node: Node, blended: Value) -> Value:
        """The running variance with that of a sample, divided by one less than its size, as PyTorch keeps it."""
        x, old = node.needed(0), node.needed(4)
        kept = old * op.momentum
        channels = b.Gather(b.Shape(x), b.constant(1, INT64))
        count = cast(b, b.Size(x) / channels, old.dtype)
        return kept + (blended - kept) * (count / b.Max(count - 1.0, b.constant(1, old.dtype)))

    def _train_dropouts(self) -> None:
        found = [node for node in self.graph.nodes if node.op.name == "Dropout" and node.op.domain == ""]
        for number, node in enumerate(found, 1):
            self._train_dropout(node, number)

    def _train_dropout(self, node: Node, salt: int) -> None:
        """x -> where(mask, x / (1 - ratio), 0), with a mask that the seed of the step and the place decide."""
        ratio = node.optional(1)
        share = 0.5 if ratio is None else None if ratio.constant is None else float(ratio.constant.reshape(()))
        if share is None:
            raise UnsupportedError(f"{describe(node)}: its ratio is computed by the model")
        if not 0 <= share < 1:
            raise InputError(f"{describe(node)} has the ratio {share}, expected 0 to below 1")
        builder, x = Builder(self.graph, before=node, origin=node.origin), node.needed(0)
        with builder.active():
            if share == 0:
                results = x, builder.Expand(builder.constant(True), builder.Shape(x))
            else:
                mask = _kept(builder, x, self._seed(), salt, share)
                scaled = cast(builder, wide(builder, x) * (1 / (1 - share)), x.dtype)
                results = builder.Where(mask, scaled, builder.constant(0, x.dtype)), mask
        for old, new in zip(node.outputs, results, strict=False):
            old.replace_uses(new)
        self.graph.remove(node)

    def _seed(self) -> Value:
        if not self.has_seed:
            self.has_seed = True
            self.graph.inputs.append(Value(self.graph.unique_name(SEED), TensorType(UINT32, (2,))))
        return next(value for value in self.graph.inputs if value.name == SEED)


def _kept(b: Builder, x: Value, seed: Value, salt: int, share: float) -> Value:
    """Which elements are kept: a hash of seed, node and place, compared with the share that is dropped."""
    places = b.Range(b.constant(0, INT64), b.Size(x), b.constant(1, INT64))
    words = b.Reshape(b.Cast(places, to=UINT32.number), b.Shape(x), allowzero=1)
    first, second = (b.Gather(seed, b.constant(place, INT64)) for place in (0, 1))
    salted = b.BitwiseXor(first, b.constant(salt * 0x9E3779B9 % 2**32, UINT32))
    mixed = _mixed(b, b.BitwiseXor(_mixed(b, b.BitwiseXor(words, salted)), second))
    return b.GreaterOrEqual(mixed, b.constant(min(round(share * 2**32), 2**32 - 1), UINT32))


def _mixed(b: Builder, words: Value) -> Value:
    """Each word mapped to another, one to one, so that every bit depends on every bit: two rounds of a finalizer."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        shifted = b.BitShift(words, b.constant(shift, UINT32), direction="RIGHT")
        words = b.Mul(b.BitwiseXor(words, shifted), b.constant(factor, UINT32))
    return b.BitwiseXor(words, b.BitShift(words, b.constant(16, UINT32), direction="RIGHT"))
