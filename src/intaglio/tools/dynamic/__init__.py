"""Models with a fixed size that take any size."""

from intaglio.tools.dynamic.make_dynamic import Dynamic, make_dynamic

__all__ = ["Dynamic", "make_dynamic"]
