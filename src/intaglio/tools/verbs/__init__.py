"""What people do to files, each in one call; `intaglio.cli` has a command for each."""

from intaglio.tools.verbs.change import Changed
from intaglio.tools.verbs.converting import convert
from intaglio.tools.verbs.interface import add_outputs, layout, rename, set_shape
from intaglio.tools.verbs.replaying import replay
from intaglio.tools.verbs.storage import externalize, internalize
from intaglio.tools.verbs.stripping import restore, strip
from intaglio.tools.verbs.structure import dedupe, extract, inline, merge, prune, set_opset

__all__ = [
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
]
