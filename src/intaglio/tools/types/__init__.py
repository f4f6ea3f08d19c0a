"""Models in another floating-point type."""

from intaglio.tools.types.set_dtype import Converted, set_dtype

__all__ = ["Converted", "set_dtype"]
