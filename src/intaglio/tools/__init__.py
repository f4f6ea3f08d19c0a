"""Functions for people who look at models and change them; `intaglio.cli` has a command for each."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intaglio.tools.document import Document, read_document, save_document
    from intaglio.tools.drawing import draw
    from intaglio.tools.dynamic import Dynamic, make_dynamic
    from intaglio.tools.editing import Editor, edit
    from intaglio.tools.simplifying import Simplified, simplify
    from intaglio.tools.statistics import Statistics, stats
    from intaglio.tools.types import Converted, set_dtype

__all__ = [
    "Converted", "Document", "Dynamic", "Editor", "Simplified", "Statistics", "draw", "edit", "make_dynamic",
    "read_document", "save_document", "set_dtype", "simplify", "stats",
]  # fmt: skip

_HOMES = {
    "Document": "document", "read_document": "document", "save_document": "document", "draw": "drawing",
    "Simplified": "simplifying", "simplify": "simplifying", "Statistics": "statistics", "stats": "statistics",
    "Dynamic": "dynamic", "make_dynamic": "dynamic", "Converted": "types", "set_dtype": "types",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'editing')}"), name)
