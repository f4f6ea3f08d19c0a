"""Smaller models that compute the same."""

from intaglio.tools.simplifying.simplify import Simplified, simplify

__all__ = ["Simplified", "simplify"]
