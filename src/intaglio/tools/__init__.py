"""Functions for people who look at models and change them; `intaglio.cli` has a command for each."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intaglio.tools.diffing import Difference, diff
    from intaglio.tools.document import Document, document_from_json, document_to_json, read_document, save_document
    from intaglio.tools.drawing import draw
    from intaglio.tools.editing import Editor, edit
    from intaglio.tools.verbs import (
        Changed,
        add_outputs,
        convert,
        dedupe,
        externalize,
        extract,
        inline,
        internalize,
        layout,
        merge,
        prune,
        rename,
        replay,
        restore,
        set_opset,
        set_shape,
        strip,
    )

__all__ = [
    "Changed",
    "Difference",
    "Document",
    "Editor",
    "add_outputs",
    "convert",
    "dedupe",
    "diff",
    "document_from_json",
    "document_to_json",
    "draw",
    "edit",
    "externalize",
    "extract",
    "inline",
    "internalize",
    "layout",
    "merge",
    "prune",
    "read_document",
    "rename",
    "replay",
    "restore",
    "save_document",
    "set_opset",
    "set_shape",
    "strip",
]

_ROOMS = {
    "diffing": (
        "Difference",
        "diff",
    ),
    "document": (
        "Document",
        "document_from_json",
        "document_to_json",
        "read_document",
        "save_document",
    ),
    "drawing": ("draw",),
    "editing": (
        "Editor",
        "edit",
    ),
    "verbs": (
        "Changed",
        "add_outputs",
        "convert",
        "dedupe",
        "externalize",
        "extract",
        "inline",
        "internalize",
        "layout",
        "merge",
        "prune",
        "rename",
        "replay",
        "restore",
        "set_opset",
        "set_shape",
        "strip",
    ),
}
"""The names by the module that they are in, which is imported when one of them is asked for."""

_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
