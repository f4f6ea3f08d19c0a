"""What is left of a model made simpler: its outputs, bodies of control flow, attributes, and what nobody needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import onnx.inliner
from onnx import GraphProto, ModelProto, NodeProto

from intaglio.tools.document.parts import copied
from intaglio.tools.reducing.attempts import Attempts, Draft

Edit = Callable[[ModelProto], None]


def attempt(draft: Draft, attempts: Attempts, edit: Edit, what: str) -> Draft:
    """The draft with a change where it fails still, else as it was."""
    model = copied(draft.model)
    edit(model)
    drop_unused(model.graph)
    names = {info.name for info in model.graph.input}
    changed = Draft(model, {name: value for name, value in draft.feeds.items() if name in names})
    if model == draft.model or not model.graph.output:
        return draft
    return changed if attempts.fails(changed, what) else draft


def reduce_outputs(draft: Draft, attempts: Attempts) -> Draft:
    """Without the outputs that are not needed, and what only they need."""
    for name in [info.name for info in draft.model.graph.output]:

        def remove(model: ModelProto, name: str = name) -> None:
            kept = [info for info in model.graph.output if info.name != name]
            del model.graph.output[:]
            model.graph.output.extend(kept)

        draft = attempt(draft, attempts, remove, "leaving out outputs")
    return draft


def reduce_functions(draft: Draft, attempts: Attempts) -> Draft:
    """With the functions of the file in the place of their calls."""
    if not draft.model.functions:
        return draft

    def inline(model: ModelProto) -> None:
        model.CopyFrom(onnx.inliner.inline_local_functions(model))

    return attempt(draft, attempts, inline, "inlining functions")


def reduce_branches(draft: Draft, attempts: Attempts) -> Draft:
    """With a branch in the place of each `If` of the model's own graph."""
    place = 0
    while place < len(draft.model.graph.node):
        node, before = draft.model.graph.node[place], draft
        for attribute in node.attribute if node.op_type == "If" else ():

            def hoist(model: ModelProto, place: int = place, name: str = attribute.name) -> None:
                _hoist(model.graph, place, name)

            draft = attempt(draft, attempts, hoist, "taking branches")
            if draft is not before:
                break
        place += 1 if draft is before else 0
    return draft


def _hoist(graph: GraphProto, place: int, name: str) -> None:
    """Put a branch in the place of its `If`."""
    node = graph.node[place]
    branch = next(each.g for each in node.attribute if each.name == name)
    renamed = {info.name: outer for info, outer in zip(branch.output, node.output, strict=False) if outer and info.name}
    made = {output for inner in branch.node for output in inner.output}
    inside = [copied(inner) for inner in branch.node]
    for inner in inside:
        inner.input[:] = [renamed.get(each, each) if each in made else each for each in inner.input]
        inner.output[:] = [renamed.get(each, each) for each in inner.output]
    inside += [
        NodeProto(op_type="Identity", input=[inner], output=[outer])
        for inner, outer in renamed.items()
        if inner not in made
    ]
    nodes = [*graph.node[:place], *inside, *graph.node[place + 1 :]]
    weights = list(branch.initializer)
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(weights)


def reduce_bodies(draft: Draft, attempts: Attempts) -> Draft:
    """Without the nodes inside of bodies that are not needed: their readers read what they read."""
    number = 0
    while number < len(_bodies(draft.model)):
        place = len(_bodies(draft.model)[number].node) - 1
        while place >= 0:
            draft = _bypassed(draft, attempts, number, place)
            place = min(place, len(_bodies(draft.model)[number].node)) - 1
        number += 1
    return draft


def _bypassed(draft: Draft, attempts: Attempts, number: int, place: int) -> Draft:
    node = _bodies(draft.model)[number].node[place]
    for source in dict.fromkeys(name for name in node.input if name):

        def bypass(model: ModelProto, source: str = source) -> None:
            body = _bodies(model)[number]
            old = body.node[place].output[0]
            del body.node[place]
            _rename_reads(body, old, source)

        changed = attempt(draft, attempts, bypass, "simplifying bodies")
        if changed is not draft:
            return changed
    return draft


def _rename_reads(graph: GraphProto, old: str, new: str) -> None:
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
    for info in graph.output:
        if info.name == old:
            info.name = new


def _bodies(model: ModelProto) -> list[GraphProto]:
    return [body for body in _graphs(model.graph) if body is not model.graph][:]


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    for node in graph.node:
        for attribute in node.attribute:
            for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield body
                yield from _graphs(body)


def reduce_attributes(draft: Draft, attempts: Attempts) -> Draft:
    """Without the attributes whose defaults will do."""
    for place, node in enumerate(draft.model.graph.node):
        for name in [each.name for each in node.attribute if not each.HasField("g") and not each.graphs]:

            def remove(model: ModelProto, place: int = place, name: str = name) -> None:
                kept = [each for each in model.graph.node[place].attribute if each.name != name]
                del model.graph.node[place].attribute[:]
                model.graph.node[place].attribute.extend(kept)

            draft = attempt(draft, attempts, remove, "leaving out attributes")
    return draft


def tidy(draft: Draft, attempts: Attempts) -> Draft:
    """Without descriptions, metadata, functions and operator sets that nobody uses."""

    def clean(model: ModelProto) -> None:
        for part in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
            for name in ("doc_string", "metadata_props"):
                part.ClearField(name)
        model.graph.ClearField("value_info")
        used = {node.domain for graph in (model.graph, *_graphs(model.graph)) for node in graph.node}
        called = {node.op_type for graph in (model.graph, *_graphs(model.graph)) for node in graph.node}
        if not any(function.domain in used and function.name in called for function in model.functions):
            del model.functions[:]
            kept = [each for each in model.opset_import if each.domain in used or each.domain in ("", "ai.onnx")]
            del model.opset_import[:]
            model.opset_import.extend(kept)

    return attempt(draft, attempts, clean, "tidying up")


def drop_unused(graph: GraphProto) -> None:
    """Take out the nodes, inputs and initializers that no output needs."""
    needed = {info.name for info in graph.output}
    kept: list[NodeProto] = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(_reads(node))
    _keep(graph.node, list(reversed(kept)))
    _keep(graph.input, [info for info in graph.input if info.name in needed])
    _keep(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in needed])
    _keep(graph.sparse_initializer, [each for each in graph.sparse_initializer if each.values.name in needed])


def _keep(members: Any, kept: list[Any]) -> None:
    if len(kept) != len(members):
        copies = [copied(each) for each in kept]
        del members[:]
        members.extend(copies)


def _reads(node: NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            yield from (info.name for info in body.output)
            for inner in body.node:
                yield from _reads(inner)
