"""Functions for people who look at models and change them; `intaglio.cli` has a command for each."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intaglio.tools.comparing import Comparison, compare
    from intaglio.tools.diffing import Difference, diff
    from intaglio.tools.document import Document, read_document, save_document
    from intaglio.tools.drawing import draw
    from intaglio.tools.editing import Editor, edit
    from intaglio.tools.inspecting import Inspection, inspect
    from intaglio.tools.linting import Findings, lint
    from intaglio.tools.reducing import Reduction, reduce
    from intaglio.tools.timing import Timing, bench

__all__ = [
    "Comparison",
    "Difference",
    "Document",
    "Editor",
    "Findings",
    "Inspection",
    "Reduction",
    "Timing",
    "bench",
    "compare",
    "diff",
    "draw",
    "edit",
    "inspect",
    "lint",
    "read_document",
    "reduce",
    "save_document",
]

_HOMES = {
    "Document": "document",
    "read_document": "document",
    "save_document": "document",
    "Comparison": "comparing",
    "compare": "comparing",
    "Difference": "diffing",
    "diff": "diffing",
    "draw": "drawing",
    "Reduction": "reducing",
    "reduce": "reducing",
    "Findings": "linting",
    "lint": "linting",
    "Inspection": "inspecting",
    "inspect": "inspecting",
    "Timing": "timing",
    "bench": "timing",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'editing')}"), name)
