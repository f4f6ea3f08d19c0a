"""What will be slow, unsafe, unportable or wrong elsewhere in a model, with the remedy."""

from intaglio.tools.linting.lint import Finding, Findings, lint
from intaglio.tools.linting.rules import RULES, LintRule

__all__ = ["RULES", "Finding", "Findings", "LintRule", "lint"]
