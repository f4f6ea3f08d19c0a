"""Functions for people who look at models and change them; `intaglio.cli` has a command for each."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intaglio.tools.diffing import Difference, diff
    from intaglio.tools.document import Document, read_document, save_document
    from intaglio.tools.drawing import draw
    from intaglio.tools.editing import Editor, edit
    from intaglio.tools.profiling import Profile, profile, read_profile

__all__ = [
    "Difference",
    "Document",
    "Editor",
    "Profile",
    "diff",
    "draw",
    "edit",
    "profile",
    "read_document",
    "read_profile",
    "save_document",
]

_HOMES = {
    "Difference": "diffing",
    "Document": "document",
    "Profile": "profiling",
    "diff": "diffing",
    "draw": "drawing",
    "profile": "profiling",
    "read_document": "document",
    "read_profile": "profiling",
    "save_document": "document",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'editing')}"), name)
