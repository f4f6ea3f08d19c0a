"""`view`: the page in a notebook."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from intaglio.web.standalone import standalone_page


class View:
    """A model's page, which a notebook shows in a frame without any rights but to run the page's own script."""

    def __init__(self, page: str, height: int) -> None:
        self.page = page
        self.height = height

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(self.page)}" title="model" '
            f'style="width:100%;height:{self.height}px;border:1px solid #8884;border-radius:8px"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<page of a model, {len(self.page):,} characters; a notebook shows it, save(path) writes it>"

    def save(self, path: str) -> None:
        """Write the page to a file, which needs no server and no network."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.page)


def view(
    model: Any,
    *,
    weights: bool = False,
    profiled: bool = False,
    dims: Mapping[str, int] | None = None,
    height: int = 640,
) -> View:
    """A model as a page for a notebook: its graph to look at, fold and search.

    `model` is a path, bytes, or what `intaglio.load` takes. Statistics of weights are in it with `weights`, and where
    the time of runs goes with `profiled`, for which `dims` gives numbers to sizes that have names. Nothing is served,
    and the page reaches no network. Files that cannot be run are shown too.
    """
    return View(standalone_page(model, weights=weights, profiled=profiled, dims=dims), int(height))
