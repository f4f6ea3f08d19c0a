"""What a seed stands for: a model and what is fed to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import onnx

from .known import captured

Feeds = dict[str, Any]


@dataclass
class Problem:
    """A model, and one or more sets of feeds whose sizes differ."""

    model: onnx.ModelProto
    feeds: list[Feeds]
    cases: int = 1
    """How many sampled cases the model holds."""
    refused: list[str] = field(default_factory=list)
    """What the reference did not take although it is valid, told with its reason."""

    @property
    def order(self) -> list[int]:
        """The sets of feeds forth and back, so that each is also met by what another has left behind."""
        count = len(self.feeds)
        return [*range(count), *reversed(range(count - 1))]


def parts(problem: Problem) -> list[Problem]:
    """The parts of a model that share no value, each as a problem of its own."""
    groups: list[tuple[set[str], list[onnx.NodeProto]]] = []
    for node in problem.model.graph.node:
        names = {name for name in (*node.input, *node.output, *captured(node)) if name}
        joined = [group for group in groups if group[0] & names]
        groups = [group for group in groups if not group[0] & names]
        groups.append(
            (names.union(*(group[0] for group in joined)), [*(n for group in joined for n in group[1]), node])
        )
    outputs = {info.name for info in problem.model.graph.output}
    return [part(problem, nodes, [n for n in outputs if n in names]) for names, nodes in groups if names & outputs]


def part(problem: Problem, nodes: list[onnx.NodeProto], outputs: list[str]) -> Problem:
    """Some nodes of a problem, with the inputs and constants that they read."""
    graph = problem.model.graph
    used = {name for node in nodes for name in (*node.input, *captured(node))}
    infos = [info for info in graph.output if info.name in outputs]
    inputs = [info for info in graph.input if info.name in used]
    constants = [item for item in graph.initializer if item.name in used]
    new = onnx.GraphProto(name=graph.name, node=nodes, output=infos, input=inputs, initializer=constants)
    imports, version = problem.model.opset_import, problem.model.ir_version
    model = onnx.ModelProto(ir_version=version, opset_import=imports, graph=new)
    feeds = [{name: array for name, array in feeds.items() if name in used} for feeds in problem.feeds]
    return Problem(model, feeds)
