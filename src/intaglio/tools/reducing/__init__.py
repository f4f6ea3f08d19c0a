"""Failing models cut to the smallest ones that still fail."""

from intaglio.tools.reducing.checks import AgainstCheck, Check, CommandCheck
from intaglio.tools.reducing.reduce import Reduction, reduce

__all__ = ["AgainstCheck", "Check", "CommandCheck", "Reduction", "reduce"]
