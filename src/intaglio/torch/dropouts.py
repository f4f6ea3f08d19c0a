# pyright: reportMissingImports=false, reportUnknownParameterType=false, reportUnknownMemberType=false
"""Dropout of modules in evaluation: kept as nodes that drop nothing, so that trainers find them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram

from intaglio.ir.graph import Value
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.translate import CUSTOM


@torch.library.custom_op("intaglio::kept_dropout", mutates_args=())
def kept_dropout(x: torch.Tensor, p: float) -> torch.Tensor:
    """The input; `p` is the share that is dropped in training."""
    return x.clone()


@kept_dropout.register_fake
def _(x: torch.Tensor, p: float) -> torch.Tensor:
    return torch.empty_like(x)


def _dropout(call: AtenCall, x: Value, p: float) -> Value:
    return call.b.Dropout(x, call.b.constant(p, x.dtype))


CUSTOM["intaglio.kept_dropout.default"] = _dropout


@contextmanager
def kept_dropouts(program: ExportedProgram) -> Generator[None]:
    """While a program is taken apart, its Dropouts in evaluation are an operator that stays whole."""
    old = {node: (node.target, node.args) for node in program.graph.nodes if _is_dropout(node)}
    for node in old:
        node.target, node.args = torch.ops.intaglio.kept_dropout.default, node.args[:2]
    program.graph_module.recompile()
    try:
        yield
    finally:
        for node, (target, arguments) in old.items():
            node.target, node.args = target, arguments
        program.graph_module.recompile()


def _is_dropout(node: Any) -> bool:
    """Whether a node is a Dropout in evaluation, of floating-point numbers, that drops something in training."""
    is_one = node.op == "call_function" and node.target is torch.ops.aten.dropout.default and len(node.args) == 3
    if not is_one or node.kwargs or node.args[2] is not False or not 0 < node.args[1] < 1:
        return False
    return node.meta["val"].dtype.is_floating_point
