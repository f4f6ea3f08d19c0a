"""Verbs on where weights are: in the file, or beside it."""

from __future__ import annotations

import os
from pathlib import Path

from intaglio.tools.document import internalized, save_externally
from intaglio.tools.verbs.change import Changed, Model, opened


def externalize(
    model: Model, path: str | os.PathLike[str], *, location: str | None = None, threshold: int = 1024
) -> list[Path]:
    """Write a model with its constants of at least `threshold` bytes in one file beside it; returns both files.

    The file is named `location`, else like the model with `.data` behind.
    """
    return save_externally(opened(model).document, path, location=location, threshold=threshold)


def internalize(model: Model) -> Changed:
    """The model with all its weights inside; what does not fit in 2 GiB raises LimitError when it is saved."""
    document = opened(model).document
    inside = internalized(document)
    return Changed(inside, {"tensors": len(inside.held) - len(document.held)})
