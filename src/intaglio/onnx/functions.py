"""Model-local functions: their table, and what inlining them costs, known before any is inlined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from intaglio.errors import LimitError, LoadError
from intaglio.onnx.limits import ReadLimits
from intaglio.onnx.protobuf import printable, shorten, text, texts
from intaglio.onnx.schema import normal_domain

FunctionKey: TypeAlias = tuple[str, str, str]
"""Domain, name, overload."""


class FunctionTable:
    """The functions of a model by domain, name and overload."""

    def __init__(self, model: ModelProto) -> None:
        self._functions: dict[FunctionKey, FunctionProto] = {}
        for proto in model.functions:
            key = (normal_domain(text(proto.domain)), text(proto.name), text(proto.overload))
            if key in self._functions:
                raise LoadError(f"the function {describe(key)} is defined twice")
            _check_function(proto, key)
            self._functions[key] = proto

    def __len__(self) -> int:
        return len(self._functions)

    def items(self) -> Iterable[tuple[FunctionKey, FunctionProto]]:
        """All functions with their keys."""
        return self._functions.items()

    def find(self, node: NodeProto) -> tuple[FunctionKey, FunctionProto] | None:
        """The function that a node calls, or None where it is an operator."""
        if not self._functions:
            return None
        key = (normal_domain(text(node.domain)), text(node.op_type), text(node.overload))
        proto = self._functions.get(key)
        return None if proto is None else (key, proto)

    def check_cost(self, graph: GraphProto, limits: ReadLimits) -> None:
        """Refuse recursion, nesting that is too deep, and more nodes than the limit once all calls are inlined."""
        costs = self._costs(limits)
        nodes, _ = self._cost(graph.node, costs, limits)
        if nodes > limits.nodes:
            raise LimitError(f"the model has {nodes} nodes once its functions are inlined; the limit is {limits.nodes}")

    def _costs(self, limits: ReadLimits) -> dict[FunctionKey, tuple[int, int]]:
        """The number of nodes and the depth of each function, callees first."""
        calls = {key: self._calls(proto.node, limits) for key, proto in self._functions.items()}
        costs: dict[FunctionKey, tuple[int, int]] = {}
        for key in _callees_first(calls):
            costs[key] = self._cost(self._functions[key].node, costs, limits)
            if costs[key][1] > limits.depth:
                raise LimitError(f"the function {describe(key)} nests calls more than {limits.depth} deep")
        return costs

    def _calls(self, nodes: Iterable[NodeProto], limits: ReadLimits) -> list[FunctionKey]:
        found = (self.find(node) for node, _ in walk_nodes(nodes, limits.depth))
        return list(dict.fromkeys(call[0] for call in found if call is not None))

    def _cost(
        self, nodes: Iterable[NodeProto], costs: dict[FunctionKey, tuple[int, int]], limits: ReadLimits
    ) -> tuple[int, int]:
        total, deepest = 0, 0
        called: Counter[FunctionKey] = Counter()
        for node, depth in walk_nodes(nodes, limits.depth):
            call = self.find(node)
            deepest = max(deepest, depth + (0 if call is None else 1 + costs[call[0]][1]))
            if call is None:
                total += 1
            else:
                called[call[0]] += 1
        return total + sum(count * costs[key][0] for key, count in called.items()), deepest


def _check_function(proto: FunctionProto, key: FunctionKey) -> None:
    names = texts(proto.input)
    if len(set(names)) != len(names):
        raise LoadError(f"the function {describe(key)} names an input twice")
    outputs = texts(proto.output)
    if len(set(outputs)) != len(outputs):
        raise LoadError(f"the function {describe(key)} names an output twice")


def _callees_first(calls: dict[FunctionKey, list[FunctionKey]]) -> Iterator[FunctionKey]:
    """The functions in an order in which each comes after those that it calls; raises LoadError on recursion."""
    done: set[FunctionKey] = set()
    for root in calls:
        path: dict[FunctionKey, Iterator[FunctionKey]] = {} if root in done else {root: iter(calls[root])}
        while path:
            current = next(reversed(path))
            callee = next((key for key in path[current] if key not in done), None)
            if callee is None:
                del path[current]
                done.add(current)
                yield current
            elif callee in path:
                raise LoadError(f"functions call each other in a circle: {_circle(path, callee)}")
            else:
                path[callee] = iter(calls[callee])


def _circle(path: Iterable[FunctionKey], callee: FunctionKey) -> str:
    names = [describe(key) for key in path]
    circle = [*names[names.index(describe(callee)) :], describe(callee)]
    return shorten(" -> ".join(circle), 500)


def walk_nodes(nodes: Iterable[NodeProto], depth_limit: int) -> Iterator[tuple[NodeProto, int]]:
    """All nodes, those of subgraphs too, each with the number of subgraphs around it."""
    stack = [(iter(nodes), 0)]
    while stack:
        level, depth = stack[-1]
        node = next(level, None)
        if node is None:
            stack.pop()
            continue
        yield node, depth
        graphs = list(subgraphs(node))
        if graphs and depth >= depth_limit:
            raise LimitError(f"subgraphs are nested more than {depth_limit} deep")
        stack.extend((iter(graph.node), depth + 1) for _, graph in graphs)


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs among a node's attributes, by attribute name."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield text(attribute.name), attribute.g
        for graph in attribute.graphs:
            yield text(attribute.name), graph


def default_attributes(proto: FunctionProto) -> dict[str, AttributeProto | None]:
    """The function's attributes by name, with their default; None where the caller must give it."""
    required: dict[str, AttributeProto | None] = dict.fromkeys(texts(proto.attribute))
    return required | {text(attribute.name): attribute for attribute in proto.attribute_proto}


def describe(key: FunctionKey) -> str:
    """A function's name for messages: `domain::name:overload`."""
    domain, name, overload = key
    return printable(f"{domain or 'ai.onnx'}::{name}" + (f":{overload}" if overload else ""))
