"""How a model is loaded, again and again with other options."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from intaglio.runtime.engine.engine import EngineName
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model


@dataclass(frozen=True)
class Loading:
    """The options of `load` that change what runs."""

    engine: EngineName | None = None
    threads: int | None = None
    simplify: bool = True
    disable: tuple[str, ...] = ()
    exact: bool = False

    def load(self, source: Any, folder: Any = None) -> Model:
        """A model with these options."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return load(
                source,
                engine=self.engine,
                threads=self.threads,
                simplify=self.simplify,
                disable=self.disable,
                exact=self.exact,
                base_folder=folder,
                progress=False,
            )


PLAIN = Loading(engine="reference", simplify=False)
"""The way of running that decides what is right."""
