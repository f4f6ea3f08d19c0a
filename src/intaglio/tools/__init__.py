"""Functions for people who look at models and change them; `intaglio.cli` has a command for each."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intaglio.tools.document import Document, document_from_json, document_to_json, read_document, save_document
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
    "Document",
    "Editor",
    "add_outputs",
    "convert",
    "dedupe",
    "document_from_json",
    "document_to_json",
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

_HOMES = {
    "document": ("Document", "document_from_json", "document_to_json", "read_document", "save_document"),
    "editing": ("Editor", "edit"),
}
"""The rooms of names; all others are in `verbs`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((room for room, names in _HOMES.items() if name in names), "verbs")
    return getattr(import_module(f"{__name__}.{home}"), name)
