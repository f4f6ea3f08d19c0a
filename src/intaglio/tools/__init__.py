"""Functions for people who look at models and change them; `intaglio.cli` has a command for each."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intaglio.tools.comparing import Comparison, compare
    from intaglio.tools.diffing import Difference, diff
    from intaglio.tools.document import Document, document_from_json, document_to_json, read_document, save_document
    from intaglio.tools.drawing import draw
    from intaglio.tools.dynamic import Dynamic, make_dynamic
    from intaglio.tools.editing import Editor, edit
    from intaglio.tools.inspecting import Inspection, inspect
    from intaglio.tools.linting import Findings, lint
    from intaglio.tools.profiling import Profile, profile, read_profile
    from intaglio.tools.reducing import Reduction, reduce
    from intaglio.tools.simplifying import Simplified, simplify
    from intaglio.tools.statistics import Statistics, stats
    from intaglio.tools.timing import Timing, bench
    from intaglio.tools.types import Converted, set_dtype
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
    "Comparison",
    "Converted",
    "Difference",
    "Document",
    "Dynamic",
    "Editor",
    "Findings",
    "Inspection",
    "Profile",
    "Reduction",
    "Simplified",
    "Statistics",
    "Timing",
    "add_outputs",
    "bench",
    "compare",
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
    "inspect",
    "internalize",
    "layout",
    "lint",
    "make_dynamic",
    "merge",
    "profile",
    "prune",
    "read_document",
    "read_profile",
    "reduce",
    "rename",
    "replay",
    "restore",
    "save_document",
    "set_dtype",
    "set_opset",
    "set_shape",
    "simplify",
    "stats",
    "strip",
]

_ROOMS = {
    "comparing": (
        "Comparison",
        "compare",
    ),
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
    "dynamic": (
        "Dynamic",
        "make_dynamic",
    ),
    "editing": (
        "Editor",
        "edit",
    ),
    "inspecting": (
        "Inspection",
        "inspect",
    ),
    "linting": (
        "Findings",
        "lint",
    ),
    "profiling": (
        "Profile",
        "profile",
        "read_profile",
    ),
    "reducing": (
        "Reduction",
        "reduce",
    ),
    "simplifying": (
        "Simplified",
        "simplify",
    ),
    "statistics": (
        "Statistics",
        "stats",
    ),
    "timing": (
        "Timing",
        "bench",
    ),
    "types": (
        "Converted",
        "set_dtype",
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
