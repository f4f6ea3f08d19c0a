"""Attention found in products and softmax, also as PyTorch's own exporter writes it."""

from __future__ import annotations

import math

from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ops.attention import Attention


def find_attention(graph: Graph) -> None:
    """softmax(q * a @ transposed(k * b) + mask) @ v -> Attention(q, k, v, mask) with the scale a * b."""
    for node in graph.nodes:
        if _is(node, "MatMul"):
            _replace(node)
        elif _is(node, "Attention"):
            _turn_back(node)


def _is(node: Node | None, name: str) -> bool:
    return node is not None and node.op.domain == "" and node.op.name == name


def _producer(value: Value | None, name: str) -> Node | None:
    """The node that gives a value, where it is one of this operator and nobody else reads it."""
    node = None if value is None else value.producer
    return node if node is not None and _is(node, name) and len(node.output.readers) == 1 else None


def _replace(node: Node) -> None:
    weights, value = node.needed(0), node.needed(1)
    softmax = _softmax(weights)
    if softmax is None or softmax.op.axis not in (-1, 3):
        return
    scores, mask = softmax.input, None
    add = _producer(scores, "Add")
    product = _producer(scores, "MatMul")
    if add is not None:
        for place in (0, 1):
            product = product or _producer(add.inputs[place], "MatMul")
        mask = next((each for each in add.inputs if product is None or each is not product.output), None)
    if product is None:
        return
    query, first = _scaled(product.needed(0))
    turned, second = _scaled(product.needed(1))
    key, third = _turned(turned)
    if key is None or not _fits(query, key, value, mask):
        return
    op = Attention(scale=first * second * third)
    inputs = [query, key, value] if mask is None else [query, key, value, mask]
    assert node.graph is not None
    (result,) = Builder(node.graph, before=node, origin=softmax.origin).add(op, inputs, 1, [node.output.name])
    if result.type == node.output.type:
        node.output.replace_uses(result)
        node.graph.remove(node)


def _turn_back(node: Node) -> None:
    """Keys that were transposed twice are those that they were made of."""
    turned = node.needed(1).producer
    if turned is not None and _is(turned, "Transpose") and tuple(turned.op.perm or ()) == (0, 1, 3, 2):
        key, factor = _turned(turned.input)
        if key is not None and factor == 1 and key.type == node.needed(1).type:
            node.set_input(1, key)


def _softmax(weights: Value) -> Node | None:
    """A softmax, also one whose rows without any weight were set to zero, as scaled_dot_product_attention does."""
    found = weights.producer
    if found is not None and _is(found, "Where"):
        test, empty, rest = found.inputs
        nan = None if test is None else test.producer
        is_zero = empty is not None and empty.constant is not None and not empty.constant.any()
        if rest is None or not is_zero or nan is None or not _is(nan, "IsNaN") or nan.input is not rest:
            return None
        found = rest.producer
    return found if _is(found, "Softmax") else None


def _scaled(value: Value) -> tuple[Value, float]:
    """A value without a factor that is a number, and that factor."""
    node = _producer(value, "Mul")
    for place in (0, 1) if node is not None else ():
        factor = node.needed(place).constant if node is not None else None
        if node is not None and factor is not None and factor.size == 1:
            return node.needed(1 - place), float(factor.reshape(()))
    node = _producer(value, "Div")
    divisor = None if node is None else node.needed(1).constant
    if node is not None and divisor is not None and divisor.size == 1:
        return node.needed(0), 1 / float(divisor.reshape(()))
    return value, 1.0


def _turned(value: Value) -> tuple[Value | None, float]:
    """The keys of which a value is the transpose, directly or by way of three axes."""
    node = value.producer
    if node is not None and _is(node, "Transpose") and node.op.perm is not None:
        if tuple(node.op.perm) == (0, 1, 3, 2):
            return _scaled(node.input)
        if tuple(node.op.perm) == (0, 2, 3, 1):  # [batch, time, heads, size] in one step
            assert node.graph is not None
            builder = Builder(node.graph, before=node, origin=node.origin)
            return builder.Transpose(node.input, perm=(0, 2, 1, 3)), 1.0
    outer = node if node is not None and _is(node, "Reshape") else None
    middle = None if outer is None else outer.input.producer
    inner = None if middle is None or not _is(middle, "Transpose") else middle.input.producer
    if middle is None or inner is None or not _is(inner, "Reshape") or tuple(middle.op.perm or ()) != (0, 2, 1):
        return None, 1.0
    key = inner.input
    batch, heads, time, size = key.tensor.shape if key.tensor.shape and len(key.tensor.shape) == 4 else (0, 0, 0, 0)
    is_same = inner.output.tensor.shape == (math.prod([heads, batch]), time, size)
    return (key, 1.0) if is_same and value.tensor.shape == (batch, heads, size, time) else (None, 1.0)


def _fits(query: Value, key: Value, value: Value, mask: Value | None) -> bool:
    shapes = [each.tensor.shape for each in (query, key, value)]
    if any(shape is None or len(shape) != 4 for shape in shapes):
        return False
    if query.shape[:2] != key.shape[:2] or key.shape[:3] != value.shape[:3]:
        return False
    if mask is None:
        return True
    is_known = mask.tensor.shape is not None and 2 <= len(mask.tensor.shape) <= 4
    return is_known and mask.shape[-1] == key.shape[2] and mask.dtype == query.dtype
