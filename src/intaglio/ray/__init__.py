"""More than one machine: batch prediction, serving and training on a Ray cluster.

Nothing here starts a cluster: Ray does, when `ray.init` is called or a function of Ray is used. It needs:
pip install 'intaglio[ray]'.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from intaglio.errors import UnsupportedError

if TYPE_CHECKING:
    from intaglio.ray.deployment import deployment
    from intaglio.ray.prediction import predict
    from intaglio.ray.training import Fitted, fit

__all__ = ["Fitted", "deployment", "fit", "predict"]

_HOMES = {"Fitted": "training", "deployment": "deployment", "fit": "training", "predict": "prediction"}
"""Where the names are; they are imported when they are first used."""


def __getattr__(name: str) -> Any:
    """A public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'intaglio.ray' has no attribute {name!r}")
    found = getattr(import_module(f"intaglio.ray.{_HOMES[name]}"), name)
    globals()[name] = found  # in the place of the module `deployment`, which has the name of its function
    return found


def require_extra(package: str) -> Any:
    """A module of Ray; raises UnsupportedError with the command that installs it where it is missing."""
    try:
        return import_module(package)
    except ImportError as error:
        raise UnsupportedError(
            f"clusters need the package {error.name or package}: pip install 'intaglio[ray]'"
        ) from error
