"""What comes of a verb: the changed document, and facts about the change."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from onnx import ModelProto

from intaglio.onnx.reader import Source
from intaglio.tools.document import Document, read_document, save_document
from intaglio.tools.editing import Editor

Model: TypeAlias = Source | Document
"""A model: a path, bytes, a message, or a document, which is not changed itself."""


@dataclass(frozen=True)
class Changed:
    """A changed model. `report` says what was done, as JSON can spell it; `editor` has the commands, if any."""

    document: Document
    report: dict[str, Any] = field(default_factory=dict[str, Any])
    editor: Editor | None = None

    def message(self) -> ModelProto:
        """The model as one message."""
        return self.document.message()

    def save(self, path: str | os.PathLike[str]) -> list[Path]:
        """Write the file; returns the files that were written."""
        return save_document(self.document, path)


def opened(model: Model) -> Editor:
    """An editor of a model; a document that is given stays as it is."""
    return Editor(model.copy() if isinstance(model, Document) else read_document(model))


def changed(editor: Editor, **report: Any) -> Changed:
    """What an editor has made."""
    return Changed(editor.document, report, editor)
