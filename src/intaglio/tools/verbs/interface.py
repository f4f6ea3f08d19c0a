"""Verbs on names, inputs and outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from intaglio.errors import InputError
from intaglio.tools.document import Document
from intaglio.tools.editing import Editor
from intaglio.tools.editing.names import defined, did_you_mean
from intaglio.tools.editing.selection import constants_of
from intaglio.tools.editing.type_commands import CHANNELS_LAST
from intaglio.tools.verbs.change import Changed, Model, changed, opened

Size = int | str | None


def rename(
    model: Model,
    values: Mapping[str, str] | None = None,
    *,
    nodes: Mapping[str, str] | None = None,
    dimensions: Mapping[str, str] | None = None,
    patterns: Iterable[tuple[str, str]] = (),
) -> Changed:
    """The model with other names of values, nodes and dimensions.

    A pattern is a regular expression and what takes the place of each match, in the names of all values and nodes of
    the graph; patterns come after the names that are given one by one.
    """
    editor = opened(model)
    if values:
        editor.rename_values(dict(values))
    for old, new in (nodes or {}).items():
        editor.rename_node(old, new)
    for old, new in (dimensions or {}).items():
        editor.rename_dimension(old, new)
    count = len(values or {}) + len(nodes or {}) + len(dimensions or {})
    for pattern, replacement in patterns:
        count += _rename_matches(editor, _substitution(pattern, replacement))
    return changed(editor, renamed=count)


def _substitution(pattern: str, replacement: str) -> Callable[[str], str]:
    try:
        compiled = re.compile(pattern)
        compiled.sub(replacement, "")
    except re.error as error:
        raise InputError(f"{pattern!r} with {replacement!r} is no regular expression: {error}") from None
    return lambda name: compiled.sub(replacement, name)


def _rename_matches(editor: Editor, change: Callable[[str], str]) -> int:
    names = {name: change(name) for name in sorted(defined(editor.document.graph))}
    names = {old: new for old, new in names.items() if old != new}
    if names:
        editor.rename_values(names)
    nodes = [
        (node.number, change(node.name)) for node in editor.nodes() if node.name and change(node.name) != node.name
    ]
    for number, new in nodes:
        editor.rename_node(number, new)
    return len(names) + len(nodes)


def set_shape(
    model: Model,
    shapes: Mapping[str, Sequence[Size]] | None = None,
    *,
    dimensions: Mapping[str, Size] | None = None,
) -> Changed:
    """The model with other shapes of inputs, and of dimensions that have names; what follows from them is inferred.

    A size is a number, a name, or None where it is open. Values that are baked into the model, such as the sizes of a
    Reshape, are left as they are.
    """
    editor = opened(model)
    for name, size in (dimensions or {}).items():
        editor.rename_dimension(name, size)
    editor.set_shapes(dict(shapes or {}))
    types = editor.types()
    graph = editor.document.graph
    names = [[f"{info.name}: {types.get(info.name)}" for info in each] for each in (graph.inputs, graph.outputs)]
    return changed(editor, inputs=names[0], outputs=names[1])


def add_outputs(model: Model, names: Sequence[str]) -> Changed:
    """The model with more outputs: values by their names, or by patterns such as `*/attention/*` and `*` for all."""
    editor = opened(model)
    graph = editor.document.graph
    there = {info.name for info in graph.outputs}
    makes = [name for node in graph.nodes for name in node.outputs if name]
    chosen: dict[str, None] = {}
    for name in names:
        if name in makes or not any(sign in name for sign in "*?["):
            chosen[name] = None
            continue
        found = [each for each in makes if fnmatchcase(each, name) and each not in there]
        if not found:
            raise InputError(f"no value fits the pattern {name!r}{did_you_mean(name, makes)}")
        chosen.update(dict.fromkeys(found))
    editor.add_outputs(list(chosen))
    return changed(editor, added=list(chosen))


def layout(
    model: Model,
    wanted: Literal["nchw", "nhwc"],
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
) -> Changed:
    """The model with channels last (`nhwc`) or first (`nchw`) in its inputs and outputs, by Transposes at the border.

    They are taken to be in the other layout now. Without names, these are all inputs and outputs of four dimensions;
    named ones may have three to five.
    """
    if wanted not in ("nchw", "nhwc"):
        raise InputError(f"there is no layout {wanted!r}; expected nchw or nhwc")
    editor = opened(model)
    chosen_inputs = _of_rank(editor.document, "input", 4) if inputs is None else list(inputs)
    chosen_outputs = _of_rank(editor.document, "output", 4) if outputs is None else list(outputs)
    if not chosen_inputs and not chosen_outputs:
        raise InputError("no input and no output has four dimensions: name those that shall be changed")
    for name in chosen_inputs:
        editor.transpose_input(name, _permutation(editor.document, "input", name, wanted))
    for name in chosen_outputs:
        editor.transpose_output(name, _permutation(editor.document, "output", name, wanted))
    return changed(editor, inputs=chosen_inputs, outputs=chosen_outputs)


def _ranks(document: Document, kind: str) -> dict[str, int]:
    graph = document.graph
    left = set(constants_of(graph))
    infos = [info for info in (graph.inputs if kind == "input" else graph.outputs) if info.name not in left]
    tensors = {info.name: info.type.tensor_type for info in infos if info.type.WhichOneof("value") == "tensor_type"}
    return {name: len(tensor.shape.dim) for name, tensor in tensors.items() if tensor.HasField("shape")}


def _of_rank(document: Document, kind: str, rank: int) -> list[str]:
    return [name for name, found in _ranks(document, kind).items() if found == rank]


def _permutation(document: Document, kind: str, name: str, wanted: str) -> tuple[int, ...]:
    """The axes of the old layout in the order of the new one."""
    ranks = _ranks(document, kind)
    if name not in ranks:
        raise InputError(f"there is no {kind} {name!r} whose shape is known{did_you_mean(name, list(ranks))}")
    if ranks[name] not in CHANNELS_LAST:
        raise InputError(f"{name!r} has {ranks[name]} dimensions; a layout has three to five")
    last = CHANNELS_LAST[ranks[name]]
    return last if wanted == "nhwc" else tuple(last.index(axis) for axis in range(len(last)))
