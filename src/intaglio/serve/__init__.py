"""Models behind a port: the Open Inference Protocol by HTTP and gRPC.

Sockets are opened only when `serve` is called. It needs: pip install 'intaglio[serve]'.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from intaglio.errors import UnsupportedError
from intaglio.serve.settings import Listen as Listen
from intaglio.serve.settings import Settings as Settings

if TYPE_CHECKING:
    from intaglio.runtime.model.model import Model
    from intaglio.serve.http import HttpApp

__all__ = ["Listen", "Settings", "asgi", "serve"]


def asgi(source: Model | str | os.PathLike[str] | Mapping[str, Any], settings: Settings | None = None) -> HttpApp:
    """The protocol for a model as an ASGI application, which can be mounted into any other one.

    `source` is a model (which is named "model"), the path of a file or folder, or models and paths by name; all are
    loaded before this returns. Call `close()` on the application to end its threads. Raises UnsupportedError where the
    extra `serve` is not installed.
    """
    require_extra()
    from intaglio.runtime.model.model import Model
    from intaglio.serve.http import HttpApp
    from intaglio.serve.repository import Repository
    from intaglio.serve.service import Service

    settings = settings or Settings()
    repository = Repository({"model": source} if isinstance(source, Model) else source, settings)
    repository.load_all()
    repository.raise_if_empty()
    return HttpApp(Service(repository, settings))


def serve(
    source: str | os.PathLike[str] | Mapping[str, Any], settings: Settings | None = None, listen: Listen | None = None
) -> None:
    """Answer requests until SIGINT or SIGTERM; returns when those that are under way are answered.

    `source` is the path of a file or folder, or models and paths by name. Raises UnsupportedError where the extra
    `serve` is not installed, and InputError where the port is taken.
    """
    require_extra()
    from intaglio.serve.server import run_server

    run_server(source, settings or Settings(), listen or Listen())


def require_extra(*packages: str) -> None:
    """Raise UnsupportedError with the command that installs the extra where a package of it is missing."""
    for package in packages or ("starlette", "uvicorn", "httptools", "uvloop", "prometheus_client"):
        try:
            import_module(package)
        except ImportError:
            raise UnsupportedError(f"serving needs the package {package}: pip install 'intaglio[serve]'") from None
