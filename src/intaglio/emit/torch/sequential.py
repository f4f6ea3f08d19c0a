"""Nodes as layers of nn.Sequential, which holds modules only."""

from __future__ import annotations

from typing import Any

from intaglio.emit.python.words import is_double, shortened
from intaglio.emit.pythonic.block import Site, UnprintableError
from intaglio.emit.torch.draft import Draft, Layer, TorchWriter, constant_text, new_names
from intaglio.emit.torch.layers import has_channels
from intaglio.emit.torch.printers import SOFTPLUS_THRESHOLD
from intaglio.emit.torch.words import language
from intaglio.ir.graph import Node
from intaglio.ir.op import Array

_PLAIN = {
    "Relu": "ReLU",
    "Sigmoid": "Sigmoid",
    "Tanh": "Tanh",
    "HardSwish": "Hardswish",
    "Mish": "Mish",
    "Identity": "Identity",
}


def sequential_layer(node: Node) -> tuple[str, dict[str, Any], dict[str, Array]] | None:
    """The class, arguments and tensors of the layer that a node is; None where it is none."""
    op = node.op
    if op.domain == "" and op.name in _PLAIN:
        return _PLAIN[op.name], {}, {}
    if op.domain == "" and op.name == "Softplus":
        return "Softplus", {"threshold": SOFTPLUS_THRESHOLD} if is_double(node) else {}, {}
    if op.domain == "" and op.name == "Swish" and op.alpha == 1:
        return "SiLU", {}, {}
    if op.domain == "" and op.name == "Gelu":
        return "GELU", {"approximate": "tanh"} if op.approximate == "tanh" else {}, {}
    if op.domain == "" and op.name == "LeakyRelu":
        return "LeakyReLU", {"negative_slope": shortened(node, op.alpha)}, {}
    if op.domain == "" and op.name == "Flatten" and op.axis == 1:
        return "Flatten", {}, {}
    if op.domain == "" and op.name == "MaxPool" and len(node.outputs) == 1:
        return _max_pool(node)
    return _held(node)


def _max_pool(node: Node) -> tuple[str, dict[str, Any], dict[str, Array]] | None:
    if node.input.tensor.shape is None or node.input.rank not in (3, 4, 5):
        return None
    windows = node.op.windows(node.input.shape[2:])
    if not has_channels(node.input) or any(
        not isinstance(w.begin, int) or w.begin != w.end or 2 * w.begin > w.kernel for w in windows
    ):
        return None
    columns = {"kernel_size": "kernel", "stride": "stride", "padding": "begin", "dilation": "dilation"}
    arguments: dict[str, Any] = {}
    for name, column in columns.items():
        numbers = tuple(getattr(window, column) for window in windows)
        arguments[name] = numbers[0] if len(set(numbers)) == 1 else numbers
    arguments["ceil_mode"] = bool(node.op.ceil_mode)
    return f"MaxPool{len(windows)}d", arguments, {}


def _held(node: Node) -> tuple[str, dict[str, Any], dict[str, Array]] | None:
    """A layer that the printers make of a node, where it is called with one operand alone."""
    writer = TorchWriter(language(constant_text), new_names())
    draft = writer.draft = Draft(())
    given = [writer.declare(value, "x") for value in node.inputs if value is not None and value.constant is None]
    printer = writer.language.printers.get((node.op.domain, node.op.name))
    try:
        text = None if printer is None else printer(Site(node, writer))
    except UnprintableError:
        return None
    attributes = list(draft.attributes.items())
    if len(given) != 1 or len(attributes) != 1 or text != f"self.{attributes[0][0]}({given[0]})":
        return None
    found = attributes[0][1]
    return (found.kind, found.arguments, found.tensors) if isinstance(found, Layer) else None
