"""Verbs on the nodes of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intaglio.tools.verbs.change import Changed, Model, changed, opened


def extract(model: Model, inputs: Sequence[str], outputs: Sequence[str]) -> Changed:
    """The part of a model that makes some values of others; without `inputs`, of the inputs of the model.

    Inputs of the model that the part needs besides are inputs of it too.
    """
    editor = opened(model)
    before = len(editor.nodes())
    editor.extract(inputs, outputs)
    graph = editor.document.graph
    names = [[info.name for info in each] for each in (graph.inputs, graph.outputs)]
    return changed(editor, nodes=len(editor.nodes()), nodes_before=before, inputs=names[0], outputs=names[1])


def merge(
    first: Model,
    second: Model,
    connect: Mapping[str, str] | None = None,
    *,
    prefix: str = "",
    keep_outputs: bool = False,
) -> Changed:
    """One model of two: inputs of the second read values of the first, as `connect` says by the names of the inputs.

    See `intaglio.tools.Editor.merge`.
    """
    editor = opened(first)
    editor.merge(second, connect, prefix=prefix, keep_outputs=keep_outputs)
    graph = editor.document.graph
    names = [[info.name for info in each] for each in (graph.inputs, graph.outputs)]
    return changed(editor, nodes=len(editor.nodes()), inputs=names[0], outputs=names[1])


def prune(model: Model, *, inputs: bool = False) -> Changed:
    """The model without nodes, constants and functions that no output needs; with `inputs`, without such inputs too."""
    editor = opened(model)
    return changed(editor, removed=editor.prune(inputs))


def dedupe(model: Model) -> Changed:
    """The model with one of all equal constants and one of all nodes that do the same."""
    editor = opened(model)
    return changed(editor, removed=editor.dedupe())


def inline(model: Model, functions: Sequence[str] | None = None) -> Changed:
    """The model with its functions, or those of some names, put where they are called."""
    editor = opened(model)
    calls: dict[str, int] = {}
    for function in list(editor.document.functions):
        domain, name, overload = function.key
        if functions is None or name in functions:
            calls[name] = calls.get(name, 0) + editor.inline_function(name, domain, overload)
    for name in functions or ():
        if name not in calls:
            editor.inline_function(name)  # raises, for there is none
    return changed(editor, calls=calls)


def set_opset(model: Model, version: int, *, domain: str = "") -> Changed:
    """The model in another version of an operator set, older or newer; UnsupportedError lists what cannot be said."""
    editor = opened(model)
    before = editor.document.opset(domain)
    count = editor.set_opset(version, domain=domain)
    return changed(editor, before=before, after=version, nodes_rewritten=count)
