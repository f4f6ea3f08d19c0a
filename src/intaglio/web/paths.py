"""From the paths by which messages, statistics and profiles name nodes to the nodes of a document."""

from __future__ import annotations

from collections.abc import Iterable

from intaglio.onnx.protobuf import printable, shorten
from intaglio.onnx.schema import normal_domain
from intaglio.onnx.scope import path_of
from intaglio.tools.document import Document, Graph, Node

_BEHIND_OPERATOR = " at "


class NodePaths:
    """The numbers of nodes by their paths."""

    def __init__(self, document: Document) -> None:
        self._numbers: dict[str, list[int]] = {}
        self._outputs: dict[str, int] = {}
        self._operators: dict[str, list[int]] = {}
        waiting: list[tuple[list[Node], str]] = [(document.graph.nodes, "")]
        while waiting:
            nodes, around = waiting.pop()
            for index, node in enumerate(nodes):
                path = f"{around}{path_of(node.shell, index)}"
                self._numbers.setdefault(path, []).append(node.number)
                waiting += [(body.nodes, f"{path}/{name}/") for name, body in _bodies(node)]
        for node in document.graph.nodes:
            self._outputs.update({name: node.number for name in node.shell.output if name})
        for node in document.all_nodes():
            domain = printable(shorten(normal_domain(node.shell.domain))) or "ai.onnx"
            title = f"{domain}::{printable(shorten(node.shell.op_type))}"
            self._operators.setdefault(title, []).append(node.number)

    def numbers(self, path: str) -> list[int]:
        """The nodes of a path; for what stands in a function, the node that calls it."""
        found = self._numbers.get(path)
        while found is None and "/" in path:
            path = path.rpartition("/")[0]
            found = self._numbers.get(path)
        return found or []

    def of_operator(self, title: str) -> list[int]:
        """The nodes with an operator, named as messages do: `ai.onnx::Relu`."""
        return self._operators.get(title, [])

    def described(self, texts: Iterable[str]) -> list[int]:
        """The nodes that texts such as `Conv at /stem (Conv)` name, each once."""
        found: dict[int, None] = {}
        for text in texts:
            path = text.partition(_BEHIND_OPERATOR)[2] or text
            found.update(dict.fromkeys(self.numbers(path)))
        return list(found)

    def maker(self, value: str) -> int | None:
        """The node of the model's graph that makes a value."""
        return self._outputs.get(value)


def _bodies(node: Node) -> Iterable[tuple[str, Graph]]:
    return ((attribute.name, body) for attribute in node.attributes for body in attribute.bodies())
