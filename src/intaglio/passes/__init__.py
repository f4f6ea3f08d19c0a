"""Rewrites of graphs: one driver, rules by theme, and `simplify`, which runs them in order."""

from intaglio.passes.driver import Refusal, Result, Rule, rewrite, rule
from intaglio.passes.pipeline import PIPELINE, Pass, Report, recognise, simplify

__all__ = ["PIPELINE", "Pass", "Refusal", "Report", "Result", "Rule", "recognise", "rewrite", "rule", "simplify"]
