"""A page that shows a model and changes it: served on this machine, as one file, or in a notebook.

Only `server` and `app` know a network; they need: pip install 'intaglio[web]'. Everything else needs no extra.
"""

from __future__ import annotations

from importlib import import_module

from intaglio.errors import UnsupportedError

__all__ = ["require_extra"]


def require_extra() -> None:
    """Raise UnsupportedError with the command that installs the extra where a package of it is missing."""
    for package in ("starlette", "uvicorn"):
        try:
            import_module(package)
        except ImportError:
            raise UnsupportedError(
                f"the page needs the package {package}: pip install 'intaglio[web]'; --html OUT.html needs none"
            ) from None
